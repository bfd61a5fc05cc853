//! The shape of a point's samples: outliers and drift, each with its statistical significance. `sample::judge` decides which
//! of them become flags.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::{inflation, lag1};
use super::{Scratch, mad, median_sorted};

/// Modified z-score above which a sample is an outlier (Iglewicz & Hoaglin, How to Detect and Handle Outliers, 1993).
pub const OUTLIER_ABOVE: f64 = 3.5;
/// Share of outliers that [`Outliers::significant`] tests against.
pub const OUTLIER_SHARE: f64 = 0.01;
/// Relative distance from the median below which no sample is an outlier, however close the others are: samples of a
/// millisecond often agree within 0.02 %, and a sample 0.1 % away doesn't matter.
pub const OUTLIER_LEAST: f64 = 0.005;

/// Samples far from the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    /// Share of the samples, 0 to 1, whose |modified z| exceeds 3.5 and which lie far enough from the median to matter.
    pub fraction: f64,
    /// The machine's share of outliers exceeds 1 %: if it were 1 %, this many would occur in less than one run in a hundred.
    /// At n = 30 that takes three outliers.
    pub significant: bool,
    /// The sum of their distances from the median, divided by n × median: an upper bound on how far they move the mean away
    /// from the median, relative.
    pub weight: f64,
}

/// Outliers of ascending `sorted`: |0.6745·(x − median)/MAD| > 3.5, and more than the relative distance `least` from the
/// median.
///
/// Where MAD is 0 (most samples share one tick), the scale is the mean absolute deviation, z = (x − median)/(1.2533·mean),
/// as in Iglewicz & Hoaglin. A sample must then also lie more than 1 % from the median: with the noise hidden below the
/// tick, the next tick is not an outlier.
#[must_use]
pub fn outliers(sorted: &[f64], least: f64) -> Outliers {
    let n = sorted.len();
    if n == 0 {
        return Outliers::default();
    }
    let median = median_sorted(sorted);
    let mad = mad(sorted);
    let limit = if mad > 0.0 {
        (OUTLIER_ABOVE * mad / 0.6745).max(least * median.abs())
    } else {
        let mean_deviation = sorted.iter().map(|x| (x - median).abs()).sum::<f64>() / n as f64;
        (OUTLIER_ABOVE * 1.2533 * mean_deviation).max(least.max(0.01) * median.abs())
    };
    let distances = || sorted.iter().map(|x| (x - median).abs()).filter(|distance| *distance > limit);
    let count = distances().count();
    let total = n as f64 * median.abs();
    Outliers {
        fraction: count as f64 / n as f64,
        weight: if count > 0 && total > 0.0 { distances().sum::<f64>() / total } else { 0.0 },
        significant: count as f64 > OUTLIER_SHARE * n as f64 && binomial_tail(n, OUTLIER_SHARE, count) < 0.01,
    }
}

/// P(X ≥ `count`) for a binomial X of `n` trials with probability `p`, summed upwards from X = 0.
fn binomial_tail(n: usize, p: f64, count: usize) -> f64 {
    let mut term = (n as f64 * (-p).ln_1p()).exp();
    let mut below = 0.0;
    for k in 0..count {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
    }
    1.0 - below
}

/// The change of the samples from the first third of the measurement to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// (median of the last third − median of the first) / median of all; positive where the samples grew.
    pub relative: f64,
    /// Noise alone would show it in less than one run in a hundred.
    pub significant: bool,
}

/// Least number of samples for a comparison of thirds.
const MIN_DRIFT_SAMPLES: usize = 9;

/// The drift of the samples, `in_order` as taken.
///
/// Significance is Mann & Whitney's (1947) rank test of the first against the last third, two-sided at 1 %, with the
/// correction for ties. As for the median's interval, its standard deviation is multiplied by √f. Here f is computed from the
/// samples minus their linear trend, so that a drift doesn't hide behind the correlation that it causes itself.
#[must_use]
pub fn drift(in_order: &[f64], scratch: &mut Scratch) -> Drift {
    let n = in_order.len();
    if n < MIN_DRIFT_SAMPLES {
        return Drift::default();
    }
    let third = n / 3;
    let (first, last) = (&in_order[..third], &in_order[n - third..]);
    scratch.sort(in_order);
    let median = median_sorted(&scratch.sorted);
    scratch.sort(last);
    let last_median = median_sorted(&scratch.sorted);
    scratch.sort(first);
    let change = last_median - median_sorted(&scratch.sorted);
    if change == 0.0 || median == 0.0 {
        return Drift::default();
    }
    let z = mann_whitney(&scratch.sorted, last, &mut scratch.work);
    let slope = change / (n - third) as f64;
    scratch.work.clear();
    scratch.work.extend(in_order.iter().enumerate().map(|(i, x)| x - slope * i as f64));
    scratch.sorted.clear();
    scratch.sorted.extend_from_slice(&scratch.work);
    scratch.sorted.sort_unstable_by(f64::total_cmp);
    let f = inflation(n, lag1(&scratch.work, &scratch.sorted));
    Drift { relative: change / median, significant: z.abs() > 2.576 * f.sqrt() }
}

/// Normal score of Mann & Whitney's U: positive where `other` tends to exceed `sorted`. `work` is overwritten.
fn mann_whitney(sorted: &[f64], other: &[f64], work: &mut Vec<f64>) -> f64 {
    let (a, b) = (sorted.len() as f64, other.len() as f64);
    let u: f64 = other
        .iter()
        .map(|&x| {
            let below = sorted.partition_point(|&v| v < x);
            let through = below + sorted[below..].partition_point(|&v| v <= x);
            f64::midpoint(below as f64, through as f64)
        })
        .sum();
    work.clear();
    work.extend_from_slice(sorted);
    work.extend_from_slice(other);
    work.sort_unstable_by(f64::total_cmp);
    let ties: f64 = work.chunk_by(|x, y| x == y).map(|run| (run.len() as f64).powi(3) - run.len() as f64).sum();
    let total = a + b;
    let variance = a * b / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    if variance > 0.0 { (u - a * b / 2.0) / variance.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;
    use proptest::prelude::*;

    fn share_of_noise(n: usize, mut verdict: impl FnMut(&[f64]) -> bool) -> f64 {
        let mut rng = Rng::new(8);
        let hits = (0..1000).filter(|_| {
            let x: Vec<f64> = (0..n).map(|_| 1.0 + 0.02 * rng.normal()).collect();
            verdict(&x)
        });
        hits.count() as f64 / 1000.0
    }

    fn outliers_of(x: &[f64]) -> Outliers {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        outliers(&x, OUTLIER_LEAST)
    }

    #[test]
    fn the_modified_z_matches_a_worked_example() {
        // Median 4, MAD 1: |z| exceeds 3.5 outside 4 ± 5.189.
        assert_eq!(outliers_of(&[3.0, 5.0, 4.0, 3.0, 4.0, 5.0, 4.0, 9.1]).fraction, 0.0);
        assert_eq!(outliers_of(&[2.0, 3.0, 4.0, 4.0, 5.0, 5.0, 3.0, 9.3]).fraction, 0.125);
    }

    #[test]
    fn outliers_are_found_even_where_mad_is_zero() {
        assert_eq!(outliers_of(&[1.0; 40]), Outliers::default());
        let mut x = [1.0; 100];
        x[3..9].fill(1.002);
        assert_eq!(outliers_of(&x).fraction, 0.0, "the next tick");
        x[3..9].fill(1.5);
        assert_eq!(outliers_of(&x), Outliers { fraction: 0.06, significant: true, weight: 0.03 });
    }

    #[test]
    fn one_outlier_in_thirty_is_counted_but_not_significant() {
        let mut x: Vec<f64> = (0..30).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
        x[29] = 3.0;
        let single = outliers_of(&x);
        assert!(single.fraction == 1.0 / 30.0 && !single.significant, "{single:?}");
        x[27..].fill(3.0);
        assert!(outliers_of(&x).significant);
    }

    #[test]
    fn pure_noise_raises_few_alarms() {
        let mut scratch = Scratch::new();
        for n in [30, 100] {
            let drifting = share_of_noise(n, |x| drift(x, &mut scratch).significant);
            let outlying = share_of_noise(n, |x| outliers_of(x).significant);
            assert!(drifting <= 0.025 && outlying <= 0.025, "n = {n}: drift {drifting}, outliers {outlying}");
        }
    }

    #[test]
    fn a_drift_larger_than_the_noise_is_found_with_its_sign() {
        let mut rng = Rng::new(6);
        let mut scratch = Scratch::new();
        for (slope, n) in [(0.1, 60), (-0.1, 60), (0.02, 300), (5.0, 90)] {
            let x: Vec<f64> =
                (0..n).map(|i| 10.0 + 0.1 * rng.normal() + slope * f64::from(i) * 6.0 / f64::from(n)).collect();
            let result = drift(&x, &mut scratch);
            assert!(result.significant && result.relative.signum() == slope.signum(), "{slope} {n} {result:?}");
        }
        let line: Vec<f64> = (0..90).map(|i| 1.0 + f64::from(i) / 300.0).collect();
        assert!((drift(&line, &mut scratch).relative - 0.2 / 1.148_333).abs() < 1e-4);
    }

    #[test]
    fn too_few_or_equal_samples_do_not_drift() {
        let mut scratch = Scratch::new();
        assert_eq!(drift(&[1.0, 2.0, 3.0], &mut scratch), Drift::default());
        assert_eq!(drift(&[1.0; 30], &mut scratch), Drift::default());
    }

    #[test]
    fn the_binomial_tail_matches_its_closed_forms() {
        assert_eq!(binomial_tail(30, 0.01, 0), 1.0);
        assert!((binomial_tail(30, 0.01, 1) - (1.0 - 0.99f64.powi(30))).abs() < 1e-12);
        assert!((binomial_tail(2, 0.5, 2) - 0.25).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn mann_whitney_equals_counting_pairs(
            a in prop::collection::vec((0i32..9).prop_map(f64::from), 3..20),
            b in prop::collection::vec((0i32..9).prop_map(f64::from), 3..20),
        ) {
            let mut s = a.clone();
            s.sort_by(f64::total_cmp);
            let z = mann_whitney(&s, &b, &mut Vec::new());
            let wins: f64 = b.iter().flat_map(|y| a.iter().map(move |x| (y - x).signum() * f64::from(u8::from(x != y)))).sum();
            prop_assert!(z.signum() == wins.signum() || (z.abs() < 1e-12 && wins == 0.0));
        }
    }
}
