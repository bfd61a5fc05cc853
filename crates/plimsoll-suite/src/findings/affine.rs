//! A straight line through times over volumes: `T = a + V/b`, the model of an operation with a fixed cost followed by streaming
//! (a launch and its kernel, a transfer). Used by the findings of `launch` and `transfer`.

use plimsoll_core::series::Estimate;
use plimsoll_core::stats::{Interval, student_t_quantile};

/// A fitted line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine {
    /// The fixed cost, seconds.
    pub a: Estimate,
    /// The rate at large volumes, bytes per second; `None` where the times are compatible with an unlimited rate.
    pub b: Option<Estimate>,
    /// Smallest and largest volume that the line was fitted to, bytes.
    pub over: [f64; 2],
}

/// Half-widths of 95 % intervals are this many standard deviations of a normal distribution.
const NORMAL: f64 = 1.96;

/// Fits times in seconds over volumes in bytes by least squares of the relative deviations, so that a point of 1 µs counts as
/// much as one of 1 ms. The 95 % intervals come from the points' deviations from the line, or from the points' own intervals
/// where these are wider. `None` for fewer than three points or if all volumes are equal.
///
/// Weighted least squares as in Press et al., Numerical Recipes, 3rd edition, 15.2, with weights 1/T².
#[must_use]
pub fn fit(points: &[(f64, Estimate)]) -> Option<Affine> {
    let usable = |point: &&(f64, Estimate)| point.1.value > 0.0 && point.1.value.is_finite() && point.0 > 0.0;
    let points: Vec<(f64, Estimate)> = points.iter().filter(usable).copied().collect();
    let least = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points.iter().map(|point| point.0).fold(0.0, f64::max);
    if points.len() < 3 || least >= most {
        return None;
    }
    // In units of the largest volume, so that the sums below have similar magnitudes.
    let sum = |term: &dyn Fn(f64, f64) -> f64| points.iter().map(|(v, t)| term(v / most, 1.0 / t.value)).sum::<f64>();
    let (s, sx, sxx) = (sum(&|_, w| w * w), sum(&|x, w| x * w * w), sum(&|x, w| x * x * w * w));
    let (sy, sxy) = (sum(&|_, w| w), sum(&|x, w| x * w));
    let determinant = s * sxx - sx * sx;
    // The first test catches sums that overflow.
    if !determinant.is_finite() || determinant <= 1e-9 * s * sxx {
        return None;
    }
    let (a, slope) = ((sxx * sy - sx * sxy) / determinant, (s * sxy - sx * sy) / determinant);
    let n = points.len() as f64;
    let deviations = sum(&|x, w| ((a + slope * x) * w - 1.0).powi(2)) / (n - 2.0);
    let own: f64 =
        points.iter().map(|(_, t)| (t.interval.hi - t.interval.lo) / (2.0 * NORMAL * t.value)).map(|d| d * d).sum();
    let variance = deviations.max(own / n);
    let scale = student_t_quantile(0.975, n - 2.0) * variance.sqrt();
    let (da, dslope) = (scale * (sxx / determinant).sqrt(), scale * (s / determinant).sqrt());
    let rate = (slope > dslope).then(|| Estimate {
        value: most / slope,
        interval: Interval { lo: most / (slope + dslope), hi: most / (slope - dslope) },
    });
    let a = Estimate { value: a, interval: Interval { lo: a - da, hi: a + da } };
    is_finite(&a).then(|| Affine { a, b: rate.filter(is_finite), over: [least, most] })
}

fn is_finite(known: &Estimate) -> bool {
    [known.value, known.interval.lo, known.interval.hi].iter().all(|number| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;

    fn exactly(value: f64) -> Estimate {
        Estimate { value, interval: Interval { lo: value, hi: value } }
    }

    fn points_on_line(a: f64, b: f64, noise: impl FnMut() -> f64) -> Vec<(f64, Estimate)> {
        let mut noise = noise;
        (12..26).map(|log| f64::from(1 << log)).map(|v| (v, exactly((a + v / b) * (1.0 + noise())))).collect()
    }

    #[test]
    fn fit_recovers_the_line_behind_exact_points() {
        let found = fit(&points_on_line(2.37e-6, 5.75e12, || 0.0)).unwrap();
        assert!((found.a.value / 2.37e-6 - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.b.unwrap().value / 5.75e12 - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.over, [4096.0, f64::from(1 << 25)]);
    }

    #[test]
    fn fit_needs_three_points_with_different_volumes() {
        assert_eq!(fit(&points_on_line(1e-6, 1e12, || 0.0)[..2]), None);
        assert_eq!(fit(&[(4096.0, exactly(1e-6)); 9]), None);
        assert_eq!(fit(&[]), None);
    }

    #[test]
    fn fit_of_extreme_times_is_finite_or_none() {
        for a in [1e-307, 1e-300, 1e-160, 1e160, 1e300] {
            let found = fit(&points_on_line(a, 1e12 / a, || 0.0));
            assert!(
                found.is_none_or(|line| is_finite(&line.a) && line.b.is_none_or(|b| is_finite(&b))),
                "{a}: {found:?}"
            );
        }
    }

    #[test]
    fn constant_times_have_a_fixed_cost_and_no_rate() {
        let flat: Vec<_> = (12..20).map(|log| (f64::from(1 << log), exactly(2e-6))).collect();
        let found = fit(&flat).unwrap();
        assert!((found.a.value / 2e-6 - 1.0).abs() < 1e-9);
        assert!(found.b.is_none_or(|b| b.value > 1e18), "{found:?}");
    }

    #[test]
    fn uncertain_points_widen_the_intervals() {
        let wide = |(v, t): (f64, Estimate)| {
            (v, Estimate { value: t.value, interval: Interval { lo: 0.9 * t.value, hi: 1.1 * t.value } })
        };
        let exact = points_on_line(2e-6, 1e12, || 0.0);
        let found = fit(&exact.iter().copied().map(wide).collect::<Vec<_>>()).unwrap();
        assert!(found.a.interval.hi - found.a.interval.lo > 0.04 * found.a.value, "{found:?}");
    }

    #[test]
    fn intervals_contain_the_true_line_in_about_95_percent_of_fits() {
        let (mut a, mut b) = (0, 0);
        for seed in 0..1000 {
            let mut rng = Rng::new(seed);
            let found = fit(&points_on_line(2e-6, 1e12, || 0.02 * rng.normal())).unwrap();
            a += u32::from(found.a.interval.contains(2e-6));
            b += u32::from(found.b.unwrap().interval.contains(1e12));
        }
        assert!((930..=970).contains(&a) && (930..=970).contains(&b), "{a} and {b} of 1000");
    }
}
