//! Compiles every operation of elementwise expressions in every type and checks the machine code: no local memory; no integer
//! pattern compiled as an absolute value, which the compiler assumes is never negative; no comparison with NaN folded to true; and
//! for functions the instruction counts in `crates/plimsoll-gen/facts/functions.json`. No GPU is needed.

use anyhow::{Context, Result, bail};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::machine_code;
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::body::catalogue::{Entry, every_operation, float_orders, integer_idioms, unit};
use plimsoll_gen::elementwise::body::{self};
use plimsoll_gen::kernel;
use plimsoll_gen::sass::expect::Facts;
use plimsoll_gen::sass::{Function, Listing};

use crate::seen::{Counts, Seen};
use crate::tools::Tools;

/// One target per generation whose conversions or functions differ.
const TARGETS: [Target; 3] = [Target::plain(90), Target::plain(80), Target::plain(100)];

/// Returns the faults, and for every function in every type the registers and instructions of a kernel that loads, computes and
/// stores one element. Fails if a body doesn't compile or its code can't be parsed.
pub fn check(tools: &Tools, seen: &Seen) -> Result<(Vec<String>, Facts)> {
    let entries = every_operation().into_iter().chain(integer_idioms()).chain(float_orders());
    let mut units: Vec<Vec<Entry>> = Vec::new();
    for entry in entries {
        // One unit per type, so that each compiles in a few seconds.
        let dtype = entry.graph.inputs().first().map(|input| input.dtype);
        match units.last_mut() {
            Some(unit) if unit.first().and_then(|e| e.graph.inputs().first()).map(|i| i.dtype) == dtype => {
                unit.push(entry)
            }
            _ => units.push(vec![entry]),
        }
    }
    let jobs: Vec<(&Vec<Entry>, Target)> = units.iter().flat_map(|unit| TARGETS.map(|target| (unit, target))).collect();
    let half = jobs.len() / 2;
    let run = |jobs: &[(&Vec<Entry>, Target)]| -> Result<(Vec<String>, Facts)> {
        let (mut wrong, mut facts) = (Vec::new(), Facts::new());
        for (entries, target) in jobs {
            let (faults, counts) = check_unit(tools, seen, entries, *target)?;
            wrong.extend(faults);
            for (name, counts) in counts {
                facts.entry(name).or_default().insert(target.to_string(), counts);
            }
        }
        Ok((wrong, facts))
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| run(&jobs[half..]));
        (run(&jobs[..half]), second.join())
    });
    let (mut wrong, mut facts) = first?;
    let Ok(second) = second else { bail!("a thread that compiles bodies has panicked") };
    let (more, others) = second?;
    wrong.extend(more);
    for (name, targets) in others {
        facts.entry(name).or_default().extend(targets);
    }
    Ok((wrong, facts))
}

fn check_unit(tools: &Tools, seen: &Seen, entries: &[Entry], target: Target) -> Result<(Vec<String>, Counts)> {
    let headers: Vec<(&str, &str)> = body::HEADERS.into_iter().chain(kernel::HEADERS).collect();
    let options = kernel::OPTIONS.map(str::to_owned);
    let (source, arch) = (unit(entries), target.to_string());
    let program = Program { name: "bodies.cu", source: &source, headers: &headers, options: &options, target: &arch };
    let names = || entries.iter().map(|entry| entry.name.as_str());
    let first = names().next().unwrap_or_default();
    let unit = seen.unit(format!("functions from {first} {target}"), &program, &names().collect::<Vec<_>>().join(" "));
    if let Some(counts) = seen.known(&unit, "functions", names(), &arch) {
        return Ok((Vec::new(), counts));
    }
    let (mut wrong, mut facts) = (Vec::new(), Counts::new());
    let compiled = tools.nvrtc.compile(&program)?;
    if !compiled.log.is_empty() {
        bail!("the compiler warns:\n{}", compiled.log);
    }
    let code = machine_code::from_cubin(&tools.nvdisasm, compiled.cubin)?;
    let listing = Listing::parse(&code.listing)?;
    for entry in entries {
        let found = code.report.kernel(&entry.name).with_context(|| format!("{} was not compiled", entry.name))?;
        let local = (found.local_bytes, found.local_accesses);
        if local != (0, 0) && !keeps_tables(&entry.name) {
            wrong.push(format!("{} for {target}: {} bytes of local memory, {} accesses", entry.name, local.0, local.1));
        }
        let function = listing.function(&entry.name);
        let has_abs =
            |function: &Function| function.instructions.iter().any(|instruction| instruction.opcode() == "IABS");
        if entry.name.starts_with("idiom") && function.is_none_or(has_abs) {
            wrong.push(format!("{} for {target}: compiled as an absolute value (IABS)", entry.name));
        }
        let compares =
            |function: &Function| function.instructions.iter().any(|instruction| instruction.opcode() == "FSETP");
        if entry.name.starts_with("order") && !function.is_some_and(compares) {
            wrong.push(format!(
                "{} for {target}: the comparison was folded to true, which is wrong for NaN",
                entry.name
            ));
        }
        if is_function(&entry.name) {
            let counts = (found.registers.unwrap_or(0), found.instructions);
            facts.insert(entry.name.clone(), counts);
        }
    }
    if wrong.is_empty() {
        seen.note(&unit, &facts);
    }
    Ok((wrong, facts))
}

/// True for functions that may use local memory: CUDA's double-precision reduction of large angles keeps a table there.
fn keeps_tables(name: &str) -> bool {
    matches!(name, "accurate_sin_f64" | "accurate_cos_f64")
}

/// True for functions in f32, f16 and bf16.
fn is_function(name: &str) -> bool {
    use plimsoll_gen::elementwise::accuracy::Function;
    let Some((_, rest)) = name.split_once('_') else { return false };
    let Some((operation, dtype)) = rest.rsplit_once('_') else { return false };
    let functions = Function::list();
    let mut names = functions.iter().map(|function| match function {
        Function::Unary(op) => format!("{op:?}").to_lowercase(),
        Function::Binary(op) => format!("{op:?}").to_lowercase(),
    });
    matches!(dtype, "f32" | "f16" | "bf16") && names.any(|known| known == operation)
}
