//! Levels: where a curve over footprint is flat, and where a flat part ends. Used by several probes, which name the plateaus (L1,
//! memory), because only they know what the machine reports.
//!
//! Curves are pairs of footprint and figure, both positive, in any order. Figures may rise (latency) or fall (bandwidth). Their
//! logarithms are compared, so that a factor of two counts the same everywhere.

mod knee;

use plimsoll_core::stats::{Interval, median_sorted};

pub use knee::{Knee, refinement};

/// Narrowest plateau, in octaves of footprint.
const LEAST_SPAN: f64 = 0.9;
/// Fewest points of a plateau.
const LEAST_POINTS: usize = 3;
/// Steepest plateau: change of the figure's logarithm per octave. Address translation and shared caches give plateaus a slope
/// (0.15 per octave where an L2 is larger than the reach of the first TLB); the step to another level is ten times as steep.
const STEEPEST: f64 = 0.25;

/// A range of footprints with about the same figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// The smallest footprint on it, bytes.
    pub from: f64,
    /// The largest footprint on it, bytes.
    pub to: f64,
    /// Median of the figures on it, in the curve's unit.
    pub value: f64,
    /// The middle half of these figures.
    pub interval: Interval,
    /// Median of the figures on its first third.
    pub begin: f64,
    /// Median of the figures on its last third.
    pub end: f64,
}

/// The plateaus and knees of a curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Levels {
    /// Plateaus, in order of footprint.
    pub plateaus: Vec<Plateau>,
    /// Knees, in order of footprint: at most one between each plateau and the next, where the curve changes level.
    pub knees: Vec<Knee>,
}

/// The plateaus and knees of `curve`. Figures of one plateau lie within a factor of 1 + `tolerance` (usually 0.1) of a gentle
/// slope; neighbouring plateaus closer than twice that are merged. Points that aren't positive and finite, and single outliers
/// between two neighbours, are ignored.
#[must_use]
pub fn levels(curve: &[(f64, f64)], tolerance: f64) -> Levels {
    let curve = smooth(&by_footprint(curve));
    let ranges = merge(&curve, flat_ranges(&curve, tolerance), tolerance);
    let plateaus: Vec<Plateau> = ranges.iter().map(|range| plateau(&curve[range.clone()])).collect();
    let knees = (1..plateaus.len()).filter_map(|next| knee(&curve, &ranges, &plateaus, next)).collect();
    Levels { plateaus, knees }
}

/// The knee of a rising curve between two known figures: where the level with the first figure ends.
#[must_use]
pub fn knee_between(curve: &[(f64, f64)], from: f64, to: f64) -> Option<Knee> {
    knee::knee(&smooth(&by_footprint(curve)), 0, from, to)
}

type Range = std::ops::Range<usize>;

/// Points sorted by footprint, one for each (the median where there are several).
fn by_footprint(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let usable = |&(x, y): &(f64, f64)| x > 0.0 && y > 0.0 && x.is_finite() && y.is_finite();
    let mut sorted: Vec<(f64, f64)> = curve.iter().copied().filter(usable).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    sorted.chunk_by(|a, b| a.0 == b.0).map(|same| (same[0].0, median(same))).collect()
}

/// Replaces each figure by the median of itself and its neighbours, which removes spikes and keeps steps in place.
fn smooth(curve: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let figure = |i: usize| match i.checked_sub(1).zip(curve.get(i + 1)) {
        Some((before, _)) => median(&curve[before..i + 2]),
        None => curve[i].1,
    };
    (0..curve.len()).map(|i| (curve[i].0, figure(i))).collect()
}

fn median(points: &[(f64, f64)]) -> f64 {
    median_sorted(&figures(points))
}

fn figures(points: &[(f64, f64)]) -> Vec<f64> {
    let mut figures: Vec<f64> = points.iter().map(|point| point.1).collect();
    figures.sort_by(f64::total_cmp);
    figures
}

/// Ranges of points on gentle slopes, from the left, each as long as possible.
fn flat_ranges(curve: &[(f64, f64)], tolerance: f64) -> Vec<Range> {
    let (mut ranges, mut begin) = (Vec::new(), 0);
    while begin < curve.len() {
        let mut end = begin + 1;
        while end < curve.len() && is_flat(&curve[begin..=end], tolerance) {
            end += 1;
        }
        if end - begin >= LEAST_POINTS && octaves(&curve[begin..end]) >= LEAST_SPAN {
            ranges.push(begin..end);
            begin = end;
        } else {
            begin += 1;
        }
    }
    ranges
}

/// Octaves from the first of `points` to the last.
fn octaves(points: &[(f64, f64)]) -> f64 {
    (points[points.len() - 1].0 / points[0].0).log2()
}

/// True where all of `points` lie near a gentle slope, or near their median where they span too little for a slope.
fn is_flat(points: &[(f64, f64)], tolerance: f64) -> bool {
    let third = points.len().div_ceil(3);
    let (first, last) = (&points[..third], &points[points.len() - third..]);
    let middle = |points: &[(f64, f64)]| (points[0].0 * points[points.len() - 1].0).sqrt();
    let slope = if octaves(points) < LEAST_SPAN {
        0.0
    } else {
        (median(last) / median(first)).ln() / (middle(last) / middle(first)).log2()
    };
    let centre = middle(points);
    let levelled = |&(x, y): &(f64, f64)| (x, y * (-slope * (x / centre).log2()).exp());
    let levelled: Vec<(f64, f64)> = points.iter().map(levelled).collect();
    let median = median(&levelled);
    slope.abs() <= STEEPEST && levelled.iter().all(|point| log_distance(point.1, median) <= (1.0 + tolerance).ln())
}

/// Joins neighbouring ranges where one ends at about the figure at which the next begins: a disturbance between them doesn't
/// split a level.
fn merge(curve: &[(f64, f64)], ranges: Vec<Range>, tolerance: f64) -> Vec<Range> {
    let mut merged: Vec<Range> = Vec::new();
    for range in ranges {
        let begin = plateau(&curve[range.clone()]).begin;
        match merged.last_mut() {
            Some(last) if log_distance(plateau(&curve[last.clone()]).end, begin) <= (1.0 + 2.0 * tolerance).ln() => {
                last.end = range.end;
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Distance of two figures, as the logarithm of their ratio.
fn log_distance(a: f64, b: f64) -> f64 {
    (a / b).ln().abs()
}

fn plateau(points: &[(f64, f64)]) -> Plateau {
    let sorted = figures(points);
    let (quarter, third) = (sorted.len() / 4, points.len().div_ceil(3));
    Plateau {
        from: points[0].0,
        to: points[points.len() - 1].0,
        value: median_sorted(&sorted),
        interval: Interval { lo: sorted[quarter], hi: sorted[sorted.len() - 1 - quarter] },
        begin: median(&points[..third]),
        end: median(&points[points.len() - third..]),
    }
}

/// The knee between plateau `next` and the one before.
fn knee(curve: &[(f64, f64)], ranges: &[Range], plateaus: &[Plateau], next: usize) -> Option<Knee> {
    let (from, to) = (plateaus[next - 1].end, plateaus[next].begin);
    // A falling figure is a rate. Its inverse is a time, which grows in proportion to the misses.
    let time = |figure: f64| if to > from { figure } else { figure.recip() };
    let between = &curve[ranges[next - 1].start..ranges[next].end];
    let times: Vec<(f64, f64)> = between.iter().map(|&(footprint, figure)| (footprint, time(figure))).collect();
    knee::knee(&times, next - 1, time(from), time(to)).map(|knee| Knee { step: to / from, ..knee })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::stats::Rng;

    const KIB: f64 = 1024.0;

    /// Footprints from 2 KiB to 1 GiB.
    fn footprints(per_octave: u32) -> Vec<f64> {
        (0..=19 * per_octave).map(|i| 2.0 * KIB * (f64::from(i) / f64::from(per_octave)).exp2()).collect()
    }

    /// Latency in cycles of a machine with LRU-like caches of 48 KiB, 2 MiB and 32 MiB under random accesses.
    fn latency(footprint: f64) -> f64 {
        let levels = [(48.0 * KIB, 5.0), (2048.0 * KIB, 15.0), (32768.0 * KIB, 70.0), (f64::INFINITY, 400.0)];
        let mut above = 0.0;
        let mut sum = 0.0;
        for (capacity, cycles) in levels {
            let share = (capacity / footprint).min(1.0).powi(12);
            sum += (share - above) * cycles;
            above = share;
        }
        sum
    }

    fn noisy(seed: u64, sigma: f64, figure: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let mut rng = Rng::new(seed);
        let point = |x: f64| (x, figure(x) * (sigma * rng.normal()).exp());
        footprints(3).into_iter().map(point).collect()
    }

    #[test]
    fn every_level_is_found_despite_noise() {
        for seed in 0..50 {
            let found = levels(&noisy(seed, 0.02, latency), 0.1);
            let values: Vec<f64> = found.plateaus.iter().map(|plateau| plateau.value).collect();
            assert_eq!(values.len(), 4, "seed {seed}: {found:?}");
            for (value, expected) in values.iter().zip([5.0, 15.0, 70.0, 400.0]) {
                assert!((value / expected - 1.0).abs() < 0.1, "seed {seed}: {values:?}");
            }
            for (knee, capacity) in found.knees.iter().zip([48.0, 2048.0, 32768.0]) {
                let error = knee.capacity / (capacity * KIB) - 1.0;
                assert!(error.abs() < 0.2, "seed {seed}: {knee:?}");
            }
        }
    }

    #[test]
    fn refinement_brings_capacities_within_a_tenth() {
        let mut curve = noisy(1, 0.005, latency);
        assert!(!refinement(&levels(&curve, 0.1), 1.05, 9).is_empty());
        for _ in 0..3 {
            let more = refinement(&levels(&curve, 0.1), 1.05, 9);
            curve.extend(more.into_iter().map(|x| (x, latency(x))));
        }
        let found = levels(&curve, 0.1);
        for (knee, capacity) in found.knees.iter().zip([48.0, 2048.0, 32768.0]) {
            assert!((knee.capacity / (capacity * KIB) - 1.0).abs() < 0.1, "{knee:?}");
            assert!(knee.between[1] / knee.between[0] < 1.06, "{knee:?}");
        }
        assert!(refinement(&found, 1.06, 9).is_empty());
    }

    #[test]
    fn sloping_plateau_is_one_level() {
        // Like an L2 larger than the reach of the first TLB, and a last-level cache that others use too.
        let sloping = |x: f64| match x / KIB {
            ..48.0 => 5.0,
            ..384.0 => 16.0,
            ..2048.0 => 16.0 + 3.0 * (x / KIB / 384.0).log2(),
            ..9000.0 => 103.0 * (x / KIB / 2048.0).powf(0.2),
            _ => 390.0,
        };
        let found = levels(&noisy(2, 0.01, sloping), 0.1);
        assert_eq!(found.plateaus.len(), 4, "{found:?}");
        for (knee, capacity) in found.knees.iter().zip([48.0, 2048.0, 9000.0]) {
            assert!(knee.between[0] < capacity * KIB && knee.between[1] >= capacity * KIB, "{knee:?}");
        }
    }

    #[test]
    fn level_hidden_by_noise_does_not_move_the_end_of_the_one_before() {
        let hidden = |x: f64| match x / KIB {
            ..2048.0 => 16.0,
            ..9000.0 => 103.0 * (x / KIB / 2048.0).powf(0.7),
            _ => 390.0,
        };
        let found = levels(&noisy(2, 0.01, hidden), 0.1);
        assert_eq!((found.plateaus.len(), found.knees.len()), (2, 1), "{found:?}");
        let [lo, hi] = found.knees[0].between;
        assert!(lo < 2048.0 * KIB && hi >= 2048.0 * KIB, "{found:?}");
    }

    #[test]
    fn falling_curves_have_the_same_levels_as_rising_ones() {
        let rising = noisy(3, 0.01, latency);
        let falling: Vec<(f64, f64)> = rising.iter().map(|&(x, y)| (x, 1.0 / y)).collect();
        let (a, b) = (levels(&rising, 0.1), levels(&falling, 0.1));
        assert_eq!(a.plateaus.len(), b.plateaus.len());
        for (a, b) in a.knees.iter().zip(&b.knees) {
            assert_eq!(a.between, b.between);
        }
    }

    #[test]
    fn single_spike_neither_starts_nor_ends_a_level() {
        let mut curve = noisy(0, 0.0, |_| 5.0);
        curve[20].1 = 50.0;
        let found = levels(&curve, 0.1);
        assert_eq!((found.plateaus.len(), found.knees.len()), (1, 0));
    }

    #[test]
    fn slopes_and_empty_curves_have_no_levels() {
        assert!(levels(&noisy(0, 0.0, f64::sqrt), 0.1).plateaus.is_empty());
        assert_eq!(levels(&[], 0.1), Levels::default());
        assert_eq!(levels(&[(1.0, f64::NAN), (0.0, 1.0), (2.0, 3.0)], 0.1), Levels::default());
    }

    #[test]
    fn point_order_does_not_matter_and_repeated_points_are_joined() {
        let curve = noisy(7, 0.01, latency);
        let mut shuffled: Vec<(f64, f64)> = curve.iter().chain(&curve).copied().collect();
        Rng::new(5).shuffle(&mut shuffled);
        assert_eq!(levels(&shuffled, 0.1), levels(&curve, 0.1));
    }
}
