//! mix: bandwidth for n arrays read and m written, and by how much is read in a row before it is written: what turning
//! the memory from reading to writing costs. `stream` gives the ceilings of four mixes; this probe gives them all.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use crate::prelude::meaning::*;

/// The description of the probe.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "mix",
    group: "bandwidth",
    sentence: "How fast memory moves for any mix of arrays read and written: what turning from one to the other costs.",
    seconds: [5.0, 25.0, 90.0],
    takes_bytes: true,
    findings,
};

plimsoll_core::axes! {
    /// A mix, and how its accesses are grouped.
    pub struct Burst {
        /// Arrays that are read.
        reads: Count,
        /// Arrays that are written.
        writes: Count,
        /// Accesses to each array that a thread makes in a row.
        burst: Count,
    }
}

plimsoll_core::axes! {
    /// A mix in its best burst.
    pub struct Sides {
        /// Arrays that are read.
        reads: Count,
        /// Arrays that are written.
        writes: Count,
    }
}

plimsoll_core::axes! {
    /// A copy in phases.
    pub struct Phase {
        /// Bytes that the whole device reads before it writes them.
        chunk: Bytes,
    }
}

/// Most arrays on each side.
pub const MOST: u32 = 4;

/// Every mix, reads first, but that of nothing.
pub fn mixes() -> impl Iterator<Item = (u32, u32)> {
    (0..=MOST)
        .flat_map(|reads| (0..=MOST).map(move |writes| (reads, writes)))
        .filter(|(reads, writes)| reads + writes > 0)
}

fn figures() -> Vec<Metric> {
    vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth), metric("time", Unit::Second, Quantity::Time)]
}

/// Every mix by the accesses to each array that a thread makes in a row.
#[must_use]
pub fn bursts() -> TypedSeries<Burst> {
    let draw = Draw::lines("burst", "bandwidth").grouped_by("reads").log_x();
    TypedSeries::new("bursts", Figure::Throughput, CachePolicy::ColdRotate, figures(), draw)
}

/// Every mix in its best burst, measured again: the ceilings.
#[must_use]
pub fn ceilings() -> TypedSeries<Sides> {
    let draw = Draw::heat("reads", "writes", "bandwidth");
    TypedSeries::new("ceilings", Figure::Throughput, CachePolicy::ColdRotate, figures(), draw)
}

/// A copy whose whole device first reads a chunk into the last cache and then writes it, by the chunk's size.
#[must_use]
pub fn phased() -> TypedSeries<Phase> {
    let draw = Draw::lines("chunk", "bandwidth").log_x();
    TypedSeries::new("phased copy", Figure::Throughput, CachePolicy::ColdRotate, figures(), draw)
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// The ceiling of every mix; what the copy loses against reading and writing by iterations; whether phases win it back.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(ceilings) = case(series, "ceilings") else { return Vec::new() };
    let mut found: Vec<Finding> = known_rows(ceilings).filter_map(|(at, row)| ceiling(ceilings, &at, row)).collect();
    found.extend(turning(ceilings));
    if let Some(phased) = case(series, "phased copy") {
        found.extend(best_phase(ceilings, phased));
    }
    found
}

fn ceiling(ceilings: &Series, at: &Sides, row: &Row) -> Option<Finding> {
    let estimate = ceilings.estimate(row, "bandwidth")?;
    Some(Finding {
        metric: "bandwidth".into(),
        says: "read:write".into(),
        ..finding(format!("{}:{}", at.reads.0, at.writes.0), Unit::BytePerSecond, row, estimate)
    })
}

fn of_mix(ceilings: &Series, reads: u64, writes: u64) -> Option<(&Row, Estimate)> {
    let mix = Sides { reads: Count(reads), writes: Count(writes) };
    let (_, row) = known_rows(ceilings).find(|(at, _): &(Sides, &Row)| *at == mix)?;
    Some((row, ceilings.estimate(row, "bandwidth")?))
}

/// Share of the time of a copy that reading and writing the same bytes one after the other would not have taken.
fn turning(ceilings: &Series) -> Option<Finding> {
    let (row, copy) = of_mix(ceilings, 1, 1)?;
    let (read, write) = (of_mix(ceilings, 1, 0)?.1, of_mix(ceilings, 0, 1)?.1);
    // Half the bytes at each rate.
    let apart = |read: f64, write: f64| 2.0 / (1.0 / read + 1.0 / write);
    let lost = |copy: f64, apart: f64| 100.0 * (1.0 - copy / apart);
    let interval = Interval {
        lo: lost(copy.interval.hi, apart(read.interval.lo, write.interval.lo)),
        hi: lost(copy.interval.lo, apart(read.interval.hi, write.interval.hi)),
    };
    let value = lost(copy.value, apart(read.value, write.value));
    Some(Finding {
        says: "of the bandwidth of a copy is lost against reading and writing apart".into(),
        ..finding("turning", Unit::Percent, row, Estimate { value, interval })
    })
}

/// The best chunk against the copy's ceiling. Best of a few: it says whether phases can help at all.
fn best_phase(ceilings: &Series, phased: &Series) -> Option<Finding> {
    let (row, best) = phased.best("bandwidth", |_| true)?;
    let copy = of_mix(ceilings, 1, 1)?.1.value;
    let change = 100.0 * (best.value / copy - 1.0);
    let chunk = Unit::Byte.format(Phase::from_values(&row.at)?.chunk.0 as f64);
    Some(Finding {
        says: format!("in phases of {chunk}, {change:+.1} % against the plain copy"),
        ..finding("phased copy", Unit::BytePerSecond, row, best)
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes, Point};
    use plimsoll_suite::findings::synthetic;

    use super::*;

    fn point(at: impl Axes, bandwidth: f64) -> Point {
        let work = Work { traffic: Traffic::new(1_000_000, 0), ..Work::default() };
        synthetic::point(at.to_values(), 1e6 / bandwidth, work, &[])
    }

    fn mix(reads: u64, writes: u64, bandwidth: f64) -> Point {
        point(Sides { reads: Count(reads), writes: Count(writes) }, bandwidth)
    }

    #[test]
    fn every_mix_but_nothing_is_measured() {
        assert_eq!(mixes().count(), 24);
        assert!(mixes().all(|(reads, writes)| reads <= MOST && writes <= MOST && (reads, writes) != (0, 0)));
    }

    #[test]
    fn turning_is_what_a_copy_loses_against_both_halves_apart() {
        let points = [mix(1, 0, 4e9), mix(0, 1, 4e9), mix(1, 1, 3.6e9), mix(4, 3, 3.5e9)];
        let phase = |mebibytes: u64| Phase { chunk: Bytes(mebibytes << 20) };
        let phased = [point(phase(4), 3.0e9), point(phase(8), 3.78e9)];
        let series = [Series::new(ceilings(), points), Series::new(super::phased(), phased)];
        let found = findings(&DeviceInfo::default(), &series);
        let of = |name: &str| found.iter().find(|finding| finding.name == name).unwrap();
        assert!((of("4:3").value / 3.5e9 - 1.0).abs() < 1e-6);
        assert!((of("turning").value - 10.0).abs() < 1e-3, "{found:?}");
        assert_eq!(of("phased copy").says, "in phases of 8 MiB, +5.0 % against the plain copy");
    }

    #[test]
    fn without_ceilings_nothing_is_found() {
        let lucky = point(Burst { reads: Count(1), writes: Count(1), burst: Count(4) }, 9e9);
        assert!(findings(&DeviceInfo::default(), &[Series::new(bursts(), [lucky])]).is_empty());
    }
}
