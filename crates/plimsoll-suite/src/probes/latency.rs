//! latency: pointer chase in one random cycle over cache lines, one thread. Page-random order pays for translation, page-local
//! order (all lines of a page before the next) hardly does, so the two separate memory from translation.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Published};
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::{Interval, median_sorted};
use plimsoll_core::unit::Unit;

use super::levels::{Levels, Plateau, levels};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "latency",
    group: "latency",
    sentence: "How long one dependent load takes from each cache level and from memory, and where each level ends.",
    page: "latency.md",
    seconds: [8.0, 60.0, 180.0],
    findings,
};

/// How much the figures of one level may differ from their median, for [`levels`].
pub const TOLERANCE: f64 = 0.1;
/// Small pages cost something from where they are this much slower than huge ones.
const TRANSLATION_SHOWS: f64 = 1.15;

/// One hop over the footprint, by page size and order.
#[must_use]
pub fn chase() -> SeriesSpec {
    spec("chase")
}

/// The same between the neighbours of each knee of `chase`, in huge pages: where capacities are found.
#[must_use]
pub fn knees() -> SeriesSpec {
    spec("knees")
}

fn spec(case: &str) -> SeriesSpec {
    SeriesSpec::new(
        case,
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("pages", Unit::One), axis("order", Unit::One), axis("footprint", Unit::Byte)],
        vec![
            metric("latency", Unit::Second, Quantity::TimePerOperation),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
        ],
        Draw::Lines { x: "footprint".into(), y: "latency".into(), by: Some("pages".into()), log_x: true, log_y: true },
    )
}

/// Latency in seconds over footprint in bytes, of one kind of page and one order, over all of `series` that have them.
#[must_use]
pub fn curve(series: &[Series], pages: &str, order: &str) -> Vec<(f64, f64)> {
    rows(series, pages, order, "latency").map(|(footprint, _, latency)| (footprint, latency.value)).collect()
}

fn rows<'s>(
    series: &'s [Series],
    pages: &'s str,
    order: &'s str,
    metric: &'s str,
) -> impl Iterator<Item = (f64, &'s Row, Estimate)> {
    let of = move |series: &'s Series| {
        let asked =
            move |row: &&Row| series.text(row, "pages") == Some(pages) && series.text(row, "order") == Some(order);
        let figure = move |row| Some((series.number(row, "footprint")?, row, series.estimate(row, metric)?));
        series.rows.iter().filter(asked).filter_map(figure)
    };
    series.iter().flat_map(of)
}

fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    // Where huge pages were refused, small ones are all there is.
    let pages = if curve(series, "huge", RANDOM).is_empty() { "small" } else { "huge" };
    let curve = curve(series, pages, RANDOM);
    let found = levels(&curve, TOLERANCE);
    let names = names(device, &found, curve.iter().map(|point| point.0).fold(0.0, f64::max));
    let mut findings = Vec::new();
    for (place, (plateau, name)) in found.plateaus.iter().zip(&names).enumerate() {
        if !is_widest(&found, &names, place) {
            continue;
        }
        for (metric, unit, suffix) in METRICS {
            let on: Vec<_> = rows(series, pages, RANDOM, metric).filter(|row| on(plateau, row.0)).collect();
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
    findings.extend(translation(series));
    findings
}

const RANDOM: &str = "page-random";
const MEMORY: &str = "memory";
/// Metrics of a level's findings: name, unit, and what follows the level's name.
const METRICS: [(&str, Unit, &str); 2] = [("latency", Unit::Second, ""), ("cycles", Unit::Cycle, " in cycles")];

fn on(plateau: &Plateau, footprint: f64) -> bool {
    (plateau.from..=plateau.to).contains(&footprint)
}

/// What each plateau is called: the smallest cache that holds its middle, or memory; nothing where no cache is reported.
fn names(device: &DeviceInfo, found: &Levels, largest: f64) -> Vec<String> {
    let last_level = device.last_level_cache() as f64;
    let name = |plateau: &Plateau| {
        let middle = (plateau.from * plateau.to).sqrt();
        let to_the_end = plateau.to >= 0.7 * largest && plateau.to > last_level;
        let cache = device.caches.iter().find(|cache| cache.bytes as f64 >= middle).filter(|_| !to_the_end);
        cache.map_or_else(|| MEMORY.to_owned(), |cache| cache.level.clone())
    };
    found.plateaus.iter().map(name).filter(|_| last_level > 0.0).collect()
}

/// Whether no other plateau of the same name is wider: that one's figure is the level's.
fn is_widest(found: &Levels, names: &[String], own: usize) -> bool {
    let width = |place: usize| found.plateaus[place].to / found.plateaus[place].from;
    (0..names.len()).all(|other| names[other] != names[own] || width(other) <= width(own))
}

/// The largest footprint's latency, where the curve has no plateau there (noise, or too few points) but no cache holds it.
fn memory(device: &DeviceInfo, series: &[Series], pages: &str) -> Vec<Finding> {
    let last_level = device.last_level_cache() as f64;
    let of = |(metric, unit, suffix): (&'static str, Unit, &str)| {
        let (footprint, row, figure) =
            rows(series, pages, RANDOM, metric).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        (last_level > 0.0 && footprint >= 2.0 * last_level).then(|| Finding {
            metric: if suffix.is_empty() { "latency".to_owned() } else { String::new() },
            says: format!("At {} alone: the curve shows no plateau there.", Unit::Byte.format(footprint)),
            ..super::finding(format!("latency {MEMORY}{suffix}"), unit, row, figure)
        })
    };
    METRICS.into_iter().filter_map(of).collect()
}

/// The median of a level's rows, between their middle half.
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

/// A finding from several rows, with the flags of all that it was read from. The session fills in device and probe.
fn derived(name: &str, unit: Unit, known: Estimate, flags: Flags) -> Finding {
    Finding {
        device: 0,
        probe: String::new(),
        name: name.to_owned(),
        value: known.value,
        interval: known.interval,
        unit,
        flags,
        metric: String::new(),
        says: String::new(),
        published: None,
    }
}

/// Where each cache ends: between the two footprints that bracket the knee after its last plateau.
fn capacities(device: &DeviceInfo, found: &Levels, names: &[String], flags_at: impl Fn(f64) -> Flags) -> Vec<Finding> {
    let capacity = |knee: &super::levels::Knee| {
        let name = names.get(knee.plateau).filter(|name| names.get(knee.plateau + 1) != Some(name))?;
        let cache = device.caches.iter().find(|cache| cache.level == *name)?;
        let interval = Interval { lo: knee.between[0], hi: knee.between[1] };
        let reported = cache.bytes as f64;
        let shared = cache.shared_by > 1 && knee.footprint() < 0.8 * reported;
        let says = if shared { "Others use it too, or the host grants less than the system reports." } else { "" };
        let known = Estimate { value: knee.footprint(), interval };
        let flags = flags_at(knee.between[0]).union(flags_at(knee.between[1]));
        Some(Finding {
            says: says.to_owned(),
            published: Some(Published {
                range: Interval { lo: reported, hi: reported },
                source: "capacity that the system reports".to_owned(),
            }),
            ..derived(&format!("capacity {}", cache.level), Unit::Byte, known, flags)
        })
    };
    found.knees.iter().filter_map(capacity).collect()
}

/// What small pages cost beside huge ones: where they begin to, and how much at the largest footprint.
fn translation(series: &[Series]) -> Vec<Finding> {
    let mut small: Vec<_> = rows(series, "small", RANDOM, "latency").collect();
    let mut huge: Vec<_> = rows(series, "huge", RANDOM, "latency").collect();
    small.sort_by(|a, b| a.0.total_cmp(&b.0));
    huge.sort_by(|a, b| a.0.total_cmp(&b.0));
    let huge_curve: Vec<(f64, f64)> = huge.iter().map(|(footprint, _, latency)| (*footprint, latency.value)).collect();
    let compare = |(footprint, row, latency): &(f64, &Row, Estimate)| {
        let other = at(&huge_curve, *footprint)?;
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
            says: "Beyond it small pages are slower than huge ones.".to_owned(),
            ..derived("TLB reach", Unit::Byte, known, last.2.union(next.2))
        });
    }
    findings.extend(page_walk(small.last(), &huge));
    findings
}

/// What a load in small pages takes longer at the largest footprint that both were measured at; `None` where the two
/// can't be told apart.
fn page_walk(small: Option<&(f64, &Row, Estimate)>, huge: &[(f64, &Row, Estimate)]) -> Option<Finding> {
    let (footprint, small_row, a) = small?;
    let (_, huge_row, b) = huge.iter().find(|row| row.0 == *footprint)?;
    let interval = Interval { lo: a.interval.lo - b.interval.hi, hi: a.interval.hi - b.interval.lo };
    let known = Estimate { value: a.value - b.value, interval };
    (interval.lo > 0.0).then(|| Finding {
        says: format!("More per load in small pages than in huge ones, over {}.", Unit::Byte.format(*footprint)),
        ..derived("page walk", Unit::Second, known, small_row.flags.union(huge_row.flags))
    })
}

/// The curve's value at a footprint, along straight lines between logarithms; `None` beyond its ends.
fn at(curve: &[(f64, f64)], footprint: f64) -> Option<f64> {
    let above = curve.iter().position(|point| point.0 >= footprint)?;
    let (b, a) = (curve[above], curve[above.saturating_sub(1)]);
    if b.0 == footprint || above == 0 {
        return (b.0 == footprint).then_some(b.1);
    }
    let share = (footprint / a.0).ln() / (b.0 / a.0).ln();
    Some(a.1 * (b.1 / a.1).powf(share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::device::CacheInfo;
    use plimsoll_core::flag::Flag;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    const CLOCK: f64 = 2e9;

    fn device() -> DeviceInfo {
        let cache =
            |level: &str, bytes: u64, shared_by: u32| CacheInfo { level: level.into(), bytes, line: 64, shared_by };
        DeviceInfo {
            caches: vec![cache("L1", 48 << 10, 1), cache("L2", 2 << 20, 1), cache("L3", 64 << 20, 8)],
            ..DeviceInfo::default()
        }
    }

    /// A third of the last cache is all that this machine sees of it.
    fn cycles(footprint: f64, small: bool) -> f64 {
        let levels = [(48.0 * 1024.0, 5.0), (2097152.0, 15.0), (20.0 * 1048576.0, 70.0), (f64::INFINITY, 300.0)];
        let (mut above, mut sum) = (0.0, 0.0);
        for (capacity, cycles) in levels {
            let share = f64::min(capacity / footprint, 1.0).powi(12);
            sum += (share - above) * cycles;
            above = share;
        }
        sum + if small { 60.0 * (1.0 - f64::min(262144.0 / footprint, 1.0)) } else { 0.0 }
    }

    fn series(curves: &[(&str, f64)]) -> Series {
        let mut points = Vec::new();
        for &(pages, least) in curves {
            for i in 0..((1_u64 << 30) as f64 / least).log2() as i32 * 4 + 1 {
                let footprint = least * (f64::from(i) / 4.0).exp2();
                let seconds = cycles(footprint, pages == "small") / CLOCK;
                points.push(Point {
                    series: 0,
                    round: 0,
                    at: vec![pages.into(), RANDOM.into(), footprint.into()],
                    k: 1,
                    tick: 1e-12,
                    work: Work { operations: 1e6, ..Work::default() },
                    samples: vec![(seconds * 1e18) as u64; 30],
                    evidence: Evidence { clock_hz: Some(CLOCK), ..Evidence::default() },
                    flags: Flags::NONE,
                    extra: Default::default(),
                });
            }
        }
        Series::new(chase(), points)
    }

    fn value(findings: &[Finding], name: &str) -> f64 {
        findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}: {findings:?}")).value
    }

    #[test]
    fn levels_get_the_names_of_the_caches_that_hold_them_and_capacities_are_as_measured() {
        let found = findings(&device(), &[series(&[("huge", 2048.0), ("small", 32768.0)])]);
        for (name, cycles) in [("L1", 5.0), ("L2", 15.0), ("L3", 70.0), ("memory", 300.0)] {
            let in_cycles = value(&found, &format!("latency {name} in cycles"));
            assert!((in_cycles / cycles - 1.0).abs() < 0.1, "{name}: {in_cycles}");
            assert!((value(&found, &format!("latency {name}")) * CLOCK / in_cycles - 1.0).abs() < 1e-6);
        }
        for (name, bytes) in [("L1", 48.0 * 1024.0), ("L2", 2097152.0), ("L3", 20.0 * 1048576.0)] {
            let capacity = found.iter().find(|finding| finding.name == format!("capacity {name}")).expect(name);
            assert!((capacity.value / bytes - 1.0).abs() < 0.3, "{capacity:?}");
            assert!(capacity.published.is_some());
        }
        let l3 = found.iter().find(|finding| finding.name == "capacity L3").unwrap();
        assert!(l3.says.contains("Others use it too"), "{}", l3.says);
        assert_eq!(found.iter().filter(|finding| finding.name.starts_with("capacity")).count(), 3);
    }

    #[test]
    fn a_capacity_carries_the_flags_of_the_two_rows_it_lies_between_and_of_no_others() {
        let mut whole = series(&[("huge", 2048.0)]);
        let clean = findings(&device(), std::slice::from_ref(&whole));
        let between = |name: &str| clean.iter().find(|finding| finding.name == name).unwrap().interval;
        let l2 = between("capacity L2");
        for row in &mut whole.rows {
            let footprint = row.at[2].number().unwrap();
            if footprint == l2.lo {
                row.flags.insert(Flag::Cotenant);
            } else if footprint == l2.hi {
                row.flags.insert(Flag::ThrottlePower);
            }
        }
        let found = findings(&device(), &[whole]);
        let flags = |name: &str| found.iter().find(|finding| finding.name == name).unwrap().flags;
        assert_eq!(flags("capacity L2"), [Flag::Cotenant, Flag::ThrottlePower].into_iter().collect());
        assert!(flags("capacity L1").is_empty() && flags("capacity L3").is_empty());
    }

    #[test]
    fn translation_is_what_small_pages_cost_more() {
        let found = findings(&device(), &[series(&[("huge", 2048.0), ("small", 32768.0)])]);
        let reach = value(&found, "TLB reach");
        assert!((262144.0..600_000.0).contains(&reach), "{reach}");
        assert!((value(&found, "page walk") * CLOCK / 60.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_cache_of_two_plateaus_ends_after_the_second() {
        // The first TLB ends within L2, and walks are slow.
        let mut whole = series(&[("huge", 2048.0)]);
        for row in &mut whole.rows {
            if row.at[2].number().is_some_and(|bytes| (400_000.0..2_200_000.0).contains(&bytes)) {
                row.rounds.iter_mut().for_each(|round| round.value *= 1.6);
            }
        }
        let found = findings(&device(), &[whole]);
        let capacity = value(&found, "capacity L2");
        assert!((capacity / 2097152.0 - 1.0).abs() < 0.3, "{capacity}");
        assert!((value(&found, "latency L2 in cycles") / 15.0 - 1.0).abs() < 0.1);
        assert_eq!(found.iter().filter(|finding| finding.name == "capacity L2").count(), 1);
    }

    #[test]
    fn memory_is_told_from_the_largest_footprint_where_it_has_no_plateau() {
        let mut whole = series(&[("huge", 2048.0)]);
        // A machine whose last cache is half of the largest footprint; nothing was measured between the two.
        let mut device = device();
        device.caches[2].bytes = 1 << 29;
        whole.rows.retain(|row| row.at[2].number().is_some_and(|bytes| !(2.2e7..1e9).contains(&bytes)));
        let found = findings(&device, &[whole]);
        let memory = found.iter().find(|finding| finding.name == "latency memory").unwrap();
        assert!(memory.says.contains("At 1 GiB alone") && memory.metric == "latency", "{memory:?}");
        assert!((memory.value * CLOCK / 300.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn without_huge_pages_levels_are_found_and_translation_is_not_spoken_of() {
        let found = findings(&device(), &[series(&[("small", 2048.0)])]);
        assert!((value(&found, "latency L1 in cycles") / 5.0 - 1.0).abs() < 0.01);
        assert!(found.iter().all(|finding| !["TLB reach", "page walk"].contains(&finding.name.as_str())));
    }

    #[test]
    fn a_run_that_was_stopped_at_once_has_no_findings() {
        assert!(findings(&device(), &[]).is_empty());
        assert!(findings(&device(), &[Series::new(chase(), [])]).is_empty());
        assert!(findings(&DeviceInfo::default(), &[series(&[("huge", 2048.0)])]).is_empty());
    }
}
