//! l1: what one SM of a GPU loads per cycle from its L1 and its shared memory, and the capacity of L1.

probe! {
    /// What one multiprocessor loads per cycle from its L1 and shared memory, and what the cache holds.
    "l1" in "caches", seconds: [4.0, 20.0, 60.0], files: gpu kernels
}

use std::fmt;

use plimsoll_suite::findings::levels::Levels;

use crate::prelude::meaning::*;

names! {
    /// Kinds of access, in the order in which they are measured.
    pub enum Kind {
        /// Loads of all threads.
        Load = "load",
        /// Loads of a single warp, which wait for each other: a miss shows at once.
        LoadAlone = "one warp's load",
        /// Stores, which go through to L2.
        Store = "store",
        /// Loads from shared memory.
        Shared = "shared load",
        /// Atomic additions in shared memory.
        SharedAtomic = "shared atomic",
    }
}

/// An access. Its axis calls it `load 16 B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The kind of access.
    pub kind: Kind,
    /// Bytes per thread.
    pub bytes: u32,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} B", self.kind, self.bytes)
    }
}

impl Label for Access {
    fn from_label(label: &str) -> Option<Self> {
        let (kind, bytes) = label.strip_suffix(" B")?.rsplit_once(' ')?;
        Some(Self { kind: Kind::from_name(kind)?, bytes: bytes.parse().ok()? })
    }
}

axes! {
    /// An access over a piece.
    pub struct Piece {
        /// The access.
        access: Access,
        /// Bytes of one SM's piece.
        footprint: Bytes,
    }
}

/// Bytes that the load/store units of an SM move per cycle: 32 lanes of 4 bytes since compute capability 5.0 (CUDA
/// C++ Programming Guide, 'Shared Memory': 32 banks of 32 bits per clock cycle).
const LANES: f64 = 128.0;

/// Bytes per cycle of one SM over its own footprint, all working at once.
#[must_use]
pub fn curve() -> TypedSeries<Piece> {
    let draw = Draw::lines("footprint", "bytes per cycle").grouped_by("access").log_x();
    TypedSeries::hot("curve", vec![metrics::bytes_per_cycle(), metrics::bandwidth()], draw)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(curve) = series.iter().find(|series| series.spec.case == "curve") else { return Vec::new() };
    let mut accesses: Vec<Access> = Vec::new();
    for (Piece { access, .. }, _) in known_rows(curve) {
        // One warp's rate only shows latency; only the end of its plateau becomes a finding.
        if !accesses.contains(&access) && access.kind != Kind::LoadAlone {
            accesses.push(access);
        }
    }
    let mut found: Vec<Finding> = accesses.into_iter().filter_map(|access| plateau(curve, access)).collect();
    found.extend(capacity(curve));
    found
}

/// The curve of one access: footprints, rows and bytes per cycle.
fn points_of(curve: &Series, access: Access) -> Vec<(f64, &Row, f64)> {
    let rows = known_rows(curve).filter(|(at, _): &(Piece, &Row)| at.access == access);
    let point =
        |(at, row): (Piece, _)| Some((at.footprint.0 as f64, row, curve.estimate(row, "bytes per cycle")?.value));
    rows.filter_map(point).collect()
}

/// Its levels.
fn levels_of(curve: &Series, access: Access) -> Levels {
    let points: Vec<(f64, f64)> =
        points_of(curve, access).into_iter().map(|(footprint, _, rate)| (footprint, rate)).collect();
    levels(&points, 0.1)
}

/// The rate of L1: the first plateau, or the best figure where there is none.
fn plateau(curve: &Series, access: Access) -> Option<Finding> {
    let is_of = |at: Piece| at.access == access;
    let (row, best) = curve.best("bytes per cycle", |row| Piece::from_values(&row.at).is_some_and(is_of))?;
    let levels = levels_of(curve, access);
    let estimate = match levels.plateaus.first() {
        Some(first) => Estimate { value: first.value, interval: first.interval },
        None => best,
    };
    let says = if access.kind == Kind::Store {
        "goes through to L2".to_owned()
    } else {
        format!("{:.1} % of the load/store units' {LANES} B/cycle", 100.0 * estimate.value / LANES)
    };
    Some(Finding { says, ..finding(access.to_string(), Unit::BytePerCycle, row, estimate) })
}

/// Share of its full rate that one warp keeps while its loads hit: the warp waits for every miss. With all threads, the limit of
/// the load/store units would hide many misses.
const KEPT: f64 = 0.97;

/// Where one warp's loads begin to miss: from the largest footprint that keeps their rate to the next larger one.
fn capacity(curve: &Series) -> Option<Finding> {
    let access = Access { kind: Kind::LoadAlone, bytes: 16 };
    let mut rows = points_of(curve, access);
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let plateau = levels_of(curve, access).plateaus.first()?.value;
    let last = rows.iter().rposition(|point| point.2 >= KEPT * plateau)?;
    let (kept, lost) = (&rows[last], rows.get(last + 1)?);
    let estimate = Estimate { value: kept.0, interval: Interval { lo: kept.0, hi: lost.0 } };
    let says = "up to which one warp keeps its rate, with no shared memory in use".to_owned();
    Some(Finding { says, ..finding("L1 capacity", Unit::Byte, kept.1, estimate) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn point((kind, bytes): (Kind, u32), footprint: f64, rate: f64) -> Point {
        synthetic::point(
            Piece { access: Access { kind, bytes }, footprint: Bytes(footprint as u64) }.to_values(),
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
    fn access_names_round_trip_and_other_names_are_refused() {
        for (kind, bytes, name) in [
            (Kind::Load, 16, "load 16 B"),
            (Kind::LoadAlone, 4, "one warp's load 4 B"),
            (Kind::SharedAtomic, 4, "shared atomic 4 B"),
        ] {
            let access = Access { kind, bytes };
            assert_eq!(access.to_value(), Value::from(name));
            assert_eq!(Access::from_value(&access.to_value()), Some(access));
        }
        for other in ["load", "load 16", "load B", "16 B", "prefetch 16 B", "load  16 B"] {
            assert_eq!(Access::from_value(&other.into()), None, "{other}");
        }
        assert_eq!(Access::from_value(&16.0.into()), None);
    }

    #[test]
    fn findings_match_the_plateau_and_capacity_of_the_machine() {
        let sizes = (0..=60).map(|i| 4.0 * 2.0_f64.powf(f64::from(i) / 60.0 * 7.0));
        let to_bytes = |kib: f64| (kib * 4.0).round() * 256.0;
        let mut points: Vec<Point> = Vec::new();
        for kib in sizes {
            points.push(point((Kind::Load, 16), to_bytes(kib), machine(kib)));
            points.push(point((Kind::LoadAlone, 16), to_bytes(kib), machine(kib) / 3.0));
        }
        points.extend([4.0, 64.0, 128.0].map(|kib| point((Kind::Shared, 4), kib * 1024.0, 120.0)));
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
