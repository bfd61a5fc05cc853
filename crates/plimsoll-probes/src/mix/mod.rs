//! mix: bandwidth for n arrays read and m written, by how much is read before it is written: the cost of switching memory
//! between reading and writing. `stream` gives the ceilings of four mixes; this probe gives them all.

probe! {
    /// Memory bandwidth for any mix of arrays read and written, and the cost of switching between the two.
    "mix" in "bandwidth", seconds: [5.0, 25.0, 90.0], files: gpu kernels, takes bytes
}

use crate::prelude::meaning::*;

axes! {
    /// A mix, and how its accesses are grouped.
    pub struct Burst {
        /// Arrays that are read.
        reads: Count,
        /// Arrays that are written.
        writes: Count,
        /// Consecutive accesses of a thread to each array.
        burst: Count,
    }

    /// A mix with its best burst.
    pub struct Sides {
        /// Arrays that are read.
        reads: Count,
        /// Arrays that are written.
        writes: Count,
    }

    /// A copy in phases.
    pub struct Phase {
        /// Bytes that the whole device reads before writing them.
        chunk: Bytes,
    }
}

/// Most arrays on each side.
pub const MOST: u32 = 4;

/// Every mix of reads and writes except (0, 0), as (reads, writes).
pub fn mixes() -> impl Iterator<Item = (u32, u32)> {
    (0..=MOST)
        .flat_map(|reads| (0..=MOST).map(move |writes| (reads, writes)))
        .filter(|(reads, writes)| reads + writes > 0)
}

fn figures() -> Vec<Metric> {
    vec![metrics::bandwidth(), metrics::time()]
}

/// Every mix by a thread's consecutive accesses to each array.
#[must_use]
pub fn bursts() -> TypedSeries<Burst> {
    let draw = Draw::lines("burst", "bandwidth").grouped_by("reads").log_x();
    TypedSeries::cold("bursts", figures(), draw)
}

/// Every mix with its best burst, measured again: the ceilings.
#[must_use]
pub fn ceilings() -> TypedSeries<Sides> {
    let draw = Draw::heat("reads", "writes", "bandwidth");
    TypedSeries::cold("ceilings", figures(), draw)
}

/// A copy for which the whole device reads a chunk into the last-level cache and then writes it, by chunk size.
#[must_use]
pub fn phased() -> TypedSeries<Phase> {
    let draw = Draw::lines("chunk", "bandwidth").log_x();
    TypedSeries::cold("phased copy", figures(), draw)
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// The ceiling of every mix, the loss of a copy against separate reading and writing, and whether phases recover it.
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

/// Share of a copy's time that reading and writing the same bytes separately would save.
fn turning(ceilings: &Series) -> Option<Finding> {
    let (row, copy) = of_mix(ceilings, 1, 1)?;
    let (read, write) = (of_mix(ceilings, 1, 0)?.1, of_mix(ceilings, 0, 1)?.1);
    // Bandwidth with half the bytes at each rate.
    let apart = |read: f64, write: f64| 2.0 / (1.0 / read + 1.0 / write);
    let lost = |copy: f64, apart: f64| 100.0 * (1.0 - copy / apart);
    let interval = Interval {
        lo: lost(copy.interval.hi, apart(read.interval.lo, write.interval.lo)),
        hi: lost(copy.interval.lo, apart(read.interval.hi, write.interval.hi)),
    };
    let value = lost(copy.value, apart(read.value, write.value));
    Some(Finding {
        says: "of a copy's bandwidth is lost against reading and writing separately".into(),
        ..finding("turning", Unit::Percent, row, Estimate { value, interval })
    })
}

/// The best chunk compared with the copy's ceiling. As the best of a few it shows only whether phases can help at all.
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
    fn every_mix_except_the_empty_one_is_measured() {
        assert_eq!(mixes().count(), 24);
        assert!(mixes().all(|(reads, writes)| reads <= MOST && writes <= MOST && (reads, writes) != (0, 0)));
    }

    #[test]
    fn turning_is_the_loss_of_a_copy_against_separate_reading_and_writing() {
        let points = [mix(1, 0, 4e9), mix(0, 1, 4e9), mix(1, 1, 3.6e9), mix(4, 3, 3.5e9)];
        let phase = |mebibytes: u64| Phase { chunk: Bytes(mebibytes << 20) };
        let phased = [point(phase(4), 3.0e9), point(phase(8), 3.78e9)];
        let series = [Series::new(ceilings(), points), Series::new(super::phased(), phased)];
        let found = findings(&DeviceInfo::default(), &series);
        let find = |name: &str| found.iter().find(|finding| finding.name == name).unwrap();
        assert!((find("4:3").value / 3.5e9 - 1.0).abs() < 1e-6);
        assert!((find("turning").value - 10.0).abs() < 1e-3, "{found:?}");
        assert_eq!(find("phased copy").says, "in phases of 8 MiB, +5.0 % against the plain copy");
    }

    #[test]
    fn series_without_ceilings_have_no_findings() {
        let lucky = point(Burst { reads: Count(1), writes: Count(1), burst: Count(4) }, 9e9);
        assert!(findings(&DeviceInfo::default(), &[Series::new(bursts(), [lucky])]).is_empty());
    }
}
