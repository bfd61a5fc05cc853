//! An explanation in plain words: what limits the launch, what that costs, what would help, and what stays unexplained.

use plimsoll_core::Flag;
use plimsoll_core::model::{Kind, Missing, Pipe, Prediction};
use plimsoll_core::unit::Unit;
use plimsoll_gen::elementwise::Tier;
use plimsoll_suite::bench::DEPENDENT;
use plimsoll_suite::model::probe_of;

use super::{Explanation, Origin, Residue};

/// A residue below this share of the time is within the model's usual error (docs/model.md: half of all launches).
const USUAL_ERROR: f64 = 0.05;

/// Builds the paragraph.
pub(super) fn build_paragraph(explanation: &Explanation) -> String {
    let prediction = &explanation.forecast.prediction;
    let mut sentences = vec![describe_limit(explanation)];
    sentences.extend(suggest_help(explanation));
    sentences.extend(list_missing(explanation));
    sentences.extend(describe_uncounted(explanation));
    sentences.extend(explanation.residue().map(|residue| describe_residue(explanation, residue)));
    if prediction.total.is_none() || explanation.measured.is_none() {
        sentences.extend(describe_missing_residue(explanation));
    }
    if explanation.measured.as_ref().is_some_and(|line| line.flags.contains(Flag::VerifyFail)) {
        let wrong = match explanation.forecast.custom {
            Some(_) => "It wrote beyond the end of a buffer, so its time means nothing.",
            None => "Its results were wrong, so its time means nothing.",
        };
        sentences.push(wrong.to_owned());
    }
    sentences.join(" ")
}

fn format_seconds(value: f64) -> String {
    Unit::Second.format(value)
}

/// The name of a term in a sentence.
fn term_name(kind: Kind) -> String {
    match kind {
        Kind::Pipe(Pipe::Issue) => "arithmetic (instruction issue)".to_owned(),
        Kind::Pipe(Pipe::Lsu) => "loads and stores (lsu pipe)".to_owned(),
        Kind::Pipe(pipe) => format!("arithmetic ({pipe} pipe)"),
        Kind::Launch => "the launch itself".to_owned(),
        other => other.to_string(),
    }
}

fn term_seconds(prediction: &Prediction, kind: Kind) -> f64 {
    prediction.part(kind).map_or(0.0, |part| part.seconds.value)
}

/// The time of the bytes alone: that of the slower memory level.
fn byte_seconds(prediction: &Prediction) -> f64 {
    term_seconds(prediction, Kind::L2).max(term_seconds(prediction, Kind::Memory))
}

fn describe_limit(explanation: &Explanation) -> String {
    let prediction = &explanation.forecast.prediction;
    let Some(kind) = prediction.limiter else {
        return "The limit is unknown: the model has no figure for any term.".to_owned();
    };
    let own = format_seconds(term_seconds(prediction, kind));
    if prediction.total.is_none() {
        return format!(
            "The limit is unknown, because figures for its launch or its bytes are missing; of the known terms {} takes longest: {own}.",
            term_name(kind)
        );
    }
    let head = format!("It is limited by {}", term_name(kind));
    let total =
        prediction.total.map_or(String::new(), |total| format!(" of {} predicted", format_seconds(total.value)));
    match kind {
        Kind::Launch => {
            let bytes = byte_seconds(prediction);
            let moved = if bytes > 0.0 { format!("; its bytes take {}", format_seconds(bytes)) } else { String::new() };
            format!("{head}: {own}{total}{moved}.")
        }
        Kind::Memory | Kind::L2 => {
            let others = prediction.parts.iter().filter(|part| part.kind.overlaps() && !part.kind.is_data_transfer());
            let next = others.max_by(|a, b| a.seconds.value.total_cmp(&b.seconds.value));
            let next = next.map(|next| {
                format!("; next comes {} with {}", term_name(next.kind), format_seconds(next.seconds.value))
            });
            format!("{head}: {own}{total}{}.", next.unwrap_or_default())
        }
        _ => format!(
            "{head}: {own} by itself{total}, compared with {} for its bytes, so it can't run at memory speed.",
            format_seconds(byte_seconds(prediction))
        ),
    }
}

/// What would help, with the model's figure if it has one.
fn suggest_help(explanation: &Explanation) -> Option<String> {
    let prediction = &explanation.forecast.prediction;
    let kind = prediction.limiter.filter(|_| prediction.total.is_some())?;
    let without = |gone: &dyn Fn(Kind) -> bool| prediction.without(gone).map(format_seconds);
    let to = |time: Option<String>| time.map(|time| format!(": {time} without it")).unwrap_or_default();
    Some(match kind {
        Kind::Launch => {
            let dependent = explanation.cell.launch != DEPENDENT
                && explanation.forecast.plan.as_ref().is_some_and(|plan| plan.spec.target.capability >= 90);
            let way = if dependent { ", or dependent launches, which may overlap" } else { "" };
            format!(
                "More work per launch would help: fuse it with neighbouring operations, or batch small tensors{way}{}.",
                to(without(&|k| k == Kind::Launch))
            )
        }
        Kind::Memory if explanation.cell.cache.is_cold() => {
            let cached = without(&|k| matches!(k, Kind::Memory | Kind::Latency | Kind::Tail | Kind::InFlight));
            let cached = cached.map(|time| format!("; from L2 it would take {time}")).unwrap_or_default();
            format!("Only fewer bytes help: narrower types, or fusion with operations on the same tensors{cached}.")
        }
        Kind::Memory => {
            "Less data at a time would stay in L2; otherwise only fewer bytes help: narrower types, or fusion."
                .to_owned()
        }
        Kind::L2 => "Only fewer bytes help: narrower types, or fusion with operations on the same tensors.".to_owned(),
        Kind::InFlight => {
            format!(
                "More bytes in flight would help: wider vectors, more accesses per thread, or more resident threads{}.",
                to(without(&|k| k == Kind::InFlight))
            )
        }
        Kind::Busiest => {
            format!("More and smaller blocks would balance the work better{}.", to(without(&|k| k == Kind::Busiest)))
        }
        Kind::Dispatch => {
            format!(
                "Fewer and larger blocks, or more elements per thread, would help{}.",
                to(without(&|k| k == Kind::Dispatch))
            )
        }
        Kind::Pipe(_) => {
            let own = explanation.forecast.custom.is_some();
            let full = explanation.forecast.plan.as_ref().is_some_and(|plan| plan.spec.tier == Tier::Full);
            let way = if full {
                "the functions of tier=accurate are shorter and as accurate in the result's type (leave out tier=full)"
            } else if own {
                "`plimsoll sass --cubin` counts them by kind"
            } else {
                "shorter functions (a 16-bit result, or the tier `fast`), or fewer operations"
            };
            format!(
                "Fewer instructions would help: {way}{}.",
                to(without(&|k| matches!(k, Kind::Pipe(_) | Kind::Serial)))
            )
        }
        Kind::Latency | Kind::Tail | Kind::Serial => return None,
    })
}

/// The terms that the model could not compute, and the probes that would measure them.
fn list_missing(explanation: &Explanation) -> Option<String> {
    let missing = &explanation.forecast.prediction.missing;
    if missing.is_empty() {
        return None;
    }
    let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
    let mut probes: Vec<&str> = missing.iter().filter_map(|missing| probe_of(missing.key)).collect();
    probes.sort_unstable();
    probes.dedup();
    let gpu = explanation.forecast.plan.is_some() || explanation.forecast.custom.is_some();
    let way = match (probes.is_empty(), gpu) {
        (true, _) => String::new(),
        (false, true) => format!("; measuring {} finds them", probes.join(", ")),
        (false, false) if explanation.origin == Origin::Profile => {
            "; the model doesn't know them for this kind of device".to_owned()
        }
        (false, false) => "; measuring the device finds those that it can".to_owned(),
    };
    let bound =
        if explanation.forecast.prediction.total.is_some() { ", so it takes at least the predicted time" } else { "" };
    Some(format!("Left out because figures are missing: {}{bound}{way}.", listed.join(", ")))
}

/// Why a user's kernel is predicted without its instructions.
fn describe_uncounted(explanation: &Explanation) -> Option<String> {
    let why = &explanation.forecast.custom.as_ref()?.uncounted;
    (!why.is_empty())
        .then(|| format!("Its instructions are left out of the prediction: {}.", why.trim_end_matches('.')))
}

fn describe_residue(explanation: &Explanation, residue: Residue) -> String {
    let Residue { seconds: value, interval, share } = residue;
    let (size, percent) = (format_seconds(value.abs()), 100.0 * share.abs());
    let direction = if value < 0.0 { "faster" } else { "slower" };
    let verdict = if interval.lo <= 0.0 && interval.hi >= 0.0 {
        "within both intervals"
    } else if share.abs() <= USUAL_ERROR {
        "within the model's usual error"
    } else if explanation.forecast.custom.as_ref().is_some_and(|custom| !custom.uncounted.is_empty()) {
        "but the prediction has no terms for its instructions"
    } else if explanation.forecast.estimated {
        "but instructions were rough counts: NVIDIA's compiler and disassembler would improve the prediction"
    } else {
        "which no term explains"
    };
    format!("The device was {size} ({percent:.1} %) {direction} than predicted, {verdict}.")
}

fn describe_missing_residue(explanation: &Explanation) -> Option<String> {
    match (&explanation.measured, explanation.forecast.prediction.total) {
        (None, _) if explanation.unmeasured.is_empty() => Some("It could not be measured.".to_owned()),
        (None, _) => Some(format!("It could not be measured: {}.", explanation.unmeasured)),
        (Some(line), None) => {
            let bytes = byte_seconds(&explanation.forecast.prediction);
            let needed =
                if bytes > 0.0 { format!("; its bytes need {}", format_seconds(bytes)) } else { String::new() };
            Some(format!(
                "It took {}{needed}; without these terms there is no prediction to compare with.",
                format_seconds(line.time.value)
            ))
        }
        _ => None,
    }
}
