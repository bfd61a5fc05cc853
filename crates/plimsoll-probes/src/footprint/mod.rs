//! footprint: bandwidth by footprint, hot, on private data per core: every cache level, memory and address translation in one
//! curve.

probe! {
    /// Bandwidth of read, copy and triad from the smallest cache to memory, in one curve.
    "footprint" in "bandwidth", seconds: [6.0, 40.0, 120.0], files: cpu gpu kernels, takes bytes, headlines: [
        Headline::gate("l2-bandwidth", "L2 read", More, &["read L2"], 0.01).shown_only(),
        Headline::gate("l3-bandwidth", "L3 read", More, &["read L3"], 0.02).shown_only(),
    ]
}

use plimsoll_suite::findings::levels;

use crate::prelude::meaning::*;

names! {
    /// The kernels of the curve, in display order.
    pub enum Kernel {
        /// Only reads.
        Read = "read",
        /// One read per write.
        Copy = "copy",
        /// Two reads per write.
        Triad = "triad",
    }
}

axes! {
    /// A kernel over private data of every core.
    pub struct Spread {
        /// The kernel.
        kernel: Kernel,
        /// Bytes that all arrays of all cores take together.
        footprint: Bytes,
    }
}

/// Bandwidth over the bytes that all arrays of all cores take together.
#[must_use]
pub fn curve() -> TypedSeries<Spread> {
    let draw = Draw::lines("footprint", "bandwidth").grouped_by("kernel").log_x().log_y();
    TypedSeries::hot("curve", vec![metrics::bandwidth(), metrics::bytes_per_cycle(), metrics::time()], draw)
}

/// A level: its name and the range of total footprints, bytes, that it serves.
#[derive(Clone, Debug, PartialEq)]
struct Level<'a> {
    name: &'a str,
    from: f64,
    to: f64,
}

/// The levels that the system reports. A plateau lies between twice the capacity of the level before and three quarters of its own
/// capacity: nearer to either end the curve is between plateaus. Memory begins at three times the last level.
fn reported_levels(info: &DeviceInfo) -> Vec<Level<'_>> {
    let cores = f64::from(info.multiprocessors.max(1));
    let mut levels = Vec::new();
    let mut nearer = 0.0;
    for (i, cache) in info.caches.iter().enumerate() {
        // The last level counts all its instances already where several processors share one.
        let whole = i + 1 == info.caches.len() && cache.shared_by > 1;
        let bytes = cache.bytes as f64 * if whole { 1.0 } else { cores };
        let from = if i == 0 { bytes / 4.0 } else { 2.0 * nearer };
        levels.push(Level { name: &cache.level, from, to: 0.75 * bytes });
        nearer = bytes;
    }
    if nearer > 0.0 {
        levels.push(Level { name: MEMORY, from: 3.0 * nearer, to: f64::INFINITY });
    }
    levels
}

/// The levels of a GPU, which reports only its last cache. Before it, reads have a plateau in the SMs' own caches. These also hold
/// what copies and triads read, although their stores go to the last cache.
fn device_levels<'a>(info: &'a DeviceInfo, curve: &Series, kernel: Kernel) -> Vec<Level<'a>> {
    let Some(cache) = info.caches.last() else { return Vec::new() };
    let bytes = cache.bytes as f64;
    let mut found = Vec::new();
    let mut nearer = 0.0;
    let point = |(at, row): (Spread, _)| Some((at.footprint.0 as f64, curve.estimate(row, "bandwidth")?.value));
    let read = known_rows(curve).filter(|(at, _): &(Spread, &Row)| at.kernel == Kernel::Read);
    let points: Vec<(f64, f64)> = read.filter_map(point).collect();
    let first = levels::levels(&points, TOLERANCE).plateaus.first().copied();
    if let Some(first) = first.filter(|first| first.to < 0.75 * bytes) {
        if kernel == Kernel::Read {
            found.push(Level { name: "L1", from: first.from, to: first.to });
        }
        // Of a copy's footprint the reads are a half, of a triad's two thirds.
        nearer = first.to
            * match kernel {
                Kernel::Read => 1.0,
                Kernel::Copy => 2.0,
                Kernel::Triad => 1.5,
            };
    }
    found.push(Level { name: &cache.level, from: 2.0 * nearer, to: 0.85 * bytes });
    found.push(Level { name: MEMORY, from: 3.0 * bytes, to: f64::INFINITY });
    found
}

/// How much the figures of a GPU's first plateau may differ from their median.
const TOLERANCE: f64 = 0.1;

/// Name of the level behind all caches.
const MEMORY: &str = "memory";

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(curve) = series.iter().find(|series| series.spec.case == "curve") else { return Vec::new() };
    let plateaus = |kernel| {
        let levels = if info.backend == "cuda" { device_levels(info, curve, kernel) } else { reported_levels(info) };
        levels.into_iter().filter_map(move |level| plateau(info, curve, kernel, &level))
    };
    Kernel::ALL.into_iter().flat_map(plateaus).collect()
}

/// The median of a level's rows; the interval spans their middle half.
fn plateau(info: &DeviceInfo, curve: &Series, kernel: Kernel, level: &Level<'_>) -> Option<Finding> {
    let is_within =
        |(at, _): &(Spread, &Row)| at.kernel == kernel && (level.from..=level.to).contains(&(at.footprint.0 as f64));
    let figure = |(_, row)| Some((row, curve.estimate(row, "bandwidth")?));
    let mut rows: Vec<(&Row, Estimate)> = known_rows(curve).filter(is_within).filter_map(figure).collect();
    rows.sort_by(|one, other| one.1.value.total_cmp(&other.1.value));
    let (row, mut estimate) = *rows.get(rows.len() / 2)?;
    let quartile = |quarters: usize| rows[(rows.len() - 1) * quarters / 4].1.value;
    estimate.interval.lo = estimate.interval.lo.min(quartile(1));
    estimate.interval.hi = estimate.interval.hi.max(quartile(3));
    let per_core =
        curve.estimate(row, "bytes per cycle").map(|cycle| cycle.value / f64::from(info.multiprocessors.max(1)));
    let core = if info.backend == "cuda" { "multiprocessor" } else { "core" };
    let says = match per_core {
        Some(bytes) => format!("{bytes:.1} B/cycle per {core}, median of {} footprints", rows.len()),
        None => format!("median of {} footprints", rows.len()),
    };
    let metric = if level.name == MEMORY { "bandwidth".into() } else { String::new() };
    let name = format!("{kernel} {}", level.name);
    Some(Finding { metric, says, ..finding(name, Unit::BytePerSecond, row, estimate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::device::CacheInfo;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn cache(level: &str, bytes: u64, shared_by: u32) -> CacheInfo {
        CacheInfo { level: level.into(), bytes, line: 64, shared_by }
    }

    fn two_cores() -> DeviceInfo {
        let caches = vec![cache("L1", 48 << 10, 1), cache("L2", 2 << 20, 1), cache("L3", 32 << 20, 2)];
        DeviceInfo { multiprocessors: 2, caches, ..DeviceInfo::default() }
    }

    /// 1 MiB at a rate, at a clock of 2 GHz.
    fn point(kernel: Kernel, footprint: f64, bytes_per_second: f64) -> Point {
        synthetic::point(
            Spread { kernel, footprint: Bytes(footprint as u64) }.to_values(),
            (1 << 20) as f64 / bytes_per_second,
            Work { traffic: Traffic::new(1 << 20, 0), ..Work::default() },
            &[],
        )
    }

    /// A curve with a step at each capacity of [`two_cores`], at a clock of 2 GHz.
    fn curve(largest: f64) -> Series {
        let mut points = Vec::new();
        let mut footprint = 8192.0;
        while footprint <= largest {
            let bytes_per_second = match footprint {
                f if f <= 98304.0 => 400e9,
                f if f <= 4_194_304.0 => 160e9,
                f if f <= 33_554_432.0 => 80e9,
                _ => 40e9,
            };
            points.push(point(Kernel::Read, footprint, bytes_per_second));
            footprint *= 2.0_f64.powf(1.0 / 3.0);
        }
        Series::new(super::curve(), points)
    }

    #[test]
    fn every_level_has_a_plateau_and_only_memory_competes_with_stream() {
        let found = findings(&two_cores(), &[curve(1e9)]);
        let figures: Vec<(&str, f64)> = found.iter().map(|f| (f.name.as_str(), (f.value / 1e9).round())).collect();
        assert_eq!(figures, [("read L1", 400.0), ("read L2", 160.0), ("read L3", 80.0), ("read memory", 40.0)]);
        assert!(found[0].says.starts_with("100.0 B/cycle per core"), "{}", found[0].says);
        let competing: Vec<bool> = found.iter().map(|f| f.metric == "bandwidth").collect();
        assert_eq!(competing, [false, false, false, true]);
    }

    #[test]
    fn a_gpu_has_an_l1_plateau_for_reads_and_an_l2_plateau_for_all_kernels() {
        let info = DeviceInfo {
            backend: "cuda".into(),
            multiprocessors: 132,
            caches: vec![cache("L2", 60 << 20, 132)],
            ..DeviceInfo::default()
        };
        let mut points = Vec::new();
        for (kernel, first) in [(Kernel::Read, 33e12), (Kernel::Copy, 4e12)] {
            for i in 0..=36 {
                let footprint = 2e6 * (f64::from(i) / 3.0).exp2();
                let bytes_per_second = match footprint {
                    f if f <= 14e6 => first,
                    f if f <= 58e6 => 5.5e12,
                    _ => 4.5e12,
                };
                let mut point = point(kernel, footprint, bytes_per_second);
                point.work.traffic = Traffic::new(1 << 40, 0);
                point.samples = vec![((1_u64 << 40) as f64 / bytes_per_second * 1e12) as u64; 30];
                points.push(point);
            }
        }
        let found = findings(&info, &[Series::new(super::curve(), points)]);
        let figures: Vec<(&str, f64)> = found.iter().map(|f| (f.name.as_str(), (f.value / 1e11).round())).collect();
        let expected =
            [("read L1", 330.0), ("read L2", 55.0), ("read memory", 45.0), ("copy L2", 55.0), ("copy memory", 45.0)];
        assert_eq!(figures, expected);
    }

    #[test]
    fn a_curve_that_ends_early_reports_only_the_levels_it_reached() {
        let found = findings(&two_cores(), &[curve(5e6)]);
        assert_eq!(found.len(), 2);
        assert!(findings(&DeviceInfo::default(), &[curve(1e9)]).is_empty());
    }
}
