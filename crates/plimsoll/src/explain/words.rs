//! An explanation in plain words: what limits, what that costs, what would help, and what stays unexplained.

use plimsoll_core::Flag;
use plimsoll_core::model::{Kind, Missing, Pipe, Prediction};
use plimsoll_core::unit::Unit;
use plimsoll_gen::elementwise::Tier;
use plimsoll_suite::bench::DEPENDENT;
use plimsoll_suite::model::probe_of;

use super::{Explanation, Origin, Residue};

/// Residues below this share of the time are within the model's own error (docs/model.md: half of all launches).
const USUAL_ERROR: f64 = 0.05;

/// The paragraph.
pub(super) fn paragraph(of: &Explanation) -> String {
    let prediction = &of.forecast.prediction;
    let mut sentences = vec![limit(of)];
    sentences.extend(help(of));
    sentences.extend(missing(of));
    sentences.extend(of.residue().map(|residue| unexplained(of, residue)));
    if prediction.total.is_none() || of.measured.is_none() {
        sentences.extend(no_residue(of));
    }
    if of.measured.as_ref().is_some_and(|line| line.flags.contains(Flag::VerifyFail)) {
        sentences.push("Its results were wrong, so its time says nothing.".to_owned());
    }
    sentences.join(" ")
}

fn seconds(value: f64) -> String {
    Unit::Second.format(value)
}

/// What a term is called in a sentence.
fn called(kind: Kind) -> String {
    match kind {
        Kind::Pipe(Pipe::Issue) => "arithmetic (instruction issue)".to_owned(),
        Kind::Pipe(Pipe::Lsu) => "its loads and stores (lsu pipe)".to_owned(),
        Kind::Pipe(pipe) => format!("arithmetic ({pipe} pipe)"),
        Kind::Launch => "the launch itself".to_owned(),
        other => other.to_string(),
    }
}

fn part(prediction: &Prediction, kind: Kind) -> f64 {
    prediction.part(kind).map_or(0.0, |part| part.seconds.value)
}

/// What the bytes take by themselves: the longer of the levels that they go through.
fn bytes(prediction: &Prediction) -> f64 {
    part(prediction, Kind::L2).max(part(prediction, Kind::Memory))
}

fn limit(of: &Explanation) -> String {
    let prediction = &of.forecast.prediction;
    let Some(kind) = prediction.limiter else {
        return "What limits it can't be said: the model has no figure for any of its terms.".to_owned();
    };
    let own = seconds(part(prediction, kind));
    let head = format!("It is limited by {}", called(kind));
    let total = prediction.total.map_or(String::new(), |total| format!(" of {} predicted", seconds(total.value)));
    match kind {
        Kind::Launch => {
            let bytes = bytes(prediction);
            let moved = if bytes > 0.0 { format!("; its bytes take {}", seconds(bytes)) } else { String::new() };
            format!("{head}: {own}{total}{moved}.")
        }
        Kind::Memory | Kind::L2 => {
            let others = prediction.parts.iter().filter(|part| part.kind.overlaps() && !part.kind.is_of_bytes());
            let next = others.max_by(|a, b| a.seconds.value.total_cmp(&b.seconds.value));
            let next =
                next.map(|next| format!("; next comes {} with {}", called(next.kind), seconds(next.seconds.value)));
            format!("{head}: {own}{total}{}.", next.unwrap_or_default())
        }
        _ => format!(
            "{head}: {own} by itself{total}, beside {} for its bytes, so it can't run at the speed of memory alone.",
            seconds(bytes(prediction))
        ),
    }
}

/// What would help, with the model's figure where it has one.
fn help(of: &Explanation) -> Option<String> {
    let prediction = &of.forecast.prediction;
    let kind = prediction.limiter?;
    let without = |gone: &dyn Fn(Kind) -> bool| prediction.without(gone).map(seconds);
    let to = |time: Option<String>| time.map(|time| format!(": {time} without it")).unwrap_or_default();
    Some(match kind {
        Kind::Launch => {
            let dependent = of.cell.launch != DEPENDENT
                && of.forecast.plan.as_ref().is_some_and(|plan| plan.spec.target.capability >= 90);
            let way = if dependent { ", or launches that may overlap (--dependent)" } else { "" };
            format!(
                "More work per launch would help: fuse it with its neighbours, or batch small tensors{way}{}.",
                to(without(&|k| k == Kind::Launch))
            )
        }
        Kind::Memory if of.cell.cache.is_cold() => {
            let cached = without(&|k| matches!(k, Kind::Memory | Kind::Latency | Kind::Tail | Kind::InFlight));
            let cached = cached.map(|time| format!("; from the second level it would take {time}")).unwrap_or_default();
            format!(
                "Only fewer bytes help: narrower types, or fusing it with what reads or writes the same tensors{cached}."
            )
        }
        Kind::Memory => {
            "Less data at a time would stay in the second level; else only fewer bytes help: narrower types, or fusing."
                .to_owned()
        }
        Kind::L2 => {
            "Only fewer bytes help: narrower types, or fusing it with what reads or writes the same tensors.".to_owned()
        }
        Kind::InFlight => {
            format!(
                "More bytes in flight would help: wider vectors, more accesses per thread, or more resident threads{}.",
                to(without(&|k| k == Kind::InFlight))
            )
        }
        Kind::Busiest => {
            format!("More and smaller blocks would spread it better{}.", to(without(&|k| k == Kind::Busiest)))
        }
        Kind::Dispatch => {
            format!(
                "Fewer and larger blocks, or more elements per thread, would help{}.",
                to(without(&|k| k == Kind::Dispatch))
            )
        }
        Kind::Pipe(_) => {
            let full = of.forecast.plan.as_ref().is_some_and(|plan| plan.spec.tier == Tier::Full);
            let way = if full {
                "the functions of the tier accurate are shorter and as good in the result's type (leave out tier=full)"
            } else {
                "shorter functions (a result of 16 bits, or --variant tier=fast), or fewer operations"
            };
            format!(
                "Fewer instructions would help: {way}{}.",
                to(without(&|k| matches!(k, Kind::Pipe(_) | Kind::Serial)))
            )
        }
        Kind::Latency | Kind::Tail | Kind::Serial => return None,
    })
}

/// What the model could not compute, and the probes that would let it.
fn missing(of: &Explanation) -> Option<String> {
    let missing = &of.forecast.prediction.missing;
    if missing.is_empty() {
        return None;
    }
    let listed: Vec<String> = missing.iter().map(|Missing { kind, key }| format!("{kind} ({key})")).collect();
    let mut probes: Vec<&str> = missing.iter().filter_map(|missing| probe_of(missing.key)).collect();
    probes.sort_unstable();
    probes.dedup();
    let gpu = of.forecast.plan.is_some();
    let way = match (probes.is_empty(), gpu) {
        (true, _) => String::new(),
        (false, true) => format!("; `plimsoll measure {}` finds them", probes.join(" ")),
        (false, false) if of.origin == Origin::Profile => "; of such devices the model doesn't know them".to_owned(),
        (false, false) => "; `plimsoll measure` finds what there is of them".to_owned(),
    };
    let bound = if of.forecast.prediction.total.is_some() { ", so it takes at least what is predicted" } else { "" };
    Some(format!("Left out for want of a figure: {}{bound}{way}.", listed.join(", ")))
}

fn unexplained(of: &Explanation, residue: Residue) -> String {
    let Residue { seconds: value, interval, share } = residue;
    let (size, part) = (seconds(value.abs()), 100.0 * share.abs());
    let side = if value < 0.0 { "faster" } else { "slower" };
    let judged = if interval.lo <= 0.0 && interval.hi >= 0.0 {
        "within the intervals of both"
    } else if share.abs() <= USUAL_ERROR {
        "within the model's usual error"
    } else if of.forecast.estimated {
        "and instructions were rough counts: with NVIDIA's compiler and disassembler the prediction would be better"
    } else {
        "which no term explains"
    };
    format!("The device was {size} ({part:.1} %) {side} than predicted, {judged}.")
}

fn no_residue(of: &Explanation) -> Option<String> {
    match (&of.measured, of.forecast.prediction.total) {
        (None, _) if of.unmeasured.is_empty() => Some("It could not be measured.".to_owned()),
        (None, _) => Some(format!("It could not be measured: {}.", of.unmeasured)),
        (Some(line), None) => {
            let bytes = bytes(&of.forecast.prediction);
            let beside = if bytes > 0.0 { format!(", where its bytes need {}", seconds(bytes)) } else { String::new() };
            Some(format!(
                "It took {}{beside}; without these terms there is no prediction to hold it to.",
                seconds(line.time.value)
            ))
        }
        _ => None,
    }
}
