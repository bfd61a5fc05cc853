//! dispatch: how many blocks and threads a device starts per clock: what a kernel of small blocks can't go below.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "dispatch",
    group: "launch",
    sentence: "How many blocks and threads the device starts per clock.",
    page: "dispatch.md",
    seconds: [1.5, 5.0, 15.0],
    findings,
};

/// Blocks started per second and per clock, by threads in a block. An operation is a block.
#[must_use]
pub fn blocks() -> SeriesSpec {
    SeriesSpec::new(
        "blocks",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("threads", Unit::Thread)],
        vec![
            metric("blocks", Unit::OpPerSecond, Quantity::OperationsPerSecond),
            metric("blocks per clock", Unit::OpPerCycle, Quantity::OperationsPerCycle),
            metric("time per block", Unit::Second, Quantity::TimePerOperation),
        ],
        Draw::Lines { x: "threads".into(), y: "blocks".into(), by: None, log_x: true, log_y: true },
    )
}

/// The most blocks and the most threads per clock, over all sizes of blocks.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(blocks) = series.iter().find(|series| series.spec.case == "blocks") else { return Vec::new() };
    let per_clock = |row: &Row| {
        let clock = row.clock_hz().or(device.calibration.clock_hz)?;
        let rate = blocks.estimate(row, "blocks")?;
        Some(scaled(rate, 1.0 / clock))
    };
    let most = |name: &str, factor: &dyn Fn(&Row) -> Option<f64>| {
        let figure = |row| Some((row, scaled(per_clock(row)?, factor(row)?)));
        let figures = blocks.rows.iter().filter_map(figure);
        let (row, figure) = figures.reduce(|a, b| if b.1.value > a.1.value { b } else { a })?;
        let threads = blocks.number(row, "threads")?;
        let says = format!("In blocks of {threads} threads.");
        Some(Finding { says, ..super::finding(name, Unit::OpPerCycle, row, figure) })
    };
    let found =
        [most("blocks per clock", &|_| Some(1.0)), most("threads per clock", &|row| blocks.number(row, "threads"))];
    found.into_iter().flatten().collect()
}

fn scaled(estimate: Estimate, factor: f64) -> Estimate {
    let Interval { lo, hi } = estimate.interval;
    Estimate { value: estimate.value * factor, interval: Interval { lo: lo * factor, hi: hi * factor } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::device::Calibration;
    use plimsoll_core::flag::Flags;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;

    /// A million blocks in as many seconds as are given.
    fn point(threads: u64, seconds: f64, clock_hz: Option<f64>) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![threads.into()],
            k: 1,
            tick: 1e-9,
            work: Work { operations: 1e6, ..Work::default() },
            samples: vec![(seconds * 1e9) as u64; 30],
            evidence: Evidence { clock_hz, ..Evidence::default() },
            flags: Flags::NONE,
            extra: Default::default(),
        }
    }

    #[test]
    fn small_blocks_show_the_rate_of_blocks_and_large_ones_that_of_threads() {
        let points = [point(32, 1e-3, Some(2e9)), point(256, 1e-3, Some(2e9)), point(1024, 16e-3, Some(2e9))];
        let found = findings(&DeviceInfo::default(), &[Series::new(blocks(), points)]);
        assert_eq!(found.len(), 2);
        assert!((found[0].value - 0.5).abs() < 1e-9 && found[0].name == "blocks per clock", "{found:?}");
        assert!((found[1].value - 128.0).abs() < 1e-6 && found[1].says.contains("256"), "{found:?}");
        assert!(found[1].interval.contains(found[1].value));
    }

    #[test]
    fn where_no_clock_was_seen_the_calibrated_one_counts() {
        let calibration = Calibration { clock_hz: Some(1e9), ..Calibration::default() };
        let device = DeviceInfo { calibration, ..DeviceInfo::default() };
        let series = [Series::new(blocks(), [point(32, 1e-3, None)])];
        assert!((findings(&device, &series)[0].value - 1.0).abs() < 1e-9);
        assert!(findings(&DeviceInfo::default(), &series).is_empty());
    }
}
