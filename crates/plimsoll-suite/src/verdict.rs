//! Verdicts: whether one run is the same as, faster or slower than another, figure by figure, and what can't be compared.
//!
//! Two rows are the same figure where device, probe, case, kind of figure, cache policy, axes and coordinates agree;
//! devices are the same by identity, else by model. A row is called faster or
//! slower only where its whole interval, with Holm's correction over all figures of the comparison, lies beyond ±1 %.
//! Where the clock moved, the interval spans both readings: that the figure follows the clock and that it doesn't.
//! The very same measurement on both sides is the same, however noisy.
//! How well each figure is known is `spread`'s; how a comparison looks is the report's.

mod cause;
mod clock;
mod pairing;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_core::record::Run;
use plimsoll_core::series::{Quantity, Value};
use plimsoll_core::stats::{Interval, holm};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};

use crate::operations;

pub use cause::Cause;

/// A difference within this share is no difference: what plimsoll promises to repeat on an idle machine.
pub const MARGIN: f64 = 0.01;
/// Chance of one false 'faster' or 'slower' in a whole comparison, and of a true ratio outside a row's interval.
const ALPHA: f64 = 0.05;

/// Differences that are the purpose of the comparison, not an obstacle to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Across {
    /// The drivers may differ.
    pub driver: bool,
    /// The versions of plimsoll may differ.
    pub version: bool,
}

/// What a comparison says of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within ±1 %.
    Same,
    /// The new run is better by more than 1 %.
    Faster,
    /// The new run is worse by more than 1 %.
    Slower,
    /// The interval is too wide to say, or flags or the clock may explain the difference: see [`Compared::causes`].
    Ambiguous,
}

impl Verdict {
    /// All, worst first.
    pub const ALL: [Verdict; 4] = [Verdict::Slower, Verdict::Ambiguous, Verdict::Faster, Verdict::Same];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// Which figure: what both runs have in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// The probe.
    pub probe: String,
    /// Which of its series.
    pub case: String,
    /// Axis names with their units and the coordinates on them.
    pub at: Vec<(String, Unit, Value)>,
    /// Where the data were (and that it is a latency), where the run holds more than one such figure; else empty.
    pub kind: String,
}

/// One figure, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Which.
    pub subject: Subject,
    /// The metric's name.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The base run's figure.
    pub base: f64,
    /// The new run's figure.
    pub new: f64,
    /// New over base, as measured.
    pub ratio: f64,
    /// 95 % interval of the ratio, for this row alone. Where the clocks differ by more than 1 % it spans the ratio's
    /// intervals both as measured and at the same clock, and may leave `ratio` at its edge.
    pub interval: Interval,
    /// Chance of so large a difference where the truth is ±1 %, after Holm's correction; of both readings the larger.
    pub p: f64,
    /// What follows.
    pub verdict: Verdict,
    /// Mean clocks of the base and the new run, hertz, where both are known.
    pub clocks: Option<(f64, f64)>,
    /// Why it is ambiguous: at least one cause where it is, none where it isn't.
    pub causes: Vec<Cause>,
}

impl Compared {
    /// The causes for a person, with commas between: `BUDGET, clock 3.02 → 3.19 GHz`. Empty unless it is ambiguous.
    #[must_use]
    pub fn explained_by(&self) -> String {
        self.causes.iter().map(Cause::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Something that both runs measured but that can't be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Incomparable {
    /// What, for a person.
    pub what: String,
    /// Why not, for a person.
    pub why: String,
}

/// How often each verdict was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// [`Verdict::Same`].
    pub same: usize,
    /// [`Verdict::Faster`].
    pub faster: usize,
    /// [`Verdict::Slower`].
    pub slower: usize,
    /// [`Verdict::Ambiguous`].
    pub ambiguous: usize,
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Figures that both have, in the base run's order.
    pub rows: Vec<Compared>,
    /// What both have but can't be compared.
    pub incomparable: Vec<Incomparable>,
    /// Figures and devices that only one run has, for a person.
    pub unmatched: Vec<String>,
    /// Devices that were compared with another one of their model although a run has several, for a person.
    pub notes: Vec<String>,
    /// How often each verdict was given.
    pub counts: Counts,
}

impl Comparison {
    /// Causes of the ambiguous figures by their label, with how many figures each counts for, most frequent first. A
    /// figure counts under each of its causes.
    #[must_use]
    pub fn causes(&self) -> Vec<(&'static str, usize)> {
        let mut counts = BTreeMap::new();
        for cause in self.rows.iter().flat_map(|row| &row.causes) {
            *counts.entry(cause.label()).or_insert(0) += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
        counts
    }

    /// 1 where any figure is slower; else 4 where any is ambiguous or incomparable, or nothing was compared; else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if self.counts.slower > 0 {
            1
        } else if self.counts.ambiguous > 0 || !self.incomparable.is_empty() || self.rows.is_empty() {
            4
        } else {
            0
        }
    }
}

/// Compares `new` with `base`: the first metric of every row that both have.
#[must_use]
pub fn compare(base: &Run, new: &Run, across: Across) -> Comparison {
    let mut paired = pairing::pair(base, new, across);
    let judged: Vec<Judged> = paired.pairs.iter().map(judge).collect();
    let p: Vec<f64> = judged.iter().map(|judged| judged.p).collect();
    let figures = p.len();
    let mut counts = Counts::default();
    let rows = std::mem::take(&mut paired.pairs)
        .into_iter()
        .zip(judged.iter().zip(holm(&p)))
        .map(|(pair, (judged, p))| {
            let row = judged.row(pair, p, figures);
            match row.verdict {
                Verdict::Same => counts.same += 1,
                Verdict::Faster => counts.faster += 1,
                Verdict::Slower => counts.slower += 1,
                Verdict::Ambiguous => counts.ambiguous += 1,
            }
            row
        })
        .collect();
    let pairing::Paired { incomparable, unmatched, notes, .. } = paired;
    Comparison { rows, incomparable, unmatched, notes, counts }
}

/// The flags that keep a difference from being blamed on what was measured. A low clock is none of them where both clocks
/// are known and the figure follows from the time: both readings of it have to agree then.
fn doubts(pair: &pairing::Pair) -> Flags {
    let spanned = pair.clocks.is_some() && pair.metric.of != Quantity::Extra;
    pair.flags.impugning().iter().filter(|flag| !(spanned && *flag == Flag::ClockLow)).collect()
}

/// A figure of both runs, before the correction for many.
struct Judged {
    /// ln(new ÷ base) as measured.
    log_ratio: f64,
    /// The least and the greatest reading of `log_ratio`: one where the clock stayed.
    readings: (f64, f64),
    /// Half of the 95 % interval of each reading.
    half: f64,
    /// Two-sided chance of a difference this far beyond the margin, by the reading that shows the least.
    p: f64,
    /// The difference, where there is one, is one for the worse.
    worse: bool,
    /// The clocks, where they make two readings.
    moved: Option<(f64, f64)>,
}

fn judge(pair: &pairing::Pair) -> Judged {
    if pair.identical {
        return Judged { log_ratio: 0.0, readings: (0.0, 0.0), half: 0.0, p: 1.0, worse: false, moved: None };
    }
    let log_ratio = (pair.new.value / pair.base.value).ln();
    let shift = pair.clocks.and_then(|clocks| clock::shift(pair.metric.of, clocks));
    let other = log_ratio + shift.unwrap_or(0.0);
    let readings = (log_ratio.min(other), log_ratio.max(other));
    // The spread as measured serves for both: where it holds the clock's own spread, it errs on the wide side.
    let (error, freedom) = spread::of_difference(&pair.base, &pair.new);
    let margin = MARGIN.ln_1p();
    // How far both readings are above the margin, and how far below: at most one is positive.
    let (above, below) = (readings.0 - margin, -readings.1 - margin);
    let p = (2.0 * spread::upper_tail(above.max(below) / error, freedom)).min(1.0);
    let half = spread::t_quantile(1.0 - ALPHA / 2.0, freedom) * error;
    let moved = pair.clocks.filter(|_| shift.is_some());
    Judged { log_ratio, readings, half, p, worse: (above > below) != pair.more_is_better, moved }
}

impl Judged {
    /// `p` is corrected for all `figures` of the comparison.
    fn row(&self, pair: pairing::Pair, p: f64, figures: usize) -> Compared {
        let (lo, hi) = (self.readings.0 - self.half, self.readings.1 + self.half);
        let margin = MARGIN.ln_1p();
        let verdict = if lo >= -margin && hi <= margin {
            Verdict::Same
        } else if p > ALPHA || !doubts(&pair).is_empty() {
            Verdict::Ambiguous
        } else if self.worse {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        let causes = if verdict == Verdict::Ambiguous { self.causes(&pair, p, figures) } else { vec![] };
        let unit = operations::unit_at(&pair.metric, pair.subject.at.iter().map(|(_, _, value)| value));
        Compared {
            subject: pair.subject,
            metric: pair.metric.name,
            unit,
            base: pair.base.value,
            new: pair.new.value,
            ratio: self.log_ratio.exp(),
            interval: Interval { lo: lo.exp(), hi: hi.exp() },
            p,
            verdict,
            clocks: pair.clocks,
            causes,
        }
    }

    /// Why the figure is ambiguous: all that applies, and the width of its interval where nothing else does.
    fn causes(&self, pair: &pairing::Pair, p: f64, figures: usize) -> Vec<Cause> {
        let flags = doubts(pair).union(pair.flags.widening());
        let mut causes: Vec<Cause> = flags.iter().map(Cause::Flag).collect();
        causes.extend(self.moved.map(|(base, new)| Cause::Clock { base, new }));
        if self.p <= ALPHA && p > ALPHA {
            causes.push(Cause::Chance { figures });
        }
        if causes.is_empty() {
            causes.push(Cause::Interval { half: self.half.exp_m1(), rounds: (pair.base.rounds, pair.new.rounds) });
        }
        causes
    }
}
