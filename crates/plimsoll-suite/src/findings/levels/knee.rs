//! Knees: where a level ends, read from the rise between its plateau and the next. The parent module finds plateaus.
//!
//! With a footprint slightly larger than the cache, only some accesses miss. How the share of misses grows depends on the
//! replacement policy and on how evenly lines are spread over the sets. The table gives the footprints at which a share of
//! accesses misses, in multiples of the capacity, by simulation of a random cycle with 16 ways. 'Pages' are 4 KiB pages that
//! are placed at random; 'half' is half as uneven.
//!
//! | replacement | spread | 10 % miss | 36 % | 50 % | 90 % |
//! | --- | --- | --- | --- | --- | --- |
//! | LRU and similar | even | 1.01 | 1.02 | 1.04 | 1.06 |
//! | LRU and similar | half | 0.87 | 0.98 | 1.02 | 1.19 |
//! | LRU and similar | pages | 0.70 | 0.90 | 0.98 | 1.34 |
//! | random | even | 1.06 | 1.24 | 1.39 | 2.52 |
//! | random | half | 1.01 | 1.24 | 1.39 | 2.53 |
//! | random | pages | 0.89 | 1.21 | 1.39 | 2.57 |
//!
//! (For random replacement and an even spread there is a closed form: −ln(1 − m) / m at a share m of misses.) No share of misses
//! marks the capacity in all cases, and the onset, extrapolated to zero misses, is 38 % too low in the third. The footprint with
//! 36 % of misses is within 10 % of the capacity for everything that resembles LRU with 16 ways; with 8 ways and pages it is
//! 16 % too low.
//!
//! But where a set keeps its lines up to its number of ways and then loses them all, the set misses from one footprint on, and the
//! mean of these footprints over all accesses is the capacity, however unevenly sets are filled. It is the area below the share of
//! hits. Cut at 5 % and at 90 % of misses, where noise and the next level disturb it, it is within 6 % of the capacity for
//! LRU with 8, 12, 16 or 20 ways in all three rows, and within 2.3 % with a correction by the length of the lower
//! tail ([`LOWER_TAIL`]). For random replacement the area is 1.45 times the capacity.
//!
//! The shape of a gradual rise doesn't tell these cases apart. The L2 of a Xeon has the shape of the third row, but
//! its capacity is where 31 % miss; an L2 with 8 ways and pages at random has the same shape, and 52 % miss at its capacity. So a steep
//! rise is read by its area and a gradual one at 36 %, and the interval contains both readings. Where the system reports the
//! cache's size, `latency` compares.
//!
//! The footprint with 36 % of misses was also within 10 % in four of five runs on a Xeon's L2, whose rise lies between those of LRU
//! and random replacement; the other runs had heavy load alongside. Random replacement shows a long upper tail, whereas uneven
//! sets widen both sides of the rise equally.

use plimsoll_core::stats::Interval;

/// The share of misses at which the footprint is taken for the capacity.
const MISSES: f64 = 0.36;
/// The shares of misses that bound the capacity's interval.
const BOUNDS: [f64; 2] = [0.2, 0.6];
/// The shares of misses where the tails are measured.
const TAILS: [f64; 2] = [0.1, 0.9];
/// Length of the upper tail relative to the lower, as logarithms, without random replacement.
const EVEN_TAILS: f64 = 1.8;
/// Excess of the upper tail that is normal.
const USUAL_EXCESS: f64 = 0.06;
/// How much the excess may lower the capacity's logarithm, as a factor: brings the last three rows of the table, measured as a
/// probe would, within 12 %.
const PER_EXCESS: f64 = 0.55;
/// The most by which the excess lowers it. Uneven sets can look like random replacement, which is rarer; the rest of the
/// correction only widens the interval.
const MOST_LOWER: f64 = 0.06;
/// The shares of misses at which the area of hits is cut.
const CUT: [f64; 2] = [0.05, 0.9];
/// What to add to the logarithm of the area of hits: a number, and a multiple of the logarithm of the footprint with 36 % over that
/// with 10 % of misses. (Least squares of the cases above, with loads of sets as a Poisson distribution has them.)
const LOWER_TAIL: [f64; 2] = [-0.041, 0.26];
/// The length of the lower tail from which on a rise is gradual: longer than any of LRU with equal loads of 8 ways or more.
const GRADUAL: f64 = 0.1;
/// Part of the capacity that the area of hits may be off.
const AREA_ERROR: f64 = 0.03;
/// The shares of misses between which more points are useful.
const USEFUL: [f64; 2] = [0.05, 0.9];
/// Weight of a gap above the capacity's interval, where only the tail's length matters.
const IN_TAIL: f64 = 0.4;
/// The largest step from one level to the next: each cache is three to nine times as slow as the one before. At a larger step a
/// level in between was hidden by noise.
const HIGHEST_STEP: f64 = 10.0;
/// The step that is assumed where a level was hidden.
const USUAL_STEP: f64 = 5.0;

/// Where a level ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Knee {
    /// Index of the plateau that ends here.
    pub plateau: usize,
    /// The capacity of the level, bytes: the area of hits where the rise is steep, else the footprint where 36 % of the accesses
    /// miss, or less where the upper tail is long.
    pub capacity: f64,
    /// From 20 % to 60 % of misses, with the capacity's neighbours on the curve and both readings of it, bytes.
    pub interval: Interval,
    /// The points of the curve below and above 36 % of misses, bytes.
    pub between: [f64; 2],
    /// The curve's footprints from the last with hardly any misses to the first with nearly only misses, bytes, ascending.
    pub rise: Vec<f64>,
    /// The figure where the next plateau begins, divided by the figure where this one ends.
    pub step: f64,
}

/// The knee after plateau `plateau`. `curve` rises and contains both plateaus and everything between them, as times per access
/// over footprints. `from` is the time where the plateau ends, `to` where the next begins. `None` where the curve doesn't reach
/// the share of misses.
pub(super) fn knee(curve: &[(f64, f64)], plateau: usize, from: f64, to: f64) -> Option<Knee> {
    let is_level_hidden = to > HIGHEST_STEP * from;
    let top = if is_level_hidden { USUAL_STEP * from } else { to };
    let misses: Vec<f64> = curve.iter().map(|point| (point.1 - from) / (top - from)).collect();
    let rise = Rise { footprints: curve.iter().map(|point| point.0).collect(), misses: monotone(&misses) };
    let footprint = rise.crossing(MISSES)?;
    // Logarithms: what exceeds the usual upper tail, and the reading by area relative to that at 36 %, with its weight.
    let (mut excess, mut by_area, mut weight) = (0.0, 0.0, 0.0);
    if let (false, Some((low, high))) = (is_level_hidden, rise.crossing(TAILS[0]).zip(rise.crossing(TAILS[1]))) {
        let tail = |low: f64| (footprint / low).ln();
        excess = f64::max((high / footprint).ln() - EVEN_TAILS * tail(low) - USUAL_EXCESS, 0.0);
        by_area = (rise.area_of_hits() / footprint).ln() + LOWER_TAIL[0] + LOWER_TAIL[1] * tail(low);
        weight = (1.0 - tail(low) / GRADUAL).max(0.0);
    }
    let lower = PER_EXCESS * excess;
    let capacity = footprint * (weight * by_area - lower.min(MOST_LOWER)).exp();
    let readings = [
        footprint * (-lower).exp(),
        footprint * by_area.exp(),
        capacity * (1.0 - AREA_ERROR),
        capacity * (1.0 + AREA_ERROR),
    ];
    let after = rise.first_at_least(MISSES)?;
    let between = [rise.footprints[after - 1], rise.footprints[after]];
    let bounds = BOUNDS.map(|share| rise.crossing(share).unwrap_or(footprint));
    let all = || bounds.iter().chain(&between).chain(&readings).copied();
    let (last, end) = (rise.first_at_least(USEFUL[0])? - 1, rise.first_at_least(USEFUL[1])?);
    Some(Knee {
        plateau,
        capacity,
        interval: Interval { lo: all().fold(f64::INFINITY, f64::min), hi: all().fold(0.0, f64::max) },
        between,
        rise: rise.footprints[last..=end].to_vec(),
        step: to / from,
    })
}

/// The share of misses over the footprint; both ascend.
struct Rise {
    footprints: Vec<f64>,
    misses: Vec<f64>,
}

impl Rise {
    /// Index of the first point with this share or more, if it isn't the first of all.
    fn first_at_least(&self, share: f64) -> Option<usize> {
        self.misses.iter().position(|&misses| misses >= share).filter(|&first| first > 0)
    }

    /// The area below the share of hits over footprint, with the share of misses cut at [`CUT`].
    fn area_of_hits(&self) -> f64 {
        let hits = |i: usize| 1.0 - ((self.misses[i] - CUT[0]) / (CUT[1] - CUT[0])).clamp(0.0, 1.0);
        let slice = |i: usize| (self.footprints[i] - self.footprints[i - 1]) * (hits(i) + hits(i - 1)) / 2.0;
        self.footprints[0] * hits(0) + (1..self.footprints.len()).map(slice).sum::<f64>()
    }

    /// The footprint with this share of misses, interpolated between the logarithms of its neighbours.
    fn crossing(&self, share: f64) -> Option<f64> {
        let after = self.first_at_least(share)?;
        let (a, b) = (self.misses[after - 1], self.misses[after]);
        let (lo, hi) = (self.footprints[after - 1], self.footprints[after]);
        Some(lo * (hi / lo).powf((share - a) / (b - a)))
    }
}

/// The non-descending sequence closest to `values` in least squares: descending neighbours are replaced by their mean until there
/// are none. (Pool adjacent violators: Ayer et al., Ann. Math. Statist. 26, 1955.)
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

/// Footprints to measure next, in ascending order, so that neighbours on a rise are at most a factor of `resolution` apart, or
/// its 2.5th power where most accesses miss. Empty where the curve is fine enough. Each knee gets at most `most` footprints,
/// first in the widest gaps.
#[must_use]
pub fn refinement(levels: &super::Levels, resolution: f64, most: usize) -> Vec<f64> {
    levels.knees.iter().flat_map(|knee| fill_gaps(&knee.rise, knee.interval.hi, resolution, most)).collect()
}

/// A gap in a rise: its beginning, its width as a logarithm, its weight, and the number of parts that it is split into.
struct Gap {
    from: f64,
    width: f64,
    importance: f64,
    parts: u32,
}

fn fill_gaps(rise: &[f64], tail: f64, resolution: f64, most: usize) -> Vec<f64> {
    let gap = |pair: &[f64]| {
        let importance = if pair[0] < tail { 1.0 } else { IN_TAIL };
        Gap { from: pair[0], width: (pair[1] / pair[0]).ln(), importance, parts: 1 }
    };
    let mut gaps: Vec<Gap> = rise.windows(2).map(gap).collect();
    let weight = |gap: &Gap| gap.width * gap.importance / f64::from(gap.parts);
    for _ in 0..most {
        let widest = gaps.iter_mut().max_by(|a, b| weight(a).total_cmp(&weight(b)));
        match widest.filter(|gap| weight(gap) > resolution.ln()) {
            Some(gap) => gap.parts += 1,
            None => break,
        }
    }
    let split = |gap: Gap| {
        let share = move |part: u32| f64::from(part) / f64::from(gap.parts);
        (1..gap.parts).map(move |part| gap.from * (gap.width * share(part)).exp())
    };
    gaps.into_iter().flat_map(split).collect()
}

#[cfg(test)]
mod tests;
