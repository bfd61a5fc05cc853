//! `plimsoll explain`: an elementwise expression's plan, what it should cost, what it costs, and where the difference lies. The
//! explanation is the library's; here it is asked for and printed.

use plimsoll::bench::{Ask, DEPENDENT, Point, variants};
use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::core::{counted, stats::Interval};
use plimsoll::explain::{Explanation, Subject, explanations, uncounted};
use plimsoll::predict::Tools;
use plimsoll::predict::model::Estimate;
use plimsoll::prelude::Request;
use plimsoll_report::json;
use serde_json::{Value, json};

use super::args::{ExplainArgs, Format};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{bench, expression, output, predict, profile};

/// Bytes of the widest tensor where none are asked for.
const USUAL: u64 = 256 << 20;

pub(crate) fn run(args: &ExplainArgs) -> Result<Exit, Failure> {
    let ask = ask(args)?;
    let mut points = ask.points().map_err(|error| expression::failure(&error))?;
    let elsewhere = || format!("without the device: `plimsoll predict '{}' --machine h200`", args.expression);
    if args.device.device == "none" {
        return Err(Failure::usage("an explanation needs a device to measure on").hint(elsewhere()));
    }
    let mut device = bench::open(&args.device).map_err(|failure| failure.hint(elsewhere()))?;
    let info = device.info().clone();
    if args.bytes.is_none() && args.meaning.inputs.is_empty() {
        shrunk(&ask, &mut points, &info)?;
    }
    let known = profile::known(&args.profile, &info);
    let known = known.as_ref().map(|(_, profile)| profile);
    let table = profile::plans(&args.profile, &info);
    let subject = Subject::of(&mut device, known, table.as_ref())?;
    let why_not = if args.no_counters { "it was not asked for".to_owned() } else { uncounted(&device) };
    let request =
        Request { effort: args.run.effort, seed: args.run.seed, counters: !args.no_counters, ..Request::default() };
    let timed = bench::timed(&mut device, &points, table.as_ref(), request, args.run.out.as_deref())?;
    let (nvrtc, disassembler) = predict::tools(args.estimate, args.device.nvrtc.as_deref(), args.nvdisasm.as_deref());
    let tools = nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
    if let Some(run) = &timed.run {
        let all = explanations(&subject, &points, run, &why_not, tools);
        output::print(&text(&all, args.format)?)?;
        notes(&subject, &all);
    }
    timed.end()
}

fn ask(args: &ExplainArgs) -> Result<Ask, Failure> {
    let mut ask = expression::ask(&args.expression, &args.meaning)?;
    ask.name = args.timing.name.as_ref().map(|name| name.chars().take(80).collect());
    ask.variants = variants(&args.variant).map_err(Failure::usage)?;
    ask.sizes = match &args.bytes {
        Some(text) => bench::read_sizes(text)?,
        None => vec![USUAL],
    };
    ask.caches = args.timing.caches();
    ask.launches = args.timing.launches();
    Ok(ask)
}

/// The usual size as far as it fits into the memory.
fn shrunk(ask: &Ask, points: &mut Vec<Point>, info: &plimsoll::prelude::DeviceInfo) -> Result<(), Failure> {
    let mut size = USUAL;
    bench::fitting(points, info);
    while points.is_empty() && size > 1 << 20 {
        size /= 4;
        *points = Ask { sizes: vec![size], ..ask.clone() }.points().map_err(|error| expression::failure(&error))?;
        bench::fitting(points, info);
    }
    Ok(())
}

/// What a reader has to know beside the figures.
fn notes(subject: &Subject, all: &[Explanation]) {
    let lacking = subject.lacking();
    let ways = if lacking.is_empty() { String::new() } else { format!(": `plimsoll measure {}`", lacking.join(" ")) };
    say("note", &format!("the prediction is from {}{ways}", subject.origin()));
    if all.iter().any(|one| one.forecast.estimated) {
        let why =
            "instructions are rough counts: with NVIDIA's compiler and disassembler they are read from machine code";
        say("note", why);
    }
}

fn text(all: &[Explanation], format: Format) -> Result<String, Failure> {
    match format {
        Format::Json => {
            let values = all.iter().map(value).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
            Ok(json::text(&values.into()))
        }
        Format::Csv => Ok(csv(all)),
        Format::Table | Format::Markdown => {
            let pages: Vec<String> = all.iter().map(|one| page(one, format)).collect();
            Ok(pages.join("\n"))
        }
    }
}

/// `erf, bf16, 1 GiB per tensor, 2 GiB moved, cold`.
fn heading(of: &Explanation) -> String {
    let cell = &of.cell;
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

fn page(of: &Explanation, format: Format) -> String {
    let mut text = format!("{}\n\n", heading(of));
    match &of.forecast.plan {
        Some(plan) => {
            let mut sheet = Sheet::new([("plan", ALWAYS), ("", ALWAYS), ("because", ALWAYS)]);
            for reason in &plan.reasons {
                sheet.row([reason.what.to_owned(), reason.chosen.clone(), reason.why.clone()]);
            }
            text += &sheet.render(format);
        }
        None => text += "No plan: this device runs expressions in its own way.\n",
    }
    text += &format!("\n{}\n{}\n", times(of).render(format), counts(of, format));
    text + &of.words() + "\n"
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
fn times(of: &Explanation) -> Sheet<4> {
    let mut sheet = Sheet::new([("term", ALWAYS), ("µs", ALWAYS), ("from … to", ALWAYS), ("", ALWAYS)]);
    for (term, Estimate { value, interval }, how) in rows(of) {
        sheet.row([term, micro(value), between(interval), how]);
    }
    for missing in &of.forecast.prediction.missing {
        let why = format!("not known: {}", missing.key);
        sheet.row([missing.kind.to_string(), "?".to_owned(), String::new(), why]);
    }
    sheet
}

fn rows(of: &Explanation) -> Vec<(String, Estimate, String)> {
    let prediction = &of.forecast.prediction;
    let mut rows: Vec<(String, Estimate, String)> = Vec::new();
    for part in &prediction.parts {
        let how = if part.kind.overlaps() { "at the same time" } else { "added" };
        rows.push((part.kind.to_string(), part.seconds, how.to_owned()));
    }
    rows.extend(prediction.total.map(|total| ("predicted".to_owned(), total, String::new())));
    rows.extend(of.measured.as_ref().map(|line| {
        let bandwidth = Unit::BytePerSecond.format(line.bandwidth.value);
        let flags = if line.flags.is_empty() { String::new() } else { format!(", {}", line.flags) };
        let time = Estimate { value: line.time.value, interval: line.time.interval };
        ("measured".to_owned(), time, bandwidth + &flags)
    }));
    rows.extend(of.residue().map(|left| {
        let time = Estimate { value: left.seconds, interval: left.interval };
        ("residue".to_owned(), time, format!("{:+.1} % of what was measured", 100.0 * left.share))
    }));
    rows
}

fn counts(of: &Explanation, format: Format) -> String {
    if of.counted.is_empty() {
        return format!("Not counted: {}\n", of.uncounted);
    }
    let mut sheet = Sheet::new([("counted per launch", ALWAYS), ("", ALWAYS), ("expected", ALWAYS)]);
    let traffic = of.cell.traffic;
    let issued = of.forecast.description.instructions.get(&plimsoll::predict::model::Pipe::Issue);
    for metric in counted::metrics() {
        let Some(value) = of.counted.get(&*metric.name) else { continue };
        let expected = match &*metric.name {
            counted::DRAM_READ if of.cell.cache.is_cold() => Unit::Byte.format(traffic.read as f64),
            counted::DRAM_WRITTEN if of.cell.cache.is_cold() => Unit::Byte.format(traffic.written as f64),
            counted::INSTRUCTIONS => issued.map(|count| Unit::One.format(*count)).unwrap_or_default(),
            _ => String::new(),
        };
        sheet.row([metric.name.to_string(), metric.unit.format(*value), expected]);
    }
    sheet.render(format)
}

/// A row for each time of each launch.
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
    for of in all {
        let cell = &of.cell;
        for (term, Estimate { value, interval }, _) in rows(of) {
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

fn value(of: &Explanation) -> Result<Value, serde_json::Error> {
    let (cell, forecast) = (&of.cell, &of.forecast);
    let prediction = &forecast.prediction;
    let measured = of.measured.as_ref().map(|line| {
        json!({
            "seconds": line.time.value,
            "interval": line.time.interval,
            "bandwidth": line.bandwidth.value,
            "of_peak": line.of_peak,
            "flags": line.flags.to_string(),
        })
    });
    let residue = of
        .residue()
        .map(|left| json!({"seconds": left.seconds, "interval": left.interval, "share_of_measured": left.share}));
    let predicted = json!({
        "seconds": prediction.total.map(|total| total.value),
        "interval": prediction.total.map(|total| total.interval),
        "limiter": prediction.limiter.map(|kind| kind.to_string()),
        "terms": predict::terms(prediction),
        "missing": predict::wanted(prediction),
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
        "machine": of.machine.name,
        "figures_from": of.origin.name(),
        "plan": forecast.plan.as_ref().map(predict::reasons),
        "description": serde_json::to_value(&forecast.description)?,
        "predicted": predicted,
        "measured": measured,
        "unmeasured": of.unmeasured,
        "residue": residue,
        "counted": of.counted,
        "uncounted": of.uncounted,
        "words": of.words(),
        "figures": predict::figures(&of.machine),
    }))
}
