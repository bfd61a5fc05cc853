//! uniformity: whether all multiprocessors of a GPU and all parts of its memory are as good as each other: finds a slow
//! multiprocessor or a slow part of the memory.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Metric, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::{Interval, median_sorted};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::derived;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "uniformity",
    group: "bandwidth",
    sentence: "Whether a multiprocessor or a part of the memory is slower than the others.",
    seconds: [3.0, 12.0, 40.0],
    findings,
};

/// What the kernel counts of a chase.
pub const CYCLES: &str = "cycles";
/// What the kernel counts of reading 128 bytes.
pub const LINE_CYCLES: &str = "cycles per line";

/// Half-width that is asked of a page: memory's refresh moves single loads by more than that.
const PAGE_PRECISION: f64 = 0.01;

/// What each multiprocessor draws alone from the last cache.
#[must_use]
pub fn draws() -> SeriesSpec {
    let bandwidth = metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth);
    let metrics = vec![bandwidth, metric(LINE_CYCLES, Unit::Cycle, Quantity::Extra)];
    spec("multiprocessors", CachePolicy::Hot, ("multiprocessor", Unit::One), metrics)
}

/// How long a load of the last cache takes from each multiprocessor.
#[must_use]
pub fn distances() -> SeriesSpec {
    spec("distances", CachePolicy::Hot, ("multiprocessor", Unit::One), latency())
}

/// What all multiprocessors together read from a part of the memory.
#[must_use]
pub fn regions() -> SeriesSpec {
    let bandwidth = metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth);
    spec("regions", CachePolicy::ColdRotate, ("offset", Unit::Byte), vec![bandwidth])
}

/// How long a load takes from a page of the memory that no cache holds.
#[must_use]
pub fn pages() -> SeriesSpec {
    spec("pages", CachePolicy::ColdFlush, ("offset", Unit::Byte), latency()).within(PAGE_PRECISION)
}

fn latency() -> Vec<Metric> {
    vec![metric("latency", Unit::Second, Quantity::TimePerOperation), metric(CYCLES, Unit::Cycle, Quantity::Extra)]
}

fn spec(case: &str, cache: CachePolicy, (x, unit): (&str, Unit), metrics: Vec<Metric>) -> SeriesSpec {
    let y = metrics.first().map_or(String::new(), |metric| metric.name.clone());
    let draw = Draw::Lines { x: x.to_owned(), y, by: None, log_x: false, log_y: false };
    SeriesSpec::new(case, Figure::Throughput, cache, vec![axis(x, unit)], metrics, draw)
}

/// What is compared in each series: case, axis, metric, the finding's name, what one place is called, and whether more is
/// better.
const COMPARED: [(&str, &str, &str, &str, &str, bool); 4] = [
    ("multiprocessors", "multiprocessor", "bandwidth", "one multiprocessor", "multiprocessor", true),
    ("distances", "multiprocessor", CYCLES, "L2 latency in cycles", "multiprocessor", false),
    ("regions", "offset", "bandwidth", "memory by region", "region at", true),
    ("pages", "offset", CYCLES, "memory latency by page in cycles", "page at", false),
];

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let of = |(case, axis, metric, name, place, more): (&str, &str, &'static str, &str, &str, bool)| {
        let series = series.iter().find(|series| series.spec.case == case)?;
        let unit = series.metric(metric)?.unit.clone();
        let figure = |row| Some((series.at(row, axis)?.clone(), row, usual(series, row, metric)?));
        let mut rows: Vec<(_, &Row, Estimate)> = series.rows.iter().filter_map(figure).collect();
        rows.retain(|row| row.2.value > 0.0);
        rows.sort_by(|a, b| a.2.value.total_cmp(&b.2.value));
        let (least, most) = (rows.first()?, rows.last()?);
        let values: Vec<f64> = rows.iter().map(|row| row.2.value).collect();
        let (middle, quarter) = (median_sorted(&values), values.len() / 4);
        let interval = Interval { lo: values[quarter], hi: values[values.len() - 1 - quarter] };
        let flags = rows.iter().fold(Flags::NONE, |all, row| all.union(row.1.flags));
        let worst = if more { least } else { most };
        let axis_unit = series.spec.axes.first().map_or(Unit::One, |axis| axis.unit.clone());
        let says = format!(
            "The worst is the {place} {}, {:.1} % {} than the median of {}.",
            worst.0.format(&axis_unit),
            100.0 * (worst.2.value / middle - 1.0).abs(),
            if more { "less" } else { "longer" },
            values.len()
        );
        let known = Estimate { value: middle, interval };
        let ratio = |a: f64, b: f64| a / b;
        let spread = Estimate {
            value: ratio(most.2.value, least.2.value),
            interval: Interval {
                lo: ratio(most.2.interval.lo, least.2.interval.hi),
                hi: ratio(most.2.interval.hi, least.2.interval.lo),
            },
        };
        Some([
            derived(name, unit, known, flags),
            Finding { says, ..derived(format!("spread of {name}"), Unit::One, spread, flags) },
        ])
    };
    COMPARED.into_iter().filter_map(of).flatten().collect()
}

/// A row's figure with the median of its rounds instead of their mean: what is measured first is slow in the first round
/// and no worse than others in the later ones.
fn usual(series: &Series, row: &Row, metric: &str) -> Option<Estimate> {
    let estimate = series.estimate(row, metric)?;
    let mut rounds: Vec<f64> = row.rounds_of(series.metric(metric)?).map(|(_, round)| round.value).collect();
    rounds.sort_by(f64::total_cmp);
    let value = if rounds.is_empty() { estimate.value } else { median_sorted(&rounds) };
    Some(Estimate { value, ..estimate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point(at: u64, seconds: f64, cycles: f64) -> Point {
        synthetic::point(
            vec![at.into()],
            seconds,
            Work { traffic: Traffic::new(1 << 22, 0), operations: 512.0, in_kernel: true, ..Work::default() },
            &[(CYCLES, cycles)],
        )
    }

    #[test]
    fn a_slow_multiprocessor_and_a_slow_page_are_named() {
        let draws_of = (0..132).map(|at| point(at, if at == 17 { 40e-6 } else { 33e-6 }, 0.0));
        let pages_of = (0..64).map(|at| point(at << 21, 43e-6, if at == 5 { 990.0 } else { 660.0 }));
        let found = findings(&DeviceInfo::default(), &[Series::new(draws(), draws_of), Series::new(pages(), pages_of)]);
        let value = |name: &str| found.iter().find(|f| f.name == name).map(|f| (f.value, f.says.as_str()));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!((value("one multiprocessor").unwrap().0 / (4194304.0 / 33e-6) - 1.0).abs() < 1e-6);
        let (spread, says) = value("spread of one multiprocessor").unwrap();
        assert!((spread - 40.0 / 33.0).abs() < 1e-6 && says.contains("multiprocessor 17, 17.5 % less"), "{says}");
        let (spread, says) = value("spread of memory latency by page in cycles").unwrap();
        assert!((spread - 1.5).abs() < 1e-9 && says.contains("page at 10 MiB, 50.0 % longer"), "{says}");
    }

    #[test]
    fn what_is_even_has_a_spread_of_one_and_nothing_has_none() {
        let even = (0..4).map(|at| point(at, 33e-6, 281.0));
        let found = findings(&DeviceInfo::default(), &[Series::new(distances(), even)]);
        assert_eq!(found.iter().map(|f| f.value).collect::<Vec<f64>>(), [281.0, 1.0]);
        assert!(findings(&DeviceInfo::default(), &[Series::new(pages(), [])]).is_empty());
    }
}
