//! l1: what one multiprocessor of a GPU loads from its first-level cache and its shared memory, and how much the cache
//! holds.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;
use plimsoll_suite::findings::levels::{Levels, levels};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "l1",
    group: "caches",
    sentence: "What one multiprocessor loads per cycle from its first-level cache and shared memory, and what the cache holds.",
    seconds: [4.0, 20.0, 60.0],
    findings,
};

/// Accesses whose width is told: `load 16 B`.
pub const LOAD: &str = "load";
/// Loads of one warp alone, which wait for each other: what misses shows at once.
pub const LOAD_ALONE: &str = "one warp's load";
/// Stores, which go through to the second level.
pub const STORE: &str = "store";
/// Loads from shared memory.
pub const SHARED: &str = "shared load";
/// Atomic additions in shared memory.
pub const SHARED_ATOMIC: &str = "shared atomic";

/// How an access is called.
#[must_use]
pub fn access(what: &str, bytes: u32) -> String {
    format!("{what} {bytes} B")
}

/// Bytes that the load/store units of a multiprocessor move per cycle: 32 lanes of 4 bytes since compute capability 5.0 (CUDA
/// C++ Programming Guide, 'Shared Memory': 32 banks of 32 bits per clock cycle).
const LANES: f64 = 128.0;

/// Bytes per cycle of one multiprocessor over its own footprint, all working at once.
#[must_use]
pub fn curve() -> SeriesSpec {
    SeriesSpec::new(
        "curve",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("access", Unit::One), axis("footprint", Unit::Byte)],
        vec![
            metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle),
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        ],
        Draw::Lines {
            x: "footprint".into(),
            y: "bytes per cycle".into(),
            by: Some("access".into()),
            log_x: true,
            log_y: false,
        },
    )
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(curve) = series.iter().find(|series| series.spec.case == "curve") else { return Vec::new() };
    let mut accesses: Vec<&str> = Vec::new();
    for name in curve.rows.iter().filter_map(|row| curve.text(row, "access")) {
        // One warp's rate is its latency: only where it ends is told.
        if !accesses.contains(&name) && !name.starts_with(LOAD_ALONE) {
            accesses.push(name);
        }
    }
    let mut found: Vec<Finding> = accesses.iter().filter_map(|access| plateau(curve, access)).collect();
    found.extend(capacity(curve));
    found
}

/// The levels of one access' curve.
fn levels_of(curve: &Series, access: &str) -> Levels {
    let rows = curve.rows.iter().filter(|row| curve.text(row, "access") == Some(access));
    let point = |row| Some((curve.number(row, "footprint")?, curve.estimate(row, "bytes per cycle")?.value));
    levels(&rows.filter_map(point).collect::<Vec<_>>(), 0.1)
}

/// What the first level gives: the first plateau, and where there is none, the best.
fn plateau(curve: &Series, access: &str) -> Option<Finding> {
    let of = |row: &&_| curve.text(row, "access") == Some(access);
    let (row, best) = curve.best("bytes per cycle", |row| of(&row))?;
    let levels = levels_of(curve, access);
    let estimate = match levels.plateaus.first() {
        Some(first) => Estimate { value: first.value, interval: first.interval },
        None => best,
    };
    let says = if access.starts_with(STORE) {
        "goes through to the second level".to_owned()
    } else {
        format!("{:.1} % of the load/store units' {LANES} B/cycle", 100.0 * estimate.value / LANES)
    };
    Some(Finding { says, ..finding(access, Unit::BytePerCycle, row, estimate) })
}

/// What one warp still loads at its full rate: as soon as a line misses, the warp waits for it. Loads of all threads would hide
/// many misses behind the load/store units' own limit.
const KEPT: f64 = 0.97;

/// Where one warp's loads begin to wait: from the largest footprint that keeps their rate to the smallest beyond that
/// doesn't.
fn capacity(curve: &Series) -> Option<Finding> {
    let access = access(LOAD_ALONE, 16);
    let of = curve.rows.iter().filter(|row| curve.text(row, "access") == Some(&access));
    let point = |row| Some((curve.number(row, "footprint")?, row, curve.estimate(row, "bytes per cycle")?.value));
    let mut rows: Vec<_> = of.filter_map(point).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let plateau = levels_of(curve, &access).plateaus.first()?.value;
    let last = rows.iter().rposition(|point| point.2 >= KEPT * plateau)?;
    let (kept, lost) = (&rows[last], rows.get(last + 1)?);
    let estimate = Estimate { value: kept.0, interval: Interval { lo: kept.0, hi: lost.0 } };
    let says = "to which one warp keeps its rate, beside no shared memory".to_owned();
    Some(Finding { says, ..finding("L1 capacity", Unit::Byte, kept.1, estimate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point(access: &str, footprint: f64, rate: f64) -> Point {
        synthetic::point(
            vec![access.into(), footprint.into()],
            (1 << 23) as f64 / rate / 2e9,
            Work { traffic: Traffic::new(1 << 23, 0), in_kernel: true, ..Work::default() },
            &[],
        )
    }

    /// A cache of 200 KiB at 127 B/cycle before another level at 60.
    fn machine(kib: f64) -> f64 {
        let hits = ((252.0 - kib) / 50.0).clamp(0.0, 1.0);
        1.0 / (hits / 127.0 + (1.0 - hits) / 60.0)
    }

    #[test]
    fn plateau_and_capacity_are_those_of_the_machine() {
        let sizes = (0..=60).map(|i| 4.0 * 2.0_f64.powf(f64::from(i) / 60.0 * 7.0));
        let at = |kib: f64| (kib * 4.0).round() * 256.0;
        let mut points: Vec<Point> = Vec::new();
        for kib in sizes {
            points.push(point("load 16 B", at(kib), machine(kib)));
            points.push(point("one warp's load 16 B", at(kib), machine(kib) / 3.0));
        }
        points.extend([4.0, 64.0, 128.0].map(|kib| point("shared load 4 B", kib * 1024.0, 120.0)));
        let found = findings(&DeviceInfo::default(), &[Series::new(curve(), points)]);
        let names: Vec<&str> = found.iter().map(|finding| finding.name.as_str()).collect();
        assert_eq!(names, ["load 16 B", "shared load 4 B", "L1 capacity"]);
        assert!((found[0].value / 127.0 - 1.0).abs() < 0.01 && found[0].says.starts_with("99."), "{found:?}");
        assert!((found[1].value / 120.0 - 1.0).abs() < 0.01);
        assert!((found[2].value / (202.0 * 1024.0) - 1.0).abs() < 0.05, "{found:?}");
        assert!(found[2].interval.contains(found[2].value));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
