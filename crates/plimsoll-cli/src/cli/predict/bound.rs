//! Where there is no prediction: the least time by a machine's published peaks, as text and as JSON.

use plimsoll::core::unit::{ByteSize, Unit};
use plimsoll::predict::{Bound, BoundPart, Limit};
use plimsoll::suite::machines::Machine;
use serde_json::{Value, json};

use super::super::exit::say;
use super::super::sheet::{ALWAYS, Sheet};

/// The least time, marked as such: `≥ 280 µs`.
pub(super) fn time(seconds: f64) -> String {
    format!("≥ {}", Unit::Second.format(seconds))
}

/// The bandwidth that follows from the least time: `≤ 7.67 TB/s`.
pub(super) fn bandwidth(moved: u64, seconds: f64) -> String {
    format!("≤ {}", Unit::BytePerSecond.format(moved as f64 / seconds))
}

/// Each resource's time at its peak.
pub(super) fn parts(bound: &Bound) -> Sheet<4> {
    let mut sheet = Sheet::new([("bound", ALWAYS), ("time", ALWAYS), ("for", 1), ("at the published peak", 2)]);
    for part in &bound.parts {
        sheet.row([part.limit.to_string(), time(part.seconds()), work(part), part.limit.units().1.format(part.rate)]);
    }
    sheet
}

fn work(part: &BoundPart) -> String {
    match part.limit {
        Limit::Memory => ByteSize(part.work as u64).to_string(),
        Limit::Arithmetic(_) => format!("{:.3e} operations", part.work),
    }
}

/// Prints notes on what the bounds are and where their peaks are from.
pub(super) fn notes(machine: &Machine, bounds: &[&Bound]) {
    let mut peaks: Vec<String> = Vec::new();
    let parts = bounds.iter().flat_map(|bound| &bound.parts);
    for part in parts {
        let peak = format!("{} {}", part.limit, part.limit.units().1.format(part.rate));
        if !peaks.contains(&peak) {
            peaks.push(peak);
        }
    }
    let mut missing: Vec<&str> = bounds.iter().flat_map(|bound| bound.missing.iter().copied()).collect();
    missing.sort_unstable();
    missing.dedup();
    let name = machine.name;
    if !peaks.is_empty() {
        say(
            "note",
            "≥ is a bound, not a prediction: whatever the kernel, a launch takes at least this long at published peaks",
        );
        let (peaks, formula, source) = (peaks.join(", "), machine.bandwidth_formula(), machine.source);
        say("note", &format!("peaks of the {name}: {peaks}; memory is {formula}; source: {source}"));
    }
    if !missing.is_empty() {
        let rest = if peaks.is_empty() { "there is no bound without it" } else { "the bound leaves it out" };
        say("note", &format!("not published for the {name}: {}; {rest}", missing.join(", ")));
    }
}

/// The bound as JSON: numbers, each followed by its unit. `null` if no peak is known for anything that the launch does.
pub(super) fn to_json(bound: &Bound) -> Value {
    let part = |part: &BoundPart| {
        let (work, rate) = part.limit.units();
        json!({
            "limit": part.limit.to_string(),
            "value": part.seconds(),
            "unit": "s",
            "work": part.work,
            "work_unit": work,
            "peak": part.rate,
            "peak_unit": rate.symbol(),
            "source": part.source,
        })
    };
    json!({
        "at_least": bound.seconds(),
        "unit": "s",
        "limit": bound.limit().map(|limit| limit.to_string()),
        "parts": bound.parts.iter().map(part).collect::<Vec<_>>(),
        "missing": bound.missing,
    })
}
