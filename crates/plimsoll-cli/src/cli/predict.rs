//! `plimsoll predict`: prints the predicted time of an elementwise expression, term by term, on this or another machine. The
//! model is in the library.

use std::path::Path;

use plimsoll::bench::{PLANNED, Point, variants};
use plimsoll::core::stats::Interval;
use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::predict::model::{Cache, Estimate, LaunchForm, Machine, Missing, Part, Prediction};
use plimsoll::predict::{
    Choose, KnownMachine, KnownMachineError, Outcome, Plan, Predictor, Tools, find_machine, from_profile,
};
use plimsoll::sass::{Disassembler, Nvrtc};
use plimsoll::suite::profile::Profile;
use plimsoll_report::json;
use serde_json::{Value, json};

use super::args::{Format, PredictArgs, PredictLaunch};
use super::exit::{Exit, Failure, say};
use super::sheet::{ALWAYS, Sheet};
use super::{bench, expression, output};

const DEFAULT_SIZES: &str = "64KiB..2GiB";

pub(crate) fn run(args: &PredictArgs) -> Result<Exit, Failure> {
    let mut request = expression::parse_request(&args.subject.expression, &args.subject.meaning)?;
    request.sizes = bench::parse_sizes(args.bytes.as_deref().unwrap_or(DEFAULT_SIZES))?;
    request.variants = variants(&args.variant).map_err(Failure::usage)?;
    let points = request.points().map_err(|error| expression::failure(&error))?;
    let known = load_machine(&args.machine)?;
    let cache = if args.hot { Cache::Hot } else { Cache::Cold };
    let launch = launch_form(&known, args);
    let (nvrtc, disassembler) = tools(args.estimate, args.nvrtc.as_deref(), args.nvdisasm.as_deref());
    let tools = nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
    let mut predictor = Predictor::new(&known, tools);
    let predict = |point: &Point| {
        let choose = Choose { dependent: args.dependent, cached: args.hot, ..point.variant.0 };
        predictor.predict(&point.problem, &choose, (cache, launch))
    };
    let outcomes = points.iter().map(predict).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
    output::print(&text(&known, &points, &outcomes, args.format)?)?;
    notes(&known, &outcomes, launch);
    // Without some terms the total is a lower bound; without an essential one there is no total.
    let has_no_total = outcomes.iter().all(|outcome| outcome.prediction.total.is_none());
    Ok(if has_no_total { Exit::Inconclusive } else { Exit::Success })
}

/// The device of a profile if `name` ends in `.json`, else a machine of the catalogue.
fn load_machine(name: &str) -> Result<KnownMachine, Failure> {
    let path = Path::new(name);
    if path.extension().is_none_or(|ending| ending != "json") {
        return find_machine(name).map_err(|error| unknown_machine(&error));
    }
    let profile = Profile::load_any(path).map_err(Failure::usage)?;
    let profile = profile.ok_or_else(|| Failure::file("read", path, "there is no profile, or it is empty"))?;
    from_profile(&profile).map_err(|error| unknown_machine(&error))
}

fn unknown_machine(error: &KnownMachineError) -> Failure {
    Failure::usage(error)
        .hint("`plimsoll peak` lists the machines: h200 was measured, for others there are published figures")
}

fn launch_form(known: &KnownMachine, args: &PredictArgs) -> LaunchForm {
    match (args.launch, args.dependent) {
        (None, dependent) => known.launch(dependent),
        (Some(PredictLaunch::Graph), false) => LaunchForm::Graph,
        (Some(PredictLaunch::Graph), true) => LaunchForm::GraphDependent,
        (Some(PredictLaunch::Stream), false) => LaunchForm::Stream,
        (Some(PredictLaunch::Stream), true) => LaunchForm::StreamDependent,
    }
}

/// The compiler and the disassembler, each if installed; neither if counts are to be estimated.
pub(super) fn tools(
    estimate: bool,
    nvrtc: Option<&Path>,
    nvdisasm: Option<&Path>,
) -> (Option<Nvrtc>, Option<Disassembler>) {
    if estimate {
        return (None, None);
    }
    (Nvrtc::find(nvrtc, None).ok(), Disassembler::find(nvdisasm).ok())
}

/// Prints notes on stderr that hold for every size.
fn notes(known: &KnownMachine, outcomes: &[Outcome], launch: LaunchForm) {
    say("note", &format!("launches follow each other in a {launch}"));
    if known.machine.has_published_terms() {
        let name = &known.machine.name;
        say("note", &format!("the figures of the {name} are published, not measured here: intervals are wider"));
    }
    if outcomes.iter().any(|outcome| outcome.estimated) {
        say(
            "note",
            "instruction counts are estimates; with NVIDIA's compiler and disassembler they are read from machine code",
        );
    }
    let missing = missing(outcomes);
    let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
    if listed.is_empty() {
        return;
    }
    let rest = match outcomes.iter().all(|outcome| outcome.prediction.total.is_some()) {
        true => "launches take at least the time shown",
        false => "there is no total without them",
    };
    say("note", &format!("left out because their figures are missing: {}; {rest}", listed.join(", ")));
}

/// Everything missing for any size, without duplicates.
fn missing(outcomes: &[Outcome]) -> Vec<Missing> {
    let mut all: Vec<Missing> = outcomes.iter().flat_map(|outcome| outcome.prediction.missing.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn text(known: &KnownMachine, points: &[Point], outcomes: &[Outcome], format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        let all = points.iter().zip(outcomes).map(|(point, outcome)| to_json(known, point, outcome));
        return Ok(json::to_text(&all.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?.into()));
    }
    let mut sheet = Sheet::new([
        ("per tensor", ALWAYS),
        ("moved", 1),
        ("time", ALWAYS),
        ("from … to", 2),
        ("bandwidth", ALWAYS),
        ("limited by", ALWAYS),
    ]);
    for (point, outcome) in points.iter().zip(outcomes) {
        let total = outcome.prediction.total;
        let moved = outcome.description.traffic.total();
        let size = ByteSize(point.cell.bytes).to_string();
        sheet.row([
            if point.cell.plan == PLANNED { size } else { format!("{size}, {}", point.cell.plan) },
            ByteSize(moved).to_string(),
            total.map_or("unknown".to_owned(), |total| Unit::Second.format(total.value)),
            total.map_or(String::new(), interval),
            total.map_or(String::new(), |total| Unit::BytePerSecond.format(moved as f64 / total.value)),
            outcome.prediction.limiter.map_or(String::new(), |kind| kind.to_string()),
        ]);
    }
    let mut text = sheet.render(format);
    if let ([outcome], Format::Table | Format::Markdown) = (outcomes, format) {
        text.push('\n');
        text.push_str(&parts(outcome).render(format));
    }
    Ok(text)
}

/// The terms of one launch, each added or running at the same time as others.
fn parts(outcome: &Outcome) -> Sheet<4> {
    let mut sheet = Sheet::new([("term", ALWAYS), ("time", ALWAYS), ("from … to", ALWAYS), ("", ALWAYS)]);
    for Part { kind, seconds } in &outcome.prediction.parts {
        let how = if kind.overlaps() { "at the same time" } else { "added" };
        sheet.row([kind.to_string(), Unit::Second.format(seconds.value), interval(*seconds), how.to_owned()]);
    }
    sheet
}

pub(super) fn interval(Estimate { interval: Interval { lo, hi }, .. }: Estimate) -> String {
    format!("{} … {}", Unit::Second.format(lo), Unit::Second.format(hi))
}

/// A plan's choices with their reasons, as JSON.
pub(super) fn reasons(plan: &Plan) -> Value {
    let reason = plan.reasons.iter();
    reason.map(|reason| json!({"what": reason.what, "chosen": reason.chosen, "why": reason.why})).collect()
}

/// The computed terms, as JSON.
pub(super) fn terms(prediction: &Prediction) -> Value {
    let term = |part: &Part| {
        json!({
            "term": part.kind.to_string(),
            "seconds": part.seconds.value,
            "interval": part.seconds.interval,
            "added": !part.kind.overlaps(),
        })
    };
    prediction.parts.iter().map(term).collect()
}

/// The terms that could not be computed, with the figures they need, as JSON.
pub(super) fn missing_terms(prediction: &Prediction) -> Value {
    let missing = prediction.missing.iter();
    missing.map(|missing| json!({"term": missing.kind.to_string(), "wants": missing.key.to_string()})).collect()
}

/// A machine's figures with their sources, as JSON.
pub(super) fn figures(machine: &Machine) -> Value {
    let figures = machine.terms.iter().map(|(key, term)| {
        json!({
            "figure": key.to_string(),
            "value": term.value,
            "interval": term.interval,
            "source": term.source,
            "published": term.published,
        })
    });
    figures.collect()
}

fn to_json(known: &KnownMachine, point: &Point, outcome: &Outcome) -> Result<Value, serde_json::Error> {
    let prediction = &outcome.prediction;
    let moved = outcome.description.traffic.total();
    Ok(json!({
        "machine": known.machine.name,
        "published": known.machine.has_published_terms(),
        "bytes": point.cell.bytes,
        "bytes_moved": moved,
        "seconds": prediction.total.map(|total| total.value),
        "interval": prediction.total.map(|total| total.interval),
        "bandwidth": prediction.total.map(|total| moved as f64 / total.value),
        "limiter": prediction.limiter.map(|kind| kind.to_string()),
        "terms": terms(prediction),
        "missing": missing_terms(prediction),
        "description": serde_json::to_value(&outcome.description)?,
        "instructions_estimated": outcome.estimated,
        "variant": point.cell.plan,
        "plan": reasons(&outcome.plan),
        "figures": figures(&known.machine),
    }))
}
