//! Statistics of the sampling engine: order statistics, the median's interval, the samples' shape, the rule that stops
//! a point, tests of significance and a seeded random number generator.
//!
//! The functions that the engine calls while it measures work on slices and on a [`Scratch`] that the caller owns, and
//! allocate nothing. Figures are plain `f64` in any one unit. Flags and budgets are handled elsewhere.

mod distribution;
mod interval;
mod modes;
mod multiple;
mod order;
mod rng;
mod shape;
mod stop;

#[cfg(test)]
mod coverage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use distribution::{student_t_cdf, student_t_quantile, student_t_upper};
pub use interval::{CORRELATED_ABOVE, Interval, MedianInterval, estimate, lag1, median_interval};
pub use modes::Modes;
pub use multiple::holm;
pub use order::{mad, median, median_sorted};
pub use rng::Rng;
pub use shape::{Drift, OUTLIER_ABOVE, OUTLIER_LEAST, OUTLIER_SHARE, Outliers, drift, outliers};
pub use stop::StopRule;

/// Maximum number of samples of one point, and the default capacity of a [`Scratch`].
pub const MAX_SAMPLES: usize = 4096;

/// Reusable working memory, so that nothing here allocates. More samples than its capacity are handled too, but make it grow.
#[derive(Debug)]
pub struct Scratch {
    sorted: Vec<f64>,
    work: Vec<f64>,
    hull: Vec<u32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Self::with_capacity(MAX_SAMPLES)
    }
}

impl Scratch {
    /// Allocates enough for one point of up to [`MAX_SAMPLES`] samples.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates enough for `samples` samples.
    #[must_use]
    pub fn with_capacity(samples: usize) -> Self {
        Scratch {
            sorted: Vec::with_capacity(samples),
            work: Vec::with_capacity(samples),
            hull: Vec::with_capacity(samples),
        }
    }

    fn sort(&mut self, samples: &[f64]) {
        self.sorted.clear();
        self.sorted.extend_from_slice(samples);
        self.sorted.sort_unstable_by(f64::total_cmp);
    }
}

/// Summary of the samples of one point. Times and similar figures are in the samples' unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Median.
    pub median: f64,
    /// Nominal 95 % interval of the median, see [`median_interval`].
    pub interval: Interval,
    /// Smallest sample.
    pub min: f64,
    /// Largest sample.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median absolute deviation from the median, unscaled.
    pub mad: f64,
    /// Rank autocorrelation at lag 1, −1 to 1.
    pub lag1: f64,
    /// Neighbouring samples are correlated, see [`MedianInterval::correlated`].
    pub correlated: bool,
    /// Samples far from the others.
    pub outliers: Outliers,
    /// Change from the first third to the last.
    pub drift: Drift,
    /// The two modes, if there are two.
    pub modes: Option<Modes>,
}

impl Summary {
    /// Half-width of the median's interval as a fraction of the median.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        self.interval.relative_half_width(self.median)
    }
}

/// Summarizes finite samples, `in_order` as taken; all zeros where there are none. Allocates nothing up to [`MAX_SAMPLES`].
/// Costs a few sorts, so the checks between samples use [`estimate`].
#[must_use]
pub fn summarize(in_order: &[f64], scratch: &mut Scratch) -> Summary {
    let n = in_order.len();
    if n == 0 {
        return Summary::default();
    }
    let drift = drift(in_order, scratch);
    // `drift` overwrites the sorted copy; from here on it holds all samples.
    let estimate = estimate(in_order, scratch);
    let modes = modes::modes_of_sorted(estimate.lag1, scratch);
    let sorted = &scratch.sorted;
    Summary {
        n,
        median: estimate.median,
        interval: estimate.interval,
        min: sorted[0],
        max: sorted[n - 1],
        mean: in_order.iter().sum::<f64>() / n as f64,
        mad: mad(sorted),
        lag1: estimate.lag1,
        correlated: estimate.correlated,
        outliers: outliers(sorted, OUTLIER_LEAST),
        drift,
        modes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    // Imported by name, because proptest's prelude has a trait of the same name.
    use crate::stats::Rng;
    use proptest::prelude::*;

    #[test]
    fn no_samples_give_zeros() {
        assert_eq!(summarize(&[], &mut Scratch::new()), Summary::default());
    }

    #[test]
    fn a_full_point_fits_in_the_scratch() {
        let mut rng = Rng::new(1);
        let x: Vec<f64> = (0..MAX_SAMPLES).map(|_| 1.0 + 0.01 * rng.normal()).collect();
        let mut scratch = Scratch::new();
        let before = (scratch.sorted.capacity(), scratch.work.capacity(), scratch.hull.capacity());
        let summary = summarize(&x, &mut scratch);
        assert_eq!((scratch.sorted.capacity(), scratch.work.capacity(), scratch.hull.capacity()), before);
        assert!(!summary.correlated && !summary.drift.significant && !summary.outliers.significant);
        assert_eq!(summary.modes, None);
    }

    #[test]
    fn summaries_round_trip_through_json_bit_for_bit() {
        let mut rng = Rng::new(2);
        let x: Vec<f64> = (0..100).map(|_| rng.normal().exp()).collect();
        let summary = summarize(&x, &mut Scratch::new());
        let json = serde_json::to_string(&summary).expect("finite");
        assert!(json.contains("\"interval\":["), "{json}");
        assert_eq!(serde_json::from_str::<Summary>(&json).expect("its own output"), summary);
    }

    proptest! {
        #[test]
        fn a_summary_does_not_depend_on_the_scratch_s_old_content(
            x in prop::collection::vec(0.1..10.0f64, 1..80),
            y in prop::collection::vec(0.1..10.0f64, 1..80),
        ) {
            let mut used = Scratch::new();
            let _ = summarize(&y, &mut used);
            prop_assert_eq!(summarize(&x, &mut used), summarize(&x, &mut Scratch::new()));
        }

        #[test]
        fn the_median_lies_in_its_interval_and_the_interval_in_the_range(x in prop::collection::vec(-10.0..10.0f64, 1..80)) {
            let s = summarize(&x, &mut Scratch::new());
            prop_assert!(s.min <= s.interval.lo && s.interval.lo <= s.median);
            prop_assert!(s.median <= s.interval.hi && s.interval.hi <= s.max);
        }

        #[test]
        fn a_change_of_unit_does_not_change_the_summary(x in prop::collection::vec(1.0..2.0f64, 1..80)) {
            // A power of two, so that rounding doesn't differ.
            let scaled: Vec<f64> = x.iter().map(|v| v / 1024.0).collect();
            let (a, b) = (summarize(&x, &mut Scratch::new()), summarize(&scaled, &mut Scratch::new()));
            prop_assert_eq!(a.median, b.median * 1024.0);
            prop_assert_eq!((a.lag1, a.correlated, a.outliers), (b.lag1, b.correlated, b.outliers));
            prop_assert_eq!((a.drift, a.modes.is_some()), (b.drift, b.modes.is_some()));
        }
    }
}
