//! launch: the cost of starting a kernel, by launch mode. An empty kernel shows it directly; `scale` over growing arrays
//! shows it as the intercept of T = a + V/b (gpu-benches, gpu-small-kernels: RRZE, Erlangen).
//!
//! `README.md` explains how to read the figures; `gpu` measures them.

probe! {
    /// The cost of starting a kernel: in a stream, in a graph, with dependent launches, and per round of a persistent kernel.
    "launch" in "launch", seconds: [7.0, 27.0, 100.0], files: gpu kernels, takes bytes, headlines: [
        Headline::gate("launch", "launch, in a graph", Less, &["launch, graph"], 0.02),
        Headline::gate("grid-barrier", "barrier of all blocks", Less, &["grid barrier"], 0.02).shown_only(),
        Headline::gate("launch-host", "launch, seen by the host", Less, &["single launch, host"], 0.05).shown_only(),
    ]
}

use plimsoll_suite::findings::affine::{self, Affine};

use crate::prelude::meaning::*;

names! {
    /// How kernels are launched, in display order.
    pub enum Mode {
        /// One call per kernel.
        Stream = "stream",
        /// The same, queued behind a blocking kernel: the device's own time, without the host's calls.
        Queued = "stream, queued",
        /// All kernels in one graph.
        Graph = "graph",
        /// A graph of one kernel, launched repeatedly.
        Replay = "graph replay",
        /// One call per kernel; each kernel may begin before the previous one has ended.
        StreamDependent = "stream, dependent",
        /// All kernels in one graph with such edges.
        GraphDependent = "graph, dependent",
        /// All kernels in one graph with such edges, except that each begins when the previous kernel's blocks have ended, and
        /// then waits for its results.
        GraphExit = "graph, exit",
        /// One kernel that does the work of many, with a grid barrier after each part.
        Persistent = "persistent",
    }

    /// Whose clock times a launch.
    pub enum Clock {
        /// The device's events, around the launch.
        Events = "events",
        /// The host's clock, from the call until the host has seen the end.
        Host = "host",
    }
}

axes! {
    /// Launches of an empty kernel.
    pub struct ByMode {
        /// How they are launched.
        mode: Mode,
    }

    /// One launch of an empty kernel.
    pub struct ByClock {
        /// Whose clock times it.
        clock: Clock,
    }

    /// Launches of `scale`.
    pub struct Scale {
        /// How they are launched.
        mode: Mode,
        /// Bytes read and written by one launch, together.
        footprint: Bytes,
    }
}

/// An empty kernel launched back to back, by mode. `persistent` is a grid barrier.
#[must_use]
pub fn empty() -> TypedSeries<ByMode> {
    let metrics = vec![metric("time", Unit::Second, Quantity::TimePerOperation)];
    let draw = Draw::bars("mode", "time");
    TypedSeries::hot("empty", metrics, draw).with_precision(HOST_PRECISION)
}

/// One launch of that kernel alone, on an idle device.
#[must_use]
pub fn single() -> TypedSeries<ByClock> {
    let metrics = vec![metrics::time()];
    let draw = Draw::bars("clock", "time");
    TypedSeries::new("single", Figure::Latency, CachePolicy::Hot, metrics, draw).with_precision(HOST_PRECISION)
}

/// `scale` back to back on the same arrays, by mode and by the bytes it reads and writes together.
#[must_use]
pub fn scale() -> TypedSeries<Scale> {
    over_footprints("scale", CachePolicy::Hot)
}

fn over_footprints(case: &str, cache: CachePolicy) -> TypedSeries<Scale> {
    let metrics = vec![metrics::bandwidth(), metric("time", Unit::Second, Quantity::TimePerOperation)];
    let draw = Draw::lines("footprint", "bandwidth").grouped_by("mode").log_x().log_y();
    TypedSeries::new(case, Figure::Throughput, cache, metrics, draw).with_precision(HOST_PRECISION)
}

/// `scale` back to back over data evicted from all caches, by mode and by the bytes that one launch reads and writes together.
/// The extra cost of such a launch exceeds the extra latency of its data, presumably because its launch descriptor has been
/// evicted too.
#[must_use]
pub fn cold() -> TypedSeries<Scale> {
    over_footprints("cold", CachePolicy::ColdRotate)
}

/// Each mode's launch cost, and the fitted bandwidth at large footprints.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_case = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(empty) = find_case("empty") {
        let to_finding = |(ByMode { mode }, row): (ByMode, &Row)| {
            let name = if mode == Mode::Persistent { "grid barrier".to_owned() } else { format!("empty, {mode}") };
            let says = "From one empty kernel to the next.";
            let says = if mode == Mode::Persistent { "From one barrier of all blocks to the next." } else { says };
            Some(launch_finding(name, says.to_owned(), row, empty.estimate(row, "time")?))
        };
        found.extend(known_rows(empty).filter_map(to_finding));
    }
    if let Some(single) = find_case("single") {
        let to_finding = |(ByClock { clock }, row): (ByClock, &Row)| {
            let says = match clock {
                Clock::Host => "From the call until the host has seen an empty kernel's end, on an idle device.",
                Clock::Events => "An empty kernel between two events.",
            };
            Some(launch_finding(format!("single launch, {clock}"), says.to_owned(), row, single.estimate(row, "time")?))
        };
        found.extend(known_rows(single).filter_map(to_finding));
    }
    if let Some(scale) = find_case("scale") {
        found.extend(Mode::ALL.into_iter().flat_map(|mode| line_findings(device, scale, mode)));
        found.extend(cache_limits(device, scale));
    }
    if let Some(cold) = find_case("cold") {
        found.extend(Mode::ALL.into_iter().filter_map(|mode| cold_launch(device, cold, mode)));
    }
    found
}

/// Drops `LAUNCH_BOUND`: here the launch is the figure.
fn without_launch_bound(flags: Flags) -> Flags {
    flags.iter().filter(|flag| *flag != Flag::LaunchBound).collect()
}

fn launch_finding(name: String, says: String, row: &Row, time: Estimate) -> Finding {
    Finding { says, flags: without_launch_bound(row.flags), ..finding(name, Unit::Second, row, time) }
}

/// A mode's rows, each with its footprint in bytes.
fn rows_of(scale: &Series, mode: Mode) -> impl Iterator<Item = (f64, &Row)> {
    let of_mode = known_rows(scale).filter(move |(at, _): &(Scale, &Row)| at.mode == mode);
    of_mode.map(|(at, row)| (at.footprint.0 as f64, row))
}

/// The line through those of a mode's footprints for which `keep` holds, and the flags of their times.
fn fit_line(scale: &Series, mode: Mode, keep: &dyn Fn(f64) -> bool) -> Option<(Affine, Flags)> {
    let rows: Vec<(f64, &Row)> = rows_of(scale, mode).filter(|(footprint, _)| keep(*footprint)).collect();
    let point = |(footprint, row): &(f64, &Row)| Some((*footprint, scale.estimate(row, "time")?));
    let points: Vec<(f64, Estimate)> = rows.iter().filter_map(point).collect();
    let flags = rows.iter().fold(Flags::NONE, |flags, (_, row)| flags.union(row.flags));
    Some((affine::fit(&points)?, without_launch_bound(flags)))
}

/// The lines of one mode: one through the footprints that fit the last-level cache, and one through those far beyond it. If
/// the cache size is unknown, or the data were cold, a single line through all footprints.
#[must_use]
pub fn fits(device: &DeviceInfo, scale: &Series, mode: Mode) -> [Option<(Affine, Flags)>; 2] {
    let cache = device.last_level_cache() as f64;
    if cache == 0.0 || scale.spec.cache.is_cold() {
        return [fit_line(scale, mode, &|_| true), None];
    }
    // Half of a two-partition cache is near; far beyond the cache it has no effect.
    let line = |keep: &dyn Fn(f64) -> bool| fit_line(scale, mode, keep);
    [line(&|footprint| footprint <= 0.5 * cache), line(&|footprint| footprint >= 3.0 * cache)]
}

fn line_findings(device: &DeviceInfo, scale: &Series, mode: Mode) -> Vec<Finding> {
    let [cached, memory] = fits(device, scale, mode);
    let mut found = Vec::new();
    let Some(row) = scale.rows.first() else { return found };
    if let Some((line, flags)) = &cached {
        let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
        let rate = line.b.map_or("no limit in sight".to_owned(), |b| Unit::BytePerSecond.format(b.value));
        let says = format!("a of T = a + V/b over {from} to {to}; b is {rate}.");
        found.push(Finding { flags: *flags, ..launch_finding(format!("launch, {mode}"), says, row, line.a) });
    }
    for (line, name) in [(&cached, "asymptote"), (&memory, "asymptote in memory")] {
        let Some((line, flags, rate)) = line.as_ref().and_then(|(line, flags)| Some((line, flags, line.b?))) else {
            continue;
        };
        let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
        let says = format!("b of T = a + V/b over {from} to {to}.");
        let plain = finding(format!("{name}, {mode}"), Unit::BytePerSecond, row, rate);
        found.push(Finding { flags: *flags, says, ..plain });
    }
    found
}

/// The intercept of the line through cold launches.
fn cold_launch(device: &DeviceInfo, cold: &Series, mode: Mode) -> Option<Finding> {
    let [line, _] = fits(device, cold, mode);
    let (line, flags) = line?;
    let [from, to] = line.over.map(|bytes| Unit::Byte.format(bytes));
    let says = format!("a of T = a + V/b over {from} to {to} that are in memory.");
    Some(Finding { flags, ..launch_finding(format!("launch, {mode}, cold"), says, cold.rows.first()?, line.a) })
}

/// A time within this factor of a line counts as lying on it.
const ON_LINE: f64 = 1.1;

/// The largest footprint at which repeated launches over the same bytes still hit the cache, and the smallest at which all of them
/// miss: the last one on the line of the small footprints, and the first one on the line of the large ones. Each true limit lies
/// between two measured footprints.
fn cache_limits(device: &DeviceInfo, scale: &Series) -> Vec<Finding> {
    let [Some((cached, flags)), Some((memory, _))] = fits(device, scale, Mode::Graph) else { return Vec::new() };
    let point = |(footprint, row): (f64, &Row)| Some((footprint, scale.estimate(row, "time")?.value));
    let mut points: Vec<(f64, f64)> = rows_of(scale, Mode::Graph).filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_on = |line: &Affine, (bytes, time): (f64, f64)| {
        let expected = line.a.value + line.b.map_or(0.0, |b| bytes / b.value);
        (expected / ON_LINE..=expected * ON_LINE).contains(&time)
    };
    let Some(held) = points.iter().rposition(|point| is_on(&cached, *point)) else { return Vec::new() };
    let Some(first) = points.iter().rposition(|point| !is_on(&memory, *point)).map(|last| last + 1) else {
        return Vec::new();
    };
    if first <= held || first >= points.len() {
        return Vec::new();
    }
    let between =
        |value: f64, other: f64| Estimate { value, interval: Interval { lo: value.min(other), hi: value.max(other) } };
    let Some(row) = scale.rows.first() else { return Vec::new() };
    let to_finding = |name: &str, says: &str, estimate| Finding {
        flags,
        says: says.to_owned(),
        ..finding(name, Unit::Byte, row, estimate)
    };
    vec![
        to_finding(
            "cached to",
            "Repeated launches over this many of the same bytes find them in the cache.",
            between(points[held].0, points[held + 1].0),
        ),
        to_finding(
            "from memory from",
            "Repeated launches over this many of the same bytes find none of them in the cache.",
            between(points[first].0, points[first - 1].0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::device::CacheInfo;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes, Point};

    const CACHE: u64 = 64 << 20;

    fn device() -> DeviceInfo {
        let cache = CacheInfo { level: "L2".into(), bytes: CACHE, line: 128, shared_by: 132 };
        DeviceInfo { caches: vec![cache], ..DeviceInfo::default() }
    }

    /// `rounds` operations in one launch.
    fn point(at: impl Axes, bytes: u64, rounds: f64, seconds: f64) -> Point {
        let half = (bytes as f64 * rounds / 2.0) as u64;
        Point {
            k: 1000,
            tick: 1e-12,
            flags: [Flag::LaunchBound].into_iter().collect(),
            ..Point::new(
                at.to_values(),
                Work { traffic: Traffic::new(half, half), operations: rounds, ..Work::default() },
                vec![(seconds * rounds * 1e15) as u64; 30],
            )
        }
    }

    fn scale_at(mode: Mode, bytes: u64) -> Scale {
        Scale { mode, footprint: Bytes(bytes) }
    }

    fn footprints(mode: Mode, a: f64, rounds: f64) -> Vec<Point> {
        let time = |bytes: u64| a + bytes as f64 / if bytes <= CACHE / 2 { 5.75e12 } else { 4.2e12 };
        let sizes = (12..=30).map(|log| 1_u64 << log);
        sizes.map(|bytes| point(scale_at(mode, bytes), bytes, rounds, time(bytes))).collect()
    }

    #[test]
    fn each_mode_has_an_intercept_and_an_asymptote_per_level() {
        let mut points = footprints(Mode::Stream, 2.37e-6, 1.0);
        points.extend(footprints(Mode::Graph, 1.2e-6, 1.0));
        let found = findings(&device(), &[Series::new(scale(), points)]);
        let value = |name: &str| found.iter().find(|finding| finding.name == name).unwrap().value;
        let near = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 1e-3, "{value} {expected}");
        near(value("launch, stream"), 2.37e-6);
        near(value("launch, graph"), 1.2e-6);
        near(value("asymptote, graph"), 5.75e12);
        near(value("asymptote in memory, stream"), 4.2e12);
        assert_eq!(found.len(), 8);
        assert!(found.iter().all(|finding| finding.flags.is_empty() && !finding.says.is_empty()));
    }

    #[test]
    fn cached_footprints_are_separated_from_uncached_ones() {
        // Fully cached up to 40 MiB, uncached from 56 MiB on.
        let time = |mib: u64| {
            let bytes = (mib << 20) as f64;
            1e-6 + bytes
                / if mib <= 40 {
                    5.75e12
                } else if mib < 56 {
                    4.9e12
                } else {
                    4.2e12
                }
        };
        let sizes = [1, 2, 4, 8, 16, 32, 40, 48, 56, 64, 128, 256, 512, 1024];
        let points = sizes.map(|mib| point(scale_at(Mode::Graph, mib << 20), mib << 20, 1.0, time(mib)));
        let found = findings(&device(), &[Series::new(scale(), points)]);
        let find = |name: &str| found.iter().find(|finding| finding.name == name).unwrap();
        let mib = |value: f64| value / f64::from(1 << 20);
        assert_eq!((mib(find("cached to").value), mib(find("cached to").interval.hi)), (40.0, 48.0));
        assert_eq!((mib(find("from memory from").value), mib(find("from memory from").interval.lo)), (56.0, 48.0));
        // Footprints that lie on both lines yield no limit.
        let one_line =
            sizes.map(|mib| point(scale_at(Mode::Graph, mib << 20), mib << 20, 1.0, 1e-6 + (mib << 20) as f64 / 5e12));
        assert!(
            findings(&device(), &[Series::new(scale(), one_line)]).iter().all(|finding| finding.name != "cached to")
        );
    }

    #[test]
    fn cold_launches_have_a_separate_intercept() {
        let points = (16..25).map(|log| 1_u64 << log);
        let points =
            points.map(|bytes| point(scale_at(Mode::Graph, bytes), bytes, 1.0, 1.3e-6 + bytes as f64 / 4.1e12));
        let found = findings(&device(), &[Series::new(cold(), points)]);
        assert_eq!((found.len(), found[0].name.as_str()), (1, "launch, graph, cold"));
        assert!((found[0].value / 1.3e-6 - 1.0).abs() < 1e-3, "{}", found[0].value);
    }

    #[test]
    fn persistent_kernel_time_is_per_round() {
        let found = findings(&device(), &[Series::new(scale(), footprints(Mode::Persistent, 1.5e-6, 8.0))]);
        assert_eq!(found[0].name, "launch, persistent");
        assert!((found[0].value / 1.5e-6 - 1.0).abs() < 1e-3, "{}", found[0].value);
    }

    #[test]
    fn one_line_fits_all_footprints_if_the_cache_is_unknown() {
        let series = Series::new(scale(), footprints(Mode::Graph, 1.2e-6, 1.0));
        let [all, none] = fits(&DeviceInfo::default(), &series, Mode::Graph);
        assert_eq!(all.unwrap().0.over, [4096.0, f64::from(1 << 30)]);
        assert!(none.is_none());
    }

    #[test]
    fn empty_kernels_and_single_launches_are_reported_as_measured() {
        let modes = Mode::ALL.map(|mode| point(ByMode { mode }, 0, 1.0, 1e-6));
        let clocks = Clock::ALL.map(|clock| point(ByClock { clock }, 0, 1.0, 1e-6));
        let series = [Series::new(empty(), modes), Series::new(single(), clocks)];
        let found = findings(&device(), &series);
        assert_eq!(found.len(), Mode::ALL.len() + 2);
        assert!(found.iter().any(|finding| finding.name == "grid barrier"));
        assert!(found.iter().all(|finding| (finding.value / 1e-6 - 1.0).abs() < 1e-6));
        assert!(findings(&device(), &[]).is_empty());
    }
}
