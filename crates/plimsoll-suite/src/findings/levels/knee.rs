//! Knees: where a level ends, read from the rise between its plateau and the next. What makes a plateau is left to the
//! module above.
//!
//! A footprint a little larger than a cache doesn't miss everywhere at once. How the share of misses grows depends on what
//! the cache throws away and on how evenly the lines are spread over its sets. In multiples of the capacity, by simulation of
//! a random cycle (16 ways; 'pages' are 4 KiB pages that fall on the sets as they happen to lie, 'half' half as uneven):
//!
//! | replacement | spread | 10 % miss | 36 % | 50 % | 90 % |
//! | --- | --- | --- | --- | --- | --- |
//! | LRU and its kin | even | 1.01 | 1.02 | 1.04 | 1.06 |
//! | LRU and its kin | half | 0.87 | 0.98 | 1.02 | 1.19 |
//! | LRU and its kin | pages | 0.70 | 0.90 | 0.98 | 1.34 |
//! | random | even | 1.06 | 1.24 | 1.39 | 2.52 |
//! | random | half | 1.01 | 1.24 | 1.39 | 2.53 |
//! | random | pages | 0.89 | 1.21 | 1.39 | 2.57 |
//!
//! (Random and even is known in closed form: −ln(1 − m) / m at a share m of misses.) No share of misses is reached at the
//! capacity in all cases, and the onset, extrapolated to no misses, is 38 % low in the third. 36 % of misses is within 10 %
//! for all that resembles LRU, and was within 10 % in four of five runs on a Xeon's L2, whose rise lies between LRU's and
//! random replacement's; the others were runs beside heavy load. Random replacement is told by its long upper tail: uneven
//! sets widen both sides of the rise alike.

use plimsoll_core::stats::Interval;

/// The share of misses taken for the capacity.
const MISSES: f64 = 0.36;
/// The shares between which it is known to lie.
const KNOWN: [f64; 2] = [0.2, 0.5];
/// Shares that tell the tails.
const TAILS: [f64; 2] = [0.1, 0.9];
/// How long the upper tail is where the lower one is 1, as logarithms, without random replacement.
const EVEN_TAILS: f64 = 1.8;
/// Excess of the upper tail that says nothing.
const USUAL_EXCESS: f64 = 0.06;
/// How much lower the capacity's logarithm may be per excess: brings the last three cases of the table, measured as a probe
/// measures, within 12 %.
const PER_EXCESS: f64 = 0.55;
/// How much lower it is at the most. Uneven sets can look like random replacement, which is rarer than they are: the rest
/// of what the excess allows widens the interval alone.
const MOST_LOWER: f64 = 0.06;
/// Shares of misses between which points are worth having.
const WORTH: [f64; 2] = [0.05, 0.9];
/// What a gap beyond the capacity's interval counts, where only the tail's length is read.
const IN_TAIL: f64 = 0.4;
/// The highest step from one level to the next: caches are three to nine times as slow as the one before. Where a step is
/// higher, a level in between was lost in noise.
const HIGHEST_STEP: f64 = 10.0;
/// What a step is taken for where a level was lost.
const USUAL_STEP: f64 = 5.0;

/// Where a level ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// Index of the plateau that ends here.
    pub plateau: usize,
    /// The footprint that the level just holds, bytes: where 36 % of the accesses miss, less where the upper tail is long.
    pub capacity: f64,
    /// From a fifth of misses to a half, and no narrower than the neighbours of the capacity on the curve, bytes.
    pub interval: Interval,
    /// The neighbours on the curve of 36 % of misses, bytes.
    pub between: [f64; 2],
    /// The curve's footprints from the last with hardly a miss to the first where nearly all miss, bytes, rising.
    pub rise: Vec<f64>,
    /// Where the next plateau begins over where this one ends, as a ratio of figures.
    pub step: f64,
}

/// The knee after plateau `plateau`. `curve` rises and holds the footprints of both plateaus and all between, with times per
/// access; `from` is the time where the plateau ends, `to` where the next begins. `None` where the curve doesn't cross.
pub(super) fn knee(curve: &[(f64, f64)], plateau: usize, from: f64, to: f64) -> Option<Knee> {
    let lost = to > HIGHEST_STEP * from;
    let top = if lost { USUAL_STEP * from } else { to };
    let misses: Vec<f64> = curve.iter().map(|point| (point.1 - from) / (top - from)).collect();
    let rise = Rise { footprints: curve.iter().map(|point| point.0).collect(), misses: monotone(&misses) };
    let at = rise.crossing(MISSES)?;
    let excess = match (lost, rise.crossing(TAILS[0]).zip(rise.crossing(TAILS[1]))) {
        (false, Some((low, high))) => (high / at).ln() - EVEN_TAILS * (at / low).ln() - USUAL_EXCESS,
        _ => 0.0,
    };
    let lower = PER_EXCESS * excess.max(0.0);
    let (capacity, least) = (at * (-lower.min(MOST_LOWER)).exp(), at * (-lower).exp());
    let after = rise.first(MISSES)?;
    let between = [rise.footprints[after - 1], rise.footprints[after]];
    let known = KNOWN.map(|share| rise.crossing(share).unwrap_or(at));
    let (last, end) = (rise.first(WORTH[0])? - 1, rise.first(WORTH[1])?);
    Some(Knee {
        plateau,
        capacity,
        interval: Interval { lo: known[0].min(between[0]).min(least), hi: known[1].max(between[1]) },
        between,
        rise: rise.footprints[last..=end].to_vec(),
        step: to / from,
    })
}

/// The share of misses over the footprint, neither ever falling.
struct Rise {
    footprints: Vec<f64>,
    misses: Vec<f64>,
}

impl Rise {
    /// The first point with this share or more that has one with less before it.
    fn first(&self, share: f64) -> Option<usize> {
        self.misses.iter().position(|&misses| misses >= share).filter(|&first| first > 0)
    }

    /// The footprint with this share of misses, between the logarithms of its neighbours.
    fn crossing(&self, share: f64) -> Option<f64> {
        let after = self.first(share)?;
        let (a, b) = (self.misses[after - 1], self.misses[after]);
        let (lo, hi) = (self.footprints[after - 1], self.footprints[after]);
        Some(lo * (hi / lo).powf((share - a) / (b - a)))
    }
}

/// The rising sequence nearest to `values` in least squares: neighbours that fall are joined at their mean, until none do.
/// (Pool adjacent violators: Ayer et al., Ann. Math. Statist. 26, 1955.)
fn monotone(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &value in values {
        let mut pool = (value, 1);
        while let Some(&(mean, size)) = pools.last().filter(|last| last.0 > pool.0) {
            let all = size + pool.1;
            pool = ((mean * size as f64 + pool.0 * pool.1 as f64) / all as f64, all);
            pools.pop();
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, size)| std::iter::repeat_n(mean, size)).collect()
}

/// Footprints to measure next, so that no two neighbours where misses begin are further apart than a factor of
/// `resolution`, nor than its 2.5th power where most miss, in order; none where none are. `most` is how many to add at most at
/// each knee: the widest gaps first.
#[must_use]
pub fn refinement(levels: &super::Levels, resolution: f64, most: usize) -> Vec<f64> {
    levels.knees.iter().flat_map(|knee| between(&knee.rise, knee.interval.hi, resolution, most)).collect()
}

/// A gap of a rise: where it begins, its width as a logarithm, what that counts, and into how many parts it is cut.
struct Gap {
    from: f64,
    width: f64,
    counts: f64,
    parts: u32,
}

fn between(rise: &[f64], tail: f64, resolution: f64, most: usize) -> Vec<f64> {
    let gap = |pair: &[f64]| {
        let counts = if pair[0] < tail { 1.0 } else { IN_TAIL };
        Gap { from: pair[0], width: (pair[1] / pair[0]).ln(), counts, parts: 1 }
    };
    let mut gaps: Vec<Gap> = rise.windows(2).map(gap).collect();
    let weight = |gap: &Gap| gap.width * gap.counts / f64::from(gap.parts);
    for _ in 0..most {
        let widest = gaps.iter_mut().max_by(|a, b| weight(a).total_cmp(&weight(b)));
        match widest.filter(|gap| weight(gap) > resolution.ln()) {
            Some(gap) => gap.parts += 1,
            None => break,
        }
    }
    let inside = |gap: Gap| {
        let share = move |part: u32| f64::from(part) / f64::from(gap.parts);
        (1..gap.parts).map(move |part| gap.from * (gap.width * share(part)).exp())
    };
    gaps.into_iter().flat_map(inside).collect()
}

#[cfg(test)]
mod tests;
