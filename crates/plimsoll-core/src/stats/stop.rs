//! Decides when a point has enough samples. The sampler's time budget may end it sooner.

use super::MedianInterval;

/// Stops once the median's interval is narrow enough on two consecutive checks; see [`StopRule::check`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Number of samples before the first check.
    pub min_samples: usize,
    /// Requested relative half-width of the median's interval: 0.0025 means ± 0.25 %.
    pub half_width: f64,
    passed_before: bool,
}

impl StopRule {
    /// A rule before its first check.
    #[must_use]
    pub fn new(min_samples: usize, half_width: f64) -> Self {
        StopRule { min_samples, half_width, passed_before: false }
    }

    /// Whether to stop: n ≥ `min_samples`, and the interval's relative half-width is at most the larger of
    /// `half_width` and half of `resolution_relative`, both now and at the previous check.
    ///
    /// `resolution_relative` is the clock's smallest step divided by the timed duration (the whole sample with all its
    /// launches): no number of samples resolves less than half a step.
    pub fn check(&mut self, estimate: &MedianInterval, resolution_relative: f64) -> bool {
        let required = self.half_width.max(resolution_relative / 2.0);
        let passes =
            estimate.n >= self.min_samples && estimate.interval.relative_half_width(estimate.median) <= required;
        std::mem::replace(&mut self.passed_before, passes) && passes
    }

    /// The number of samples for the next check after one at `n`: first `min_samples`, then 10 % more each time.
    #[must_use]
    pub fn next_check(&self, n: usize) -> usize {
        if n < self.min_samples { self.min_samples } else { n + n.div_ceil(10).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;

    fn estimate(n: usize, half_width: f64) -> MedianInterval {
        let interval = Interval { lo: 1.0 - half_width, hi: 1.0 + half_width };
        MedianInterval { n, median: 1.0, interval, ..MedianInterval::default() }
    }

    #[test]
    fn one_good_check_is_not_enough() {
        let mut rule = StopRule::new(30, 0.0025);
        assert!(!rule.check(&estimate(30, 0.002), 0.0));
        assert!(!rule.check(&estimate(33, 0.003), 0.0));
        assert!(!rule.check(&estimate(37, 0.002), 0.0));
        assert!(rule.check(&estimate(41, 0.002), 0.0));
    }

    #[test]
    fn too_few_samples_never_stop() {
        let mut rule = StopRule::new(30, 0.0025);
        assert!(!rule.check(&estimate(29, 0.0), 0.0));
        assert!(!rule.check(&estimate(29, 0.0), 0.0));
    }

    #[test]
    fn a_coarse_clock_needs_no_interval_narrower_than_it_can_resolve() {
        let mut rule = StopRule::new(30, 0.0025);
        rule.check(&estimate(30, 0.004), 0.01);
        assert!(rule.check(&estimate(33, 0.004), 0.01));
    }

    #[test]
    fn checks_come_at_the_minimum_then_at_ten_percent_more() {
        let rule = StopRule::new(30, 0.0025);
        let mut n = 0;
        let at: Vec<usize> = std::iter::repeat_with(|| {
            n = rule.next_check(n);
            n
        })
        .take(5)
        .collect();
        assert_eq!(at, [30, 33, 37, 41, 46]);
        assert!(StopRule::new(0, 0.01).next_check(0) > 0);
    }
}
