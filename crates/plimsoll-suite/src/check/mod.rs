//! The check: whether a device is what it should be, from the headlines of a run and what the system reports.
//!
//! A figure is low only where its whole interval is worse than expected. It is unclear, and nothing is blamed, where stolen time or
//! another process disturbed it, or where its interval is wider than the expected range.

mod causes;
mod notes;
#[cfg(test)]
mod tests;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::headline::{Better, Headline, Role};
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Run;
use plimsoll_core::series::Estimate;
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;
use plimsoll_core::{FaultClass, Flag, Flags};

use crate::expected::{Expected, Origin, expected};
use crate::headlines::{Figure, figures};

pub use notes::Note;

/// The verdict on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every figure is what it should be.
    Healthy,
    /// A figure is worse than it should be.
    Slow,
    /// A result was wrong, or memory errors could not be corrected.
    Broken,
    /// Something disturbed the measurement, so that nothing can be said.
    Unknown,
    /// Nothing is known to compare with; nothing wrong was found.
    NotJudged,
}

impl Verdict {
    /// The name on screen and in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Slow => "slow",
            Self::Broken => "broken",
            Self::Unknown => "unknown",
            Self::NotJudged => "not judged",
        }
    }

    /// The exit code: 0 for healthy and not judged, 1 for slow and broken, 4 for unknown.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Healthy | Self::NotJudged => 0,
            Self::Slow | Self::Broken => 1,
            Self::Unknown => 4,
        }
    }

    /// How bad it is, for the verdict on several devices.
    #[must_use]
    pub const fn severity(self) -> u8 {
        match self {
            Self::NotJudged => 0,
            Self::Healthy => 1,
            Self::Unknown => 2,
            Self::Slow => 3,
            Self::Broken => 4,
        }
    }
}

/// The state of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// As expected or better.
    Ok,
    /// Worse than expected.
    Low,
    /// Above the theoretical peak: a fault of the measurement.
    Impossible,
    /// Disturbed, or too uncertain to say.
    Unclear,
    /// Nothing is expected, or the figure isn't part of the verdict.
    Unjudged,
}

impl State {
    /// The word in tables and in JSON; `–` where there is no verdict.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Low => "low",
            Self::Impossible => "impossible",
            Self::Unclear => "unclear",
            Self::Unjudged => "–",
        }
    }
}

/// A headline figure with its judgement.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its declaration.
    pub headline: &'static Headline,
    /// The probe that measured it.
    pub probe: &'static str,
    /// The unit of all numbers.
    pub unit: Unit,
    /// The figure with its 95 % interval.
    pub measured: Estimate,
    /// What it should be.
    pub expected: Option<Expected>,
    /// The theoretical peak.
    pub peak: Option<f64>,
    /// The judgement.
    pub state: State,
    /// The flags of the figure.
    pub flags: Flags,
    /// Why it is low or unclear, or what else to know; empty where there is nothing to say.
    pub why: String,
}

impl Row {
    /// The figure as a share of the theoretical peak.
    #[must_use]
    pub fn of_peak(&self) -> Option<f64> {
        Some(self.measured.value / self.peak?)
    }

    /// How much worse than the nearest expected value it is, as a share; 0 where it isn't.
    #[must_use]
    pub fn shortfall(&self) -> f64 {
        let Some(known) = &self.expected else { return 0.0 };
        let bound = worse_bound(self.headline.better, known.interval);
        (1.0 - self.headline.better.ratio(self.measured.value, bound)).max(0.0)
    }
}

/// The check of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Index into the run's devices.
    pub device: u32,
    /// Its headline figures, in display order.
    pub rows: Vec<Row>,
    /// What the system reports, and wrong results.
    pub notes: Vec<Note>,
    /// Facts that can't be seen here, with the reason.
    pub hidden: Vec<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// One sentence that explains it.
    pub sentence: String,
}

impl Check {
    /// Keeps the `top` rows that matter most, in their order: figures that are not as expected before others, and those of the verdict
    /// before those for information. Returns how many are left out. The verdict stays.
    pub fn keep_top(&mut self, top: usize) -> usize {
        let rank = |row: &Row| match row.state {
            State::Impossible | State::Low => 0,
            State::Unclear => 1,
            State::Ok => 2,
            State::Unjudged if row.headline.role == Role::Gate => 3,
            State::Unjudged => 4,
        };
        let mut ranks: Vec<(u8, usize)> = self.rows.iter().map(rank).zip(0..).collect();
        ranks.sort_unstable();
        let kept = &ranks[..top.min(ranks.len())];
        let mut place = 0;
        self.rows.retain(|_| {
            place += 1;
            kept.iter().any(|(_, known)| known + 1 == place)
        });
        ranks.len() - kept.len()
    }
}

/// The probe whose findings are digests of what every SM computed, by kind of arithmetic.
pub const DIGESTS: &str = "digest";

/// Whether `check` runs a probe: it declares a figure of the verdict, or it looks for wrong results.
#[must_use]
pub fn is_checked(probe: &ProbeSpec) -> bool {
    [notes::PATTERN.0, DIGESTS].contains(&probe.name)
        || probe.headlines.iter().any(|headline| headline.role == Role::Gate)
}

/// Flags by which something other than the device lowered a figure.
const DISTURBED: [Flag; 4] = [Flag::Cotenant, Flag::Steal, Flag::CpuQuota, Flag::Preempted];

/// Whether something other than the device lowered a figure with these flags.
#[must_use]
pub fn is_disturbed(flags: Flags) -> bool {
    DISTURBED.iter().any(|flag| flags.contains(*flag))
}

/// Checks one device of a run. `probes` are those whose headlines are looked at. `None` where the run has no such device.
#[must_use]
pub fn check(run: &Run, device: u32, probes: &[&'static ProbeSpec]) -> Option<Check> {
    let info = run.header.devices.get(device as usize)?;
    let flags = flags_by_probe(run, device);
    let rows: Vec<Row> = figures(run, device, probes).iter().map(|figure| judge(figure, &flags)).collect();
    let notes = notes::collect(run, device, info);
    let hidden = info.health.hidden.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let mut check = Check { device, rows, notes, hidden, verdict: Verdict::NotJudged, sentence: String::new() };
    check.verdict = decide(&check, run, device);
    check.sentence = causes::explain(&check, info);
    Some(check)
}

/// The flags of every point of a probe: a disturbance need not hit the very point that became the figure.
fn flags_by_probe(run: &Run, device: u32) -> Vec<(&str, Flags)> {
    let own = run.series.iter().filter(|series| series.spec.device == device);
    let flags =
        |series: &plimsoll_core::series::Series| series.rows.iter().fold(Flags::NONE, |all, row| all.union(row.flags));
    own.map(|series| (series.spec.probe.as_str(), flags(series))).collect()
}

fn worse_bound(better: Better, range: Interval) -> f64 {
    match better {
        Better::More => range.lo,
        Better::Less => range.hi,
    }
}

/// Share above the theoretical peak that is still rounding.
const ROUNDING: f64 = 0.005;

fn judge(figure: &Figure<'_>, of_probes: &[(&str, Flags)]) -> Row {
    let (finding, headline) = (figure.finding, figure.headline);
    let of_probe = of_probes.iter().filter(|(probe, _)| *probe == figure.probe.name);
    let flags = of_probe.fold(finding.flags, |all, (_, flags)| all.union(*flags));
    let mut row = Row {
        headline,
        probe: figure.probe.name,
        unit: figure.unit(),
        measured: Estimate { value: finding.value, interval: finding.interval },
        expected: expected(figure),
        peak: figure.peak(),
        state: State::Unjudged,
        flags: finding.flags,
        why: String::new(),
    };
    row.state = find_state(&row, flags, figure.info.health.other_processes.unwrap_or(0) > 0);
    row.why = causes::of_row(&row, flags, figure.info);
    row
}

/// `is_shared` where another process had the device open: a driver doesn't always report what it used.
fn find_state(row: &Row, flags: Flags, is_shared: bool) -> State {
    let Estimate { value, interval } = row.measured;
    if row.peak.is_some_and(|peak| interval.lo > peak * (1.0 + ROUNDING)) {
        return State::Impossible;
    }
    let (Some(known), Role::Gate) = (&row.expected, row.headline.role) else { return State::Unjudged };
    let bound = worse_bound(row.headline.better, known.interval);
    let is_worse = |value: f64| row.headline.better.ratio(value, bound) < 1.0;
    if !is_worse(value) {
        return State::Ok;
    }
    let is_clearly_worse = is_worse(interval.lo) && is_worse(interval.hi);
    let is_disturbed = is_shared || is_disturbed(flags);
    let is_wide = interval.hi - interval.lo > known.interval.hi - known.interval.lo;
    match (is_clearly_worse, is_disturbed || is_wide) {
        (_, true) => State::Unclear,
        (true, false) => State::Low,
        (false, false) => State::Ok,
    }
}

fn decide(check: &Check, run: &Run, device: u32) -> Verdict {
    let has_wrong_result = run.faults.iter().any(|fault| fault.device == device && fault.class == FaultClass::Verify);
    let any = |state: State| check.rows.iter().any(|row| row.state == state);
    if has_wrong_result || check.notes.iter().any(|note| note.state == State::Impossible) {
        Verdict::Broken
    } else if any(State::Low) {
        Verdict::Slow
    } else if any(State::Unclear) || any(State::Impossible) {
        Verdict::Unknown
    } else if any(State::Ok) {
        Verdict::Healthy
    } else {
        Verdict::NotJudged
    }
}

/// The origins of the expectations of the figures that were judged, best known first, each with the number of figures.
fn origins(rows: &[Row]) -> Vec<(Origin, usize)> {
    let mut found: Vec<(Origin, usize)> = Vec::new();
    for row in rows.iter().filter(|row| row.state != State::Unjudged) {
        let Some(known) = &row.expected else { continue };
        match found.iter_mut().find(|(origin, _)| origin.name() == known.origin.name()) {
            Some((origin, n)) => {
                *n += 1;
                if let (Origin::Measured { cards, .. }, Origin::Measured { cards: more, .. }) = (origin, &known.origin)
                {
                    *cards = (*cards).max(*more);
                }
            }
            None => found.push((known.origin.clone(), 1)),
        }
    }
    found
}

/// The name of the model with an article: `an NVIDIA H200`.
fn with_article(info: &DeviceInfo) -> String {
    let name = info.name.trim();
    let name = if name.is_empty() { info.selector.as_str() } else { name };
    let vowel = name.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) || name.starts_with("NVIDIA");
    format!("{} {name}", if vowel { "an" } else { "a" })
}
