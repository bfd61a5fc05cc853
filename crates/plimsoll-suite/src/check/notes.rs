//! The facts of a check other than its figures: clocks and power while measuring, memory errors, the link, wrong results.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::health::Health;
use plimsoll_core::record::Run;
use plimsoll_core::sample::Evidence;
use plimsoll_core::unit::Unit;
use plimsoll_core::{FaultClass, Flag};

use super::{DIGESTS, State};

/// A fact with its judgement. [`State::Impossible`] means that the device is broken, [`State::Low`] that it is worth a note.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// What it is about: `memory errors`.
    pub name: &'static str,
    /// The fact in plain words.
    pub text: String,
    /// The judgement.
    pub state: State,
}

impl Note {
    /// The word in tables and in JSON.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self.state {
            State::Impossible => "broken",
            State::Low => "note",
            State::Ok => "ok",
            State::Unclear => "unclear",
            State::Unjudged => "–",
        }
    }
}

fn note(name: &'static str, text: String, state: State) -> Note {
    Note { name, text, state }
}

/// The facts about one device of a run.
pub(super) fn collect(run: &Run, device: u32, info: &DeviceInfo) -> Vec<Note> {
    let health = &info.health;
    let notes = [clocks(run, device, health), link(health), power_limit(health), memory_errors(run, device, health)];
    notes.into_iter().flatten().chain([wrong_results(run, device)]).chain(circumstances(health)).collect()
}

/// Range of the clock, temperature, and the time at a limit.
fn clocks(run: &Run, device: u32, health: &Health) -> Option<Note> {
    let evidence = || {
        let own = run.series.iter().filter(|series| series.spec.device == device);
        own.flat_map(|series| &series.rows).flat_map(|row| &row.points).map(|point| &point.evidence)
    };
    let clocks: Vec<f64> = evidence().filter_map(|known| known.clock_hz).collect();
    let least = clocks.iter().copied().reduce(f64::min)?;
    let most = clocks.iter().copied().reduce(f64::max)?;
    let seconds =
        |is_so: fn(&Evidence) -> bool| -> f64 { evidence().filter(|known| is_so(known)).map(|known| known.wall).sum() };
    let limits = [
        ("at the power limit", seconds(|known| known.throttle.power)),
        ("too hot", seconds(|known| known.throttle.thermal)),
        ("braked by the board", seconds(|known| known.throttle.hardware)),
    ];
    let mut text = Unit::Hertz.format_range(least, most);
    if let Some(celsius) = health.temperature {
        text += &format!(", {celsius:.0} °C");
    }
    for (what, seconds) in limits.iter().filter(|(_, seconds)| *seconds > 0.0) {
        text += &format!(", {seconds:.1} s {what}");
    }
    let limited = limits.iter().any(|(_, seconds)| *seconds > 0.0);
    Some(note("clocks", text, if limited { State::Low } else { State::Ok }))
}

/// The link to the host, if it is narrower or slower than it could be. The description of the device names a good one.
fn link(health: &Health) -> Option<Note> {
    let (now, most) = (health.link?, health.link_most?);
    (now != most).then(|| {
        let state = if now.lanes < most.lanes { State::Low } else { State::Ok };
        note("link", format!("{now}; device and slot can run {most}"), state)
    })
}

fn power_limit(health: &Health) -> Option<Note> {
    let (now, default) = (health.power_limit?, health.power_limit_default?);
    let lowered = now < 0.99 * default;
    lowered.then(|| note("power limit", format!("{now:.0} W, lowered from {default:.0} W"), State::Low))
}

fn memory_errors(run: &Run, device: u32, health: &Health) -> Option<Note> {
    let uncorrected = health.uncorrected_errors?;
    let rows = health.remapped_rows;
    let corrected = health.corrected_errors.unwrap_or(0);
    let own = run.series.iter().filter(|series| series.spec.device == device);
    let while_measuring = own.flat_map(|series| &series.rows).any(|row| row.flags.contains(Flag::Ecc));
    let mut text = format!("{uncorrected} uncorrectable, {corrected} corrected");
    if let Some(rows) = rows {
        text += &format!(", {} remapped rows", rows.corrected + rows.uncorrected);
        text += if rows.failed { ", remapping failed" } else { "" };
        text += if rows.pending { ", remapping pending until the next reset" } else { "" };
    }
    text += if while_measuring { ", some while measuring" } else { "" };
    let state = if uncorrected > 0 || rows.is_some_and(|rows| rows.failed) {
        State::Impossible
    } else if while_measuring || rows.is_some_and(|rows| rows.pending) {
        State::Low
    } else {
        State::Ok
    };
    Some(note("memory errors", text, state))
}

/// Probe and finding that count the bytes of memory that were read back.
pub(super) const PATTERN: (&str, &str) = ("pattern", "bytes checked");

fn wrong_results(run: &Run, device: u32) -> Note {
    let own = |fault: &&plimsoll_core::record::FaultRecord| fault.device == device && fault.class == FaultClass::Verify;
    let wrong: Vec<&plimsoll_core::record::FaultRecord> = run.faults.iter().filter(own).collect();
    if let [first, ..] = wrong[..] {
        let more = if wrong.len() > 1 { format!(" (and {} more)", wrong.len() - 1) } else { String::new() };
        return note("wrong results", format!("{}: {}{more}", first.probe, first.what), State::Impossible);
    }
    let own = || run.findings.iter().filter(|finding| finding.device == device);
    let checked = own().find(|finding| (finding.probe.as_str(), finding.name.as_str()) == PATTERN);
    let text = match checked {
        Some(finding) => format!("none in {} of memory and every kernel", Unit::Byte.format(finding.value)),
        None => "none in any kernel".to_owned(),
    };
    let agreed = match own().filter(|finding| finding.probe == DIGESTS).count() {
        0 => String::new(),
        count => format!("; every SM has the same {count} digests"),
    };
    note("wrong results", text + &agreed, State::Ok)
}

/// Circumstances that may lower figures.
fn circumstances(health: &Health) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(processes @ 1..) = health.other_processes {
        let plural = if processes == 1 { "process has" } else { "processes have" };
        notes.push(note("other processes", format!("{processes} other {plural} the device open"), State::Low));
    }
    if health.on_battery == Some(true) {
        notes.push(note("power", "the machine runs on its battery".to_owned(), State::Low));
    }
    notes
}
