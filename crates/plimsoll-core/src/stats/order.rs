//! Order statistics of sorted samples: median and median absolute deviation. Nothing here copies or allocates;
//! [`super::Scratch`] owns the sorted copy.

/// Median of ascending `sorted`: the middle sample, or the mean of the middle two. 0 where there are no samples.
#[must_use]
pub fn median_sorted(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Median of figures in any order; 0 where there are none. Unlike everything else here it sorts, in the vector that it is given.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    median_sorted(&figures)
}

/// Median absolute deviation from the median, of ascending `sorted`, in the samples' unit and unscaled
/// (for normal noise, σ ≈ 1.4826 × MAD). 0 where there are no samples.
///
/// Distances from the median grow outwards on both sides, so the two sides are merged from the middle: O(n), in place.
#[must_use]
pub fn mad(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    if n == 0 {
        return 0.0;
    }
    let median = median_sorted(sorted);
    let mut right = sorted.partition_point(|&x| x < median);
    let mut left = right;
    let (mut before, mut last) = (0.0, 0.0);
    for _ in 0..=n / 2 {
        before = last;
        let below = if left > 0 { median - sorted[left - 1] } else { f64::INFINITY };
        let above = if right < n { sorted[right] - median } else { f64::INFINITY };
        if below <= above {
            left -= 1;
            last = below;
        } else {
            right += 1;
            last = above;
        }
    }
    if n % 2 == 1 { last } else { f64::midpoint(before, last) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut x: Vec<f64>) -> Vec<f64> {
        x.sort_by(f64::total_cmp);
        x
    }

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        // Small integers make ties and zero deviations common.
        prop_oneof![
            prop::collection::vec(-1e3..1e3, 1..60),
            prop::collection::vec((-4i32..4).prop_map(f64::from), 1..60)
        ]
    }

    #[test]
    fn an_even_count_takes_the_mean_of_the_middle_two() {
        assert_eq!(median_sorted(&[1.0, 2.0, 4.0, 9.0]), 3.0);
        assert_eq!(median_sorted(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!((median_sorted(&[]), mad(&[])), (0.0, 0.0));
    }

    proptest! {
        #[test]
        fn mad_equals_sorting_the_distances(x in samples()) {
            let x = sorted(x);
            let m = median_sorted(&x);
            let naive = median_sorted(&sorted(x.iter().map(|v| (v - m).abs()).collect()));
            prop_assert_eq!(mad(&x), naive);
        }
    }
}
