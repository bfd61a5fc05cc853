//! copy: three ways to write a copy — one element per thread, a grid-stride loop, a loop over vectors — by size, grid,
//! width of the index, and whether the data are in a cache. Cached and uncached bandwidth are different things: this
//! probe shows both beside each other.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Metric, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "copy",
    group: "bandwidth",
    sentence: "How the way a copy is written (vectors, grid, index width) and cached data change its bandwidth.",
    page: "copy.md",
    seconds: [7.0, 34.0, 120.0],
    findings,
};

/// One element per thread.
pub const NAIVE: &str = "naive";
/// A loop in which each thread strides over the grid, by elements.
pub const GRID_STRIDE: &str = "grid-stride";
/// The same loop over vectors of four elements.
pub const VEC4: &str = "vec4";
/// As many blocks as cover the elements.
pub const GRID_DIM1: &str = "grid_dim1";
/// The smaller of the covering grid and one that fills the device 32 times.
pub const LEAST: &str = "min, 32 waves";
/// Names of index widths.
pub const INDICES: [&str; 2] = ["32-bit", "64-bit"];
/// Metric: elements from which on the grid no longer grows.
pub const BREAK_POINT: &str = "break point";
/// Bytes per array of the copy that is shown hot and cold.
pub const SHOWN_BYTES: u64 = 16 << 20;

fn figures() -> Vec<Metric> {
    vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth), metric("time", Unit::Second, Quantity::Time)]
}

fn over_sizes(case: &str, cache: CachePolicy, by: &[&str]) -> SeriesSpec {
    let draw = Draw::Lines {
        x: "size".into(),
        y: "bandwidth".into(),
        by: by.first().map(|by| (*by).into()),
        log_x: true,
        log_y: false,
    };
    let mut axes: Vec<_> = by.iter().map(|name| axis(name, Unit::One)).collect();
    axes.push(axis("size", Unit::Byte));
    SeriesSpec::new(case, Figure::Throughput, cache, axes, figures(), draw)
}

/// Every kernel by bytes per array, from memory.
#[must_use]
pub fn cold() -> SeriesSpec {
    over_sizes("cold", CachePolicy::ColdRotate, &["kernel"])
}

/// Every kernel by bytes per array, on the same arrays each time.
#[must_use]
pub fn hot() -> SeriesSpec {
    over_sizes("hot", CachePolicy::Hot, &["kernel"])
}

/// Grid policies by size, from memory.
#[must_use]
pub fn grids() -> SeriesSpec {
    let mut spec = over_sizes("grids", CachePolicy::ColdRotate, &["grid", "kernel"]);
    spec.metrics.push(metric(BREAK_POINT, Unit::Element, Quantity::Extra));
    spec
}

/// Width of the index by size, from memory.
#[must_use]
pub fn indices() -> SeriesSpec {
    over_sizes("indices", CachePolicy::ColdRotate, &["index", "kernel"])
}

/// One block on one multiprocessor, by the width of its accesses, after a flush of the caches.
#[must_use]
pub fn one_multiprocessor() -> SeriesSpec {
    let mut metrics = figures();
    metrics.push(metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle));
    SeriesSpec::new(
        "one multiprocessor",
        Figure::Latency,
        CachePolicy::ColdFlush,
        vec![axis("kernel", Unit::One)],
        metrics,
        Draw::Bars { x: "kernel".into(), y: "bandwidth".into(), by: None },
    )
}

/// Names of the series of single calls.
const TRACES: [&str; 2] = ["trace hot", "trace cold"];

/// Call after call from the first one: what `--trace` asks for.
#[must_use]
pub fn trace(cache: CachePolicy) -> SeriesSpec {
    let case = TRACES[usize::from(cache != CachePolicy::Hot)];
    let axes = vec![axis("kernel", Unit::One), axis("size", Unit::Byte)];
    SeriesSpec::new(case, Figure::Latency, cache, axes, figures(), Draw::Table)
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// Break points, single calls, hot against cold, what vectors, grids and narrow indices are worth, and the share of one
/// multiprocessor's limit.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(cold) = case(series, "cold") {
        found.extend(case(series, "hot").and_then(|hot| hot_against_cold(hot, cold)));
        found.extend(change("vec4 against naive", cold, ["kernel", VEC4], ["kernel", NAIVE], None));
    }
    if let Some(grids) = case(series, "grids") {
        for kernel in [GRID_STRIDE, VEC4] {
            found.extend(break_point(grids, kernel));
        }
        let (least, covering) = (["grid", LEAST], ["grid", GRID_DIM1]);
        found.extend(change("min against grid_dim1", grids, least, covering, Some(["kernel", VEC4])));
    }
    if let Some(indices) = case(series, "indices") {
        let [narrow, wide] = INDICES.map(|index| ["index", index]);
        found.extend(change("32-bit against 64-bit", indices, narrow, wide, Some(["kernel", GRID_STRIDE])));
    }
    if let Some(one) = case(series, "one multiprocessor") {
        found.extend(one.rows.iter().filter_map(|row| on_one(device, one, row)));
    }
    for trace in TRACES.iter().filter_map(|name| case(series, name)) {
        found.extend(trace.rows.iter().filter_map(|row| call(trace, row)));
    }
    found
}

/// The median of all calls, with the first one beside it.
fn call(trace: &Series, row: &Row) -> Option<Finding> {
    let size = Unit::Byte.format(trace.number(row, "size")?);
    let bandwidth = trace.metric("bandwidth")?;
    let point = row.points.first()?;
    let first = bandwidth.of.of(point.seconds().next()?, &point.work, None)?;
    let name = format!("{}, {size}", trace.spec.case.replace("trace", "single calls"));
    Some(Finding {
        says: format!("the first call {}", Unit::BytePerSecond.format(first)),
        ..super::finding(name, Unit::BytePerSecond, row, row.estimate(bandwidth)?)
    })
}

fn is(series: &Series, row: &Row, [axis, value]: [&str; 2]) -> bool {
    series.text(row, axis) == Some(value)
}

/// Bandwidth of the same copy from a cache and from memory, as a ratio.
fn hot_against_cold(hot: &Series, cold: &Series) -> Option<Finding> {
    fn shown(series: &Series) -> Option<(&Row, Estimate)> {
        let of =
            |row: &&Row| is(series, row, ["kernel", VEC4]) && series.number(row, "size") == Some(SHOWN_BYTES as f64);
        let row = series.rows.iter().find(of)?;
        Some((row, series.estimate(row, "bandwidth")?))
    }
    let ((_, hot), (row, cold)) = (shown(hot)?, shown(cold)?);
    let interval = Interval { lo: hot.interval.lo / cold.interval.hi, hi: hot.interval.hi / cold.interval.lo };
    let (fast, slow) = (Unit::BytePerSecond.format(hot.value), Unit::BytePerSecond.format(cold.value));
    Some(Finding {
        says: format!(
            "times as fast from the cache: {} vec4, {fast} hot, {slow} cold",
            Unit::Byte.format(SHOWN_BYTES as f64)
        ),
        ..super::finding("hot against cold", Unit::One, row, Estimate { value: hot.value / cold.value, interval })
    })
}

/// How much more bandwidth `one` has than `other` on the largest size that both have, in per cent.
fn change(name: &str, series: &Series, one: [&str; 2], other: [&str; 2], of: Option<[&str; 2]>) -> Option<Finding> {
    let kept = |row: &&Row| of.is_none_or(|of| is(series, row, of));
    let pairs = series.rows.iter().filter(kept).filter(|row| is(series, row, one)).filter_map(|row| {
        let size = series.number(row, "size")?;
        let with = series
            .rows
            .iter()
            .filter(kept)
            .find(|row| is(series, row, other) && series.number(row, "size") == Some(size))?;
        Some((size, row, series.estimate(row, "bandwidth")?, series.estimate(with, "bandwidth")?))
    });
    let (size, row, one, other) = pairs.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let more = |one: f64, other: f64| 100.0 * (one / other - 1.0);
    let interval =
        Interval { lo: more(one.interval.lo, other.interval.hi), hi: more(one.interval.hi, other.interval.lo) };
    let of = of.map_or(String::new(), |[_, value]| format!(", {value}"));
    Some(Finding {
        says: format!("of bandwidth, on {}{of}", Unit::Byte.format(size)),
        ..super::finding(name, Unit::Percent, row, Estimate { value: more(one.value, other.value), interval })
    })
}

/// The number of elements from which on `min` launches the grid that fills the device.
fn break_point(grids: &Series, kernel: &str) -> Option<Finding> {
    let of = |row: &&Row| is(grids, row, ["grid", LEAST]) && is(grids, row, ["kernel", kernel]);
    let row = grids.rows.iter().find(of)?;
    Some(Finding {
        says: "of 4 bytes: from here on the grid that fills the device 32 times is the smaller".into(),
        ..super::finding(format!("break point {kernel}"), Unit::Element, row, grids.estimate(row, BREAK_POINT)?)
    })
}

/// Load/store units of a multiprocessor: 32 on GA100, GA10x and GH100, 16 on AD10x (NVIDIA's architecture papers as
/// the seed of this probe quotes them). `None` for others, rather than a guess.
fn lanes(architecture: &str) -> Option<f64> {
    match architecture {
        "sm_80" | "sm_86" | "sm_90" => Some(32.0),
        "sm_89" => Some(16.0),
        _ => None,
    }
}

/// One multiprocessor's bandwidth, and its share of what its load/store units could move: lanes × 4 B × clock.
fn on_one(device: &DeviceInfo, one: &Series, row: &Row) -> Option<Finding> {
    let kernel = one.text(row, "kernel")?;
    let estimate = one.estimate(row, "bandwidth")?;
    let lanes = device.architecture.as_deref().and_then(lanes);
    let limit = lanes.zip(row.clock_hz().or(device.calibration.clock_hz)).map(|(lanes, hz)| 4.0 * lanes * hz);
    let share = limit.map_or(String::new(), |limit| {
        let percent = 100.0 * estimate.value / limit;
        format!(", {percent:.0} % of the {} that its load/store units could move", Unit::BytePerSecond.format(limit))
    });
    Some(Finding {
        says: format!("one block of 1024 threads{share}"),
        ..super::finding(format!("one multiprocessor {kernel}"), Unit::BytePerSecond, row, estimate)
    })
}

#[cfg(test)]
mod tests {
    use crate::probes::synthetic;
    use plimsoll_core::Traffic;
    use plimsoll_core::device::Calibration;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Value};

    use super::*;

    fn point(at: Vec<Value>, bandwidth: f64) -> Point {
        // The device is calibrated; the points have no clock of their own.
        Point {
            evidence: Default::default(),
            ..synthetic::point(
                at,
                1e6 / bandwidth,
                Work { traffic: Traffic::new(500_000, 500_000), ..Work::default() },
                &[],
            )
        }
    }

    fn of(found: &[Finding], name: &str) -> Finding {
        found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{name}: {found:?}")).clone()
    }

    #[test]
    fn the_same_copy_hot_and_cold_is_one_ratio() {
        let at = |kernel: &str, size: u64| vec![kernel.into(), size.into()];
        let hot = Series::new(hot(), [point(at(VEC4, SHOWN_BYTES), 1.58e12), point(at(NAIVE, SHOWN_BYTES), 9e12)]);
        let cold = Series::new(cold(), [point(at(VEC4, SHOWN_BYTES), 0.235e12), point(at(VEC4, 8 << 20), 5e12)]);
        let ratio = of(&findings(&DeviceInfo::default(), &[cold, hot]), "hot against cold");
        assert!((ratio.value / (1.58 / 0.235) - 1.0).abs() < 1e-3);
        assert!(ratio.says.contains("1.58 TB/s hot") && ratio.says.contains("235 GB/s cold"), "{}", ratio.says);
    }

    #[test]
    fn single_calls_have_their_median_and_their_first() {
        let mut one = point(vec![VEC4.into(), SHOWN_BYTES.into()], 4e12);
        one.samples[0] *= 2;
        let found = findings(&DeviceInfo::default(), &[Series::new(trace(CachePolicy::Hot), [one])]);
        let hot = of(&found, "single calls hot, 16 MiB");
        assert!((hot.value / 4e12 - 1.0).abs() < 1e-3 && hot.says.contains("2.00 TB/s"), "{hot:?}");
    }

    #[test]
    fn changes_are_taken_on_the_largest_size_that_both_have() {
        let at = |kernel: &str, size: u64| vec![kernel.into(), size.into()];
        let points = [
            point(at(VEC4, 1 << 30), 4.0e12),
            point(at(NAIVE, 1 << 30), 3.2e12),
            point(at(VEC4, 2 << 30), 9.0e12),
            point(at(NAIVE, 8 << 20), 9.0e12),
            point(at(VEC4, 8 << 20), 1.0e12),
        ];
        let change = of(&findings(&DeviceInfo::default(), &[Series::new(cold(), points)]), "vec4 against naive");
        assert!((change.value - 25.0).abs() < 0.01 && change.says.contains("1 GiB"), "{change:?}");
    }

    #[test]
    fn break_points_are_those_that_the_launches_state() {
        let mut least = point(vec![LEAST.into(), VEC4.into(), (8_u64 << 20).into()], 1e12);
        least.extra.insert(BREAK_POINT.into(), 28_310_532.0);
        let found = findings(&DeviceInfo::default(), &[Series::new(grids(), [least])]);
        assert_eq!(of(&found, "break point vec4").value, 28_310_532.0);
    }

    #[test]
    fn one_multiprocessor_is_set_against_its_load_store_units() {
        let device = DeviceInfo {
            architecture: Some("sm_80".into()),
            calibration: Calibration { clock_hz: Some(1.41e9), ..Calibration::default() },
            ..DeviceInfo::default()
        };
        let series = [Series::new(one_multiprocessor(), [point(vec![VEC4.into()], 51.5e9)])];
        assert!(of(&findings(&device, &series), "one multiprocessor vec4").says.contains("29 % of the 180"));
        let unknown = of(&findings(&DeviceInfo::default(), &series), "one multiprocessor vec4");
        assert_eq!(unknown.says, "one block of 1024 threads");
    }
}
