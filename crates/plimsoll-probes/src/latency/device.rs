//! latency on a GPU: series and findings. The kernel counts its own cycles. All memory is in large pages, so the order of the chain
//! separates translation from memory: with all lines of a page before the next page it hardly matters; with one line per page it is
//! all that matters.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::record::Finding;
use plimsoll_core::series::{Bytes, Draw, Estimate, Quantity, Row, Series, TypedSeries};
use plimsoll_core::stats::{Interval, median_sorted};
use plimsoll_core::unit::Unit;
use plimsoll_suite::findings::derived;
use plimsoll_suite::findings::levels::{Plateau, knee_between, levels};

use super::{METRICS, Order, TOLERANCE, TRANSLATION_SHOWS};

plimsoll_core::axes! {
    /// A chase on a GPU.
    pub struct Chase {
        /// The order of the chain's lines.
        order: Order,
        /// Bytes of all its lines, or of all its pages where it has one line in each.
        footprint: Bytes,
    }
}

/// The metric that the kernel counts.
pub const CYCLES: &str = "cycles";

/// Requested half-width: memory refresh and cache contents move a figure by more than a smaller one.
const PRECISION: f64 = 0.005;

/// One hop over the footprint, by order: [`CHASE`](super::CHASE) or [`KNEES`](super::KNEES).
#[must_use]
pub fn hops(case: &str) -> TypedSeries<Chase> {
    super::chases(case, Quantity::Extra, Draw::lines("footprint", CYCLES).grouped_by("order")).with_precision(PRECISION)
}

/// Cycles per hop over footprint in bytes, in one order, over all of `series` that have them.
#[must_use]
pub fn curve(series: &[Series], order: Order) -> Vec<(f64, f64)> {
    rows(series, order, CYCLES).map(|(footprint, _, cycles)| (footprint, cycles.value)).collect()
}

fn rows<'s>(series: &'s [Series], order: Order, metric: &'s str) -> impl Iterator<Item = (f64, &'s Row, Estimate)> {
    super::rows_by(series, metric, move |at: &Chase| (at.order == order).then_some(at.footprint))
}

/// Shares of the last cache between which its far part shows: well above the half that the near part holds, and below the point
/// where misses begin.
const FAR: [f64; 2] = [0.65, 0.87];
/// The far part must be this much slower than the near one.
const FAR_STEP: f64 = 1.12;
/// The last cache's levels end by this multiple of its size, and memory begins at the other.
const BEYOND: [f64; 2] = [1.1, 1.5];

/// Caches by their place.
const CACHES: [&str; 4] = ["L1", "L2", "L3", "L4"];
/// No cache of a GPU is as large: twice that of an MI300X, bytes.
const NO_CACHE: f64 = 512.0 * 1048576.0;

/// A level by its name and the footprints, bytes, that show it.
struct Level {
    name: &'static str,
    from: f64,
    to: f64,
}

/// The findings of a GPU's series.
pub(super) fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let cache = device.last_level_cache() as f64;
    let curve = curve(series, Order::PageRandom);
    // Near and far parts of the last cache are only looked for on devices with one or two caches.
    let is_of_two = (1..=2).contains(&device.caches.len());
    let levels = if is_of_two { named(&curve, cache) } else { by_plateaus(device, &curve) };
    let mut found: Vec<Finding> = levels.iter().flat_map(|level| figures(series, level)).collect();
    found.extend(capacities(device, series, &curve, &levels));
    found.extend(translation(series));
    found
}

/// The levels that the curve shows: plateaus up to the last cache's size are L1 and L2, and what lies between the part of
/// the last cache that is near and its end is its far part, where it is slower.
fn named(curve: &[(f64, f64)], cache: f64) -> Vec<Level> {
    let within = |range: [f64; 2]| Level { name: "", from: range[0], to: range[1] };
    let plateaus = levels(curve, TOLERANCE).plateaus;
    let own: Vec<&Plateau> = plateaus.iter().filter(|plateau| plateau.from < FAR[0] * cache).collect();
    let mut named = Vec::new();
    match own.as_slice() {
        [] => {}
        [second] => named.push(Level { name: "L2", from: second.from, to: second.to }),
        [first, second, ..] => {
            named.push(Level { name: "L1", from: first.from, to: first.to });
            named.push(Level { name: "L2", from: second.from, to: second.to });
        }
    }
    let near = named.last().and_then(|level| value(curve, level));
    let far = within([FAR[0] * cache, FAR[1] * cache]);
    let memory = Level { name: "memory", from: BEYOND[1] * cache, to: f64::INFINITY };
    let slower = |level: &Level, than: Option<f64>| Some(value(curve, level)? > FAR_STEP * than?);
    let parted = slower(&far, near) == Some(true) && slower(&memory, value(curve, &far)) != Some(false);
    if let (Some(near), true) = (named.last_mut(), parted) {
        (near.name, near.to) = ("L2 near", near.to.min(far.from));
        named.push(Level { name: "L2 far", ..far });
    }
    if cache > 0.0 && value(curve, &memory).is_some() {
        named.push(memory);
    }
    named
}

/// The levels of a device whose caches aren't known, or are more than two: its plateaus, named as the caches that hold them, else
/// by their order. Without caches to compare with the last plateau is memory's where it goes on beyond what any cache has, and may
/// be either's where not: then it has no name.
fn by_plateaus(device: &DeviceInfo, curve: &[(f64, f64)]) -> Vec<Level> {
    let found = levels(curve, TOLERANCE);
    let known = super::names(device, &found, curve.iter().map(|point| point.0).fold(0.0, f64::max));
    let last = found.plateaus.len().saturating_sub(1);
    let mut named: Vec<Level> = Vec::new();
    for (place, plateau) in found.plateaus.iter().enumerate() {
        let name = match known.get(place) {
            Some(name) => CACHES.into_iter().find(|cache| cache == name).or(Some("memory")),
            None if place < last => CACHES.get(place).copied(),
            None => (plateau.to >= NO_CACHE).then_some("memory"),
        };
        match (name, named.last_mut()) {
            (Some(name), Some(before)) if before.name == name => before.to = plateau.to,
            (Some(name), _) => named.push(Level { name, from: plateau.from, to: plateau.to }),
            (None, _) => {}
        }
    }
    named
}

/// The median of the curve on a level.
fn value(curve: &[(f64, f64)], level: &Level) -> Option<f64> {
    let is_on_level = |point: &&(f64, f64)| (level.from..=level.to).contains(&point.0);
    let mut values: Vec<f64> = curve.iter().filter(is_on_level).map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then(|| median_sorted(&values))
}

/// A level's latency in seconds and in cycles: the median of its rows, between their middle half.
fn figures(series: &[Series], level: &Level) -> Vec<Finding> {
    let figure = |(metric, unit, suffix): (&'static str, Unit, &str)| {
        let on: Vec<_> =
            rows(series, Order::PageRandom, metric).filter(|row| (level.from..=level.to).contains(&row.0)).collect();
        super::level(&format!("latency {}{suffix}", level.name), unit, &on)
    };
    METRICS.into_iter().filter_map(figure).collect()
}

/// Where each level but memory ends: between its latency and the next one's.
fn capacities(device: &DeviceInfo, series: &[Series], curve: &[(f64, f64)], levels: &[Level]) -> Vec<Finding> {
    let end = |pair: &[Level]| {
        let (own, next) = (&pair[0], &pair[1]);
        let until = if next.name == "memory" { f64::INFINITY } else { next.to };
        let part: Vec<(f64, f64)> = curve.iter().copied().filter(|p| (own.from..=until).contains(&p.0)).collect();
        let knee = knee_between(&part, value(curve, own)?, value(curve, next)?)?;
        let known = Estimate { value: knee.capacity, interval: knee.interval };
        let flags = rows(series, Order::PageRandom, CYCLES).filter(|row| knee.between.contains(&row.0));
        let flags = flags.fold(Flags::NONE, |all, (_, row, _)| all.union(row.flags));
        let whole = own.name != "L1" && next.name == "memory";
        if let Some(cache) = device.caches.iter().max_by_key(|cache| cache.bytes).filter(|_| whole) {
            return Some(super::capacity_finding(cache, known, flags));
        }
        Some(derived(super::capacity_of(own.name), Unit::Byte, known, flags))
    };
    levels.windows(2).filter_map(end).collect()
}

/// The extra cost of one line per page over many pages compared with few: from which footprint, and how much at most.
fn translation(series: &[Series]) -> Vec<Finding> {
    let mut sparse: Vec<_> = rows(series, Order::Sparse, CYCLES).collect();
    sparse.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some(((_, _, few), last)) = sparse.iter().min_by(|a, b| a.2.value.total_cmp(&b.2.value)).zip(sparse.last())
    else {
        return Vec::new();
    };
    let free = sparse.iter().rposition(|row| row.2.value <= TRANSLATION_SHOWS * few.value);
    let mut found = Vec::new();
    if let Some((before, after)) = free.and_then(|free| sparse.get(free).zip(sparse.get(free + 1))) {
        let known = Estimate { value: (before.0 * after.0).sqrt(), interval: Interval { lo: before.0, hi: after.0 } };
        found.push(Finding {
            says: "Beyond this, one line per page is slower than over few pages.".to_owned(),
            ..derived("TLB reach", Unit::Byte, known, before.1.flags.union(after.1.flags))
        });
    }
    let interval = Interval { lo: last.2.interval.lo - few.interval.hi, hi: last.2.interval.hi - few.interval.lo };
    // A difference whose interval reaches 0 is no finding.
    if interval.lo > 0.0 {
        let known = Estimate { value: last.2.value - few.value, interval };
        found.push(Finding {
            says: format!(
                "Extra cycles per load with one line per page over {} compared with few pages.",
                Unit::Byte.format(last.0)
            ),
            ..derived("translation in cycles", Unit::Cycle, known, last.1.flags)
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::CHASE;
    use super::*;
    use plimsoll_core::device::CacheInfo;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes as _, Point};

    const MIB: f64 = 1048576.0;

    fn device() -> DeviceInfo {
        let cache = CacheInfo { level: "L2".into(), bytes: 60 << 20, line: 128, shared_by: 132 };
        DeviceInfo { caches: vec![cache], ..DeviceInfo::default() }
    }

    /// Levels of an H200: what a cache of this capacity lets through, as LRU's kin do.
    fn cycles(footprint: f64, far: f64) -> f64 {
        let levels = [(0.215 * MIB, 32.0), (24.0 * MIB, 281.0), (58.0 * MIB, far), (f64::INFINITY, 660.0)];
        let (mut above, mut sum) = (0.0, 0.0);
        for (capacity, cycles) in levels {
            let share = f64::min(capacity / footprint, 1.0).powi(12);
            sum += (share - above) * cycles;
            above = share;
        }
        sum
    }

    fn point(order: Order, footprint: f64, cycles: f64) -> Point {
        Point {
            extra: [(CYCLES.to_owned(), cycles)].into(),
            ..Point::new(
                Chase { order, footprint: Bytes(footprint as u64) }.to_values(),
                Work { operations: 4096.0, in_kernel: true, ..Work::default() },
                vec![(cycles * 4096.0 / 1.98) as u64; 30],
            )
        }
    }

    fn findings_for(far: f64, sparse: impl Fn(f64) -> f64) -> Vec<Finding> {
        let footprint = |i: u32| (2048.0 * (f64::from(i) / 8.0).exp2()).round();
        let random = (0..=160).map(|i| point(Order::PageRandom, footprint(i), cycles(footprint(i), far)));
        let pages = (11..=25).map(|i| point(Order::Sparse, footprint(8 * i), sparse(footprint(8 * i))));
        findings(&device(), &[Series::new(hops(CHASE), random.chain(pages))])
    }

    fn assert_finding(found: &[Finding], name: &str, value: f64, within: f64) {
        let finding = found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{name}: {found:?}"));
        assert!((finding.value / value - 1.0).abs() < within, "{finding:?}");
        assert!(finding.interval.lo <= finding.value && finding.value <= finding.interval.hi, "{finding:?}");
    }

    #[test]
    fn near_and_far_parts_of_the_last_cache_are_separate_levels() {
        let found = findings_for(512.0, |_| 281.0);
        for (level, cycles) in [("L1", 32.0), ("L2 near", 281.0), ("L2 far", 512.0), ("memory", 660.0)] {
            assert_finding(&found, &format!("latency {level} in cycles"), cycles, 0.03);
            assert_finding(&found, &format!("latency {level}"), cycles / 1.98e9, 0.03);
        }
        for (level, bytes) in [("L1", 0.215 * MIB), ("L2 near", 24.0 * MIB), ("L2", 58.0 * MIB)] {
            assert_finding(&found, &format!("capacity {level}"), bytes, 0.1);
        }
        assert!(!found.iter().any(|finding| finding.name == "TLB reach"));
    }

    #[test]
    fn a_cache_of_one_part_has_no_far_level() {
        let found = findings_for(281.0, |_| 281.0);
        assert_finding(&found, "latency L2 in cycles", 281.0, 0.03);
        assert_finding(&found, "capacity L2", 58.0 * MIB, 0.1);
        assert!(!found.iter().any(|finding| finding.name.contains("far") || finding.name.contains("near")));
    }

    /// What is found on a device with these caches, whose footprints go up to so many bytes.
    fn findings_with(caches: Vec<CacheInfo>, largest: f64) -> Vec<Finding> {
        let footprints = (0..=160).map(|i| (2048.0 * (f64::from(i) / 8.0).exp2()).round());
        let points = footprints.take_while(|footprint| *footprint <= largest);
        let points = points.map(|footprint| point(Order::PageRandom, footprint, cycles(footprint, 281.0)));
        findings(&DeviceInfo { caches, ..DeviceInfo::default() }, &[Series::new(hops(CHASE), points)])
    }

    #[test]
    fn levels_of_unknown_caches_are_the_steps_of_the_curve() {
        let found = findings_with(Vec::new(), 2048.0 * MIB);
        for (level, cycles) in [("L1", 32.0), ("L2", 281.0), ("memory", 660.0)] {
            assert_finding(&found, &format!("latency {level} in cycles"), cycles, 0.03);
        }
        assert_finding(&found, "capacity L1", 0.215 * MIB, 0.1);
        assert_finding(&found, "capacity L2", 58.0 * MIB, 0.1);
        assert!(found.iter().all(|finding| finding.published.is_none()));
        // A curve that ends where caches may still be doesn't tell which the last plateau is.
        let short = findings_with(Vec::new(), 32.0 * MIB);
        assert!(short.iter().any(|finding| finding.name == "latency L1"));
        assert!(!short.iter().any(|finding| finding.name.contains("L2") || finding.name.contains("memory")));
    }

    #[test]
    fn three_caches_name_the_plateaus_that_they_hold() {
        let cache = |level: &str, bytes| CacheInfo { level: level.into(), bytes, line: 64, shared_by: 1 };
        let caches = vec![cache("L1", 1 << 18), cache("L2", 1 << 20), cache("L3", 60 << 20)];
        let found = findings_with(caches, 2048.0 * MIB);
        for (level, cycles) in [("L1", 32.0), ("L3", 281.0), ("memory", 660.0)] {
            assert_finding(&found, &format!("latency {level} in cycles"), cycles, 0.03);
        }
        assert_finding(&found, "capacity L3", 58.0 * MIB, 0.1);
    }

    #[test]
    fn translation_shows_where_one_line_a_page_grows_slower() {
        let found = findings_for(512.0, |footprint| if footprint > 3000.0 * MIB { 400.0 } else { 281.0 });
        assert_finding(&found, "TLB reach", 2.9 * 1024.0 * MIB, 0.1);
        assert_finding(&found, "translation in cycles", 119.0, 0.01);
    }

    #[test]
    fn translation_that_may_cost_nothing_is_no_finding() {
        // The largest footprint is read once at 281 and once at 290 cycles.
        let rounds = [281.0, 290.0]
            .into_iter()
            .zip(0..)
            .map(|(cycles, round)| Point { round, ..point(Order::Sparse, 1e9, cycles) });
        let few = std::iter::once(point(Order::Sparse, 1e6, 281.0));
        let found = translation(&[Series::new(hops(CHASE), few.chain(rounds))]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn empty_series_have_no_findings() {
        assert!(findings(&device(), &[Series::new(hops(CHASE), [])]).is_empty());
        assert!(
            findings(&DeviceInfo::default(), &[Series::new(hops(CHASE), [point(Order::PageRandom, 4096.0, 32.0)])])
                .is_empty()
        );
    }
}
