//! stream: the bandwidth of memory for each read:write mix, by the STREAM kernels and related ones (McCalpin, STREAM;
//! Treibig, Hager and Wellein for the Schönauer triad). Its best figures are the ceilings used everywhere else.
//!
//! `README.md` explains how to read the figures; `cpu` and `gpu` measure them.

probe! {
    /// Memory bandwidth for each mix of reads and writes, on arrays far larger than any cache.
    "stream" in "bandwidth", seconds: [8.0, 60.0, 180.0], files: cpu gpu kernels, takes bytes, headlines: [
        Headline::gate("memory-write", "memory write", More, &["init"], 0.003),
        Headline::gate("memory-read", "memory read", More, &["read"], 0.003),
        Headline::gate("memory-copy", "memory copy", More, &["copy"], 0.003),
        Headline::gate("memory-triad", "memory triad", More, &["triad"], 0.003).shown_only(),
    ]
}

mod axes;

use crate::prelude::meaning::*;

pub use plimsoll_suite::kernels::{KERNELS, Mix};

pub use axes::{
    BestConfiguration, BestOnCores, Configuration, Form, Occupancy, OnAllCores, OnSomeCores, Placement, Stores,
};

/// The kernels of the series over threads: read only, 1 : 1, and 2 : 1 reads to writes.
pub const BY_THREADS: [&str; 3] = ["read", "copy", "triad"];

/// Every kernel with both kinds of store, cold, on all cores.
#[must_use]
pub fn kernels() -> TypedSeries<OnAllCores> {
    let draw = Draw::bars("kernel", "bandwidth").grouped_by("stores");
    TypedSeries::cold("kernels", vec![metrics::bandwidth(), metrics::bandwidth_with_allocate(), metrics::time()], draw)
}

/// Bandwidth against the number of active cores.
#[must_use]
pub fn threads() -> TypedSeries<OnSomeCores> {
    TypedSeries::cold("threads", vec![metrics::bandwidth()], Draw::lines("threads", "bandwidth").grouped_by("kernel"))
}

/// The best configuration of each kernel, measured again: the quoted figures.
#[must_use]
pub fn best() -> TypedSeries<BestOnCores> {
    let draw = Draw::Table;
    TypedSeries::cold("best", vec![metrics::bandwidth(), metrics::bandwidth_with_allocate(), metrics::time()], draw)
}

/// Name of the metric of bytes requested from memory at once by one SM.
pub const IN_FLIGHT: &str = "bytes in flight";

fn figures_in_flight() -> Vec<Metric> {
    vec![metrics::bandwidth(), metrics::time(), metric(IN_FLIGHT, Unit::Byte, Quantity::Extra)]
}

/// A GPU's bandwidth against threads per SM, from one warp to all that fit; unused shared memory limits occupancy.
#[must_use]
pub fn occupancy() -> TypedSeries<Occupancy> {
    TypedSeries::cold(
        "occupancy",
        figures_in_flight(),
        Draw::lines("threads", "bandwidth").grouped_by("kernel").log_x(),
    )
}

/// A GPU's bandwidth against the bytes that an SM requests at once: width of an access × accesses per thread ×
/// resident threads, for the kernels of each plain mix.
#[must_use]
pub fn bytes_in_flight() -> TypedSeries<Configuration> {
    let draw = Draw::lines(IN_FLIGHT, "bandwidth").grouped_by("kernel").log_x();
    over_configurations("bytes in flight", draw)
}

/// The same parameters, with fewer values of each, for the other kernels.
#[must_use]
pub fn configurations() -> TypedSeries<Configuration> {
    let draw = Draw::bars("kernel", "bandwidth").grouped_by("hints");
    over_configurations("configurations", draw)
}

fn over_configurations(case: &str, draw: Draw) -> TypedSeries<Configuration> {
    TypedSeries::cold(case, figures_in_flight(), draw)
}

/// The best configuration of a GPU's kernels that both read and write, by offset of the output within its array. Which memory
/// banks hold the two streams makes a difference of some tenths of a per cent, and programs can't choose it.
#[must_use]
pub fn placements() -> TypedSeries<Placement> {
    let draw = Draw::bars("output moved", "bandwidth").grouped_by("kernel");
    TypedSeries::cold("placements", vec![metrics::bandwidth(), metrics::time()], draw)
}

/// A GPU's best configuration of each kernel, measured again on larger arrays: the quoted figures. The same case as
/// [`best`], with the configuration axis of a GPU.
#[must_use]
pub fn best_configuration() -> TypedSeries<BestConfiguration> {
    TypedSeries::cold("best", vec![metrics::bandwidth(), metrics::time()], Draw::Table)
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// The second measurement of each kernel's best configuration, which is the ceiling of its read:write mix, and on a GPU the
/// bytes in flight needed to reach it.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let best = case(series, "best");
    let mut found: Vec<Finding> = best.into_iter().flat_map(ceilings).collect();
    if let Some(occupancy) = case(series, "occupancy") {
        for kernel in ["read", "copy"] {
            found.extend(little(device, occupancy, kernel));
        }
    }
    found
}

/// The best figure of each kernel, on a GPU or on a CPU.
fn ceilings(best: &Series) -> Vec<Finding> {
    if best.spec.axes == BestConfiguration::axes() {
        let ceiling = |(at, row): (BestConfiguration, &Row)| {
            let kernel = find_mix(&at.kernel)?;
            ceiling(best, row, kernel, at.configuration.as_str())
        };
        return known_rows(best).filter_map(ceiling).collect();
    }
    let ceiling = |(at, row): (BestOnCores, &Row)| {
        let kernel = find_mix(&at.kernel)?;
        ceiling(best, row, kernel, &on_cores(&at, kernel))
    };
    known_rows(best).filter_map(ceiling).collect()
}

/// The kernel of this name; none if the name is unknown (from a later version).
fn find_mix(name: &Name) -> Option<&'static Mix> {
    KERNELS.iter().find(|kernel| kernel.name == name.as_str())
}

fn ceiling(best: &Series, row: &Row, kernel: &Mix, how: &str) -> Option<Finding> {
    Some(Finding {
        metric: "bandwidth".into(),
        says: format!("{}:{} read:write, {how}", kernel.reads, kernel.writes),
        ..finding(kernel.name, Unit::BytePerSecond, row, best.estimate(row, "bandwidth")?)
    })
}

fn on_cores(at: &BestOnCores, kernel: &Mix) -> String {
    let threads = at.threads.0;
    let stores = if kernel.writes == 0 { String::new() } else { format!(", {} stores", at.stores) };
    let plural = if threads == 1 { "" } else { "s" };
    format!("{threads} thread{plural}{stores}")
}

/// How far the lower end of a crossing may lie above the upper one where three points are in a line but for noise.
const STRAIGHT: f64 = 1.05;
/// Share of the best bandwidth that counts as reaching it.
const REACHED: f64 = 0.95;

/// Little's law on the persistent form (Little, 'A proof for the queuing formula L = λW', 1961): bytes in flight =
/// bandwidth × latency. Gives the bytes in flight that an SM needs for 95 % of the curve's best, the latency that this implies, and
/// the latency of the first point, where nothing queues. All threads wait for their loads together, so slightly less is in
/// flight than requested: both latencies are upper bounds.
fn little(device: &DeviceInfo, occupancy: &Series, kernel: &str) -> Vec<Finding> {
    let is_on_curve = |at: &Occupancy| at.kernel.as_str() == kernel && at.form == Form::Persistent;
    let figures = |(_, row): (Occupancy, _)| {
        Some((occupancy.estimate(row, IN_FLIGHT)?.value, row, occupancy.estimate(row, "bandwidth")?))
    };
    let mut curve: Vec<(f64, &Row, Estimate)> =
        known_rows(occupancy).filter(|(at, _)| is_on_curve(at)).filter_map(figures).collect();
    curve.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = curve.iter().map(|point| point.2.value).fold(0.0, f64::max);
    let target = REACHED * most;
    let points: Vec<(f64, Estimate)> = curve.iter().map(|point| (point.0, point.2)).collect();
    let (Some((above, needed)), Some(first)) = (crossing(&points, target), curve.first()) else { return Vec::new() };
    let multiprocessors = f64::from(device.multiprocessors.max(1));
    let latency = |bytes: f64| bytes * multiprocessors / target;
    let says = format!("per multiprocessor, for 95 % of {}", Unit::BytePerSecond.format(most));
    let loaded = Estimate {
        value: latency(needed.value),
        interval: Interval { lo: latency(needed.interval.lo), hi: latency(needed.interval.hi) },
    };
    let unloaded = |bandwidth: f64| first.0 * multiprocessors / bandwidth;
    let idle = Estimate {
        value: unloaded(first.2.value),
        interval: Interval { lo: unloaded(first.2.interval.hi), hi: unloaded(first.2.interval.lo) },
    };
    vec![
        Finding { says, ..finding(format!("{kernel}: in flight"), Unit::Byte, curve[above].1, needed) },
        Finding {
            says: "implied by the bytes in flight under load (Little's law)".into(),
            ..finding(format!("{kernel}: latency loaded"), Unit::Second, curve[above].1, loaded)
        },
        Finding {
            says: format!("with {} in flight per multiprocessor, an upper bound", Unit::Byte.format(first.0)),
            ..finding(format!("{kernel}: latency idle"), Unit::Second, first.1, idle)
        },
    ]
}

/// Where a curve of bandwidth over bytes in flight reaches `target`, with the place of the first point that does. `None` where it
/// doesn't, or where its first point does already.
///
/// More bytes in flight never help more than fewer did: the curve is concave and begins at 0. So between two points it lies above
/// the straight line through them, and below the lines through the two points before and through the two points behind. The
/// interval is where these lines reach the target, each with the ends of the points' own intervals.
fn crossing(points: &[(f64, Estimate)], target: f64) -> Option<(usize, Estimate)> {
    let above = points.iter().position(|point| point.1.value >= target).filter(|&above| above > 0)?;
    let point = |place: usize, end: fn(&Estimate) -> f64| points.get(place).map(|point| (point.0, end(&point.1)));
    let between = |end: fn(&Estimate) -> f64| {
        let (left, right) = (point(above - 1, end)?, point(above, end)?);
        let before = above.checked_sub(2).map_or(Some((0.0, 0.0)), |place| point(place, end))?;
        let earliest = [reach(before, left, target), point(above + 1, end).and_then(|next| reach(right, next, target))];
        let earliest = earliest.into_iter().flatten().fold(left.0, f64::max).min(right.0);
        let latest = reach(left, right, target).map_or(right.0, |bytes| bytes.clamp(left.0, right.0));
        // Noise may bend a straight piece the other way. Where the curve does, nothing is known but the two points.
        let is_concave = earliest <= STRAIGHT * latest;
        Some(if is_concave { [earliest.min(latest), earliest.max(latest)] } else { [left.0, right.0] })
    };
    let [lo, hi] = between(|known| known.value)?;
    // Higher points reach the target sooner.
    let interval = Interval {
        lo: between(|known| known.interval.hi)?[0].min(lo),
        hi: between(|known| known.interval.lo)?[1].max(hi),
    };
    Some((above, Estimate { value: (lo * hi).sqrt(), interval }))
}

/// Where the line through two points is at `target`; `None` where it doesn't rise.
fn reach(from: (f64, f64), to: (f64, f64), target: f64) -> Option<f64> {
    let slope = (to.1 - from.1) / (to.0 - from.0);
    (slope > 0.0 && slope.is_finite()).then(|| from.0 + (target - from.1) / slope)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Threads};

    fn point(at: impl Axes, seconds: f64) -> Point {
        Point::new(
            at.to_values(),
            Work { traffic: Traffic::new(2_000_000, 1_000_000), ..Work::default() },
            vec![(seconds * 1e9) as u64; 30],
        )
    }

    #[test]
    fn only_second_measurements_become_ceilings_and_name_their_mix() {
        let lucky = point(OnAllCores { kernel: "triad".into(), stores: Stores::Ordinary }, 1e-6);
        let best_at = |kernel: &'static str, stores, threads| {
            point(BestOnCores { kernel: kernel.into(), stores, threads: Threads(threads) }, 1e-3)
        };
        let fresh = best_at("triad", Stores::NonTemporal, 2);
        let sum = best_at("read", Stores::Ordinary, 1);
        let unknown = best_at("later", Stores::Ordinary, 1);
        let series = [Series::new(kernels(), [lucky]), Series::new(best(), [fresh, sum, unknown])];
        let found = findings(&DeviceInfo::default(), &series);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].metric.as_str()), ("triad", "bandwidth"));
        assert!((found[0].value / 3e9 - 1.0).abs() < 1e-9);
        assert_eq!(found[0].says, "2:1 read:write, 2 threads, non-temporal stores");
        assert_eq!(found[1].says, "1:0 read:write, 1 thread");
        assert!(findings(&DeviceInfo::default(), &series[..1]).is_empty());
    }

    fn on_gpu(kernel: &'static str, threads: u64, seconds: f64) -> Point {
        let at = Occupancy { kernel: kernel.into(), form: Form::Persistent, threads: Threads(threads) };
        let extra = [(IN_FLIGHT.to_owned(), 64.0 * threads as f64)].into();
        Point { extra, ..point(at, seconds) }
    }

    #[test]
    fn littles_law_recovers_the_latency_of_the_curve() {
        // 100 SMs, 1 µs, 3 MB a launch, at most 3 TB/s: 30 kB in flight for each.
        let (latency, most) = (1e-6, 3e12);
        let curve = [32, 64, 128, 256, 512, 1024, 2048].map(|threads| {
            let bandwidth = (100.0 * 64.0 * threads as f64 / latency).min(most);
            on_gpu("read", threads, 3e6 / bandwidth * 1e3)
        });
        let points = curve
            .map(|point| Point { work: Work { traffic: Traffic::new(3_000_000_000, 0), ..Work::default() }, ..point });
        let device = DeviceInfo { multiprocessors: 100, ..DeviceInfo::default() };
        let found = findings(&device, &[Series::new(occupancy(), points)]);
        let find = |name: &str| found.iter().find(|finding| finding.name == name).unwrap();
        assert!((find("read: in flight").value / 28_500.0 - 1.0).abs() < 0.1, "{found:?}");
        assert!((find("read: latency loaded").value / latency - 1.0).abs() < 0.1, "{found:?}");
        assert!((find("read: latency idle").value / latency - 1.0).abs() < 0.01, "{found:?}");
        let interval = find("read: in flight").interval;
        assert!(interval.lo < 28_500.0 && interval.hi > 28_500.0);
    }

    /// Curves that no constant was chosen by: a sharp knee, the smooth one of a queue, and a decline after the best.
    #[test]
    fn crossing_of_concave_curves_lies_in_a_narrow_interval() {
        let exact = |x: f64, f: &dyn Fn(f64) -> f64| {
            let value = f(x);
            (x, Estimate { value, interval: Interval { lo: 0.999 * value, hi: 1.001 * value } })
        };
        let mut widest = [0.0_f64; 3];
        for case in 0..60 {
            let knee = 9_000.0 * 1.05_f64.powi(case);
            let curves: [Box<dyn Fn(f64) -> f64>; 3] = [
                Box::new(move |x| (x / knee).min(1.0)),
                Box::new(move |x| 1.0 - (-x / knee).exp()),
                Box::new(move |x| (1.0 - (-1.6 * x / knee).exp()) * (1.0 - 0.01 * (x / knee / 4.0).max(1.0).ln())),
            ];
            for (curve, widest) in curves.iter().zip(&mut widest) {
                let points: Vec<_> = (0..9).map(|i| exact(2048.0 * f64::from(i).exp2(), curve)).collect();
                let most = points.iter().map(|point| point.1.value).fold(0.0, f64::max);
                let target = 0.95 * most;
                let (above, found) = crossing(&points, target).unwrap();
                // Bisection on the curve itself.
                let (mut lo, mut hi) = (1.0, points[above].0);
                for _ in 0..60 {
                    let middle = (lo + hi) / 2.0;
                    if curve(middle) < target { lo = middle } else { hi = middle }
                }
                assert!(found.interval.lo <= hi && hi <= found.interval.hi, "{case}: {hi} {found:?}");
                assert!(found.interval.contains(found.value), "{found:?}");
                *widest = widest.max(found.interval.hi / found.interval.lo);
            }
        }
        assert!(widest.iter().all(|ratio| *ratio < 1.65), "{widest:?}");
    }

    #[test]
    fn curve_that_never_or_always_reaches_the_target_has_no_crossing() {
        let flat = |value: f64| Estimate { value, interval: Interval { lo: value, hi: value } };
        assert_eq!(crossing(&[(1.0, flat(1.0)), (2.0, flat(1.0))], 0.9), None);
        assert_eq!(crossing(&[(1.0, flat(0.1)), (2.0, flat(0.2))], 0.9), None);
        assert_eq!(crossing(&[], 0.9), None);
        // A convex curve says no more than its two points.
        let (_, found) =
            crossing(&[(1.0, flat(0.1)), (2.0, flat(0.11)), (4.0, flat(1.0)), (8.0, flat(2.0))], 0.9).unwrap();
        assert_eq!(found.interval, Interval { lo: 2.0, hi: 4.0 });
    }

    #[test]
    fn single_point_curve_has_no_findings() {
        let alone = [on_gpu("read", 32, 1e-3)];
        assert!(findings(&DeviceInfo::default(), &[Series::new(occupancy(), alone)]).is_empty());
    }

    #[test]
    fn gpu_ceiling_names_its_configuration() {
        let at = BestConfiguration { kernel: "triad".into(), configuration: "16 B × 1, 128 threads".into() };
        let fresh = point(at, 1e-3);
        let found = findings(&DeviceInfo::default(), &[Series::new(best_configuration(), [fresh])]);
        assert_eq!(found[0].says, "2:1 read:write, 16 B × 1, 128 threads");
    }

    #[test]
    fn kernels_over_threads_are_known_kernels() {
        assert!(BY_THREADS.iter().all(|name| KERNELS.iter().any(|kernel| kernel.name == *name)));
    }
}
