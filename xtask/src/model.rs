//! Compares the model of a launch's cost with measurements on an H200: `records/model/` and the hot launches of the records. The
//! tables go into `docs/model.md`.

mod choice;
mod engine;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use anyhow::{Context, Result, bail};
use plimsoll_core::Traffic;
use plimsoll_core::model::{Cache, Description, Key, Kind, LaunchForm, Level, Machine, Mix, Pipe, predict};
use plimsoll_core::record::{path_in, read_file, read_text};
use plimsoll_core::series::Series;

use crate::test::root;

const PAGE: &str = "docs/model.md";
const ERRORS: Place = Place("<!-- errors: cargo xtask model --bless -->\n", "<!-- end of errors -->\n");
const CHOICES: Place = Place("<!-- choices: cargo xtask model --bless -->\n", "<!-- end of choices -->\n");
const ENGINE: Place = Place("<!-- engine: cargo xtask model --bless -->\n", "<!-- end of engine -->\n");
/// Registers, threads and maximum blocks of an SM (compute capability 9.0).
const REGISTERS: u32 = 65_536;
const THREADS: u32 = 2048;
const MAX_BLOCKS: u32 = 32;
/// The run whose hot launches are predicted.
const RUN: &str = "records/h200/2026-11-22-suite/suite-1";
/// Maximum bytes of a table or an explanation in `records/`.
const MAX_BYTES: u64 = 16 << 20;

/// The two lines between which a table stands on the page.
struct Place(&'static str, &'static str);

impl Place {
    /// The page with this table in its place, and whether that changes the page.
    fn replace(&self, page: &str, table: &str) -> Result<(String, bool)> {
        let Self(begin, end) = self;
        let (before, rest) = page.split_once(begin).with_context(|| format!("{PAGE} has no line {begin}"))?;
        let (committed, after) = rest.split_once(end).with_context(|| format!("{PAGE} has no line {end}"))?;
        Ok((format!("{before}{begin}{table}{end}{after}"), committed != table))
    }
}

/// `cargo xtask model`: prints the tables and fails if the committed page has others; with `--bless` writes them there.
pub fn command(arguments: &[String]) -> Result<()> {
    let bless = match arguments {
        [] => false,
        [only] if only == "--bless" => true,
        _ => bail!("usage: cargo xtask model [--bless]"),
    };
    let path = root().join(PAGE);
    let mut page = std::fs::read_to_string(&path).with_context(|| format!("can't read {PAGE}"))?;
    let h200 = plimsoll_suite::model::of_machine("H200")?;
    let mut changed = false;
    for (place, table) in [(ERRORS, table(&cases()?)?), (CHOICES, choice::table()?), (ENGINE, engine::table(&h200)?)] {
        print(&format!("{table}\n"));
        let (updated, differs) = place.replace(&page, &table)?;
        (page, changed) = (updated, changed || differs);
    }
    if bless {
        return Ok(std::fs::write(&path, page)?);
    }
    if changed {
        bail!("{PAGE} has other figures: run `cargo xtask model --bless` and look at the change");
    }
    Ok(())
}

fn print(text: &str) {
    eprint!("{text}");
}

/// One measured launch.
struct Case {
    set: &'static str,
    description: Description,
    /// Seconds.
    measured: f64,
}

/// The plans to which the model's exponent was fitted.
const FITTED: &str = "plans of copy (fitted)";
const BEST: &str = "plans of triad, erf, log: fastest of each size";
const SENSIBLE: &str = "plans of triad, erf, log: all but the extremes";
const EXTREME: &str = "plans of triad, erf, log: extremes";
const DEPENDENT: &str = "dependent launches: fastest of each size";
const HAND: &str = "kernels by hand: copy, add, triad, exp in 3 types";
const HEAVY: &str = "kernels by hand: erf and log in 3 types";
const HOT: &str = "hot launches of scale, 4 KiB to 1 GiB";
const HOT_COPY: &str = "hot copies by 4, 8 and 16 bytes, 16 MiB to 4 GiB";
const ROOF: &str = "roofline's loops, 1/8 to 256 operations per byte in 4 types";
const COLD_COPY: &str = "cold copies by 4, 8 and 16 bytes, 16 MiB to 4 GiB";

fn cases() -> Result<Vec<Case>> {
    let mut cases = plans()?;
    cases.extend(hand()?);
    cases.extend(suite()?);
    Ok(cases)
}

/// The rows of a CSV file, as cells by their heading.
fn rows(name: &str) -> Result<Vec<HashMap<String, String>>> {
    let text = read_text(&root().join("records/model").join(name), MAX_BYTES).with_context(|| name.to_owned())?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let headings: Vec<String> = lines.next().unwrap_or_default().split(',').map(str::to_owned).collect();
    let words = |line: &str| headings.iter().cloned().zip(line.split(',').map(str::to_owned)).collect();
    Ok(lines.map(words).collect())
}

fn number(row: &HashMap<String, String>, heading: &str) -> Result<f64> {
    let word = row.get(heading).with_context(|| format!("no column {heading}"))?;
    word.parse().with_context(|| format!("{heading}: {word}"))
}

/// A kernel without a loop: each thread handles `unroll` vectors of `vector` bytes of every operand.
struct Shape {
    inputs: u32,
    vector: u32,
    unroll: u32,
    threads: u32,
    registers: u32,
}

/// Instructions of one warp by pipe, and the cycles that they take by themselves.
type Code = (BTreeMap<Pipe, f64>, f64);

fn description(shape: &Shape, bytes: u64, launch: LaunchForm, (code, serial_cycles): &Code) -> Description {
    let operand = bytes / u64::from(shape.inputs + 1);
    let per_thread = u64::from(shape.vector * shape.unroll);
    let blocks = operand.div_ceil(per_thread * u64::from(shape.threads));
    let warps = operand as f64 / per_thread as f64 / 32.0;
    Description {
        traffic: Traffic::new(operand * u64::from(shape.inputs), operand),
        footprint: bytes,
        cache: Cache::Cold,
        launch,
        prefetched: false,
        // It is no longer known when the blocks of those programs allowed the next launch to begin.
        signals: 0,
        blocks,
        threads: shape.threads,
        resident: (THREADS / shape.threads).min(REGISTERS / (shape.registers * shape.threads)).clamp(1, MAX_BLOCKS),
        in_flight: shape.inputs * shape.vector * shape.unroll,
        instructions: code.iter().map(|(pipe, count)| (*pipe, count * warps)).collect(),
        serial_cycles: *serial_cycles,
    }
}

/// The code of the sweep's threads, each with `bytes` of every operand. The programs no longer exist: erf and log are assumed to be
/// 10 instructions and 16 cycles per element, one of them a special function.
fn code_of(op: &str, bytes: u32) -> Code {
    let elements = if op.ends_with("bf16") { f64::from(bytes / 2) } else { 0.0 };
    (BTreeMap::from([(Pipe::Issue, 10.0 * elements), (Pipe::Mufu, elements)]), 16.0 * elements)
}

/// A plan of the sweep with its time.
struct TimedPlan {
    op: String,
    dependent: bool,
    bytes: u64,
    shape: Shape,
    description: Description,
    seconds: f64,
}

/// The sweep over plans. Its programs no longer exist, so registers are estimated: those for the data in flight, plus 18.
fn timed_plans() -> Result<Vec<TimedPlan>> {
    let timed = |row: HashMap<String, String>| {
        let op = row.get("op").cloned().unwrap_or_default();
        let [vector, unroll, threads] = ["vector", "unroll", "block"].map(|name| number(&row, name).map(|n| n as u32));
        let (vector, unroll, threads) = (vector?, unroll?, threads?);
        let (bytes, dependent) = (number(&row, "bytes")? as u64, number(&row, "dependent")? > 0.0);
        let inputs = if op.starts_with("triad") { 2 } else { 1 };
        let shape = Shape { inputs, vector, unroll, threads, registers: 18 + inputs * vector * unroll / 4 };
        let launch = if dependent { LaunchForm::GraphDependent } else { LaunchForm::Graph };
        let description = description(&shape, bytes, launch, &code_of(&op, vector * unroll));
        Ok(TimedPlan { op, dependent, bytes, shape, description, seconds: number(&row, "us")? * 1e-6 })
    };
    rows("h200-plans.csv.gz")?.into_iter().map(timed).collect()
}

/// The cases of the sweep over plans.
fn plans() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut best: BTreeMap<(String, bool, u64), Case> = BTreeMap::new();
    for timed in timed_plans()? {
        let TimedPlan { op, dependent, bytes, shape, description: described, seconds: measured } = timed;
        let Shape { vector, unroll, threads, .. } = shape;
        let fastest = best.entry((op.clone(), dependent, bytes)).or_insert_with(|| {
            let set = if dependent { DEPENDENT } else { BEST };
            Case { set, description: described.clone(), measured }
        });
        if measured < fastest.measured {
            (fastest.description, fastest.measured) = (described.clone(), measured);
        }
        if !dependent {
            let sensible = unroll <= 4 && vector >= 8 && threads >= 128;
            let set = if op == "copy" {
                FITTED
            } else if sensible {
                SENSIBLE
            } else {
                EXTREME
            };
            cases.push(Case { set, description: described, measured });
        }
    }
    let others = best.into_iter().filter(|((op, dependent, _), _)| *dependent || op != "copy");
    cases.extend(others.map(|(_, case)| case));
    Ok(cases)
}

/// The hand-written kernels for sm_90: instructions of one thread (all, FMA, ALU, special functions, loads and stores), stall
/// cycles and registers. Compiled by NVRTC 13.0 from the measured program and counted by `plimsoll sass --cubin`.
const HAND_CODE: [(&str, &str, [u32; 5], u32, u32); 18] = [
    ("copy", "f32", [34, 5, 12, 0, 8], 107, 32),
    ("copy", "f16", [34, 5, 12, 0, 8], 107, 32),
    ("copy", "bf16", [34, 5, 12, 0, 8], 107, 32),
    ("add_const", "f32", [52, 21, 12, 0, 8], 150, 32),
    ("add_const", "f16", [114, 69, 28, 0, 8], 207, 32),
    ("add_const", "bf16", [130, 68, 45, 0, 8], 215, 44),
    ("triad", "f32", [60, 37, 12, 0, 12], 160, 44),
    ("triad", "f16", [153, 99, 27, 0, 12], 276, 48),
    ("triad", "bf16", [185, 89, 69, 0, 12], 315, 59),
    ("exp", "f32", [164, 99, 32, 16, 8], 388, 32),
    ("exp", "f16", [340, 227, 59, 32, 8], 677, 32),
    ("exp", "bf16", [356, 195, 107, 32, 8], 482, 48),
    ("log", "f32", [435, 243, 175, 0, 8], 1037, 32),
    ("log", "f16", [883, 515, 346, 0, 8], 1808, 40),
    ("log", "bf16", [911, 483, 406, 0, 8], 2085, 40),
    ("erf", "f32", [377, 155, 184, 16, 8], 868, 32),
    ("erf", "f16", [762, 332, 376, 32, 8], 1647, 47),
    ("erf", "bf16", [777, 331, 392, 32, 8], 1729, 48),
];

fn hand() -> Result<Vec<Case>> {
    let case = |row: &HashMap<String, String>| {
        let word = |heading: &str| row.get(heading).cloned().unwrap_or_default();
        let (op, dtype) = (word("op"), word("dtype"));
        let known = HAND_CODE.iter().find(|(name, types, ..)| (*name, *types) == (op.as_str(), dtype.as_str()));
        let (_, _, [issue, fma, alu, mufu, lsu], cycles, registers) = known.with_context(|| format!("{op} {dtype}"))?;
        let pipes = [(Pipe::Issue, issue), (Pipe::Fma, fma), (Pipe::Alu, alu), (Pipe::Mufu, mufu), (Pipe::Lsu, lsu)];
        let counts = pipes.map(|(pipe, count)| (pipe, f64::from(*count)));
        let inputs = if op == "triad" { 2 } else { 1 };
        let shape = Shape { inputs, vector: 16, unroll: 4, threads: 256, registers: *registers };
        let code = (BTreeMap::from(counts), f64::from(*cycles));
        let set = if matches!(op.as_str(), "erf" | "log") { HEAVY } else { HAND };
        let description = description(&shape, number(row, "bytes")? as u64, LaunchForm::Graph, &code);
        Ok(Case { set, description, measured: number(row, "us")? * 1e-6 })
    };
    rows("h200-hand.csv")?.iter().map(case).collect()
}

/// The suite's own kernels: the launch probe's over the same bytes repeatedly, copies hot and cold, and roofline's loops.
fn suite() -> Result<Vec<Case>> {
    let run = read_file(&path_in(&root().join(RUN))).context(RUN)?;
    let series = |probe: &str, case: &str| {
        let known = |series: &&Series| (&*series.spec.probe, &*series.spec.case) == (probe, case);
        run.series.iter().find(known).with_context(|| format!("the run has no series {probe}/{case}"))
    };
    let mut cases = Vec::new();
    let mut add = |set, cache, vector, bytes: f64, measured| {
        let shape = Shape { inputs: 1, vector, unroll: 1, threads: 256, registers: 24 };
        let cold = description(&shape, bytes as u64, LaunchForm::Graph, &(BTreeMap::new(), 0.0));
        cases.push(Case { set, description: Description { cache, ..cold }, measured });
    };
    let scale = series("launch", "scale")?;
    for row in scale.rows.iter().filter(|row| scale.text(row, "mode") == Some(LaunchForm::Graph.name())) {
        let (Some(bytes), Some(time)) = (scale.number(row, "footprint"), scale.estimate(row, "time")) else { continue };
        add(HOT, Cache::Hot, 16, bytes, time.value);
    }
    for (case, set, cache) in [("hot", HOT_COPY, Cache::Hot), ("cold", COLD_COPY, Cache::Cold)] {
        let copies = series("copy", case)?;
        for row in &copies.rows {
            // vec8 is left out: its two consecutive accesses of 16 bytes leave neighbouring threads non-contiguous, which the
            // model doesn't cover.
            let kernels = [("naive", 4), ("vec2", 8), ("vec4", 16)];
            let vector = kernels.into_iter().find(|(name, _)| copies.text(row, "kernel") == Some(name));
            let (Some((_, vector)), Some(bytes), Some(time)) =
                (vector, copies.number(row, "size"), copies.estimate(row, "time"))
            else {
                continue;
            };
            add(set, cache, vector, 2.0 * bytes, time.value);
        }
    }
    let sweep = series("roofline", "sweep")?;
    for row in &sweep.rows {
        if let (Some(dtype), Some(time), Some(point)) =
            (sweep.text(row, "type"), sweep.estimate(row, "time"), row.points.first())
        {
            let (pipe, each) = match dtype {
                "f64" => (Pipe::Fp64, 2.0),
                "f32" => (Pipe::Fma, 2.0),
                _ => (Pipe::Fma, 4.0),
            };
            let warps = point.work.operations / each / 32.0;
            let instructions = BTreeMap::from([(Pipe::Issue, warps), (pipe, warps)]);
            cases.push(Case {
                set: ROOF,
                description: persistent(point.work.traffic, instructions),
                measured: time.value,
            });
        }
    }
    Ok(cases)
}

/// A grid that fills the device once and loops over its bytes.
fn persistent(traffic: Traffic, instructions: BTreeMap<Pipe, f64>) -> Description {
    Description {
        traffic,
        footprint: traffic.total(),
        cache: Cache::Cold,
        launch: LaunchForm::Graph,
        prefetched: false,
        signals: 0,
        blocks: 8 * 132,
        threads: 256,
        resident: 8,
        // Two to four vectors of 16 bytes.
        in_flight: 32,
        instructions,
        serial_cycles: 0.0,
    }
}

/// The limiter of a prediction, as the table names it.
fn regime(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::L2) => "L2",
        Some(Kind::Memory) => "memory",
        Some(Kind::Pipe(_)) => "instructions",
        Some(Kind::InFlight | Kind::Busiest | Kind::Dispatch) => "loads in flight, dispatch",
        _ => "launch",
    }
}

/// T₀ + V/B, the prediction that the model has to beat.
fn naive(machine: &Machine, description: &Description) -> Result<f64> {
    let value = |key: Key| machine.terms.get(&key).map(|term| term.value).with_context(|| key.to_string());
    let (read, written) = description.traffic.mix();
    let mix = Mix { read: read as u32, written: written as u32 };
    let bytes = description.traffic.total() as f64;
    Ok(value(Key::Launch(description.launch))? + bytes / value(Key::Bandwidth(Level::Memory, mix))?)
}

/// Relative errors of the model and of the naive prediction.
#[derive(Default)]
struct Errors {
    model: Vec<f64>,
    naive: Vec<f64>,
}

impl Errors {
    fn quantile(errors: &[f64], share: f64) -> f64 {
        let mut sorted: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
    }
}

fn group_errors<'a>(
    cases: &'a [Case],
    key: impl Fn(&Case, Option<Kind>) -> Option<&'a str>,
) -> Result<BTreeMap<&'a str, Errors>> {
    let h200 = plimsoll_suite::model::of_machine("H200")?;
    let mut groups: BTreeMap<&str, Errors> = BTreeMap::new();
    for case in cases {
        let predicted = predict(&case.description, &h200);
        let total = predicted.total.context("a term is missing")?.value;
        let Some(group) = key(case, predicted.limiter) else { continue };
        let errors = groups.entry(group).or_default();
        errors.model.push(total / case.measured - 1.0);
        errors.naive.push(naive(&h200, &case.description)? / case.measured - 1.0);
    }
    Ok(groups)
}

/// True for plans that somebody would run and to which nothing was fitted.
fn is_fair(case: &Case) -> bool {
    !matches!(case.set, FITTED | EXTREME)
}

fn table(cases: &[Case]) -> Result<String> {
    let mut text = String::from(
        "| launches | number | median | 95 % | T₀ + V/B: median | 95 % |\n| --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut add = |name: &str, errors: &Errors| {
        let percent = |errors: &[f64], share: f64| format!("{:.1} %", 100.0 * Errors::quantile(errors, share));
        let [model, most, naive, naive_most] = [
            percent(&errors.model, 0.5),
            percent(&errors.model, 0.95),
            percent(&errors.naive, 0.5),
            percent(&errors.naive, 0.95),
        ];
        let count = errors.model.len();
        writeln!(text, "| {name} | {count} | {model} | {most} | {naive} | {naive_most} |")
    };
    let sets = group_errors(cases, |case, _| Some(case.set))?;
    for set in [FITTED, BEST, SENSIBLE, EXTREME, DEPENDENT, HAND, HEAVY, HOT, HOT_COPY, COLD_COPY, ROOF] {
        add(set, sets.get(set).with_context(|| set.to_owned())?)?;
    }
    for (name, errors) in &group_errors(cases, |case, kind| is_fair(case).then(|| regime(kind)))? {
        add(&format!("limited by {name}"), errors)?;
    }
    let all = group_errors(cases, |case, _| is_fair(case).then_some("**all but fitted and extremes**"))?;
    for (name, errors) in &all {
        add(name, errors)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_predictions_stay_within_the_documented_limits() {
        let cases = cases().unwrap();
        let all = group_errors(&cases, |case, _| is_fair(case).then_some("all")).unwrap();
        let (median, most) = (Errors::quantile(&all["all"].model, 0.5), Errors::quantile(&all["all"].model, 0.95));
        assert!(median <= 0.05 && most <= 0.12, "{median} {most}");
        assert!(median <= 0.5 * Errors::quantile(&all["all"].naive, 0.5));
        for (name, errors) in group_errors(&cases, |case, kind| is_fair(case).then(|| regime(kind))).unwrap() {
            let median = Errors::quantile(&errors.model, 0.5);
            assert!(median <= 0.08, "{name}: {median}");
        }
    }
}
