//! copy: three ways to write a copy — one element per thread, a grid-stride loop, a loop over vectors — by size, grid,
//! width of the index, and whether the data are in a cache. Cached and uncached bandwidth differ: this
//! probe shows both.
//!
//! `README.md` explains the figures; `gpu` measures them.

probe! {
    /// How the way a copy is written (vectors, grid, index width) and cached data change its bandwidth.
    "copy" in "bandwidth", seconds: [7.0, 34.0, 120.0], files: gpu kernels, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// How a copy is written.
    pub enum Kernel {
        /// One element per thread.
        Naive = "naive",
        /// A loop in which each thread strides over the grid, by elements.
        GridStride = "grid-stride",
        /// The same loop over vectors of two elements.
        Vec2 = "vec2",
        /// The same loop over vectors of four elements.
        Vec4 = "vec4",
        /// The same loop over vectors of eight elements.
        Vec8 = "vec8",
    }

    /// How many blocks a copy is launched with.
    pub enum Grid {
        /// As many as cover the elements.
        Covering = "grid_dim1",
        /// As many as fill the device once.
        OneWave = "grid_dim2, 1 wave",
        /// As many as fill the device 32 times.
        ManyWaves = "grid_dim2, 32 waves",
        /// The smaller of the covering grid and one that fills the device 32 times.
        Least = "min, 32 waves",
    }

    /// Width of the index.
    pub enum Index {
        /// 32 bits.
        Narrow = "32-bit",
        /// 64 bits.
        Wide = "64-bit",
    }
}

axes! {
    /// A copy by its kernel.
    pub struct ByKernel {
        /// How it is written.
        kernel: Kernel,
        /// Bytes per array.
        size: Bytes,
    }

    /// A copy by its grid.
    pub struct ByGrid {
        /// How many blocks there are.
        grid: Grid,
        /// How it is written.
        kernel: Kernel,
        /// Bytes per array.
        size: Bytes,
    }

    /// A copy by the width of its index.
    pub struct ByIndex {
        /// The width.
        index: Index,
        /// How it is written.
        kernel: Kernel,
        /// Bytes per array.
        size: Bytes,
    }

    /// A copy on one SM.
    pub struct OnOne {
        /// How it is written.
        kernel: Kernel,
    }
}

/// Metric: number of elements above which the grid no longer grows.
pub const BREAK_POINT: &str = "break point";
/// Bytes per array of the copy that is shown hot and cold.
pub const SHOWN_BYTES: u64 = 16 << 20;

fn figures() -> Vec<Metric> {
    vec![metrics::bandwidth(), metrics::time()]
}

fn over_sizes<A: Axes>(case: &str, cache: CachePolicy, by: &str, metrics: Vec<Metric>) -> TypedSeries<A> {
    let draw = Draw::lines("size", "bandwidth").grouped_by(by).log_x();
    TypedSeries::new(case, Figure::Throughput, cache, metrics, draw)
}

/// Every kernel by bytes per array, from memory or on the same arrays every time.
#[must_use]
pub fn all_kernels(cache: CachePolicy) -> TypedSeries<ByKernel> {
    over_sizes(if cache == CachePolicy::Hot { "hot" } else { "cold" }, cache, "kernel", figures())
}

/// Grid policies by size, from memory.
#[must_use]
pub fn grids() -> TypedSeries<ByGrid> {
    let mut metrics = figures();
    metrics.push(metric(BREAK_POINT, Unit::Element, Quantity::Extra));
    over_sizes("grids", CachePolicy::ColdRotate, "grid", metrics)
}

/// Width of the index by size, from memory.
#[must_use]
pub fn indices() -> TypedSeries<ByIndex> {
    over_sizes("indices", CachePolicy::ColdRotate, "index", figures())
}

/// One block on one SM, by the width of its accesses, after a flush of the caches.
#[must_use]
pub fn one_multiprocessor() -> TypedSeries<OnOne> {
    let mut metrics = figures();
    metrics.push(metrics::bytes_per_cycle());
    TypedSeries::new(
        "one multiprocessor",
        Figure::Latency,
        CachePolicy::ColdFlush,
        metrics,
        Draw::bars("kernel", "bandwidth"),
    )
}

/// Names of the series of single calls.
const TRACES: [&str; 2] = ["trace hot", "trace cold"];

/// Call after call from the first one, for `--trace`.
#[must_use]
pub fn trace(cache: CachePolicy) -> TypedSeries<ByKernel> {
    let case = TRACES[usize::from(cache != CachePolicy::Hot)];
    TypedSeries::new(case, Figure::Latency, cache, figures(), Draw::Table)
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// Break points, single calls, hot against cold, the gain from vectors, grids and narrow indices, and the share of one SM's
/// limit.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(cold) = case(series, "cold") {
        found.extend(case(series, "hot").and_then(|hot| hot_against_cold(hot, cold)));
        let sizes = |kernel| by_size(cold, move |at: &ByKernel| (at.kernel == kernel).then_some(at.size));
        let [vectors, elements] = [Kernel::Vec4, Kernel::Naive].map(sizes);
        found.extend(change("vec4 against naive", cold, &vectors, &elements, None));
    }
    if let Some(grids) = case(series, "grids") {
        for kernel in [Kernel::GridStride, Kernel::Vec4] {
            found.extend(break_point(grids, kernel));
        }
        let is_wanted = |at: &ByGrid, grid| at.kernel == Kernel::Vec4 && at.grid == grid;
        let sizes = |grid| by_size(grids, move |at: &ByGrid| is_wanted(at, grid).then_some(at.size));
        let [least, covering] = [Grid::Least, Grid::Covering].map(sizes);
        found.extend(change("min against grid_dim1", grids, &least, &covering, Some(Kernel::Vec4)));
    }
    if let Some(indices) = case(series, "indices") {
        let is_wanted = |at: &ByIndex, index| at.kernel == Kernel::GridStride && at.index == index;
        let sizes = |index| by_size(indices, move |at: &ByIndex| is_wanted(at, index).then_some(at.size));
        let [narrow, wide] = [Index::Narrow, Index::Wide].map(sizes);
        found.extend(change("32-bit against 64-bit", indices, &narrow, &wide, Some(Kernel::GridStride)));
    }
    if let Some(one) = case(series, "one multiprocessor") {
        found.extend(known_rows(one).filter_map(|(at, row)| on_one(device, one, &at, row)));
    }
    for trace in TRACES.iter().filter_map(|name| case(series, name)) {
        found.extend(known_rows(trace).filter_map(|(at, row)| call(trace, &at, row)));
    }
    found
}

/// The median of all calls, with the first one for comparison.
fn call(trace: &Series, at: &ByKernel, row: &Row) -> Option<Finding> {
    let size = Unit::Byte.format(at.size.0 as f64);
    let bandwidth = trace.metric("bandwidth")?;
    let point = row.points.first()?;
    let first = bandwidth.quantity.compute(point.seconds().next()?, &point.work, None)?;
    let name = format!("{}, {size}", trace.spec.case.replace("trace", "single calls"));
    Some(Finding {
        says: format!("the first call {}", Unit::BytePerSecond.format(first)),
        ..finding(name, Unit::BytePerSecond, row, row.estimate(bandwidth)?)
    })
}

/// The rows for which `size_of` returns a size, with that size.
fn by_size<A: Axes>(series: &Series, size_of: impl Fn(&A) -> Option<Bytes>) -> Vec<(Bytes, &Row)> {
    known_rows(series).filter_map(|(at, row)| Some((size_of(&at)?, row))).collect()
}

/// Bandwidth of the same copy from a cache and from memory, as a ratio.
fn hot_against_cold(hot: &Series, cold: &Series) -> Option<Finding> {
    fn shown(series: &Series) -> Option<(&Row, Estimate)> {
        let shown = ByKernel { kernel: Kernel::Vec4, size: Bytes(SHOWN_BYTES) };
        let (_, row) = known_rows(series).find(|(at, _): &(ByKernel, &Row)| *at == shown)?;
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
        ..finding("hot against cold", Unit::One, row, Estimate { value: hot.value / cold.value, interval })
    })
}

/// How much more bandwidth `one` has than `other` on the largest size that both have, in per cent.
fn change(
    name: &str,
    series: &Series,
    one: &[(Bytes, &Row)],
    other: &[(Bytes, &Row)],
    kernel: Option<Kernel>,
) -> Option<Finding> {
    let pairs = one.iter().filter_map(|(size, row)| {
        let (_, other_row) = other.iter().find(|other| other.0 == *size)?;
        Some((*size, row, series.estimate(row, "bandwidth")?, series.estimate(other_row, "bandwidth")?))
    });
    let (size, row, one, other) = pairs.max_by_key(|pair| pair.0)?;
    let more = |one: f64, other: f64| 100.0 * (one / other - 1.0);
    let interval =
        Interval { lo: more(one.interval.lo, other.interval.hi), hi: more(one.interval.hi, other.interval.lo) };
    let suffix = kernel.map_or(String::new(), |kernel| format!(", {kernel}"));
    Some(Finding {
        says: format!("change in bandwidth on {}{suffix}", Unit::Byte.format(size.0 as f64)),
        ..finding(name, Unit::Percent, row, Estimate { value: more(one.value, other.value), interval })
    })
}

/// The number of elements above which `min` launches the grid that fills the device.
fn break_point(grids: &Series, kernel: Kernel) -> Option<Finding> {
    let is_wanted = |at: &ByGrid| at.grid == Grid::Least && at.kernel == kernel;
    let (_, row) = known_rows(grids).find(|(at, _)| is_wanted(at))?;
    Some(Finding {
        says: "elements of 4 bytes; above this the grid that fills the device 32 times is the smaller".into(),
        ..finding(format!("break point {kernel}"), Unit::Element, row, grids.estimate(row, BREAK_POINT)?)
    })
}

/// Load/store units of an SM: 32 on GA100, GA10x and GH100, 16 on AD10x (NVIDIA's architecture papers as
/// the notes that this probe follows quote them). `None` for others, rather than a guess.
fn lanes(architecture: &str) -> Option<f64> {
    match architecture {
        "sm_80" | "sm_86" | "sm_90" => Some(32.0),
        "sm_89" => Some(16.0),
        _ => None,
    }
}

/// One SM's bandwidth, and its share of what its load/store units could move: lanes × 4 B × clock.
fn on_one(device: &DeviceInfo, one: &Series, at: &OnOne, row: &Row) -> Option<Finding> {
    let estimate = one.estimate(row, "bandwidth")?;
    let lanes = device.architecture.as_deref().and_then(lanes);
    let limit = lanes.zip(row.clock_hz().or(device.calibration.clock_hz)).map(|(lanes, hz)| 4.0 * lanes * hz);
    let share = limit.map_or(String::new(), |limit| {
        let percent = 100.0 * estimate.value / limit;
        format!(", {percent:.0} % of the {} that its load/store units could move", Unit::BytePerSecond.format(limit))
    });
    Some(Finding {
        says: format!("one block of 1024 threads{share}"),
        ..finding(format!("one multiprocessor {}", at.kernel), Unit::BytePerSecond, row, estimate)
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::device::Calibration;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    use super::*;

    fn point(at: impl Axes, bandwidth: f64) -> Point {
        // The device is calibrated; the points have no measured clock.
        Point {
            evidence: Default::default(),
            ..synthetic::point(
                at.to_values(),
                1e6 / bandwidth,
                Work { traffic: Traffic::new(500_000, 500_000), ..Work::default() },
                &[],
            )
        }
    }

    fn find(found: &[Finding], name: &str) -> Finding {
        found.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("{name}: {found:?}")).clone()
    }

    #[test]
    fn hot_against_cold_is_the_ratio_of_the_same_copy() {
        let by_kernel = |kernel, size| ByKernel { kernel, size: Bytes(size) };
        let hot = Series::new(
            all_kernels(CachePolicy::Hot),
            [point(by_kernel(Kernel::Vec4, SHOWN_BYTES), 1.58e12), point(by_kernel(Kernel::Naive, SHOWN_BYTES), 9e12)],
        );
        let cold = Series::new(
            all_kernels(CachePolicy::ColdRotate),
            [point(by_kernel(Kernel::Vec4, SHOWN_BYTES), 0.235e12), point(by_kernel(Kernel::Vec4, 8 << 20), 5e12)],
        );
        let ratio = find(&findings(&DeviceInfo::default(), &[cold, hot]), "hot against cold");
        assert!((ratio.value / (1.58 / 0.235) - 1.0).abs() < 1e-3);
        assert!(ratio.says.contains("1.58 TB/s hot") && ratio.says.contains("235 GB/s cold"), "{}", ratio.says);
    }

    #[test]
    fn single_calls_report_the_median_and_the_first_call() {
        let mut one = point(ByKernel { kernel: Kernel::Vec4, size: Bytes(SHOWN_BYTES) }, 4e12);
        one.samples[0] *= 2;
        let found = findings(&DeviceInfo::default(), &[Series::new(trace(CachePolicy::Hot), [one])]);
        let hot = find(&found, "single calls hot, 16 MiB");
        assert!((hot.value / 4e12 - 1.0).abs() < 1e-3 && hot.says.contains("2.00 TB/s"), "{hot:?}");
    }

    #[test]
    fn changes_are_computed_at_the_largest_common_size() {
        let by_kernel = |kernel, size| ByKernel { kernel, size: Bytes(size) };
        let points = [
            point(by_kernel(Kernel::Vec4, 1 << 30), 4.0e12),
            point(by_kernel(Kernel::Naive, 1 << 30), 3.2e12),
            point(by_kernel(Kernel::Vec4, 2 << 30), 9.0e12),
            point(by_kernel(Kernel::Naive, 8 << 20), 9.0e12),
            point(by_kernel(Kernel::Vec4, 8 << 20), 1.0e12),
        ];
        let change = find(
            &findings(&DeviceInfo::default(), &[Series::new(all_kernels(CachePolicy::ColdRotate), points)]),
            "vec4 against naive",
        );
        assert!((change.value - 25.0).abs() < 0.01 && change.says.contains("1 GiB"), "{change:?}");
    }

    #[test]
    fn break_points_come_from_the_launches() {
        let at = ByGrid { grid: Grid::Least, kernel: Kernel::Vec4, size: Bytes(8 << 20) };
        let mut least = point(at, 1e12);
        least.extra.insert(BREAK_POINT.into(), 28_310_532.0);
        let found = findings(&DeviceInfo::default(), &[Series::new(grids(), [least])]);
        assert_eq!(find(&found, "break point vec4").value, 28_310_532.0);
    }

    #[test]
    fn one_multiprocessor_is_compared_with_its_load_store_units() {
        let device = DeviceInfo {
            architecture: Some("sm_80".into()),
            calibration: Calibration { clock_hz: Some(1.41e9), ..Calibration::default() },
            ..DeviceInfo::default()
        };
        let series = [Series::new(one_multiprocessor(), [point(OnOne { kernel: Kernel::Vec4 }, 51.5e9)])];
        assert!(find(&findings(&device, &series), "one multiprocessor vec4").says.contains("29 % of the 180"));
        let unknown = find(&findings(&DeviceInfo::default(), &series), "one multiprocessor vec4");
        assert_eq!(unknown.says, "one block of 1024 threads");
    }
}
