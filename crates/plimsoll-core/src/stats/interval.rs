//! The median's nonparametric confidence interval, widened where neighbouring samples are correlated.
//! [`super::StopRule`] decides when to stop sampling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Scratch, median_sorted};

/// A closed interval in its figure's unit; in JSON, `[lo, hi]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
#[schemars(with = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end, at least `lo`.
    pub hi: f64,
}

impl From<[f64; 2]> for Interval {
    fn from([lo, hi]: [f64; 2]) -> Self {
        Interval { lo, hi }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(i: Interval) -> Self {
        [i.lo, i.hi]
    }
}

impl Interval {
    /// Half the width, in the figure's unit.
    #[must_use]
    pub fn half_width(self) -> f64 {
        (self.hi - self.lo) / 2.0
    }

    /// Half-width as a fraction of |`center`|; infinite where `center` is 0 and the width is not.
    #[must_use]
    pub fn relative_half_width(self, center: f64) -> f64 {
        let half = self.half_width();
        if half == 0.0 { 0.0 } else { half / center.abs() }
    }

    /// Whether `x` lies in the interval, including its ends.
    #[must_use]
    pub fn contains(self, x: f64) -> bool {
        self.lo <= x && x <= self.hi
    }
}

/// The median of the samples with its confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MedianInterval {
    /// Number of samples.
    pub n: usize,
    /// Median of the samples.
    pub median: f64,
    /// Nominal 95 % interval of the median.
    pub interval: Interval,
    /// Rank autocorrelation at lag 1, see [`lag1`].
    pub lag1: f64,
    /// `lag1` exceeds 0.2 and what independent samples exceed in one run in a hundred.
    pub correlated: bool,
}

/// Lag-1 autocorrelation above which samples count as correlated.
pub const CORRELATED_ABOVE: f64 = 0.2;
/// One-sided 1 % point of the normal distribution: [`lag1`] of n independent samples has a standard deviation of about 1/√n.
const ONE_PERCENT: f64 = 2.33;

/// Nominal 95 % interval of the median of the samples, given `in_order` as taken and `sorted` ascending.
///
/// Independent samples: ranks ⌊n/2 − 0.98√n⌋ and ⌈1 + n/2 + 0.98√n⌉ counted from 1 (the normal approximation of the
/// binomial; Conover, Practical Nonparametric Statistics, 3.2), clamped to the extremes.
/// Correlated samples: the half-rank is multiplied by √f, where f ≥ 1 is the long-run variance of the series `x < median`
/// over its variance (`inflation`). So the interval is never narrower than that of independent samples. Deterministic,
/// allocates nothing, O(n log n).
#[must_use]
pub fn median_interval(in_order: &[f64], sorted: &[f64]) -> MedianInterval {
    let n = sorted.len();
    if n == 0 {
        return MedianInterval::default();
    }
    let median = median_sorted(sorted);
    let lag1 = lag1(in_order, sorted);
    let half_rank = 0.98 * (n as f64 * inflation(n, lag1)).sqrt();
    let middle = n as f64 / 2.0;
    let lo = (middle - half_rank).floor().max(1.0) as usize;
    let hi = ((1.0 + middle + half_rank).ceil() as usize).min(n);
    MedianInterval {
        n,
        median,
        interval: Interval { lo: sorted[lo - 1], hi: sorted[hi - 1] },
        lag1,
        correlated: lag1 > CORRELATED_ABOVE.max(ONE_PERCENT / (n as f64).sqrt()),
    }
}

/// [`median_interval`] with the sorted copy made in `scratch`; doesn't allocate up to its capacity.
#[must_use]
pub fn estimate(in_order: &[f64], scratch: &mut Scratch) -> MedianInterval {
    scratch.sort(in_order);
    median_interval(in_order, &scratch.sorted)
}

/// Autocorrelation at lag 1 of the samples' mid-ranks (Wald & Wolfowitz 1943): from −1 to 1, 0 where all are equal.
///
/// Ranks, because a single spike dominates the ordinary coefficient; mid-ranks, because quantised samples have ties.
#[must_use]
pub fn lag1(in_order: &[f64], sorted: &[f64]) -> f64 {
    let center = sorted.len() as f64 / 2.0;
    // Mid-rank counted from 0, minus its mean: (samples below + samples not above)/2 − n/2.
    let rank = |x: f64| {
        let below = sorted.partition_point(|&v| v < x);
        let through = below + sorted[below..].partition_point(|&v| v <= x);
        f64::midpoint(below as f64, through as f64) - center
    };
    let (mut products, mut squares, mut previous) = (0.0, 0.0, 0.0);
    for &x in in_order {
        let r = rank(x);
        products += r * previous;
        squares += r * r;
        previous = r;
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// Number of standard errors by which the autocorrelation is assumed to exceed its estimate. With it, AR(1) noise with
/// φ = 0.8 reaches 93 % coverage although the rule stops where the interval happens to be narrow (measured in `coverage.rs`).
const CAUTION: f64 = 1.6;

/// Factor f ≥ 1 by which serial correlation multiplies the variance of the count of n samples below their median.
///
/// The samples are modelled as an AR(1) process with φ from [`lag1`], corrected for its bias of −(1 + 4φ)/n (Marriott &
/// Pope 1954) and raised by [`CAUTION`] standard errors √((1 − φ²)/n). Then `x < median` has autocorrelation
/// (2/π)·asin φᵏ at lag k (Sheppard's orthant formula), and f = 1 + 2·Σ (1 − k/n)·(2/π)·asin φᵏ. Estimates of the
/// long-run variance without a model (Bartlett's, batch means) need hundreds of samples, but a point often has 33.
/// For a lag-1 correlation below one standard error (1/√n) or 0.2, whichever is less, f is 1. A lag-1 estimate misses wander
/// slower than a few tens of samples under stronger white noise: the spread between rounds shows it.
pub(super) fn inflation(n: usize, lag1: f64) -> f64 {
    let count = n as f64;
    if n == 0 || lag1 <= CORRELATED_ABOVE.min(1.0 / count.sqrt()) {
        return 1.0;
    }
    let bias = (1.0 + 4.0 * lag1) / count;
    let error = ((1.0 - lag1 * lag1).max(0.0) / count).sqrt();
    // Above 0.99, a process of any affordable length is a drift, and the interval spans its whole range.
    let phi = (lag1 + bias + CAUTION * error).min(0.99);
    let mut f = 1.0;
    let mut power = phi;
    for k in 1..n {
        if power < 1e-3 {
            break;
        }
        f += 2.0 * (1.0 - k as f64 / count) * std::f64::consts::FRAC_2_PI * power.asin();
        power *= phi;
    }
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;
    use proptest::prelude::*;

    fn sorted(x: &[f64]) -> Vec<f64> {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    }

    #[test]
    fn independent_samples_get_the_textbook_ranks() {
        // n = 100: ranks ⌊50 − 9.8⌋ = 40 and ⌈51 + 9.8⌉ = 61 (Conover's table gives 40 and 61). The halves alternate, so
        // that the correlation is negative and nothing is widened.
        let x: Vec<f64> = (0..100).map(|i| f64::from(if i % 2 == 0 { 1 + i / 2 } else { 51 + i / 2 })).collect();
        let result = median_interval(&x, &sorted(&x));
        assert_eq!((result.median, result.interval), (50.5, Interval { lo: 40.0, hi: 61.0 }));
        assert!(result.lag1 < 0.0 && !result.correlated);
    }

    #[test]
    fn correlated_samples_are_detected_with_few_false_alarms() {
        let mut rng = Rng::new(4);
        let mut scratch = Scratch::new();
        let mut share = |n: usize, phi: f64| {
            let detected = (0..400).filter(|_| {
                let mut s = rng.normal();
                let mut next = || {
                    s = phi * s + (1.0 - phi * phi).sqrt() * rng.normal();
                    s
                };
                let x: Vec<f64> = (0..n).map(|_| next()).collect();
                estimate(&x, &mut scratch).correlated
            });
            detected.count() as f64 / 400.0
        };
        assert!(share(30, 0.0) <= 0.025 && share(200, 0.0) <= 0.025);
        assert!(share(200, 0.5) > 0.95 && share(33, 0.8) > 0.8);
    }

    #[test]
    fn a_single_spike_hardly_changes_the_correlation() {
        let mut x: Vec<f64> = (0..100).map(|i| f64::from(i * 37 % 100)).collect();
        let before = lag1(&x, &sorted(&x));
        x[50] = 1e9;
        assert!((lag1(&x, &sorted(&x)) - before).abs() < 0.1);
    }

    #[test]
    fn an_interval_is_two_numbers_in_json() {
        let json = serde_json::to_string(&Interval { lo: 1.5, hi: 2.0 }).expect("finite");
        assert_eq!(json, "[1.5,2.0]");
        assert_eq!(serde_json::from_str::<Interval>(&json).expect("its own output").hi, 2.0);
        let schema = schemars::schema_for!(Interval);
        assert_eq!(schema.get("type"), Some(&"array".into()));
        assert_eq!(schema.get("maxItems"), Some(&2.into()));
    }

    #[test]
    fn a_zero_width_is_zero_even_relative_to_zero() {
        assert_eq!(Interval { lo: 0.0, hi: 0.0 }.relative_half_width(0.0), 0.0);
        assert_eq!(Interval { lo: -1.0, hi: 1.0 }.relative_half_width(0.0), f64::INFINITY);
        assert_eq!(Interval { lo: 9.0, hi: 11.0 }.relative_half_width(-10.0), 0.1);
    }

    proptest! {
        #[test]
        fn correlation_never_narrows_the_interval(x in prop::collection::vec(-10.0..10.0f64, 1..120)) {
            let s = sorted(&x);
            let half = 0.98 * (x.len() as f64).sqrt();
            let lo = (x.len() as f64 / 2.0 - half).floor().max(1.0) as usize;
            let hi = ((1.0 + x.len() as f64 / 2.0 + half).ceil() as usize).min(x.len());
            let interval = median_interval(&x, &s).interval;
            prop_assert!(interval.lo <= s[lo - 1] && interval.hi >= s[hi - 1]);
        }

        #[test]
        fn lag1_equals_the_naive_rank_correlation(x in prop::collection::vec((0i32..9).prop_map(f64::from), 1..60)) {
            let n = x.len() as f64;
            let rank = |v: f64| {
                let below = x.iter().filter(|&&w| w < v).count() as f64;
                let same = x.iter().filter(|&&w| w == v).count() as f64;
                below + (same + 1.0) / 2.0 - (n + 1.0) / 2.0
            };
            let r: Vec<f64> = x.iter().map(|&v| rank(v)).collect();
            let squares: f64 = r.iter().map(|v| v * v).sum();
            let products: f64 = r.windows(2).map(|w| w[0] * w[1]).sum();
            let naive = if squares > 0.0 { products / squares } else { 0.0 };
            prop_assert!((lag1(&x, &sorted(&x)) - naive).abs() < 1e-9);
        }
    }
}
