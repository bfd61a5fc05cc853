//! Compiles every kernel for every target and checks the machine code against the kernels' descriptions and against the facts in
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
use plimsoll_gen::sass::elf::module_data;
use plimsoll_gen::sass::expect::{Facts, data_faults, differences, faults};
use plimsoll_gen::sass::{Function, Image, Listing, hazard};

use crate::bodies;
use crate::forms;
use crate::seen::{Counts, Seen};
use crate::test::root;
use crate::tools::{self, Tools};

/// Maximum faults that are printed.
const MAX_FAULTS: usize = 40;

/// `cargo xtask sass`: parses the arguments and runs the checks.
pub fn command(arguments: &[String]) -> Result<()> {
    let (flags, names): (Vec<&str>, Vec<&str>) =
        arguments.iter().map(String::as_str).partition(|word| word.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| !["--bless", "--all"].contains(*flag)) {
        bail!("unknown argument '{unknown}'; known: --bless, --all");
    }
    let how = How { bless: flags.contains(&"--bless"), all: flags.contains(&"--all") };
    let sources: Vec<&'static Source> = match names[..] {
        [] => return run(how),
        ["bodies"] => Vec::new(),
        [name] if find_source(name).is_some() => find_source(name).into_iter().collect(),
        _ => bail!("unknown arguments {names:?}: give 'bodies' or the name of one probe"),
    };
    let Some(tools) = tools::find_or_install()? else { return Ok(()) };
    let seen = Seen::open(&tools, how.all)?;
    let wrong = if sources.is_empty() {
        check_bodies(&tools, &seen, how)?
    } else {
        check_sources(&tools, &seen, &sources, how)?
    };
    if how.bless {
        seen.write(false)?;
    }
    fail_if_any(&wrong)
}

/// How machine code is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct How {
    /// Write the facts instead of comparing them.
    bless: bool,
    /// Also compile units that are unchanged since their facts were blessed.
    all: bool,
}

/// Checks all kernels. Fails if a kernel doesn't compile, its code contradicts its description, or facts changed.
pub fn run(how: How) -> Result<()> {
    let Some(tools) = tools::find_or_install()? else { return Ok(()) };
    check_that_errors_are_reported(&tools)?;
    let seen = Seen::open(&tools, how.all)?;
    let mut wrong = check_sources(&tools, &seen, plimsoll_probes::sources(), how)?;
    let (faults, facts) = forms::check(&tools, &seen)?;
    wrong.extend(faults);
    wrong.extend(check_facts("elementwise", &facts, how)?);
    wrong.extend(check_bodies(&tools, &seen, how)?);
    if how.bless {
        seen.write(true)?;
    }
    seen.report();
    fail_if_any(&wrong)
}

/// The source of a probe, by name.
fn find_source(name: &str) -> Option<&'static Source> {
    plimsoll_probes::sources().iter().copied().find(|source| source.name() == name)
}

/// The faults of the kernels of these sources.
fn check_sources(tools: &Tools, seen: &Seen, sources: &[&'static Source], how: How) -> Result<Vec<String>> {
    let all_units = sources.iter().flat_map(|source| Target::ALL.map(|target| (*source, target)));
    // A source may have no kernels for a target, as for clusters before compute capability 9.0.
    let units: Vec<(&'static Source, Target)> =
        all_units.filter(|(source, target)| !source.kernels(*target).is_empty()).collect();
    let found = check_units(tools, seen, &units)?;
    let mut wrong = Vec::new();
    for source in sources {
        let mut facts = Facts::new();
        for ((_, target), (faults, counts)) in units.iter().zip(&found).filter(|((unit, _), _)| unit == source) {
            wrong.extend(faults.iter().cloned());
            for (kernel, counts) in counts {
                facts.entry(kernel.clone()).or_default().insert(target.to_string(), *counts);
            }
        }
        wrong.extend(check_facts(source.name(), &facts, how)?);
    }
    eprintln!(
        "{} kernels of {} units checked",
        found.iter().map(|(_, counts)| counts.len()).sum::<usize>(),
        units.len()
    );
    Ok(wrong)
}

/// The faults of the bodies of elementwise expressions.
fn check_bodies(tools: &Tools, seen: &Seen, how: How) -> Result<Vec<String>> {
    let (mut wrong, facts) = bodies::check(tools, seen)?;
    wrong.extend(check_facts("functions", &facts, how)?);
    Ok(wrong)
}

fn fail_if_any(wrong: &[String]) -> Result<()> {
    if wrong.is_empty() {
        return Ok(());
    }
    for fault in wrong.iter().take(MAX_FAULTS) {
        eprintln!("{fault}");
    }
    bail!(
        "{} faults in the machine code; if they are intended, run 'cargo xtask sass --bless' and review the change",
        wrong.len()
    )
}

/// Checks that NVRTC reports an error in a source, and an unknown target, with a matching reason.
fn check_that_errors_are_reported(tools: &Tools) -> Result<()> {
    let source = "extern \"C\" __global__ void wrong() { undeclared(); }";
    for (target, expected) in [("sm_90", "undeclared"), ("sm_10", "sm_10"), ("nonsense", "nonsense")] {
        let program = Program { name: "wrong.cu", source, headers: &[], options: &[], target };
        match tools.nvrtc.compile(&program) {
            Ok(_) => bail!("NVRTC compiled a wrong source for {target}"),
            Err(reason) if reason.why.contains(expected) => {}
            Err(reason) => bail!("the reason for {target} does not contain '{expected}': {reason}"),
        }
    }
    Ok(())
}

/// The faults of a unit, and the facts of its kernels.
type UnitResult = (Vec<String>, Counts);

/// Checks all units, on as many threads as there are processors.
fn check_units(tools: &Tools, seen: &Seen, units: &[(&'static Source, Target)]) -> Result<Vec<UnitResult>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<UnitResult>>> = Mutex::default();
    let work = || {
        while let Some((source, target)) = units.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let report =
                check_unit(tools, seen, source, target).with_context(|| format!("{} for {target}", source.name()));
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

/// Compiles, disassembles and checks one unit; the cubin and its listing are kept below `target/` for inspection.
fn check_unit(tools: &Tools, seen: &Seen, source: &'static Source, target: Target) -> Result<UnitResult> {
    let (kernels, arch, options) = (source.kernels(target), target.to_string(), OPTIONS.map(str::to_owned));
    let (name, text, headers) = (source.name(), kernel::unit(source, &kernels), source.headers());
    let program = Program { name, source: &text, headers: &headers, options: &options, target: &arch };
    let unit = seen.unit(format!("{name} {arch}"), &program, &describe(&kernels));
    if let Some(counts) = seen.known(&unit, name, kernels.iter().map(|kernel| kernel.name.as_str()), &arch) {
        return Ok((Vec::new(), counts));
    }
    let code = machine_code::from_kernels(&tools.nvrtc, &tools.nvdisasm, (source, &kernels), target)?;
    if !code.warnings.is_empty() {
        bail!("the compiler warns:\n{}", code.warnings);
    }
    let folder = root().join("target/cuda-tools/units");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{}.{target}.cubin", source.name())), &code.cubin)?;
    std::fs::write(folder.join(format!("{}.{target}.sass", source.name())), &code.listing)?;
    let mut wrong = data_faults(name, source.data(), target, &module_data(&code.cubin)?);
    check_parameter_sizes(Image::new(code.cubin)?, &kernels)?;
    let listing = Listing::parse(&code.listing)?;
    let mut counts = Counts::new();
    for kernel in &kernels {
        let found = code.report.kernel(&kernel.name).with_context(|| format!("{} was not compiled", kernel.name))?;
        wrong.extend(faults(kernel, target, found));
        wrong.extend(hazard_fault(&kernel.name, target, listing.function(&kernel.name)));
        let hot = found.hot.as_ref().map_or(0, |hot| hot.instructions);
        counts.insert(kernel.name.clone(), (found.registers.unwrap_or(0), hot));
    }
    if wrong.is_empty() {
        seen.note(&unit, &counts);
    }
    Ok((wrong, counts))
}

/// The fault of a kernel whose machine code reads a result before it is written.
pub fn hazard_fault(name: &str, target: Target, function: Option<&Function>) -> Option<String> {
    let at = hazard::early_read(function?)?;
    Some(format!("{name} for {target}: the instruction at {at:#06x} reads the result of a CS2R before it is written"))
}

/// The parts of kernel descriptions that machine code is checked against, as text: parameters only by their sizes.
fn describe(kernels: &[KernelDesc]) -> String {
    let sizes =
        |kernel: &KernelDesc| kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).collect::<Vec<u64>>();
    let describe_kernel =
        |kernel: &KernelDesc| format!("{:?} {:?}", KernelDesc { parameters: &[], ..kernel.clone() }, sizes(kernel));
    kernels.iter().map(describe_kernel).collect()
}

/// Checks that the compiled kernels take parameters of the described sizes, because launches are checked against these.
fn check_parameter_sizes(image: Image, kernels: &[KernelDesc]) -> Result<()> {
    for kernel in kernels {
        let stated: Vec<u64> = kernel.parameters.iter().map(|parameter| parameter.bytes(kernel)).collect();
        let found = image.parameters(&kernel.name);
        if found.as_ref() != Some(&stated) {
            bail!("{} takes parameters of {found:?} bytes, but its description has {stated:?}", kernel.name);
        }
    }
    Ok(())
}

/// Compares facts with the committed ones, or writes them with `bless`.
fn check_facts(name: &str, found: &Facts, how: How) -> Result<Vec<String>> {
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

/// JSON with one line per kernel, so that diffs are readable.
fn text(facts: &Facts) -> Result<String> {
    let mut text = String::from("{\n");
    for (index, (kernel, targets)) in facts.iter().enumerate() {
        let end = if index + 1 < facts.len() { "," } else { "" };
        writeln!(text, "{}:{}{end}", serde_json::to_string(kernel)?, serde_json::to_string(targets)?)?;
    }
    text.push_str("}\n");
    Ok(text)
}
