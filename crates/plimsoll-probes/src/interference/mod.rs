//! interference: a kernel that memory bounds beside a copy between host and device: what each of them loses.

#[cfg(feature = "cuda")]
pub mod cuda;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::{HOST_PRECISION, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "interference",
    group: "transfers",
    sentence: "What a kernel and a copy between host and device lose when both run at once.",
    seconds: [3.0, 12.0, 36.0],
    findings,
};

/// A kernel that reads the device's memory.
pub const READ: &str = "kernel read";
/// A kernel that copies within it.
pub const COPY: &str = "kernel copy";
/// A copy from the host, by a copy engine.
pub const UP: &str = "H2D";
/// A copy to the host.
pub const DOWN: &str = "D2H";
/// The kernels.
pub const KERNELS: [&str; 2] = [READ, COPY];
/// The copies.
pub const COPIES: [&str; 2] = [UP, DOWN];
/// Nothing beside it.
pub const ALONE: &str = "nothing";

/// What one of them moves beside another, or alone.
#[must_use]
pub fn rates() -> SeriesSpec {
    SeriesSpec::new(
        "rates",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("work", Unit::One), axis("beside", Unit::One)],
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Bars { x: "work".into(), y: "bandwidth".into(), by: Some("beside".into()) },
    )
    .within(HOST_PRECISION)
}

/// What each loses to each other, as a share of what it moves alone.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(rates) = series.iter().find(|series| series.spec.case == "rates") else { return Vec::new() };
    let is = |row: &Row, work: &str, beside: &str| {
        rates.text(row, "work") == Some(work) && rates.text(row, "beside") == Some(beside)
    };
    let loss = |row: &Row| {
        let (work, beside) = (rates.text(row, "work")?, rates.text(row, "beside")?);
        if beside == ALONE {
            return None;
        }
        let alone = rates.rows.iter().find(|row| is(row, work, ALONE))?;
        let (a, b) = (rates.estimate(alone, "bandwidth")?, rates.estimate(row, "bandwidth")?);
        let percent = |with: f64, without: f64| 100.0 * (1.0 - with / without);
        let interval =
            Interval { lo: percent(b.interval.hi, a.interval.lo), hi: percent(b.interval.lo, a.interval.hi) };
        let known = Estimate { value: percent(b.value, a.value), interval };
        let told = |figure: Estimate| Unit::BytePerSecond.format(figure.value);
        Some(Finding {
            says: format!("{} beside {beside}, {} alone.", told(b), told(a)),
            flags: row.flags.union(alone.flags),
            ..finding(format!("{work} loses to {beside}"), Unit::Percent, row, known)
        })
    };
    rates.rows.iter().filter_map(loss).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    fn point(work: &str, beside: &str, bytes: u64) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![work.into(), beside.into()],
            k: 1,
            tick: 1e-9,
            work: Work { traffic: Traffic::new(bytes, 0), ..Work::default() },
            samples: vec![1_000_000; 30],
            evidence: Evidence::default(),
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn a_loss_is_told_of_every_pair_whose_work_was_also_measured_alone() {
        let points = [
            point(READ, ALONE, 4_000_000),
            point(READ, UP, 3_800_000),
            point(UP, ALONE, 50_000),
            point(UP, READ, 40_000),
            point(DOWN, READ, 40_000),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(rates(), points)]);
        let figures: Vec<(&str, f64)> =
            found.iter().map(|finding| (finding.name.as_str(), finding.value.round())).collect();
        assert_eq!(figures, [("kernel read loses to H2D", 5.0), ("H2D loses to kernel read", 20.0)]);
        assert!(found.iter().all(|finding| finding.interval.contains(finding.value)));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
