//! The machines of a page: each device of each run with its check, and what the first screen says about one of them.

use minijinja::Value;
use serde::Serialize;

use plimsoll_core::device::{DeviceInfo, Peak};
use plimsoll_core::headline::Role;
use plimsoll_core::unit::Unit;
use plimsoll_suite::check::{Check, Note, Row, State, Verdict, check};
use plimsoll_suite::expected::Origin;
use plimsoll_suite::operations::unit;

use super::pieces::{anchor_of, format_percent, format_range_beside, range_picture};
use crate::Report;
use crate::content::Entry;
use crate::text::clean;

/// Most machines of a page.
pub(super) const MOST_MACHINES: usize = 32;
/// Most figures of the verdict that are shown before the fold.
const MOST_GATES: usize = 12;

/// A device of a run.
pub(super) struct Machine<'r> {
    /// Index of the run.
    pub run: usize,
    /// Index into the run's devices.
    pub device: u32,
    /// Safe to show and unique.
    pub label: String,
    pub info: &'r DeviceInfo,
    pub check: Check,
}

/// Every device of every run, up to a limit.
pub(super) fn list_machines<'r>(report: &Report<'r>) -> Vec<Machine<'r>> {
    let mut machines = Vec::new();
    for (run, entry) in report.entries.iter().enumerate() {
        for (place, (info, label)) in entry.run.header.devices.iter().zip(&entry.labels).enumerate() {
            if machines.len() == MOST_MACHINES {
                return machines;
            }
            let device = place as u32;
            let Some(check) = check(entry.run, device, plimsoll_probes::ALL) else { continue };
            machines.push(Machine { run, device, label: label.clone(), info, check });
        }
    }
    machines
}

/// What the page says about one machine.
#[derive(Serialize)]
pub(super) struct MachineView {
    label: String,
    line: Vec<String>,
    verdict: &'static str,
    class: &'static str,
    sentence: String,
    gates: Vec<Gate>,
    more: Vec<Gate>,
    notes: Vec<NoteView>,
    hidden: Vec<String>,
    facts: Vec<(String, String)>,
    sources: Vec<String>,
}

/// A headline figure with its judgement.
#[derive(Clone, Serialize)]
pub(super) struct Gate {
    id: String,
    name: &'static str,
    measured: String,
    exact: String,
    expected: String,
    origin: String,
    source: String,
    share: Option<String>,
    pub state: &'static str,
    pub class: &'static str,
    why: String,
    range: Option<Value>,
}

impl Gate {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The figure, and what it should be.
    pub fn value_and_detail(&self) -> (String, String) {
        let share = self.share.as_ref().map(|share| format!("{share} of peak"));
        let expected = (!self.expected.is_empty()).then(|| format!("expected {}", self.expected));
        let why = (!self.why.is_empty()).then(|| self.why.clone());
        (self.measured.clone(), [share, expected, why].into_iter().flatten().collect::<Vec<String>>().join(", "))
    }
}

#[derive(Serialize)]
struct NoteView {
    name: &'static str,
    text: String,
    word: &'static str,
    class: &'static str,
}

pub(super) fn view_machine(report: &Report<'_>, machine: &Machine<'_>) -> MachineView {
    let entry = &report.entries[machine.run];
    let check = &machine.check;
    let (gates, more) = split_rows(&check.rows);
    let views = |rows: Vec<&Row>| rows.into_iter().map(|row| view_row(report, row)).collect();
    MachineView {
        label: machine.label.clone(),
        line: device_line(machine.info),
        verdict: check.verdict.name(),
        class: verdict_class(check.verdict),
        sentence: sentence(check),
        gates: views(gates),
        more: views(more),
        notes: check.notes.iter().map(view_note).collect(),
        hidden: check.hidden.iter().map(|fact| clean(fact)).collect(),
        facts: list_facts(entry, machine),
        sources: list_sources(entry, machine),
    }
}

/// The sentence of a check without the verdict, which stands before it.
pub(super) fn sentence(check: &Check) -> String {
    let name = format!("{}: ", check.verdict.name());
    clean(check.sentence.strip_prefix(&name).unwrap_or(&check.sentence))
}

/// The rows before the fold, in display order, and the rest. Rows that are not as expected are never folded away.
fn split_rows(rows: &[Row]) -> (Vec<&Row>, Vec<&Row>) {
    let is_gate = |row: &Row| row.headline.role == Role::Gate || row.state != State::Unjudged;
    let is_bad = |row: &Row| !matches!(row.state, State::Ok | State::Unjudged);
    let bad = rows.iter().filter(|row| is_bad(row)).count();
    let mut room = MOST_GATES.saturating_sub(bad);
    rows.iter().partition(|row| {
        let fits = is_gate(row) && room > 0 && !is_bad(row);
        room -= usize::from(fits);
        fits || is_bad(row)
    })
}

pub(super) fn view_row(report: &Report<'_>, row: &Row) -> Gate {
    let (origin, source) = match row.expected.as_ref().map(|known| &known.origin) {
        Some(origin @ Origin::Measured { cards, .. }) => {
            (if *cards == 1 { "1 card".to_owned() } else { format!("{cards} cards") }, origin.describe())
        }
        Some(origin) => (origin.name().to_owned(), origin.describe()),
        None => (String::new(), String::new()),
    };
    let measured = &row.measured;
    Gate {
        id: anchor_of(report, row.probe),
        name: row.headline.name,
        measured: clean(&row.unit.format(measured.value)),
        exact: clean(&row.unit.format_with_interval(measured.value, measured.interval.into())),
        expected: row
            .expected
            .as_ref()
            .map_or_else(String::new, |known| format_range_beside(&row.unit, known.interval.into(), measured.value)),
        origin,
        source: clean(&source),
        share: row.of_peak().and_then(format_percent),
        state: row.state.name(),
        class: state_class(row.state),
        why: clean(&row.why),
        range: row.expected.as_ref().and_then(|known| range_picture(measured.value, known.interval.into())),
    }
}

fn view_note(note: &Note) -> NoteView {
    let class = if note.state == State::Low { "unclear" } else { state_class(note.state) };
    NoteView { name: note.name, text: clean(&note.text), word: note.word(), class }
}

pub(super) const fn verdict_class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Healthy => "good",
        Verdict::Slow | Verdict::Broken => "bad",
        Verdict::Unknown => "unclear",
        Verdict::NotJudged => "none",
    }
}

pub(super) const fn state_class(state: State) -> &'static str {
    match state {
        State::Ok => "good",
        State::Low | State::Impossible => "bad",
        State::Unclear => "unclear",
        State::Unjudged => "none",
    }
}

/// Selector, driver, memory, clock, power limit and link: what tells one machine of a model from another.
fn device_line(info: &DeviceInfo) -> Vec<String> {
    let health = &info.health;
    let clock = health.clock_most.or(info.calibration.clock_hz).filter(|hz| *hz > 0.0 && hz.is_finite());
    let memory = (info.memory_total > 0).then(|| Unit::Byte.format(info.memory_total as f64));
    let parts = [
        Some(info.selector.clone()),
        info.architecture.clone(),
        info.driver.as_ref().map(|driver| format!("driver {driver}")),
        memory,
        clock.map(|hz| Unit::Hertz.format(hz)),
        health.power_limit.map(|watts| Unit::Watt.format(watts)),
        health.link.map(|link| link.to_string()),
    ];
    parts.into_iter().flatten().map(|part| clean(&part)).filter(|part| !part.is_empty()).collect()
}

/// The calibrated clock, and the lowest and highest at which points ran.
fn describe_clocks(entry: &Entry<'_>, machine: &Machine<'_>) -> String {
    let calibrated = machine.info.calibration.clock_hz;
    let calibrated = calibrated.map_or_else(|| "not measured".into(), |hz| Unit::Hertz.format(hz));
    let own = entry.run.series.iter().filter(|series| series.spec.device == machine.device);
    let clocks: Vec<f64> = own.flat_map(|series| &series.rows).filter_map(|row| row.clock_hz()).collect();
    let ends = (clocks.iter().copied().reduce(f64::min), clocks.iter().copied().reduce(f64::max));
    match ends {
        (Some(lo), Some(hi)) => {
            let (lo, hi) = (Unit::Hertz.format(lo), Unit::Hertz.format(hi));
            format!("{calibrated} at the start; {lo} to {hi} during the points")
        }
        _ => calibrated,
    }
}

fn describe_peak(peak: &Peak) -> String {
    format!("{} {}", peak.metric, unit(&peak.unit, &peak.metric).format(peak.value))
}

fn list_facts(entry: &Entry<'_>, machine: &Machine<'_>) -> Vec<(String, String)> {
    let (header, device) = (&entry.run.header, machine.info);
    let describe_cache =
        |cache: &plimsoll_core::device::CacheInfo| format!("{} {}", cache.level, Unit::Byte.format(cache.bytes as f64));
    let caches: Vec<String> = device.caches.iter().map(describe_cache).collect();
    let sizes = [device.memory_total, device.memory_free].map(|bytes| Unit::Byte.format(bytes as f64));
    let memory = format!("{}, {} free at the start", sizes[0], sizes[1]);
    let peaks: Vec<String> = device.peaks.iter().map(describe_peak).collect();
    let mut facts = vec![
        ("device", format!("{} ({})", device.name, device.selector)),
        ("architecture", device.architecture.clone().unwrap_or_default()),
        ("driver", device.driver.clone().unwrap_or_default()),
        ("core clock", describe_clocks(entry, machine)),
        ("memory", memory),
        ("caches", caches.join(", ")),
        ("theoretical peaks", peaks.join("; ")),
        ("measured", header.started.clone()),
        ("effort", format!("{}, seed {}", header.effort.name(), header.seed)),
        ("plimsoll", header.tool.clone()),
    ];
    let more = device.notes.iter().chain(&header.host).take(200);
    facts.extend(more.map(|(name, text)| (name.as_str(), text.clone())));
    facts.retain(|(_, text)| !text.is_empty());
    facts.into_iter().map(|(name, text)| (clean(name), clean(&text))).collect()
}

/// Every source of a yardstick and every reason for a missing one, each once; all the device's peaks, used or not.
fn list_sources(entry: &Entry<'_>, machine: &Machine<'_>) -> Vec<String> {
    let source_of_peak =
        |peak: &Peak| format!("peak {}: {}", unit(&peak.unit, &peak.metric).format(peak.value), clean(&peak.source));
    let mut lines: Vec<String> = machine.info.peaks.iter().map(source_of_peak).collect();
    for standing in entry.standings.iter().filter(|standing| standing.device == machine.device) {
        let all = [("ceiling", &standing.ceiling), ("peak", &standing.peak), ("reference", &standing.reference)];
        for (name, yardstick) in all {
            let line = match yardstick {
                Ok(known) => format!("{name} {}: {}", standing.unit.format(known.value), clean(&known.source)),
                Err(why) => format!("no {name}: {why}"),
            };
            if lines.len() < 200 && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.sort_by_key(|line| line.starts_with("no "));
    lines
}
