//! Compiles every kernel for every target, reads the machine code, and holds it to what the kernels state and to the facts in
//! `crates/plimsoll-gen/facts`. No GPU is needed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::machine_code;
use plimsoll_gen::Target;
use plimsoll_gen::kernel::{self, KernelDesc, OPTIONS, Source};
use plimsoll_gen::sass::Image;
use plimsoll_gen::sass::elf::module_data;
use plimsoll_gen::sass::expect::{Facts, data_faults, differences, faults};

use crate::bodies;
use crate::forms;
use crate::seen::{Counts, Seen};
use crate::test::root;
use crate::tools::{self, Tools};

/// Most sentences that are printed of one kind.
const MOST: usize = 40;

/// `cargo xtask sass`.
///
/// # Errors
/// Those of [`run`], or an unknown argument.
pub fn command(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| !["--bless", "--all"].contains(*flag)) {
        bail!("unknown argument '{unknown}': there are --bless and --all");
    }
    let how = How { bless: flags.contains(&"--bless"), all: flags.contains(&"--all") };
    let sources: Vec<&'static Source> = match names[..] {
        [] => return run(how),
        ["bodies"] => Vec::new(),
        [name] if of_name(name).is_some() => of_name(name).into_iter().collect(),
        _ => bail!("unknown arguments {names:?}: there are 'bodies' and the names of probes, one at a time"),
    };
    let Some(tools) = tools::ready()? else { return Ok(()) };
    let seen = Seen::open(&tools, how.all)?;
    let wrong =
        if sources.is_empty() { of_bodies(&tools, &seen, how)? } else { of_sources(&tools, &seen, &sources, how)? };
    if how.bless {
        seen.write(false)?;
    }
    settle(&wrong)
}

/// How machine code is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Writes the facts instead of comparing them.
    bless: bool,
    /// Compiles also what didn't change since its facts were blessed.
    all: bool,
}

/// Checks all.
///
/// # Errors
/// A kernel that doesn't compile, code that isn't what its kernel states, facts that changed.
pub fn run(how: How) -> Result<()> {
    let Some(tools) = tools::ready()? else { return Ok(()) };
    refuses_what_is_wrong(&tools)?;
    let seen = Seen::open(&tools, how.all)?;
    let mut wrong = of_sources(&tools, &seen, plimsoll_probes::sources(), how)?;
    let (faults, facts) = forms::check(&tools, &seen)?;
    wrong.extend(faults);
    wrong.extend(keep("elementwise", &facts, how)?);
    wrong.extend(of_bodies(&tools, &seen, how)?);
    if how.bless {
        seen.write(true)?;
    }
    seen.report();
    settle(&wrong)
}

/// The source of a probe by its name.
fn of_name(name: &str) -> Option<&'static Source> {
    plimsoll_probes::sources().iter().copied().find(|source| source.name() == name)
}

/// What is wrong with the kernels of these sources.
fn of_sources(tools: &Tools, seen: &Seen, sources: &[&'static Source], how: How) -> Result<Vec<String>> {
    let all_units = sources.iter().flat_map(|source| Target::ALL.map(|target| (*source, target)));
    // A source may have nothing for a target: clusters before 9.0.
    let units: Vec<(&'static Source, Target)> =
        all_units.filter(|(source, target)| !source.kernels(*target).is_empty()).collect();
    let found = all(tools, seen, &units)?;
    let mut wrong = Vec::new();
    for source in sources {
        let mut facts = Facts::new();
        for ((_, target), (faults, counts)) in units.iter().zip(&found).filter(|((of, _), _)| of == source) {
            wrong.extend(faults.iter().cloned());
            for (kernel, counts) in counts {
                facts.entry(kernel.clone()).or_default().insert(target.to_string(), *counts);
            }
        }
        wrong.extend(keep(source.name(), &facts, how)?);
    }
    eprintln!("{} kernels of {} units held", found.iter().map(|(_, counts)| counts.len()).sum::<usize>(), units.len());
    Ok(wrong)
}

/// The bodies of elementwise expressions alone.
fn of_bodies(tools: &Tools, seen: &Seen, how: How) -> Result<Vec<String>> {
    let (mut wrong, facts) = bodies::check(tools, seen)?;
    wrong.extend(keep("functions", &facts, how)?);
    Ok(wrong)
}

fn settle(wrong: &[String]) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    for sentence in wrong.iter().take(MOST) {
        eprintln!("{sentence}");
    }
    bail!(
        "{} findings in the machine code; if they are meant, run 'cargo xtask sass --bless' and look at the change",
        wrong.len()
    )
}

/// A source with a fault must come back as the compiler's words, and a target that it doesn't know as a reason.
fn refuses_what_is_wrong(tools: &Tools) -> Result<()> {
    let source = "extern \"C\" __global__ void wrong() { undeclared(); }";
    for (target, expected) in [("sm_90", "undeclared"), ("sm_10", "sm_10"), ("nonsense", "nonsense")] {
        let program = Program { name: "wrong.cu", source, headers: &[], options: &[], target };
        match tools.nvrtc.compile(&program) {
            Ok(_) => bail!("NVRTC compiled what is wrong for {target}"),
            Err(reason) if reason.why.contains(expected) => {}
            Err(reason) => bail!("the reason for {target} does not say '{expected}': {reason}"),
        }
    }
    Ok(())
}

/// What is wrong with a unit, and the facts of its kernels.
type Read = (Vec<String>, Counts);

/// What was read of all units, by as many threads as there are processors.
fn all(tools: &Tools, seen: &Seen, units: &[(&'static Source, Target)]) -> Result<Vec<Read>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<Read>>> = Mutex::default();
    let work = || {
        while let Some((source, target)) = units.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let report = one(tools, seen, source, target).with_context(|| format!("{} for {target}", source.name()));
            let mut done = done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let place = units.iter().position(|unit| *unit == (source, target)).unwrap_or(usize::MAX);
            done.insert(place, report);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_values().collect()
}

/// Compiles, disassembles and reads one unit; the cubin and its text stay below `target/` to be looked at.
fn one(tools: &Tools, seen: &Seen, source: &'static Source, target: Target) -> Result<Read> {
    let (kernels, arch, options) = (source.kernels(target), target.to_string(), OPTIONS.map(str::to_owned));
    let (name, text, headers) = (source.name(), kernel::unit(source, &kernels), source.headers());
    let program = Program { name, source: &text, headers: &headers, options: &options, target: &arch };
    let unit = seen.unit(format!("{name} {arch}"), &program, &stated(&kernels));
    if let Some(counts) = seen.known(&unit, name, kernels.iter().map(|kernel| kernel.name.as_str()), &arch) {
        return Ok((Vec::new(), counts));
    }
    let code = machine_code::of_kernels(&tools.nvrtc, &tools.nvdisasm, (source, &kernels), target)?;
    if !code.warnings.is_empty() {
        bail!("the compiler warns:\n{}", code.warnings);
    }
    let folder = root().join("target/cuda-tools/units");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{}.{target}.cubin", source.name())), &code.cubin)?;
    std::fs::write(folder.join(format!("{}.{target}.sass", source.name())), &code.listing)?;
    let mut wrong = data_faults(name, source.data(), target, &module_data(&code.cubin)?);
    takes_what_it_states(Image::new(code.cubin)?, &kernels)?;
    let mut counts = Counts::new();
    for kernel in &kernels {
        let found = code.report.kernel(&kernel.name).with_context(|| format!("{} was not compiled", kernel.name))?;
        wrong.extend(faults(kernel, target, found));
        let hot = found.hot.as_ref().map_or(0, |hot| hot.instructions);
        counts.insert(kernel.name.clone(), (found.registers.unwrap_or(0), hot));
    }
    if wrong.is_empty() {
        seen.note(&unit, &counts);
    }
    Ok((wrong, counts))
}

/// What machine code is held to of what kernels state: of parameters their sizes.
fn stated(kernels: &[KernelDesc]) -> String {
    let sizes = |kernel: &KernelDesc| kernel.parameters.iter().map(|one| one.bytes(kernel)).collect::<Vec<u64>>();
    let of_one =
        |kernel: &KernelDesc| format!("{:?} {:?}", KernelDesc { parameters: &[], ..kernel.clone() }, sizes(kernel));
    kernels.iter().map(of_one).collect()
}

/// Whether the compiled kernels take parameters of the sizes that their descriptions state: launches are checked by these.
fn takes_what_it_states(image: Image, kernels: &[KernelDesc]) -> Result<()> {
    for kernel in kernels {
        let stated: Vec<u64> = kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).collect();
        let found = image.parameters(&kernel.name);
        if found != Some(&stated[..]) {
            bail!("{} takes parameters of {found:?} bytes and states {stated:?}", kernel.name);
        }
    }
    Ok(())
}

/// Compares with the committed facts, or writes them.
fn keep(name: &str, found: &Facts, how: How) -> Result<Vec<String>> {
    let path: PathBuf = root().join(format!("crates/plimsoll-gen/facts/{name}.json"));
    if how.bless {
        std::fs::create_dir_all(path.parent().unwrap_or(root()))?;
        std::fs::write(&path, text(found)?)?;
        return Ok(Vec::new());
    }
    let committed = std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let committed: Facts =
        serde_json::from_str(&committed).with_context(|| format!("{} is damaged", path.display()))?;
    Ok(differences(&committed, found))
}

/// One line per kernel, so that a change reads well.
fn text(facts: &Facts) -> Result<String> {
    let mut text = String::from("{\n");
    for (at, (kernel, targets)) in facts.iter().enumerate() {
        let end = if at + 1 < facts.len() { "," } else { "" };
        writeln!(text, "{}:{}{end}", serde_json::to_string(kernel)?, serde_json::to_string(targets)?)?;
    }
    text.push_str("}\n");
    Ok(text)
}
