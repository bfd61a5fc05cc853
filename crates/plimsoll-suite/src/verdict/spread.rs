//! The uncertainty of a figure if the whole measurement were repeated: the spread between rounds, or, where there is only one
//! round, the spread within it plus an assumed spread between runs.

use plimsoll_core::series::{Metric, Quantity, Row};

/// Half-width of a normal 95 % interval, in standard deviations.
const Z95: f64 = 1.96;
/// Assumed relative standard deviation between rounds for a figure with one round: a quarter of the 1 % within which an unflagged
/// figure repeats.
const BETWEEN_UNSEEN: f64 = 0.0025;

/// A row's figure with the squared standard error of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FigureEstimate {
    /// The figure in its base unit, as reports show it; positive.
    pub value: f64,
    /// Squared standard error of ln(value).
    pub variance: f64,
    /// Degrees of freedom of `variance`.
    pub freedom: f64,
    /// Number of rounds that it was measured in.
    pub rounds: usize,
}

/// The row's figure in `metric`; `None` unless it has one that is positive in every round.
pub(super) fn estimate_row(row: &Row, metric: &Metric) -> Option<FigureEstimate> {
    let known = estimate_as_measured(row, metric)?;
    let unseen = if known.rounds < 2 { BETWEEN_UNSEEN * BETWEEN_UNSEEN } else { 0.0 };
    Some(FigureEstimate { variance: known.variance + unseen, ..known })
}

/// The same from the samples alone: a single round gets no assumed spread between rounds.
pub(crate) fn estimate_as_measured(row: &Row, metric: &Metric) -> Option<FigureEstimate> {
    let value = row.estimate(metric)?.value;
    let (mut medians, mut within) = (Vec::new(), Vec::new());
    let mut samples = 0;
    for (point, round) in row.rounds_of(metric) {
        medians.push(round.value.ln());
        if metric.quantity == Quantity::Extra {
            within.push(0.0);
            continue;
        }
        // A sample has a resolution of one tick, even if all samples round to the same value.
        let ticks = point.samples.iter().min().map_or(1.0, |&least| least.max(1) as f64);
        let rounding = 1.0 / (12.0 * ticks * ticks);
        let half = (round.interval.hi / round.interval.lo).ln() / 2.0;
        within.push((half / Z95).powi(2) + rounding);
        samples += point.samples.len();
    }
    let n = medians.len();
    let rounds = n as f64;
    let log = medians.iter().sum::<f64>() / rounds;
    let within = within.iter().sum::<f64>() / rounds;
    if !(log.is_finite() && within.is_finite()) {
        return None;
    }
    if n < 2 {
        let freedom = (samples.max(3) - 1) as f64;
        return Some(FigureEstimate { value, variance: within, freedom, rounds: n });
    }
    // The spread of the medians includes the spread within rounds; with few rounds it may be smaller than that by chance.
    let between = medians.iter().map(|median| (median - log).powi(2)).sum::<f64>() / (rounds - 1.0);
    Some(FigureEstimate { value, variance: between.max(within) / rounds, freedom: rounds - 1.0, rounds: n })
}

/// Standard error of the difference of two figures, and its degrees of freedom (Welch, Biometrika 34, 1947;
/// Satterthwaite, Biometrics 2, 1946).
pub(super) fn difference_error(a: &FigureEstimate, b: &FigureEstimate) -> (f64, f64) {
    let variance = a.variance + b.variance;
    let shares = a.variance.powi(2) / a.freedom + b.variance.powi(2) / b.freedom;
    if variance <= 0.0 || shares <= 0.0 {
        // Both are known exactly (a metric without samples that never changed).
        return (f64::MIN_POSITIVE, a.freedom.min(b.freedom));
    }
    (variance.sqrt(), variance.powi(2) / shares)
}
