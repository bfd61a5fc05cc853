//! uniformity: whether all SMs of a GPU and all parts of its memory perform alike: finds a slow SM or a slow part of the
//! memory.

probe! {
    /// Whether a multiprocessor or a part of the memory is slower than the others.
    "uniformity" in "bandwidth", seconds: [3.0, 12.0, 40.0], files: gpu kernels, takes bytes
}

use plimsoll_core::stats::median_sorted;

use crate::prelude::meaning::*;

plimsoll_core::axes! {
    /// An SM that works alone.
    pub struct Alone {
        /// The SM's number.
        multiprocessor: Count,
    }
}

plimsoll_core::axes! {
    /// A part of the memory.
    pub struct Part {
        /// Offset in bytes.
        offset: Bytes,
    }
}

/// The metric with the cycles of one load of a chase.
pub const CYCLES: &str = "cycles";
/// The metric with the cycles of reading 128 bytes.
pub const LINE_CYCLES: &str = "cycles per line";

/// Requested relative half-width of the interval of a page: memory refresh shifts single loads by more than the usual one.
const PAGE_PRECISION: f64 = 0.01;

/// Bandwidth of each SM alone from the last-level cache.
#[must_use]
pub fn draws() -> TypedSeries<Alone> {
    let bandwidth = metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth);
    let metrics = vec![bandwidth, metric(LINE_CYCLES, Unit::Cycle, Quantity::Extra)];
    spec("multiprocessors", CachePolicy::Hot, metrics)
}

/// Latency of a load from the last-level cache on each SM.
#[must_use]
pub fn distances() -> TypedSeries<Alone> {
    spec("distances", CachePolicy::Hot, latency())
}

/// Bandwidth of all SMs together from a part of the memory.
#[must_use]
pub fn regions() -> TypedSeries<Part> {
    let bandwidth = metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth);
    spec("regions", CachePolicy::ColdRotate, vec![bandwidth])
}

/// Latency of a load from a page of the memory that is in no cache.
#[must_use]
pub fn pages() -> TypedSeries<Part> {
    spec("pages", CachePolicy::ColdFlush, latency()).with_precision(PAGE_PRECISION)
}

fn latency() -> Vec<Metric> {
    vec![metric("latency", Unit::Second, Quantity::TimePerOperation), metric(CYCLES, Unit::Cycle, Quantity::Extra)]
}

fn spec<A: Axes>(case: &str, cache: CachePolicy, metrics: Vec<Metric>) -> TypedSeries<A> {
    let x = A::axes().first().map_or(String::new(), |axis| axis.name.clone());
    let y = metrics.first().map_or(String::new(), |metric| metric.name.clone());
    let draw = Draw::Lines { x, y, by: None, log_x: false, log_y: false };
    TypedSeries::new(case, Figure::Throughput, cache, metrics, draw)
}

/// A comparison within a series.
struct Compared<A> {
    case: &'static str,
    metric: &'static str,
    /// Name of the finding.
    name: &'static str,
    /// Names a place.
    place: fn(&A) -> String,
    is_more_better: bool,
}

fn multiprocessor(at: &Alone) -> String {
    format!("multiprocessor {}", at.multiprocessor.0)
}

fn offset(at: &Part) -> String {
    at.offset.to_value().format(&Unit::Byte)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let draws = Compared {
        case: "multiprocessors",
        metric: "bandwidth",
        name: "one multiprocessor",
        place: multiprocessor,
        is_more_better: true,
    };
    let distances = Compared {
        case: "distances",
        metric: CYCLES,
        name: "L2 latency in cycles",
        place: multiprocessor,
        is_more_better: false,
    };
    let regions = Compared {
        case: "regions",
        metric: "bandwidth",
        name: "memory by region",
        place: |at| format!("region at {}", offset(at)),
        is_more_better: true,
    };
    let pages = Compared {
        case: "pages",
        metric: CYCLES,
        name: "memory latency by page in cycles",
        place: |at| format!("page at {}", offset(at)),
        is_more_better: false,
    };
    let all =
        [compare(series, &draws), compare(series, &distances), compare(series, &regions), compare(series, &pages)];
    all.into_iter().flatten().flatten().collect()
}

/// The median over all places, and the ratio of the largest to the smallest figure.
fn compare<A: Axes>(series: &[Series], what: &Compared<A>) -> Option<[Finding; 2]> {
    let series = series.iter().find(|series| series.spec.case == what.case)?;
    let unit = series.metric(what.metric)?.unit.clone();
    let figure = |(at, row)| Some((at, row, estimate_by_median(series, row, what.metric)?));
    let mut rows: Vec<(A, &Row, Estimate)> = known_rows(series).filter_map(figure).collect();
    rows.retain(|row| row.2.value > 0.0);
    rows.sort_by(|a, b| a.2.value.total_cmp(&b.2.value));
    let (least, most) = (rows.first()?, rows.last()?);
    let values: Vec<f64> = rows.iter().map(|row| row.2.value).collect();
    let (middle, quarter) = (median_sorted(&values), values.len() / 4);
    let interval = Interval { lo: values[quarter], hi: values[values.len() - 1 - quarter] };
    let flags = rows.iter().fold(Flags::NONE, |all, row| all.union(row.1.flags));
    let worst = if what.is_more_better { least } else { most };
    let says = format!(
        "The worst is the {}, {:.1} % {} than the median of {}.",
        (what.place)(&worst.0),
        100.0 * (worst.2.value / middle - 1.0).abs(),
        if what.is_more_better { "less" } else { "longer" },
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
        derived(what.name, unit, known, flags),
        Finding { says, ..derived(format!("spread of {}", what.name), Unit::One, spread, flags) },
    ])
}

/// A row's estimate with the median of its rounds instead of their mean: the places measured first are slow in the first
/// round only.
fn estimate_by_median(series: &Series, row: &Row, metric: &str) -> Option<Estimate> {
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

    fn point(at: impl Axes, seconds: f64, cycles: f64) -> Point {
        synthetic::point(
            at.to_values(),
            seconds,
            Work { traffic: Traffic::new(1 << 22, 0), operations: 512.0, in_kernel: true, ..Work::default() },
            &[(CYCLES, cycles)],
        )
    }

    fn alone(multiprocessor: u64) -> Alone {
        Alone { multiprocessor: Count(multiprocessor) }
    }

    #[test]
    fn a_slow_multiprocessor_and_a_slow_page_are_named() {
        let draws_of = (0..132).map(|at| point(alone(at), if at == 17 { 40e-6 } else { 33e-6 }, 0.0));
        let part = |page: u64| Part { offset: Bytes(page << 21) };
        let pages_of = (0..64).map(|at| point(part(at), 43e-6, if at == 5 { 990.0 } else { 660.0 }));
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
        let even = (0..4).map(|at| point(alone(at), 33e-6, 281.0));
        let found = findings(&DeviceInfo::default(), &[Series::new(distances(), even)]);
        assert_eq!(found.iter().map(|f| f.value).collect::<Vec<f64>>(), [281.0, 1.0]);
        assert!(findings(&DeviceInfo::default(), &[Series::new(pages(), [])]).is_empty());
    }
}
