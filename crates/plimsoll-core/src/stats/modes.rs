//! Tests whether the samples have two modes: a valley deeper than chance explains, in the manner of Hartigan's dip.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interval::inflation;
use super::{Scratch, median_sorted};

/// Two separated modes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Modes {
    /// Median of the samples below the valley, in their unit.
    pub lower: f64,
    /// Median of the samples above the valley, in their unit.
    pub upper: f64,
    /// Share of the samples above the valley, 0 to 1.
    pub upper_fraction: f64,
}

/// Depth × √n above which a valley is significant. Uniform samples, the hardest unimodal shape, reach it in 2 % of sets;
/// normal, lognormal and Student t₃ samples reach it in any of [`PARTS`] in at most 0.5 % of sets, exponential ones in
/// at most 2 % (1,000 sets each of n = 33 to 2,000). Modes 5σ apart are then found, at n = 33, 100, 200, 500, in 38, 96,
/// 100, 100 % of sets where both have the same weight, and in 2, 26, 65, 97 % where the smaller one has a weight of 15 %.
const DEPTH: f64 = 0.9;
/// Least depth of a valley, however many samples there are: 1 in 20 would have to move to fill it.
const DEPTH_FLOOR: f64 = 0.05;
/// Modes closer than this fraction of the median count as one: they can't change a figure by more than its precision.
const SEPARATION: f64 = 0.005;
/// Least weight of the smaller mode; anything less counts as outliers.
const LEAST_WEIGHT: f64 = 0.08;
/// The parts of the sorted samples that are tested. Every part of a unimodal sample is unimodal, and the dip is deepest in
/// the part where both modes have about the same weight. In the whole sample, the slope of the larger mode would hide a mode
/// of 15 %.
const PARTS: [(f64, f64); 5] = [(0.0, 1.0), (0.0, 0.6), (0.4, 1.0), (0.0, 0.3), (0.7, 1.0)];
/// Fewest samples of a part.
const LEAST_SAMPLES: usize = 8;

/// The two modes of the samples in `scratch.sorted`, if there are two. `lag1` is their autocorrelation, because slow wander
/// also produces valleys.
pub(super) fn modes_of_sorted(lag1: f64, scratch: &mut Scratch) -> Option<Modes> {
    let Scratch { sorted, work, hull } = scratch;
    let n = sorted.len();
    let inflation = inflation(n, lag1);
    spread_ties(sorted, work);
    PARTS.iter().find_map(|&(from, to)| {
        let (from, to) = ((n as f64 * from) as usize, (n as f64 * to).ceil() as usize);
        let count = to - from;
        if count < LEAST_SAMPLES {
            return None;
        }
        let valley = deepest_valley(&work[from..to], hull);
        if valley.depth / (count as f64) < (DEPTH * (inflation / count as f64).sqrt()).max(DEPTH_FLOOR) {
            return None;
        }
        let (below, above) = sorted.split_at(from + valley.at);
        let modes = Modes {
            lower: median_sorted(below),
            upper: median_sorted(above),
            upper_fraction: above.len() as f64 / n as f64,
        };
        let weight = modes.upper_fraction.min(1.0 - modes.upper_fraction);
        let is_separated = modes.upper - modes.lower > SEPARATION * median_sorted(sorted).abs();
        (is_separated && weight > LEAST_WEIGHT).then_some(modes)
    })
}

/// Spreads equal samples evenly over one tick, the smallest step between different samples, because otherwise every tick of
/// the clock would look like a mode. (So two values with nothing between them are two ticks, not two modes.)
fn spread_ties(sorted: &[f64], out: &mut Vec<f64>) {
    // The same number of ticks divided by the same batch may differ in the last bits.
    let same = 1e-9 * sorted.last().map_or(0.0, |x| x.abs());
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    let tick = steps.filter(|&step| step > same).reduce(f64::min).unwrap_or(0.0);
    out.clear();
    for run in sorted.chunk_by(|a, b| b - a <= same) {
        let count = run.len() as f64;
        out.extend((0..run.len()).map(|j| run[0] + tick * ((j as f64 + 0.5) / count - 0.5)));
    }
}

/// A valley before sample `at`; `depth` is the number of samples that are missing in it.
#[derive(Clone, Copy)]
struct Valley {
    depth: f64,
    at: usize,
}

/// The distance of the cumulative count of `sorted` from the nearest curve that is convex up to a mode and concave after it,
/// minimized over the mode: about twice Hartigan's dip, times the count.
///
/// As the mode moves right, the deviation on its left can only grow and that on its right only shrink, so bisection finds the
/// best mode: O(n log n). (J. A. & P. M. Hartigan, Ann. Stat. 13, 1985.)
fn deepest_valley(sorted: &[f64], hull: &mut Vec<u32>) -> Valley {
    let (mut low, mut high) = (0, sorted.len());
    let mut best = Valley { depth: f64::INFINITY, at: 0 };
    while low < high {
        let mode = usize::midpoint(low, high);
        let left = deviation(&sorted[..=mode], 1.0, hull);
        let right = deviation(&sorted[mode..], -1.0, hull);
        let left_is_worse = left.depth > right.depth;
        let worse = if left_is_worse { left } else { Valley { at: mode + right.at, ..right } };
        if worse.depth < best.depth {
            best = worse;
        }
        if left_is_worse {
            high = mode;
        } else {
            low = mode + 1;
        }
    }
    best
}

/// Largest deviation of the cumulative count of `x` above its greatest convex minorant (`side` 1), or below its least
/// concave majorant (`side` −1), and the sample at which it occurs.
fn deviation(x: &[f64], side: f64, hull: &mut Vec<u32>) -> Valley {
    let y = |i: usize| side * i as f64;
    hull.clear();
    for i in 0..x.len() {
        while let [.., a, b] = hull[..] {
            let (a, b) = (a as usize, b as usize);
            let is_convex = (y(b) - y(a)) * (x[i] - x[a]) < (y(i) - y(a)) * (x[b] - x[a]);
            if is_convex {
                break;
            }
            hull.pop();
        }
        hull.push(i as u32);
    }
    let mut worst = Valley { depth: 0.0, at: 0 };
    for edge in hull.windows(2) {
        let (a, b) = (edge[0] as usize, edge[1] as usize);
        let slope = if x[b] > x[a] { (y(b) - y(a)) / (x[b] - x[a]) } else { 0.0 };
        for i in a + 1..b {
            let depth = y(i) - y(a) - slope * (x[i] - x[a]);
            if depth > worst.depth {
                worst = Valley { depth, at: i };
            }
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Rng, summarize};

    fn share_bimodal(n: usize, sets: u32, mut draw: impl FnMut(&mut Rng) -> f64) -> f64 {
        let mut rng = Rng::new(11);
        let mut scratch = Scratch::new();
        let bimodal = (0..sets).filter(|_| {
            let x: Vec<f64> = (0..n).map(|_| draw(&mut rng)).collect();
            summarize(&x, &mut scratch).modes.is_some()
        });
        bimodal.count() as f64 / f64::from(sets)
    }

    #[test]
    fn common_unimodal_shapes_are_rarely_called_bimodal() {
        for n in [33, 100, 400] {
            let share = |draw: fn(&mut Rng) -> f64| share_bimodal(n, 200, draw);
            let figures = [
                ("normal", share(|r| 1.0 + 0.01 * r.normal())),
                ("lognormal", share(|r| (0.05 * r.normal()).exp())),
                ("exponential", share(|r| 1.0 - 0.05 * (1.0 - r.uniform()).ln())),
                ("ticks of σ", share(|r| (100.0 * (1.0 + 0.01 * r.normal())).round() / 100.0)),
                ("ticks of 3σ", share(|r| (33.0 * (1.0 + 0.01 * r.normal())).round() / 33.0)),
                ("spikes", share(|r| 1.0 + 0.01 * r.normal() + if r.uniform() < 0.03 { 1.0 } else { 0.0 })),
            ];
            for (name, share) in figures {
                assert!(share <= 0.03, "{name}, n = {n}: {share}");
            }
        }
    }

    #[test]
    fn modes_five_percent_apart_are_found() {
        let two =
            |weight: f64| move |r: &mut Rng| 1.0 + 0.01 * r.normal() + if r.uniform() < weight { 0.05 } else { 0.0 };
        assert!(share_bimodal(100, 100, two(0.5)) > 0.9);
        assert!(share_bimodal(200, 100, two(0.3)) > 0.9);
        assert!(share_bimodal(600, 50, two(0.15)) > 0.9);
        assert!(share_bimodal(600, 50, two(0.85)) > 0.9);
        let ticks = |r: &mut Rng| (two(0.3)(r) * 200.0).round() / 200.0;
        assert!(share_bimodal(400, 50, ticks) > 0.9);
    }

    #[test]
    fn both_modes_and_their_weight_are_reported() {
        let mut rng = Rng::new(5);
        let x: Vec<f64> = (0..800).map(|i| 1.0 + 0.01 * rng.normal() + if i % 4 == 0 { 0.06 } else { 0.0 }).collect();
        let m = summarize(&x, &mut Scratch::new()).modes.expect("two modes");
        assert!((m.lower - 1.0).abs() < 0.005 && (m.upper - 1.06).abs() < 0.005, "{m:?}");
        assert!((m.upper_fraction - 0.25).abs() < 0.05, "{m:?}");
    }

    #[test]
    fn modes_closer_than_the_precision_count_as_one() {
        let close = |r: &mut Rng| 1.0 + 0.0002 * r.normal() + if r.uniform() < 0.5 { 0.002 } else { 0.0 };
        assert_eq!(share_bimodal(300, 20, close), 0.0);
    }

    #[test]
    fn few_or_equal_samples_have_one_mode() {
        let mut scratch = Scratch::new();
        assert_eq!(summarize(&[], &mut scratch).modes, None);
        assert_eq!(summarize(&[1.0], &mut scratch).modes, None);
        assert_eq!(summarize(&[1.0; 50], &mut scratch).modes, None);
    }
}
