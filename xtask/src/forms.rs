//! Compiles representative elementwise kernels for every target and checks their machine code against their plans: access widths,
//! no local memory, waits before the first access. No GPU is needed.

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

use crate::sass::hazard_fault;
use crate::seen::Seen;
use crate::test::root;
use crate::tools::Tools;

/// Returns the faults and the facts: registers and hot-loop instructions of each kernel on each target. Fails if a kernel doesn't
/// compile or its code can't be parsed.
pub fn check(tools: &Tools, seen: &Seen) -> Result<(Vec<String>, Facts)> {
    let all: Vec<Representative> = Target::ALL.into_iter().flat_map(representatives).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<(Vec<String>, Facts)> = Mutex::default();
    let work = || -> Result<()> {
        while let Some(kernel) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (faults, counts) = check_kernel(tools, seen, kernel)
                .with_context(|| format!("{} for {}", kernel.name, kernel.spec.target))?;
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            done.0.extend(faults);
            done.1.entry(kernel.name.clone()).or_default().insert(kernel.spec.target.to_string(), counts);
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

fn check_kernel(tools: &Tools, seen: &Seen, checked: &Representative) -> Result<(Vec<String>, (u32, u32))> {
    let generated = generate(&checked.spec);
    let (options, target) = (kernel::OPTIONS.map(str::to_owned), checked.spec.target.to_string());
    let program = Program {
        name: "elementwise.cu",
        source: &generated.text,
        headers: generated.headers,
        options: &options,
        target: &target,
    };
    let unit = seen.unit(format!("elementwise {} {target}", checked.name), &program, &format!("{checked:?}"));
    if let Some(counts) = seen.known(&unit, "elementwise", [checked.name.as_str()].into_iter(), &target) {
        return Ok((Vec::new(), *counts.get(&checked.name).context("a known kernel has facts")?));
    }
    let compiled = tools.nvrtc.compile(&program)?;
    if !compiled.log.is_empty() {
        bail!("the compiler warns:\n{}", compiled.log);
    }
    let code = machine_code::from_cubin(&tools.nvdisasm, compiled.cubin)?;
    let folder = root().join("target/cuda-tools/units");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("elementwise_{}.{target}.sass", checked.name)), &code.listing)?;
    let listing = Listing::parse(&code.listing)?;
    let found = code.report.kernel(ENTRY).context("no entry point")?;
    let function = listing.function(ENTRY).context("no entry point")?;
    let hot = found.hot.as_ref().map_or(0, |hot| hot.instructions);
    let mut wrong = checked.faults(found, function);
    wrong.extend(hazard_fault(&checked.name, checked.spec.target, Some(function)));
    wrong.extend(data_faults(&checked.name, Data::Nothing, checked.spec.target, &module_data(&code.cubin)?));
    let counts = (found.registers.unwrap_or(0), hot);
    if wrong.is_empty() {
        seen.note(&unit, &[(checked.name.clone(), counts)].into());
    }
    Ok((wrong, counts))
}
