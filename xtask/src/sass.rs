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
use plimsoll_gen::kernel::{KernelDesc, Source};
use plimsoll_gen::sass::elf::module_data;
use plimsoll_gen::sass::expect::{Facts, data_faults, differences, faults};
use plimsoll_gen::sass::{Image, Report};

use crate::bodies;
use crate::forms;
use crate::test::root;
use crate::tools::{self, Tools};

/// Most sentences that are printed of one kind.
const MOST: usize = 40;

/// `cargo xtask sass`.
///
/// # Errors
/// Those of [`run`], or an unknown argument.
pub fn command(arguments: &[String]) -> Result<()> {
    match arguments {
        [] => run(false),
        [bless] if bless == "--bless" => run(true),
        [bodies] if bodies == "bodies" => of_bodies(false),
        [bodies, bless] if bodies == "bodies" && bless == "--bless" => of_bodies(true),
        [name, rest @ ..] if of_name(name).is_some() && matches!(rest, [] | [_]) => {
            let bless = rest.first().is_some_and(|word| word == "--bless");
            if !bless && !rest.is_empty() {
                bail!("unknown argument {rest:?}: after a probe there is --bless");
            }
            let Some(tools) = tools::ready()? else { return Ok(()) };
            settle(&of_sources(&tools, of_name(name).as_slice(), bless)?)
        }
        _ => bail!("unknown arguments {arguments:?}: there is --bless, alone or after 'bodies' or the name of a probe"),
    }
}

/// Checks all; with `bless` writes the facts instead of comparing them.
///
/// # Errors
/// A kernel that doesn't compile, code that isn't what its kernel states, facts that changed.
pub fn run(bless: bool) -> Result<()> {
    let Some(tools) = tools::ready()? else { return Ok(()) };
    refuses_what_is_wrong(&tools)?;
    let mut wrong = of_sources(&tools, &Source::ALL, bless)?;
    let (faults, facts) = forms::check(&tools)?;
    wrong.extend(faults);
    wrong.extend(keep("elementwise", &facts, bless)?);
    let (faults, facts) = bodies::check(&tools)?;
    wrong.extend(faults);
    wrong.extend(keep("functions", &facts, bless)?);
    settle(&wrong)
}

/// The source of a probe by its name.
fn of_name(name: &str) -> Option<Source> {
    Source::ALL.into_iter().find(|source| source.name() == name)
}

/// What is wrong with the kernels of these sources.
fn of_sources(tools: &Tools, sources: &[Source], bless: bool) -> Result<Vec<String>> {
    let all_units = sources.iter().flat_map(|source| Target::ALL.map(|target| (*source, target)));
    // A source may have nothing for a target: clusters before 9.0.
    let units: Vec<(Source, Target)> =
        all_units.filter(|(source, target)| !source.kernels(*target).is_empty()).collect();
    let reports = all(tools, &units)?;
    let mut wrong = Vec::new();
    for source in sources {
        let mut facts = Facts::new();
        for ((_, target), (report, data)) in units.iter().zip(&reports).filter(|((of, _), _)| of == source) {
            wrong.extend(data_faults(source.name(), *target, data));
            for kernel in source.kernels(*target) {
                let found = report.kernel(&kernel.name).with_context(|| format!("{} was not compiled", kernel.name))?;
                wrong.extend(faults(&kernel, *target, found));
                let counts = (found.registers.unwrap_or(0), found.hot.as_ref().map_or(0, |hot| hot.instructions));
                facts.entry(kernel.name).or_default().insert(target.to_string(), counts);
            }
        }
        wrong.extend(keep(source.name(), &facts, bless)?);
    }
    eprintln!(
        "{} kernels of {} units read",
        reports.iter().map(|(report, _)| report.kernels.len()).sum::<usize>(),
        units.len()
    );
    Ok(wrong)
}

/// The bodies of elementwise expressions alone.
fn of_bodies(bless: bool) -> Result<()> {
    let Some(tools) = tools::ready()? else { return Ok(()) };
    let (mut wrong, facts) = bodies::check(&tools)?;
    wrong.extend(keep("functions", &facts, bless)?);
    settle(&wrong)
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

/// What was read of a unit: its kernels, and what its module holds beside them.
type Read = (Report, Vec<String>);

/// What was read of all units, by as many threads as there are processors.
fn all(tools: &Tools, units: &[(Source, Target)]) -> Result<Vec<Read>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Result<Read>>> = Mutex::default();
    let work = || {
        while let Some((source, target)) = units.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
            let report = one(tools, source, target).with_context(|| format!("{} for {target}", source.name()));
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
fn one(tools: &Tools, source: Source, target: Target) -> Result<Read> {
    let code = machine_code::of_kernels(&tools.nvrtc, &tools.nvdisasm, (source, &source.kernels(target)), target)?;
    if !code.warnings.is_empty() {
        bail!("the compiler warns:\n{}", code.warnings);
    }
    let folder = root().join("target/cuda-tools/units");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{}.{target}.cubin", source.name())), &code.cubin)?;
    std::fs::write(folder.join(format!("{}.{target}.sass", source.name())), &code.listing)?;
    let data = module_data(&code.cubin)?;
    takes_what_it_states(Image::new(code.cubin)?, &source.kernels(target))?;
    Ok((code.report, data))
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
fn keep(name: &str, found: &Facts, bless: bool) -> Result<Vec<String>> {
    let path: PathBuf = root().join(format!("crates/plimsoll-gen/facts/{name}.json"));
    if bless {
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
