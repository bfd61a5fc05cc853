//! latency: pointer chase in one random cycle over cache lines, one thread. Page-random order pays for translation, page-local
//! order (all lines of a page before the next) hardly does, so the two separate memory from translation.
//!
//! This module defines the figures of a CPU, [`device`] those of a GPU; `cpu` and `gpu` measure them. `README.md` explains them.

probe! {
    /// How long one dependent load takes from each cache level and from memory, and where each level ends.
    "latency" in "latency", seconds: [8.0, 60.0, 180.0], files: cpu gpu kernels, takes bytes, headlines: [
        Headline::gate("latency-memory", "latency of memory", Less, &["latency memory"], 0.005),
        Headline::gate("latency-l1", "latency of L1", Less, &["latency L1"], 0.005).shown_only(),
        Headline::gate("latency-l2", "latency of L2", Less, &["latency L2 near", "latency L2"], 0.005).shown_only(),
        Headline::gate("latency-l3", "latency of L3", Less, &["latency L3"], 0.02).shown_only(),
    ]
}

pub mod device;
#[cfg(any(feature = "cpu", feature = "gpu"))]
mod knees;

use plimsoll_core::device::CacheInfo;
use plimsoll_core::series::Point;
use plimsoll_core::stats::median_sorted;
use plimsoll_suite::findings::levels::{Knee, Levels, Plateau};

use crate::prelude::meaning::*;

plimsoll_core::names! {
    /// The kind of pages that a buffer lies in.
    pub enum Pages {
        /// Large pages: few cover much memory.
        Huge = "huge",
        /// Pages of the usual size.
        Small = "small",
    }
}

plimsoll_core::names! {
    /// In which order the lines are chased.
    pub enum Order {
        /// All lines in one random cycle: nearly every hop goes to another page.
        PageRandom = "page-random",
        /// All lines of a page in random order before the next page, and the pages in a random cycle.
        PageLocal = "page-local",
        /// One line in each page; only on a GPU.
        Sparse = "line a page",
    }
}

plimsoll_core::axes! {
    /// A chase on a CPU.
    pub struct Chase {
        /// The pages that the chain lies in.
        pages: Pages,
        /// The order of its lines.
        order: Order,
        /// Bytes of all its lines.
        footprint: Bytes,
    }
}

/// How much the figures of one level may differ from their median, for [`levels`].
pub const TOLERANCE: f64 = 0.1;
/// Small pages, or one line a page, cost something from where they are this much slower than huge pages, or few.
const TRANSLATION_SHOWS: f64 = 1.15;

/// The whole range of footprints.
pub const CHASE: &str = "chase";
/// The neighbours of each knee of [`CHASE`], on a CPU in huge pages: where capacities are found.
pub const KNEES: &str = "knees";

/// One hop over the footprint, by page size and order: [`CHASE`] or [`KNEES`].
#[must_use]
pub fn hops(case: &str) -> TypedSeries<Chase> {
    chases(case, Quantity::CyclesPerOperation, Draw::lines("footprint", "latency").grouped_by("pages"))
}

/// A series of chases, whose cycles come from the clock or from the kernel.
fn chases<A: Axes>(case: &str, cycles: Quantity, draw: Draw) -> TypedSeries<A> {
    TypedSeries::hot(
        case,
        vec![metric("latency", Unit::Second, Quantity::TimePerOperation), metric("cycles", Unit::Cycle, cycles)],
        draw.log_x().log_y(),
    )
}

/// Latency in seconds over footprint in bytes, of one kind of page and one order, over all of `series` that have them: the
/// first quartile of the samples, and the least of the rounds. Other work on the machine only lengthens a load, and a
/// point disturbed for half of its time would show a false step.
#[must_use]
pub fn curve(series: &[Series], pages: Pages, order: Order) -> Vec<(f64, f64)> {
    let least = |(footprint, row, _): (f64, &Row, Estimate)| {
        let least = row.points.iter().filter_map(quartile).reduce(f64::min)?;
        Some((footprint, least))
    };
    rows(series, pages, order, "latency").filter_map(least).collect()
}

/// The first quartile of a point's samples, seconds per hop.
fn quartile(point: &Point) -> Option<f64> {
    let mut seconds: Vec<f64> = point.seconds().collect();
    seconds.sort_by(f64::total_cmp);
    let quartile = *seconds.get(seconds.len() / 4)?;
    Quantity::TimePerOperation.compute(quartile, &point.work, None)
}

fn rows<'s>(
    series: &'s [Series],
    pages: Pages,
    order: Order,
    metric: &'s str,
) -> impl Iterator<Item = (f64, &'s Row, Estimate)> {
    rows_by(series, metric, move |at: &Chase| (at.pages == pages && at.order == order).then_some(at.footprint))
}

/// The footprint in bytes, row and figure of all rows for which `footprint` returns one.
fn rows_by<'s, A: Axes>(
    series: &'s [Series],
    metric: &'s str,
    footprint: impl Fn(&A) -> Option<Bytes> + Copy,
) -> impl Iterator<Item = (f64, &'s Row, Estimate)> {
    let rows_of = move |series: &'s Series| {
        let figure =
            move |(at, row): (A, &'s Row)| Some((footprint(&at)?.0 as f64, row, series.estimate(row, metric)?));
        known_rows(series).filter_map(figure)
    };
    series.iter().flat_map(rows_of)
}

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    // Only a CPU chooses its pages.
    if series.iter().any(|series| series.spec.axes != Chase::axes()) {
        return device::findings(device, series);
    }
    // Where huge pages were refused, small ones are all there is.
    let pages = if curve(series, Pages::Huge, RANDOM).is_empty() { Pages::Small } else { Pages::Huge };
    let curve = curve(series, pages, RANDOM);
    let found = levels(&curve, TOLERANCE);
    let names = names(device, &found, curve.iter().map(|point| point.0).fold(0.0, f64::max));
    let mut findings = Vec::new();
    for (place, (plateau, name)) in found.plateaus.iter().zip(&names).enumerate() {
        if !is_widest(&found, &names, place) {
            continue;
        }
        for (metric, unit, suffix) in METRICS {
            let on: Vec<_> = rows(series, pages, RANDOM, metric).filter(|row| covers(plateau, row.0)).collect();
            findings.extend(level(&format!("latency {name}{suffix}"), unit, &on));
        }
    }
    if !names.iter().any(|name| name == MEMORY) {
        findings.extend(memory(device, series, pages));
    }
    let flags_at = |footprint: f64| {
        let there = rows(series, pages, RANDOM, "latency").filter(|row| row.0 == footprint);
        there.fold(Flags::NONE, |all, (_, row, _)| all.union(row.flags))
    };
    findings.extend(capacities(device, &found, &names, flags_at));
    if !findings.iter().any(|finding| finding.name == capacity_of(last_name(device))) {
        findings.extend(no_end(device, &found, &names, &curve, flags_at));
    }
    findings.extend(translation(series));
    findings
}

/// A plateau that ends this many times beyond the last cache's size isn't that cache's.
const BEYOND: f64 = 1.1;
/// What is this much slower than the first part of the last cache is memory: translation alone costs less.
const MEMORY_STEP: f64 = 2.2;
/// What is this much slower than the level before the last cache is memory: caches are three to nine times as slow as the
/// one before, so the last cache was lost in between.
const LOST_STEP: f64 = 12.0;
const RANDOM: Order = Order::PageRandom;
const MEMORY: &str = "memory";
/// Metrics of a level's findings: name, unit, and what follows the level's name.
const METRICS: [(&str, Unit, &str); 2] = [("latency", Unit::Second, ""), ("cycles", Unit::Cycle, " in cycles")];

fn covers(plateau: &Plateau, footprint: f64) -> bool {
    (plateau.from..=plateau.to).contains(&footprint)
}

/// The name of each plateau: the smallest cache that holds its middle, or memory; empty where no cache is reported.
/// A plateau that extends beyond the last cache is memory's, and so is one within that cache's size that is much slower than the
/// part before: then others use the rest of the cache, or the host grants less.
fn names(device: &DeviceInfo, found: &Levels, largest: f64) -> Vec<String> {
    let last_level = device.last_level_cache() as f64;
    if last_level <= 0.0 {
        return Vec::new();
    }
    let (mut names, mut last_begins): (Vec<String>, _) = (Vec::new(), None);
    for (place, plateau) in found.plateaus.iter().enumerate() {
        let middle = (plateau.from * plateau.to).sqrt();
        let beyond = plateau.to > BEYOND * last_level || (plateau.to >= 0.7 * largest && plateau.to > last_level);
        let cache = device.caches.iter().find(|cache| cache.bytes as f64 >= middle).filter(|_| !beyond);
        let mut name = cache.map_or(MEMORY, |cache| &cache.level);
        if name == last_name(device) {
            let lost = place > 0 && plateau.value > LOST_STEP * found.plateaus[place - 1].end;
            let begins = *last_begins.get_or_insert(if lost { 0.0 } else { plateau.value });
            name = if plateau.value > MEMORY_STEP * begins { MEMORY } else { name };
        }
        names.push(name.to_owned());
    }
    names
}

/// The name of the last cache; empty where none is reported.
fn last_name(device: &DeviceInfo) -> &str {
    device.caches.iter().max_by_key(|cache| cache.bytes).map_or("", |cache| &cache.level)
}

/// Whether no other plateau of the same name is wider: that one's figure is the level's.
fn is_widest(found: &Levels, names: &[String], own: usize) -> bool {
    let width = |place: usize| found.plateaus[place].to / found.plateaus[place].from;
    (0..names.len()).all(|other| names[other] != names[own] || width(other) <= width(own))
}

/// The largest footprint's latency, where the curve has no plateau there (noise, or too few points) but no cache holds it.
fn memory(device: &DeviceInfo, series: &[Series], pages: Pages) -> Vec<Finding> {
    let last_level = device.last_level_cache() as f64;
    let to_finding = |(metric, unit, suffix): (&'static str, Unit, &str)| {
        let (footprint, row, figure) =
            rows(series, pages, RANDOM, metric).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        (last_level > 0.0 && footprint >= 2.0 * last_level).then(|| Finding {
            metric: if suffix.is_empty() { "latency".to_owned() } else { String::new() },
            says: format!("Measured at {} only: the curve shows no plateau there.", Unit::Byte.format(footprint)),
            ..finding(format!("latency {MEMORY}{suffix}"), unit, row, figure)
        })
    };
    METRICS.into_iter().filter_map(to_finding).collect()
}

/// The median of a level's rows, with their middle half as interval.
fn level(name: &str, unit: Unit, on: &[(f64, &Row, Estimate)]) -> Option<Finding> {
    let mut values: Vec<f64> = on.iter().map(|(.., figure)| figure.value).collect();
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let interval = Interval { lo: *values.get(quarter)?, hi: *values.get(values.len() - 1 - quarter)? };
    let flags = on.iter().filter(|(.., figure)| interval.contains(figure.value));
    let flags = flags.fold(Flags::NONE, |all, (_, row, _)| all.union(row.flags));
    let metric = if unit == Unit::Second { "latency" } else { "" };
    let known = Estimate { value: median_sorted(&values), interval };
    Some(Finding { metric: metric.to_owned(), ..derived(name, unit, known, flags) })
}

/// Where each cache ends: at the knee after its last plateau.
fn capacities(device: &DeviceInfo, found: &Levels, names: &[String], flags_at: impl Fn(f64) -> Flags) -> Vec<Finding> {
    let capacity = |knee: &Knee| {
        let name = names.get(knee.plateau).filter(|name| names.get(knee.plateau + 1) != Some(name))?;
        let cache = device.caches.iter().find(|cache| cache.level == *name)?;
        let known = Estimate { value: knee.capacity, interval: knee.interval };
        let flags = flags_at(knee.between[0]).union(flags_at(knee.between[1]));
        let bytes = cache.bytes as f64;
        let why = if !differs(cache, known.value) {
            return Some(capacity_finding(cache, known, flags));
        } else if cache.shared_by > 1 && knee.capacity < 0.8 * bytes {
            "Others use it too, or the host grants less"
        } else if knee.interval.contains(bytes) {
            "The curve ends so gradually that both sizes are possible"
        } else {
            "The curve contradicts the system"
        };
        Some(Finding { says: format!("{why}: {}.", reported(cache)), ..capacity_finding(cache, known, flags) })
    };
    found.knees.iter().filter_map(capacity).collect()
}

/// The capacity of the last cache where no knee ends it: the footprint at which half of memory's latency is reached.
fn no_end(
    device: &DeviceInfo,
    found: &Levels,
    names: &[String],
    curve: &[(f64, f64)],
    flags_at: impl Fn(f64) -> Flags,
) -> Option<Finding> {
    let cache = device.caches.iter().max_by_key(|cache| cache.bytes)?;
    let place = names.iter().rposition(|name| name != MEMORY)?;
    let knee = found.knees.iter().find(|knee| knee.plateau == place);
    let begin = knee.map_or(found.plateaus[place].to, |knee| knee.capacity);
    let memory = names.iter().position(|name| name == MEMORY).map(|place| &found.plateaus[place]);
    let mut rise: Vec<(f64, f64)> = curve.iter().copied().filter(|point| point.0 >= begin).collect();
    rise.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = *rise.last().filter(|last| last.0 >= 2.0 * cache.bytes as f64)?;
    let (slow, until) = memory.map_or((last.1, last.0), |memory| (memory.begin, memory.from));
    let after = rise.iter().rposition(|point| point.1 <= slow / 2.0)? + 1;
    let between = rise.get(after).map(|next| [rise[after - 1].0, next.0])?;
    let own = names.contains(&cache.level);
    let shows = if own { "no end of it" } else { "no plateau of its own" };
    let says = format!(
        "The curve shows {shows}: it rises from {}, and here half of memory's latency is reached; {}.",
        Unit::Byte.format(begin),
        reported(cache)
    );
    let interval = Interval { lo: begin.min(between[0]), hi: until.max(between[1]) };
    let known = Estimate { value: (between[0] * between[1]).sqrt(), interval };
    let flags = flags_at(between[0]).union(flags_at(between[1]));
    Some(Finding { says, ..capacity_finding(cache, known, flags) })
}

fn capacity_of(cache: &str) -> String {
    format!("capacity {cache}")
}

/// What the system reports about a cache, for the end of a sentence.
fn reported(cache: &CacheInfo) -> String {
    let bytes = Unit::Byte.format(cache.bytes as f64);
    match cache.shared_by {
        0 | 1 => format!("the system reports {bytes}"),
        by => format!("the system reports {bytes}, shared by {by} processors"),
    }
}

/// The largest part by which a capacity and the reported one may differ without a flag.
const SAME_SIZE: f64 = 0.05;

fn differs(cache: &CacheInfo, capacity: f64) -> bool {
    cache.bytes > 0 && (capacity / cache.bytes as f64 - 1.0).abs() > SAME_SIZE
}

/// A capacity, with the one that the system reports as published figure, and flagged where they differ.
fn capacity_finding(cache: &CacheInfo, known: Estimate, mut flags: Flags) -> Finding {
    flags.insert_if(Flag::SizeDiffers, differs(cache, known.value));
    let reported = cache.bytes as f64;
    let range = Interval { lo: reported, hi: reported };
    Finding {
        published: Some(Published { range, source: "capacity that the system reports".to_owned() }),
        ..derived(capacity_of(&cache.level), Unit::Byte, known, flags)
    }
}

/// The cost of small pages compared with huge ones: from which footprint, and how much at the largest.
fn translation(series: &[Series]) -> Vec<Finding> {
    let mut small: Vec<_> = rows(series, Pages::Small, RANDOM, "latency").collect();
    let mut huge: Vec<_> = rows(series, Pages::Huge, RANDOM, "latency").collect();
    small.sort_by(|a, b| a.0.total_cmp(&b.0));
    huge.sort_by(|a, b| a.0.total_cmp(&b.0));
    let huge_curve: Vec<(f64, f64)> = huge.iter().map(|(footprint, _, latency)| (*footprint, latency.value)).collect();
    let compare = |(footprint, row, latency): &(f64, &Row, Estimate)| {
        let other = interpolate(&huge_curve, *footprint)?;
        Some((*footprint, latency.value / other, row.flags))
    };
    let ratios: Vec<(f64, f64, Flags)> = small.iter().filter_map(compare).collect();
    let mut findings = Vec::new();
    // From the last footprint at which translation is free: noise at smaller ones doesn't count.
    let free = ratios.iter().rposition(|ratio| ratio.1 <= TRANSLATION_SHOWS);
    if let Some((last, next)) = free.and_then(|free| ratios.get(free).zip(ratios.get(free + 1))) {
        let interval = Interval { lo: last.0, hi: next.0 };
        let known = Estimate { value: (last.0 * next.0).sqrt(), interval };
        findings.push(Finding {
            says: "Beyond this, small pages are slower than huge ones.".to_owned(),
            ..derived("TLB reach", Unit::Byte, known, last.2.union(next.2))
        });
    }
    findings.extend(page_walk(small.last(), &huge));
    findings
}

/// The extra time of a load in small pages at the largest footprint that both were measured at; `None` where the intervals overlap.
fn page_walk(small: Option<&(f64, &Row, Estimate)>, huge: &[(f64, &Row, Estimate)]) -> Option<Finding> {
    let (footprint, small_row, a) = small?;
    let (_, huge_row, b) = huge.iter().find(|row| row.0 == *footprint)?;
    let interval = Interval { lo: a.interval.lo - b.interval.hi, hi: a.interval.hi - b.interval.lo };
    let known = Estimate { value: a.value - b.value, interval };
    (interval.lo > 0.0).then(|| Finding {
        says: format!(
            "Extra time per load in small pages compared with huge ones, over {}.",
            Unit::Byte.format(*footprint)
        ),
        ..derived("page walk", Unit::Second, known, small_row.flags.union(huge_row.flags))
    })
}

/// The curve's value at a footprint, along straight lines between logarithms; `None` beyond its ends.
fn interpolate(curve: &[(f64, f64)], footprint: f64) -> Option<f64> {
    let above = curve.iter().position(|point| point.0 >= footprint)?;
    let (b, a) = (curve[above], curve[above.saturating_sub(1)]);
    if b.0 == footprint || above == 0 {
        return (b.0 == footprint).then_some(b.1);
    }
    let share = (footprint / a.0).ln() / (b.0 / a.0).ln();
    Some(a.1 * (b.1 / a.1).powf(share))
}

#[cfg(test)]
mod tests;
