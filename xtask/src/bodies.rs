//! Compiles every operation of elementwise expressions in every type and checks the machine code: no local memory; no integer
//! pattern compiled as an absolute value, which the compiler assumes is never negative; no comparison with NaN folded to true; no
//! packed maximum with one predicate for both halves; and for functions the instruction counts in
//! `crates/plimsoll-gen/facts/functions.json`. No GPU is needed.

use anyhow::{Context, Result, bail};
use plimsoll_cuda::compile::Program;
use plimsoll_cuda::machine_code;
use plimsoll_gen::Target;
use plimsoll_gen::elementwise::body::catalogue::{self, Entry};
use plimsoll_gen::elementwise::body::{self};
use plimsoll_gen::kernel;
use plimsoll_gen::sass::expect::Facts;
use plimsoll_gen::sass::{Function, Instruction, Listing};

use crate::sass::hazard_fault;
use crate::seen::{Counts, Seen};
use crate::tools::Tools;

/// One target per generation whose conversions or functions differ.
const TARGETS: [Target; 3] = [Target::plain(90), Target::plain(80), Target::plain(100)];

/// Returns the faults, and for every function in every type the registers and instructions of a kernel that loads, computes and
/// stores one element. Fails if a body doesn't compile or its code can't be parsed.
pub fn check(tools: &Tools, seen: &Seen) -> Result<(Vec<String>, Facts)> {
    let entries = [
        catalogue::every_operation(),
        catalogue::integer_idioms(),
        catalogue::float_orders(),
        catalogue::small_extremes(),
    ];
    let mut units: Vec<Vec<Entry>> = Vec::new();
    for entry in entries.into_iter().flatten() {
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
    let (source, arch) = (catalogue::unit(entries), target.to_string());
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
        let fault = match listing.function(&entry.name) {
            Some(function) => wrong_pattern(&entry.name, function),
            None => Some("not in the listing"),
        };
        wrong.extend(fault.map(|fault| format!("{} for {target}: {fault}", entry.name)));
        wrong.extend(hazard_fault(&entry.name, target, listing.function(&entry.name)));
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

/// A pattern in the machine code that NVIDIA's compiler makes of a correct expression and that is wrong.
fn wrong_pattern(name: &str, function: &Function) -> Option<&'static str> {
    let has = |opcode: &str| function.instructions.iter().any(|instruction| instruction.opcode() == opcode);
    if name.starts_with("idiom") && has("IABS") {
        Some("compiled as an absolute value (IABS)")
    } else if name.starts_with("order") && !has("FSETP") {
        Some("the comparison was folded to true, which is wrong for NaN")
    } else if function.instructions.iter().any(shares_a_predicate) {
        Some("both halves of a packed maximum write one predicate")
    } else {
        None
    }
}

/// True for `VIMNMX.S16x2 R0, P0, P0, …`.
fn shares_a_predicate(instruction: &Instruction) -> bool {
    let predicates: Vec<&String> = instruction.operands.iter().skip(1).take(2).collect();
    let written = |name: &String| name.starts_with('P') && name != "PT";
    instruction.modifiers().any(|modifier| modifier.ends_with("16x2"))
        && predicates.iter().all(|name| written(name))
        && predicates.first() == predicates.last()
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
