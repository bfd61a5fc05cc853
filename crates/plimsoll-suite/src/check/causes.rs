//! Why a figure is low, and the sentence that sums up a check.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::{Flag, Flags};

use super::{Check, DISTURBED, Row, State, Verdict, origins, with_article};
use crate::expected::Origin;

/// Flags that explain a low figure, with the words for it.
const EXPLAINING: [(Flag, &str); 10] = [
    (Flag::ThrottleThermal, "too hot"),
    (Flag::ThrottleHw, "braked by the board"),
    (Flag::LinkDegraded, "the link runs narrower than it can"),
    (Flag::Ecc, "memory errors were corrected"),
    (Flag::ThrottlePower, "power limit"),
    (Flag::ClockLow, "low clock"),
    (Flag::Cotenant, "another process used the device"),
    (Flag::Steal, "the hypervisor took processor time away"),
    (Flag::CpuQuota, "the container's CPU quota"),
    (Flag::Preempted, "the system interrupted it"),
];

/// Why a row is low or unclear, likeliest cause first; for other rows, what limited it.
pub(super) fn of_row(row: &Row, flags: Flags, info: &DeviceInfo) -> String {
    match row.state {
        State::Impossible => "above the theoretical peak: a fault of plimsoll, please report it".to_owned(),
        State::Low => join(low_causes(row, flags, info)),
        State::Unclear => {
            let disturbed = EXPLAINING.iter().filter(|(flag, _)| DISTURBED.contains(flag) && flags.contains(*flag));
            let mut why: Vec<String> = disturbed.map(|(_, words)| (*words).to_owned()).collect();
            if info.health.other_processes.unwrap_or(0) > 0 && !flags.contains(Flag::Cotenant) {
                why.push("another process had the device open".to_owned());
            }
            if why.is_empty() { "its interval is wider than the expected range".to_owned() } else { join(why) }
        }
        State::Ok | State::Unjudged => {
            let limited = [Flag::ThrottlePower, Flag::ThrottleThermal].iter().find(|flag| row.flags.contains(**flag));
            let words = limited.and_then(|flag| EXPLAINING.iter().find(|(known, _)| known == flag));
            words.map(|(_, words)| (*words).to_owned()).unwrap_or_default()
        }
    }
}

fn join(causes: Vec<String>) -> String {
    causes.join(", ")
}

fn low_causes(row: &Row, flags: Flags, info: &DeviceInfo) -> Vec<String> {
    let health = &info.health;
    let mut causes = Vec::new();
    if row.probe == "transfer" {
        match (health.link, health.link_most) {
            (Some(now), Some(most)) if now != most => causes.push(format!("the link runs {now} instead of {most}")),
            (Some(now), _) => causes.push(format!("the link is {now}")),
            _ => {}
        }
        return causes;
    }
    if let (Some(now), Some(default)) = (health.power_limit, health.power_limit_default)
        && now < 0.99 * default
        && (flags.contains(Flag::ThrottlePower) || row.probe == "roofline" || row.probe == "tensor")
    {
        causes.push(format!("power limit of {now:.0} W, lowered from {default:.0} W"));
    }
    let is_new = |words: &str, causes: &[String]| !causes.iter().any(|cause| cause.starts_with(words));
    for (flag, words) in EXPLAINING {
        if flags.contains(flag) && flag != Flag::LinkDegraded && is_new(words, &causes) {
            causes.push(words.to_owned());
        }
    }
    if let (Some(most), Some(clock)) = (health.clock_most, info.calibration.clock_hz)
        && clock < 0.97 * most
        && !flags.contains(Flag::ThrottlePower)
    {
        let hertz = |value| plimsoll_core::unit::Unit::Hertz.format(value);
        causes.push(format!("the clock is {} instead of {}: locked or limited", hertz(clock), hertz(most)));
    }
    if health.on_battery == Some(true) {
        causes.push("the machine runs on its battery".to_owned());
    }
    causes
}

/// The sentence that sums up a check.
pub(super) fn explain(check: &Check, info: &DeviceInfo) -> String {
    let of = |state: State| check.rows.iter().filter(move |row| row.state == state);
    let doubtful = || of(State::Unclear).chain(of(State::Impossible));
    let (ok, low, unclear) = (of(State::Ok).count(), of(State::Low).count(), doubtful().count());
    let judged = ok + low + unclear;
    let notes = check.notes.iter().filter(|note| note.state == State::Low).count();
    let noted = match notes {
        0 => String::new(),
        1 => "; 1 note".to_owned(),
        n => format!("; {n} notes"),
    };
    let basis = describe_basis(check);
    match check.verdict {
        Verdict::Healthy => {
            format!("healthy: {ok} of {judged} figures are where {} should be ({basis}){noted}.", with_article(info))
        }
        Verdict::Slow => {
            let worst = of(State::Low).max_by(|a, b| a.shortfall().total_cmp(&b.shortfall()));
            let worst = worst.map_or_else(String::new, describe_low);
            let figures = if judged == 1 { "figure is" } else { "figures are" };
            format!("slow: {low} of {judged} {figures} worse than expected ({basis}). {worst}")
        }
        Verdict::Broken => {
            let bad = check.notes.iter().filter(|note| note.state == State::Impossible);
            let bad: Vec<String> = bad.map(|note| format!("{}: {}", note.name, note.text)).collect();
            format!("broken: {}. Take the device out of service.", bad.join("; "))
        }
        Verdict::Unknown => {
            let first = doubtful().next().map_or_else(String::new, |row| format!("{}: {}", row.headline.name, row.why));
            format!("unknown: {unclear} of {judged} figures can't be judged. {first}. Check again on an idle device.")
        }
        Verdict::NotJudged => {
            format!("not judged: nothing is known about {} to compare with; no errors were found.", with_article(info))
        }
    }
}

fn describe_low(row: &Row) -> String {
    let cause =
        if row.why.is_empty() { "no cause is visible".to_owned() } else { format!("likely cause: {}", row.why) };
    format!("Worst: {}, {:.1} % below; {cause}.", row.headline.name, 100.0 * row.shortfall())
}

fn describe_basis(check: &Check) -> String {
    let words = |(origin, n): &(Origin, usize)| match origin {
        Origin::Measured { .. } => origin.describe(),
        Origin::Published { .. } => format!("{n} published"),
        Origin::Rule { .. } => format!("{n} by rule"),
    };
    origins(&check.rows).iter().map(words).collect::<Vec<_>>().join(", ")
}
