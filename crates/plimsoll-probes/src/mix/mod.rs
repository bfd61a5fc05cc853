//! mix: bandwidth for n arrays read and m written, and by how much is read in a row before it is written: what turning
//! the memory from reading to writing costs. `stream` gives the ceilings of four mixes; this probe gives them all.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Metric, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "mix",
    group: "bandwidth",
    sentence: "How fast memory moves for any mix of arrays read and written: what turning from one to the other costs.",
    seconds: [5.0, 25.0, 90.0],
    findings,
};

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
pub fn bursts() -> SeriesSpec {
    let draw =
        Draw::Lines { x: "burst".into(), y: "bandwidth".into(), by: Some("reads".into()), log_x: true, log_y: false };
    let axes = vec![axis("reads", Unit::One), axis("writes", Unit::One), axis("burst", Unit::One)];
    SeriesSpec::new("bursts", Figure::Throughput, CachePolicy::ColdRotate, axes, figures(), draw)
}

/// Every mix in its best burst, measured afresh: the ceilings.
#[must_use]
pub fn ceilings() -> SeriesSpec {
    let draw = Draw::Heat { x: "reads".into(), y: "writes".into(), value: "bandwidth".into() };
    let axes = vec![axis("reads", Unit::One), axis("writes", Unit::One)];
    SeriesSpec::new("ceilings", Figure::Throughput, CachePolicy::ColdRotate, axes, figures(), draw)
}

/// A copy whose whole device first reads a chunk into the last cache and then writes it, by the chunk's size.
#[must_use]
pub fn phased() -> SeriesSpec {
    let draw = Draw::Lines { x: "chunk".into(), y: "bandwidth".into(), by: None, log_x: true, log_y: false };
    SeriesSpec::new(
        "phased copy",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("chunk", Unit::Byte)],
        figures(),
        draw,
    )
}

fn case<'s>(series: &'s [Series], case: &str) -> Option<&'s Series> {
    series.iter().find(|series| series.spec.case == case)
}

/// The ceiling of every mix; what the copy loses against reading and writing by turns; whether phases win it back.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(ceilings) = case(series, "ceilings") else { return Vec::new() };
    let mut found: Vec<Finding> = ceilings.rows.iter().filter_map(|row| ceiling(ceilings, row)).collect();
    found.extend(turning(ceilings));
    if let Some(phased) = case(series, "phased copy") {
        found.extend(best_phase(ceilings, phased));
    }
    found
}

fn ceiling(ceilings: &Series, row: &Row) -> Option<Finding> {
    let (reads, writes) = (ceilings.number(row, "reads")?, ceilings.number(row, "writes")?);
    let estimate = ceilings.estimate(row, "bandwidth")?;
    Some(Finding {
        metric: "bandwidth".into(),
        says: "read:write".into(),
        ..finding(format!("{reads}:{writes}"), Unit::BytePerSecond, row, estimate)
    })
}

fn of_mix(ceilings: &Series, reads: f64, writes: f64) -> Option<(&Row, Estimate)> {
    let row = ceilings
        .rows
        .iter()
        .find(|row| ceilings.number(row, "reads") == Some(reads) && ceilings.number(row, "writes") == Some(writes))?;
    Some((row, ceilings.estimate(row, "bandwidth")?))
}

/// Share of the time of a copy that reading and writing the same bytes one after the other would not have taken.
fn turning(ceilings: &Series) -> Option<Finding> {
    let (row, copy) = of_mix(ceilings, 1.0, 1.0)?;
    let (read, write) = (of_mix(ceilings, 1.0, 0.0)?.1, of_mix(ceilings, 0.0, 1.0)?.1);
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
    let copy = of_mix(ceilings, 1.0, 1.0)?.1.value;
    let change = 100.0 * (best.value / copy - 1.0);
    let chunk = Unit::Byte.format(phased.number(row, "chunk")?);
    Some(Finding {
        says: format!("in phases of {chunk}, {change:+.1} % against the plain copy"),
        ..finding("phased copy", Unit::BytePerSecond, row, best)
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Point, Value};
    use plimsoll_suite::findings::synthetic;

    use super::*;

    fn point(at: Vec<Value>, bandwidth: f64) -> Point {
        synthetic::point(at, 1e6 / bandwidth, Work { traffic: Traffic::new(1_000_000, 0), ..Work::default() }, &[])
    }

    fn mix(reads: u64, writes: u64, bandwidth: f64) -> Point {
        point(vec![reads.into(), writes.into()], bandwidth)
    }

    #[test]
    fn every_mix_but_nothing_is_measured() {
        assert_eq!(mixes().count(), 24);
        assert!(mixes().all(|(reads, writes)| reads <= MOST && writes <= MOST && (reads, writes) != (0, 0)));
    }

    #[test]
    fn turning_is_what_a_copy_loses_against_both_halves_apart() {
        let points = [mix(1, 0, 4e9), mix(0, 1, 4e9), mix(1, 1, 3.6e9), mix(4, 3, 3.5e9)];
        let phased = [point(vec![(4_u64 << 20).into()], 3.0e9), point(vec![(8_u64 << 20).into()], 3.78e9)];
        let series = [Series::new(ceilings(), points), Series::new(super::phased(), phased)];
        let found = findings(&DeviceInfo::default(), &series);
        let of = |name: &str| found.iter().find(|finding| finding.name == name).unwrap();
        assert!((of("4:3").value / 3.5e9 - 1.0).abs() < 1e-6);
        assert!((of("turning").value - 10.0).abs() < 1e-3, "{found:?}");
        assert_eq!(of("phased copy").says, "in phases of 8 MiB, +5.0 % against the plain copy");
    }

    #[test]
    fn without_ceilings_nothing_is_found() {
        let lucky = point(vec![1_u64.into(), 1_u64.into(), 4_u64.into()], 9e9);
        assert!(findings(&DeviceInfo::default(), &[Series::new(bursts(), [lucky])]).is_empty());
    }
}
