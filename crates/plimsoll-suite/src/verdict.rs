//! Verdicts: whether each figure of one run is the same as, faster or slower than in another run, and what can't be compared.
//!
//! Two rows are the same figure where device, probe, case, kind of figure, cache policy, axes and coordinates agree. Devices are
//! matched by identity, else by model. A figure is faster or slower only where its whole interval, with Holm's correction over
//! all figures of the comparison, lies beyond ±1 %. Where the clock changed between the runs, the interval spans both
//! assumptions: that the figure follows the clock, and that it doesn't. One measurement compared with itself is the same,
//! however noisy it is. The module `spread` estimates uncertainties; reports display comparisons.

mod cause;
mod clock;
pub(crate) mod pairing;
pub(crate) mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use plimsoll_core::record::Run;
use plimsoll_core::series::{Quantity, Value};
use plimsoll_core::stats::{Interval, holm, student_t_quantile, student_t_upper};
use plimsoll_core::unit::Unit;
use plimsoll_core::{Flag, Flags};

use crate::operations;

pub use cause::Cause;

/// Differences within this share don't count: figures repeat within it on an idle machine.
pub const MARGIN: f64 = 0.01;
/// Probability of any false 'faster' or 'slower' in a whole comparison, and of a true ratio outside a row's interval.
const ALPHA: f64 = 0.05;

/// Differences between the runs that the user wants to compare across.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Across {
    /// The drivers may differ.
    pub driver: bool,
    /// The versions of plimsoll may differ.
    pub version: bool,
}

/// The verdict on one figure.
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
    /// All verdicts, worst first.
    pub const ALL: [Verdict; 4] = [Verdict::Slower, Verdict::Ambiguous, Verdict::Faster, Verdict::Same];

    /// The name as reports show it.
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

/// What identifies a figure in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The device's name.
    pub device: String,
    /// The probe.
    pub probe: String,
    /// The series' name within the probe.
    pub case: String,
    /// Name, unit and coordinate of each axis.
    pub at: Vec<(String, Unit, Value)>,
    /// The cache policy (and `latency` for one) where a run has several such figures; otherwise empty.
    pub kind: String,
}

/// One figure, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// The figure's identity.
    pub subject: Subject,
    /// The metric's name.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The base run's figure.
    pub base: f64,
    /// The new run's figure.
    pub new: f64,
    /// New divided by base, as measured.
    pub ratio: f64,
    /// 95 % interval of the ratio, for this row alone. Where the clocks differ by more than 1 %, it spans the ratio's intervals
    /// as measured and at equal clocks, so that `ratio` may be near its edge.
    pub interval: Interval,
    /// Probability of such a large difference if the true one is ±1 %, after Holm's correction; the larger of both readings.
    pub p: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// Mean clocks of the base and the new run, hertz, where both are known.
    pub clocks: Option<(f64, f64)>,
    /// Why it is ambiguous; empty exactly where it isn't.
    pub causes: Vec<Cause>,
}

impl Compared {
    /// The causes as text: `BUDGET, clock 3.02 → 3.19 GHz`. Empty unless it is ambiguous.
    #[must_use]
    pub fn explained_by(&self) -> String {
        self.causes.iter().map(Cause::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Something that both runs measured but that can't be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Incomparable {
    /// What it is, as readable text.
    pub what: String,
    /// Why it can't be compared, as readable text.
    pub why: String,
}

/// The number of figures with each verdict.
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
    /// Figures of both runs, in the base run's order.
    pub rows: Vec<Compared>,
    /// Figures and devices of both runs that can't be compared.
    pub incomparable: Vec<Incomparable>,
    /// Figures and devices that only one run has, as readable text.
    pub unmatched: Vec<String>,
    /// Notes on devices that were compared with another one of their model although a run has several, as readable text.
    pub notes: Vec<String>,
    /// The number of figures with each verdict.
    pub counts: Counts,
}

impl Comparison {
    /// The labels of the ambiguous figures' causes, each with the number of figures that have it, most frequent first. A figure
    /// counts for each of its causes.
    #[must_use]
    pub fn count_causes(&self) -> Vec<(&'static str, usize)> {
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
            let row = judged.to_row(pair, p, figures);
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

/// The flags that say that something else may have caused a difference. A low clock isn't one of them where both clocks are known
/// and the figure follows from the time: then both readings have to agree.
fn doubtful_flags(pair: &pairing::Pair) -> Flags {
    let has_both_readings = pair.clocks.is_some() && pair.metric.quantity != Quantity::Extra;
    pair.flags.doubtful().iter().filter(|flag| !(has_both_readings && *flag == Flag::ClockLow)).collect()
}

/// A figure of both runs, before the correction for multiple comparisons.
struct Judged {
    /// ln(new ÷ base), as measured.
    log_ratio: f64,
    /// The smallest and the largest reading of `log_ratio`; equal where the clock didn't change.
    readings: (f64, f64),
    /// Half-width of the 95 % interval of each reading.
    half_width: f64,
    /// Two-sided probability of a difference this far beyond the margin, for the reading with the smaller difference.
    p: f64,
    /// True where a difference, if there is one, is for the worse.
    worse: bool,
    /// Both clocks, where they differ and lead to two readings.
    changed_clocks: Option<(f64, f64)>,
}

fn judge(pair: &pairing::Pair) -> Judged {
    if pair.identical {
        return Judged {
            log_ratio: 0.0,
            readings: (0.0, 0.0),
            half_width: 0.0,
            p: 1.0,
            worse: false,
            changed_clocks: None,
        };
    }
    let log_ratio = (pair.new.value / pair.base.value).ln();
    let shift = pair.clocks.and_then(|clocks| clock::shift(pair.metric.quantity, clocks));
    let other = log_ratio + shift.unwrap_or(0.0);
    let readings = (log_ratio.min(other), log_ratio.max(other));
    // The measured spread serves for both readings: it may include the clock's spread and is then a little too wide.
    let (error, freedom) = spread::difference_error(&pair.base, &pair.new);
    let margin = MARGIN.ln_1p();
    // How far both readings lie above or below the margin; at most one is positive.
    let (above, below) = (readings.0 - margin, -readings.1 - margin);
    let p = (2.0 * student_t_upper(above.max(below) / error, freedom)).min(1.0);
    let half_width = student_t_quantile(1.0 - ALPHA / 2.0, freedom) * error;
    let changed_clocks = pair.clocks.filter(|_| shift.is_some());
    Judged { log_ratio, readings, half_width, p, worse: (above > below) != pair.more_is_better, changed_clocks }
}

impl Judged {
    /// The result for the figure. `p` is corrected for all `figures` of the comparison.
    fn to_row(&self, pair: pairing::Pair, p: f64, figures: usize) -> Compared {
        let (lo, hi) = (self.readings.0 - self.half_width, self.readings.1 + self.half_width);
        let margin = MARGIN.ln_1p();
        let verdict = if lo >= -margin && hi <= margin {
            Verdict::Same
        } else if p > ALPHA || !doubtful_flags(&pair).is_empty() {
            Verdict::Ambiguous
        } else if self.worse {
            Verdict::Slower
        } else {
            Verdict::Faster
        };
        let causes = if verdict == Verdict::Ambiguous { self.find_causes(&pair, p, figures) } else { vec![] };
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

    /// Why the figure is ambiguous: every cause that applies, or the width of its interval where none does.
    fn find_causes(&self, pair: &pairing::Pair, p: f64, figures: usize) -> Vec<Cause> {
        let flags = doubtful_flags(pair).union(pair.flags.widening());
        let mut causes: Vec<Cause> = flags.iter().map(Cause::Flag).collect();
        causes.extend(self.changed_clocks.map(|(base, new)| Cause::Clock { base, new }));
        if self.p <= ALPHA && p > ALPHA {
            causes.push(Cause::Chance { figures });
        }
        if causes.is_empty() {
            causes.push(Cause::Interval {
                half_width: self.half_width.exp_m1(),
                rounds: (pair.base.rounds, pair.new.rounds),
            });
        }
        causes
    }
}
