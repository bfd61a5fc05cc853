//! Why a device of a fleet has its verdict.

use plimsoll_core::headline::Headline;
use plimsoll_core::stats::Interval;

use super::device::Device;
use super::rule::{Deviation, LEAST};
use crate::check::{Note, Row, State, Verdict, is_disturbed};

/// Runs whose median confirms a slow figure.
pub const RUNS: usize = 3;

/// What a device is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The median of its fleet.
    Fleet,
    /// What its model should reach.
    Model,
    /// The other hosts or racks.
    Group,
    /// Nothing: a fact about the device or its measurement.
    None,
}

impl Baseline {
    /// The name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Model => "model",
            Self::Group => "group",
            Self::None => "none",
        }
    }
}

/// Why a device has its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The verdict that it speaks for.
    pub verdict: Verdict,
    /// The figure, where it is about one.
    pub headline: Option<&'static Headline>,
    /// How much worse the figure is, as a share.
    pub share: Option<f64>,
    /// What the device is compared with.
    pub baseline: Baseline,
    /// The reason in words.
    pub text: String,
}

/// Says of each slow figure whether [`RUNS`] runs confirm it. With `is_required`, the others are unknown. Returns true where the device
/// should be measured again.
pub(super) fn confirm(
    mut reasons: Vec<Reason>,
    device: &Device,
    repeats: &[Device],
    is_required: bool,
) -> (Vec<Reason>, bool) {
    let mut to_confirm = false;
    for reason in &mut reasons {
        let Some(headline) = reason.headline else { continue };
        if runs(device, repeats).filter(|run| run.goodness(headline.id).is_some()).count() >= RUNS {
            continue;
        }
        to_confirm = true;
        reason.text += if is_required { "; measure again" } else { "; not confirmed" };
        if is_required {
            reason.verdict = Verdict::Unknown;
        }
    }
    (reasons, to_confirm)
}

/// Figures below what the model should reach. Those that the fleet already calls slow aren't repeated.
pub(super) fn by_model(device: &Device, repeats: &[Device], of_fleet: &[Reason]) -> Vec<Reason> {
    let is_new = |row: &&Row| {
        let same = |reason: &Reason| reason.headline.is_some_and(|headline| headline.id == row.headline.id);
        device.has_expectation(row) && !of_fleet.iter().any(same)
    };
    let reason = |first: &Row| {
        let (_, row) = median_run(device, repeats, first.headline)?;
        let verdict = match row.state {
            State::Low => Verdict::Slow,
            State::Unclear | State::Impossible => Verdict::Unknown,
            State::Ok | State::Unjudged => return None,
        };
        let expected = row.expected.as_ref().map_or(String::new(), |known| {
            let range = row.unit.format_range(known.interval.lo, known.interval.hi);
            format!(", expected {range} ({})", known.origin.describe())
        });
        let why = if row.why.is_empty() { String::new() } else { format!("; {}", row.why) };
        let text = format!("{} {}{expected}{why}", row.headline.name, row.unit.format(row.measured.value));
        let share = Some(row.shortfall());
        Some(Reason { verdict, headline: Some(row.headline), share, baseline: Baseline::Model, text })
    };
    device.gates().filter(is_new).filter_map(reason).collect()
}

/// A device in all its rounds.
pub(super) fn runs<'d>(device: &'d Device, repeats: &'d [Device]) -> impl Iterator<Item = &'d Device> {
    std::iter::once(device).chain(repeats)
}

/// The run with the median of a figure, and its row; of an even number of runs the better of the two in the middle.
pub(super) fn median_run<'d>(
    device: &'d Device,
    repeats: &'d [Device],
    headline: &Headline,
) -> Option<(&'d Device, &'d Row)> {
    let known = |run: &'d Device| Some((run.goodness(headline.id)?, run, find_row(run, headline)?));
    let mut known: Vec<(f64, &Device, &Row)> = runs(device, repeats).filter_map(known).collect();
    known.sort_by(|a, b| a.0.total_cmp(&b.0));
    known.get(known.len() / 2).map(|(_, run, row)| (*run, *row))
}

pub(super) fn unknown(text: String) -> Reason {
    Reason { verdict: Verdict::Unknown, headline: None, share: None, baseline: Baseline::None, text }
}

pub(super) fn find_row<'d>(device: &'d Device, headline: &Headline) -> Option<&'d Row> {
    device.gates().find(|row| row.headline.id == headline.id)
}

/// Wrong results, and memory that is worn out.
pub(super) fn of_health(device: &Device) -> Vec<Reason> {
    let broken = device.check.notes.iter().filter(|note| note.state == State::Impossible);
    let reason = |note: &Note| Reason {
        verdict: Verdict::Broken,
        headline: None,
        share: None,
        baseline: Baseline::None,
        text: format!("{}: {}", note.name, note.text),
    };
    broken.map(reason).collect()
}

/// Why a flagged figure may not be the device's fault.
pub(super) fn find_doubt(device: &Device, row: &Row, deviation: Deviation) -> Option<String> {
    if device.is_shared {
        return Some("another process had the device open".to_owned());
    }
    if is_disturbed(row.flags) {
        return Some("another program or the system disturbed it".to_owned());
    }
    // Only the interval's better end counts: the figure could as well be there.
    let Interval { lo, hi } = row.measured.interval;
    let better =
        row.headline.better.ratio(hi, row.measured.value).max(row.headline.better.ratio(lo, row.measured.value));
    let is_wide = deviation.worse - better.ln() < -(1.0 - LEAST).ln();
    is_wide.then(|| "its interval is too wide".to_owned())
}

/// Names those of a device's unchecked figures that are `wanted`; `None` where there is none.
pub(super) fn describe_unchecked(device: &Device, wanted: impl Fn(&Headline) -> bool) -> Option<String> {
    let unchecked = device.stated().filter(|row| !device.is_checked(row) && wanted(row.headline));
    let names: Vec<&str> = unchecked.map(|row| row.headline.name).collect();
    (!names.is_empty()).then(|| format!("stated, not checked, because the file has no samples: {}", names.join(", ")))
}
