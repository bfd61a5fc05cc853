//! Lists of sizes that probes measure.

/// A size in whole grains, at least one.
pub(crate) fn whole(bytes: f64, grain: u64) -> u64 {
    ((bytes / grain as f64).round() as u64).max(1).saturating_mul(grain)
}

/// `least` and every `every`th octave above it, up to `most`.
#[cfg(feature = "gpu")]
pub(crate) fn octaves(least: u64, most: u64, every: u32) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(least), move |size| size.checked_mul(1 << every)).take_while(move |size| *size <= most)
}

/// From `least` to `most` inclusive, so many per octave, in whole grains.
#[cfg(feature = "gpu")]
pub(crate) fn per_octave(least: u64, most: u64, count: u32, grain: u64) -> Vec<u64> {
    let size = |step: u32| whole(least as f64 * (f64::from(step) / f64::from(count)).exp2(), grain);
    let mut sizes: Vec<u64> = (0..64 * count).map(size).take_while(|size| *size <= most).collect();
    sizes.dedup();
    sizes
}

/// `from`, then always `factor` of the size before times as much, below `to`, in whole grains.
pub(crate) fn growing(from: f64, to: f64, factor: impl Fn(f64) -> f64, grain: u64) -> impl Iterator<Item = u64> {
    let next = move |size: &f64| Some(size * factor(*size));
    std::iter::successors(Some(from), next).take_while(move |size| *size < to).map(move |size| whole(size, grain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "gpu")]
    #[test]
    fn octaves_start_at_the_least_and_end_by_the_most() {
        assert_eq!(octaves(4 << 10, 100 << 10, 2).collect::<Vec<_>>(), [4 << 10, 16 << 10, 64 << 10]);
        assert_eq!(octaves(3, 24, 1).collect::<Vec<_>>(), [3, 6, 12, 24]);
        assert_eq!(octaves(3, 2, 1).count(), 0);
        assert_eq!(octaves(1, u64::MAX, 1).count(), 64);
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn sizes_per_octave_are_whole_grains_that_grow_to_the_most() {
        let sizes = per_octave(2 << 10, 2 << 30, 3, 128);
        assert_eq!((sizes[0], sizes.last().copied()), (2 << 10, Some(2 << 30)));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1] && pair[1] % 128 == 0));
        assert!(per_octave(2 << 10, (2 << 10) - 1, 3, 128).is_empty());
        assert_eq!(per_octave(1, 8, 2, 1), [1, 2, 3, 4, 6, 8]);
    }

    #[test]
    fn growing_sizes_follow_their_factor_and_stay_below_the_end() {
        let factor = |size: f64| if size < 300.0 { 1.5 } else { 2.0 };
        assert_eq!(growing(100.0, 800.0, factor, 10).collect::<Vec<_>>(), [100, 150, 230, 340, 680]);
        assert_eq!(growing(100.0, 100.0, factor, 10).count(), 0);
        assert_eq!(growing(1.0, 2.0, factor, 10).collect::<Vec<_>>(), [10, 10]);
    }
}
