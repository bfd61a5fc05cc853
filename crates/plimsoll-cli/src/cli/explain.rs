//! `plimsoll explain`: prints what limits an elementwise expression, its plan, its predicted and measured time, and the difference.
//! The library builds the explanation; `custom` does the same for a kernel of the user's own.

use plimsoll::bench::{BenchRequest, DEPENDENT, Point, variants};
use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::core::{counted, stats::Interval};
use plimsoll::explain::{Explanation, Origin, Subject, counters_error, explanations};
use plimsoll::predict::Tools;
use plimsoll::predict::model::Estimate;
use plimsoll::prelude::Request;
use plimsoll_report::json;
use serde_json::{Value, json};

use super::args::{ExplainArgs, Format};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{bench, custom, expression, output, predict, profile};

/// Default bytes of the widest tensor.
const DEFAULT_BYTES: u64 = 256 << 20;

pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let Some(text) = &args.expression else { return custom::run(args) };
    let bench_request = build_request(text, args)?;
    let mut points = bench_request.points().map_err(|error| expression::failure(&error))?;
    let predict_hint = || format!("without the device: `plimsoll predict '{text}' --machine h200`");
    if args.device.device == "none" {
        return Err(Failure::usage("an explanation needs a device to measure on").hint(predict_hint()));
    }
    let mut device = bench::open(&args.device).map_err(|failure| failure.hint(predict_hint()))?;
    let info = device.info().clone();
    if args.bytes.is_none() && args.meaning.inputs.is_empty() {
        shrink_to_fit(&bench_request, &mut points, &info)?;
    }
    let known = profile::known(&args.run.profile, &info);
    let known = known.as_ref().map(|(_, profile)| profile);
    let table = profile::plans(&args.run.profile, &info);
    let subject = Subject::from_device(&mut device, known, table.as_ref())?;
    let why_not = if args.no_counters { "--no-counters was given".to_owned() } else { counters_error(&device) };
    let request =
        Request { effort: args.run.effort, seed: args.run.seed, counters: !args.no_counters, ..Request::default() };
    let timed = bench::time_points(&mut device, &points, table.as_ref(), request, args.run.out.as_deref())?;
    let (nvrtc, disassembler) = predict::tools(args.estimate, args.device.nvrtc.as_deref(), args.nvdisasm.as_deref());
    let tools = nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
    if let Some(run) = &timed.run {
        let all = explanations(&subject, &points, run, &why_not, tools);
        show(&subject, &all, args.run.format)?;
    }
    timed.end()
}

/// Prints explanations, and notes about them on stderr.
pub(super) fn show(subject: &Subject, all: &[Explanation], format: Format) -> Result<(), Failure> {
    output::print(&text(all, format)?)?;
    notes(subject, all);
    Ok(())
}

fn build_request(text: &str, args: &ExplainArgs) -> Result<BenchRequest, Failure> {
    let mut request = expression::parse_request(text, &args.meaning)?;
    request.name = args.timing.name.as_ref().map(|name| name.chars().take(80).collect());
    request.variants = variants(&args.variant).map_err(Failure::usage)?;
    request.sizes = match &args.bytes {
        Some(text) => bench::parse_sizes(text)?,
        None => vec![DEFAULT_BYTES],
    };
    request.caches = args.timing.caches();
    request.launches = args.timing.launches();
    Ok(request)
}

/// Divides the default size by four until its points fit into the memory.
fn shrink_to_fit(
    request: &BenchRequest,
    points: &mut Vec<Point>,
    info: &plimsoll::prelude::DeviceInfo,
) -> Result<(), Failure> {
    let mut size = DEFAULT_BYTES;
    bench::retain_fitting(points, info);
    while points.is_empty() && size > 1 << 20 {
        size /= 4;
        let smaller = BenchRequest { sizes: vec![size], ..request.clone() };
        *points = smaller.points().map_err(|error| expression::failure(&error))?;
        bench::retain_fitting(points, info);
    }
    Ok(())
}

/// Notes on stderr that a reader of the figures needs.
fn notes(subject: &Subject, all: &[Explanation]) {
    let lacking = subject.lacking();
    let ways = match subject.origin() {
        Origin::Model | Origin::Nothing => ": `plimsoll measure` finds its figures".to_owned(),
        _ if lacking.is_empty() => String::new(),
        _ => format!(": `plimsoll measure {}`", lacking.join(" ")),
    };
    say("note", &format!("the prediction is from {}{ways}", subject.origin()));
    if all.iter().any(|one| one.forecast.estimated) {
        let why =
            "instruction counts are estimates; with NVIDIA's compiler and disassembler they are read from machine code";
        say("note", why);
    }
}

fn text(all: &[Explanation], format: Format) -> Result<String, Failure> {
    match format {
        Format::Json => {
            let values = all.iter().map(to_json).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
            Ok(json::to_text(&values.into()))
        }
        Format::Csv => Ok(csv(all)),
        Format::Table | Format::Markdown => {
            let pages: Vec<String> = all.iter().map(|one| page(one, format)).collect();
            Ok(pages.join("\n"))
        }
    }
}

/// `erf, bf16, 1 GiB per tensor, 2 GiB moved, cold`.
fn heading(explanation: &Explanation) -> String {
    let cell = &explanation.cell;
    let mut words = vec![cell.expression.clone(), cell.types.clone()];
    if cell.shape != "flat" {
        words.push(cell.shape.clone());
    }
    words.push(format!("{} per tensor", ByteSize(cell.bytes)));
    words.push(format!("{} moved", ByteSize(cell.traffic.total())));
    words.push(cell.cache.name().to_owned());
    if cell.launch == DEPENDENT {
        words.push(format!("{DEPENDENT} launches"));
    }
    if cell.plan != plimsoll::bench::PLANNED {
        words.push(cell.plan.clone());
    }
    plimsoll_report::text::clean(&words.join(", "))
}

fn page(explanation: &Explanation, format: Format) -> String {
    let (heading, subject) = match &explanation.forecast.custom {
        Some(custom) => (custom::heading(explanation), custom::facts(custom, format)),
        None => (heading(explanation), plan(explanation, format)),
    };
    let (words, times, counts) = (explanation.words(), times(explanation).render(format), counts(explanation, format));
    format!("{heading}\n\n{words}\n\n{subject}\n{times}\n{counts}")
}

/// The plan with its reasons.
fn plan(explanation: &Explanation, format: Format) -> String {
    let Some(plan) = &explanation.forecast.plan else {
        return "No plan: this device has no kernel plans.\n".to_owned();
    };
    let mut sheet = Sheet::new([("plan", ALWAYS), ("", ALWAYS), ("because", ALWAYS)]);
    for reason in &plan.reasons {
        sheet.row([reason.what.to_owned(), reason.chosen.clone(), reason.why.clone()]);
    }
    sheet.render(format)
}

/// Microseconds with four digits.
fn micro(seconds: f64) -> String {
    let value = 1e6 * seconds;
    let digits = if value == 0.0 { 0 } else { (3 - value.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{value:.*}", usize::try_from(digits).unwrap_or(0))
}

fn between(Interval { lo, hi }: Interval) -> String {
    format!("{} … {}", micro(lo), micro(hi))
}

/// Each term, their sum, what was measured and what is left.
fn times(explanation: &Explanation) -> Sheet<4> {
    let mut sheet = Sheet::new([("term", ALWAYS), ("µs", ALWAYS), ("from … to", ALWAYS), ("", ALWAYS)]);
    for (term, Estimate { value, interval }, how) in rows(explanation) {
        sheet.row([term, micro(value), between(interval), how]);
    }
    for missing in &explanation.forecast.prediction.missing {
        let why = format!("not known: {}", missing.key);
        sheet.row([missing.kind.to_string(), "?".to_owned(), String::new(), why]);
    }
    sheet
}

fn rows(explanation: &Explanation) -> Vec<(String, Estimate, String)> {
    let prediction = &explanation.forecast.prediction;
    let mut rows: Vec<(String, Estimate, String)> = Vec::new();
    for part in &prediction.parts {
        let how = if part.kind.overlaps() { "at the same time" } else { "added" };
        rows.push((part.kind.to_string(), part.seconds, how.to_owned()));
    }
    rows.extend(prediction.total.map(|total| ("predicted".to_owned(), total, String::new())));
    rows.extend(explanation.measured.as_ref().map(|line| {
        let moves = line.bandwidth.value > 0.0;
        let bandwidth = moves.then(|| Unit::BytePerSecond.format(line.bandwidth.value));
        let flags = (!line.flags.is_empty()).then(|| line.flags.to_string());
        let how: Vec<String> = bandwidth.into_iter().chain(flags).collect();
        let time = Estimate { value: line.time.value, interval: line.time.interval };
        ("measured".to_owned(), time, how.join(", "))
    }));
    rows.extend(explanation.residue().map(|left| {
        let time = Estimate { value: left.seconds, interval: left.interval };
        ("residue".to_owned(), time, format!("{:+.1} % of what was measured", 100.0 * left.share))
    }));
    rows
}

fn counts(explanation: &Explanation, format: Format) -> String {
    if explanation.counted.is_empty() {
        let why = if explanation.uncounted.is_empty() { "nothing was measured" } else { &explanation.uncounted };
        return format!("No hardware counters: {why}\n");
    }
    let mut sheet = Sheet::new([("counted per launch", ALWAYS), ("", ALWAYS), ("expected", ALWAYS)]);
    let traffic = explanation.cell.traffic;
    let issued = explanation.forecast.description.instructions.get(&plimsoll::predict::model::Pipe::Issue);
    for metric in counted::metrics() {
        let Some(value) = explanation.counted.get(&*metric.name) else { continue };
        let expected = match &*metric.name {
            counted::DRAM_READ if explanation.cell.cache.is_cold() => Unit::Byte.format(traffic.read as f64),
            counted::DRAM_WRITTEN if explanation.cell.cache.is_cold() => Unit::Byte.format(traffic.written as f64),
            counted::INSTRUCTIONS => issued.map(|count| Unit::One.format(*count)).unwrap_or_default(),
            _ => String::new(),
        };
        sheet.row([metric.name.to_string(), metric.unit.format(*value), expected]);
    }
    sheet.render(format)
}

/// A row for each term of each explanation.
fn csv(all: &[Explanation]) -> String {
    let mut sheet = Sheet::new([
        ("expression", ALWAYS),
        ("types", ALWAYS),
        ("cache", ALWAYS),
        ("launch", ALWAYS),
        ("plan", ALWAYS),
        ("bytes", ALWAYS),
        ("bytes_moved", ALWAYS),
        ("term", ALWAYS),
        ("seconds", ALWAYS),
        ("from", ALWAYS),
        ("to", ALWAYS),
    ]);
    for explanation in all {
        let cell = &explanation.cell;
        for (term, Estimate { value, interval }, _) in rows(explanation) {
            sheet.row([
                cell.expression.clone(),
                cell.types.clone(),
                cell.cache.name().to_owned(),
                cell.launch.to_owned(),
                cell.plan.clone(),
                cell.bytes.to_string(),
                cell.traffic.total().to_string(),
                term,
                format!("{value:e}"),
                format!("{:e}", interval.lo),
                format!("{:e}", interval.hi),
            ]);
        }
    }
    sheet.render(Format::Csv)
}

fn to_json(explanation: &Explanation) -> Result<Value, serde_json::Error> {
    let (cell, forecast) = (&explanation.cell, &explanation.forecast);
    let prediction = &forecast.prediction;
    let measured = explanation.measured.as_ref().map(|line| {
        json!({
            "seconds": line.time.value,
            "interval": line.time.interval,
            "bandwidth": line.bandwidth.value,
            "of_peak": line.of_peak,
            "flags": line.flags.to_string(),
        })
    });
    let residue = explanation
        .residue()
        .map(|left| json!({"seconds": left.seconds, "interval": left.interval, "share_of_measured": left.share}));
    let predicted = json!({
        "seconds": prediction.total.map(|total| total.value),
        "interval": prediction.total.map(|total| total.interval),
        "limiter": prediction.limiter.map(|kind| kind.to_string()),
        "terms": predict::terms(prediction),
        "missing": predict::missing_terms(prediction),
        "instructions_estimated": forecast.estimated,
    });
    Ok(json!({
        "expression": cell.expression,
        "types": cell.types,
        "shape": cell.shape,
        "cache": cell.cache.name(),
        "launch": cell.launch,
        "variant": cell.plan,
        "bytes": cell.bytes,
        "bytes_moved": cell.traffic.total(),
        "machine": explanation.machine.name,
        "figures_from": explanation.origin.name(),
        "plan": forecast.plan.as_ref().map(predict::reasons),
        "kernel": forecast.custom.as_ref().map(custom::to_json),
        "description": serde_json::to_value(&forecast.description)?,
        "predicted": predicted,
        "measured": measured,
        "unmeasured": explanation.unmeasured,
        "residue": residue,
        "counted": explanation.counted,
        "uncounted": explanation.uncounted,
        "words": explanation.words(),
        "figures": predict::figures(&explanation.machine),
    }))
}
