//! Compiles the elementwise kernels that stand for all, for every target, reads the machine code, and holds it to what their
//! plans say: widths of accesses, no local memory, waits before the first access. No GPU is needed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::machine_code;
use plimsoll_gen::elementwise::representative::{Representative, representatives};
use plimsoll_gen::elementwise::{ENTRY, generate};
use plimsoll_gen::kernel::Data;
use plimsoll_gen::sass::Listing;
use plimsoll_gen::sass::elf::module_data;
use plimsoll_gen::sass::expect::{Facts, data_faults};
use plimsoll_gen::{Target, kernel};

use crate::seen::Seen;
use crate::test::root;
use crate::tools::Tools;

/// What is wrong, and the facts: registers and instructions of the hot part of each kernel on each target.
///
/// # Errors
/// That a kernel doesn't compile or that its code can't be read.
pub fn check(tools: &Tools, seen: &Seen) -> Result<(Vec<String>, Facts)> {
    let all: Vec<Representative> = Target::ALL.into_iter().flat_map(representatives).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<(Vec<String>, Facts)> = Mutex::default();
    let work = || -> Result<()> {
        while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (faults, counts) =
                read(tools, seen, one).with_context(|| format!("{} for {}", one.name, one.spec.target))?;
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            done.0.extend(faults);
            done.1.entry(one.name.clone()).or_default().insert(one.spec.target.to_string(), counts);
        }
        Ok(())
    };
    std::thread::scope(|scope| -> Result<()> {
        let other = scope.spawn(work);
        work()?;
        match other.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that compiles forms has panicked"),
        }
    })?;
    Ok(done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn read(tools: &Tools, seen: &Seen, one: &Representative) -> Result<(Vec<String>, (u32, u32))> {
    let generated = generate(&one.spec);
    let (options, target) = (kernel::OPTIONS.map(str::to_owned), one.spec.target.to_string());
    let program = Program {
        name: "elementwise.cu",
        source: &generated.text,
        headers: generated.headers,
        options: &options,
        target: &target,
    };
    let unit = seen.unit(format!("elementwise {} {target}", one.name), &program, &format!("{one:?}"));
    if let Some(counts) = seen.known(&unit, "elementwise", [one.name.as_str()].into_iter(), &target) {
        return Ok((Vec::new(), *counts.get(&one.name).context("a known kernel has facts")?));
    }
    let compiled = tools.nvrtc.compile(&program)?;
    if !compiled.log.is_empty() {
        bail!("the compiler warns:\n{}", compiled.log);
    }
    let code = machine_code::of_cubin(&tools.nvdisasm, compiled.cubin)?;
    let folder = root().join("target/cuda-tools/units");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("elementwise_{}.{target}.sass", one.name)), &code.listing)?;
    let listing = Listing::parse(&code.listing)?;
    let found = code.report.kernel(ENTRY).context("no entry point")?;
    let function = listing.function(ENTRY).context("no entry point")?;
    let hot = found.hot.as_ref().map_or(0, |hot| hot.instructions);
    let mut wrong = one.faults(found, function);
    wrong.extend(data_faults(&one.name, Data::Nothing, one.spec.target, &module_data(&code.cubin)?));
    let counts = (found.registers.unwrap_or(0), hot);
    if wrong.is_empty() {
        seen.note(&unit, &[(one.name.clone(), counts)].into());
    }
    Ok((wrong, counts))
}
