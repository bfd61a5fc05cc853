//! `plimsoll predict`: prints the predicted time of an elementwise expression, term by term, on this or another machine; a lower
//! bound where no prediction is possible. The model is in the library.

mod bound;

use std::collections::BTreeSet;
use std::path::Path;

use plimsoll::bench::{PLANNED, Point, variants};
use plimsoll::core::stats::Interval;
use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::predict::model::{Cache, Estimate, Key, LaunchForm, Machine, Missing, Part, Prediction};
use plimsoll::predict::{
    Bound, Choose, KnownMachine, KnownMachineError, Outcome, Plan, Predictor, Tools, bound_problem, find_machine,
    find_sheet, from_profile,
};
use plimsoll::sass::{Disassembler, Nvrtc};
use plimsoll::suite::machines::Machine as DataSheet;
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
    let subject = Subject::load(&args.machine)?;
    let cache = if args.hot { Cache::Hot } else { Cache::Cold };
    let launch = subject.known.as_ref().map(|known| launch_form(known, args));
    let (nvrtc, disassembler) = tools(args.estimate, args.nvrtc.as_deref(), args.nvdisasm.as_deref());
    let tools = nvrtc.as_ref().zip(disassembler.as_ref()).map(|(nvrtc, disassembler)| Tools { nvrtc, disassembler });
    let mut predictor = subject.known.as_ref().map(|known| Predictor::new(known, tools));
    let answer = |point: &Point| {
        let choose = Choose { dependent: args.dependent, cached: args.hot, ..point.variant.0 };
        let predict = predictor.as_mut().zip(launch);
        let outcome = predict.map(|(predictor, launch)| predictor.predict(&point.problem, &choose, (cache, launch)));
        let moved = point.problem.traffic().total();
        let bound = bound_problem(subject.sheet, &point.problem, cache);
        Ok(Answer { outcome: outcome.transpose().map_err(Failure::usage)?, bound, moved })
    };
    let answers = points.iter().map(answer).collect::<Result<Vec<_>, Failure>>()?;
    output::print(&text(&subject, &points, &answers, args.format)?)?;
    notes(&subject, &answers, launch);
    let answered = answers.iter().any(|answer| answer.total().is_some() || answer.least().is_some());
    Ok(if answered { Exit::Success } else { Exit::Inconclusive })
}

/// The machine that is asked about.
struct Subject {
    /// Its published figures.
    sheet: &'static DataSheet,
    /// What predictions need, where kernels can be planned for it.
    known: Option<KnownMachine>,
}

impl Subject {
    /// The device of a profile if `name` ends in `.json`, else a machine of the catalogue.
    fn load(name: &str) -> Result<Self, Failure> {
        let path = Path::new(name);
        let (name, known) = if path.extension().is_none_or(|ending| ending != "json") {
            (name.to_owned(), find_machine(name))
        } else {
            let profile = Profile::load_any(path).map_err(Failure::usage)?;
            let profile = profile.ok_or_else(|| Failure::file("read", path, "there is no profile, or it is empty"))?;
            (profile.device_name.clone(), from_profile(&profile))
        };
        let known = match known {
            Ok(known) => Some(known),
            Err(KnownMachineError::NotCuda(_)) => None,
            Err(error) => return Err(unknown_machine(&error)),
        };
        let sheet = find_sheet(&name).map_err(|error| unknown_machine(&error.into()))?;
        Ok(Self { sheet, known })
    }
}

/// The answer for one point.
struct Answer {
    /// The prediction, where kernels can be planned.
    outcome: Option<Outcome>,
    /// The least time.
    bound: Bound,
    /// Bytes that a launch moves.
    moved: u64,
}

impl Answer {
    fn total(&self) -> Option<Estimate> {
        self.outcome.as_ref()?.prediction.total
    }

    /// The least time where there is no prediction.
    fn least(&self) -> Option<f64> {
        if self.total().is_none() { self.bound.seconds() } else { None }
    }

    /// What the answer is.
    fn kind(&self) -> &'static str {
        match (self.total(), self.least()) {
            (Some(_), _) => "prediction",
            (None, Some(_)) => "bound",
            (None, None) => "unknown",
        }
    }

    /// The prediction if some of its terms that run at the same time are known.
    fn with_terms(&self) -> Option<&Outcome> {
        self.outcome.as_ref().filter(|outcome| outcome.prediction.parts.iter().any(|part| part.kind.overlaps()))
    }
}

fn unknown_machine(error: &KnownMachineError) -> Failure {
    Failure::usage(error).hint(
        "`plimsoll peak` lists the machines: h200 was measured; of the others figures or only peaks are published",
    )
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
fn notes(subject: &Subject, answers: &[Answer], launch: Option<LaunchForm>) {
    let shows_terms = answers.iter().any(|answer| answer.total().is_some() || answer.with_terms().is_some());
    let outcomes = || answers.iter().filter_map(|answer| answer.outcome.as_ref());
    if let (Some(launch), Some(known), true) = (launch, &subject.known, shows_terms) {
        say("note", &format!("launches follow each other in a {launch}"));
        if known.machine.has_published_terms() {
            let name = &known.machine.name;
            say("note", &format!("the figures of the {name} are published, not measured here: intervals are wider"));
        }
        if outcomes().any(|outcome| outcome.estimated) {
            say(
                "note",
                "instruction counts are estimates; with NVIDIA's compiler and disassembler they are read from machine code",
            );
        }
    }
    let bounds: Vec<&Bound> =
        answers.iter().filter(|answer| answer.total().is_none()).map(|answer| &answer.bound).collect();
    bound::notes(subject.sheet, &bounds);
    let missing = missing(outcomes());
    let name = subject.sheet.name;
    if subject.known.is_none() {
        let why = "plimsoll plans kernels for CUDA GPUs whose SMs and clock are published";
        say("note", &format!("no prediction for the {name}: {why}"));
    } else if !bounds.is_empty() {
        let keys: BTreeSet<Key> = missing.iter().map(|missing| missing.key).collect();
        let listed: Vec<String> = keys.iter().map(Key::to_string).collect();
        say("note", &format!("a prediction needs more figures of the {name}: {}", listed.join(", ")));
    } else if !missing.is_empty() {
        let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
        let listed = listed.join(", ");
        say(
            "note",
            &format!("left out because their figures are missing: {listed}; launches take at least the time shown"),
        );
    }
}

/// Everything missing for any size, without duplicates.
fn missing<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<Missing> {
    let mut all: Vec<Missing> = outcomes.flat_map(|outcome| outcome.prediction.missing.clone()).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn text(subject: &Subject, points: &[Point], answers: &[Answer], format: Format) -> Result<String, Failure> {
    if format == Format::Json {
        let all = points.iter().zip(answers).map(|(point, answer)| to_json(subject, point, answer));
        return Ok(json::to_text(&all.collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?.into()));
    }
    let mut sheet = Sheet::new([
        ("per tensor", ALWAYS),
        ("moved", 1),
        ("time", ALWAYS),
        ("kind", ALWAYS),
        ("from … to", 2),
        ("bandwidth", ALWAYS),
        ("limited by", ALWAYS),
    ]);
    // Predictions are marked only where they stand next to bounds.
    let is_mixed = answers.iter().any(|answer| answer.total().is_none());
    for (point, answer) in points.iter().zip(answers) {
        sheet.row(row(point, answer, is_mixed));
    }
    let mut text = sheet.render(format);
    if let ([answer], Format::Table | Format::Markdown) = (answers, format) {
        if answer.least().is_some() {
            text.push('\n');
            text.push_str(&bound::parts(&answer.bound).render(format));
        }
        if let Some(outcome) = answer.with_terms() {
            text.push('\n');
            text.push_str(&parts(outcome).render(format));
        }
    }
    Ok(text)
}

/// The row of one size and plan.
fn row(point: &Point, answer: &Answer, is_mixed: bool) -> [String; 7] {
    let size = ByteSize(point.cell.bytes).to_string();
    let limiter = answer.outcome.as_ref().and_then(|outcome| outcome.prediction.limiter).map(|kind| kind.to_string());
    let [time, range, bandwidth, limit] = match (answer.total(), answer.least()) {
        (Some(total), _) => [
            Unit::Second.format(total.value),
            interval(total),
            Unit::BytePerSecond.format(answer.moved as f64 / total.value),
            limiter.unwrap_or_default(),
        ],
        (None, Some(least)) => [
            bound::time(least),
            String::new(),
            bound::bandwidth(answer.moved, least),
            answer.bound.limit().map_or(String::new(), |limit| limit.to_string()),
        ],
        (None, None) => ["unknown".to_owned(), String::new(), String::new(), String::new()],
    };
    let kind = if is_mixed && time != "unknown" { answer.kind() } else { "" };
    [
        if point.cell.plan == PLANNED { size } else { format!("{size}, {}", point.cell.plan) },
        ByteSize(answer.moved).to_string(),
        time,
        kind.to_owned(),
        range,
        bandwidth,
        limit,
    ]
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

fn to_json(subject: &Subject, point: &Point, answer: &Answer) -> Result<Value, serde_json::Error> {
    let outcome = answer.outcome.as_ref();
    let prediction = outcome.map(|outcome| &outcome.prediction);
    let machine = subject.known.as_ref().map(|known| &known.machine);
    let total = answer.total();
    let none = || json!([]);
    Ok(json!({
        "machine": machine.map_or(subject.sheet.name, |machine| machine.name.as_str()),
        "published": machine.is_none_or(Machine::has_published_terms),
        "bytes": point.cell.bytes,
        "bytes_moved": answer.moved,
        "answer": answer.kind(),
        "seconds": total.map(|total| total.value),
        "interval": total.map(|total| total.interval),
        "bandwidth": total.map(|total| answer.moved as f64 / total.value),
        "bandwidth_unit": "B/s",
        "limiter": prediction.and_then(|prediction| prediction.limiter).map(|kind| kind.to_string()),
        "bound": bound::to_json(&answer.bound),
        "terms": prediction.map(terms).unwrap_or_else(none),
        "missing": prediction.map(missing_terms).unwrap_or_else(none),
        "description": outcome.map(|outcome| serde_json::to_value(&outcome.description)).transpose()?,
        "instructions_estimated": outcome.map(|outcome| outcome.estimated),
        "variant": point.cell.plan,
        "plan": outcome.map(|outcome| reasons(&outcome.plan)).unwrap_or_else(none),
        "figures": machine.map(figures).unwrap_or_else(none),
    }))
}
