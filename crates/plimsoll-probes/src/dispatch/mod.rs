//! dispatch: how many blocks and threads a device starts per clock: what a kernel of small blocks can't go below; and how many where
//! launches overlap, whose blocks wait and may have to say that the next kernel may begin.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "dispatch",
    group: "launch",
    sentence: "How many blocks and threads the device starts per clock, and how many that say that the next kernel may begin.",
    seconds: [3.0, 10.0, 30.0],
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

/// Blocks that wait for the kernel before, which has ended by then.
pub const WAITING: &str = "waiting";
/// Blocks that also say that the next kernel may begin.
pub const SIGNALLING: &str = "signalling";

/// The same of programmatic launches, by what their blocks do.
#[must_use]
pub fn programmatic() -> SeriesSpec {
    let SeriesSpec { mut axes, .. } = blocks();
    axes.insert(0, axis("kind", Unit::One));
    let draw =
        Draw::Lines { x: "threads".into(), y: "blocks".into(), by: Some("kind".into()), log_x: true, log_y: true };
    SeriesSpec { case: "programmatic".into(), axes, draw, ..blocks() }
}

/// The most blocks and the most threads per clock, over all sizes of blocks, and the most blocks of each kind of programmatic launch.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let of = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(blocks) = of("blocks") {
        found.extend(most(device, blocks, "blocks per clock", &|_| Some(1.0)));
        found.extend(most(device, blocks, "threads per clock", &|row| blocks.number(row, "threads")));
    }
    if let Some(blocks) = of("programmatic") {
        for kind in [WAITING, SIGNALLING] {
            let of_kind = |row: &Row| (blocks.text(row, "kind") == Some(kind)).then_some(1.0);
            found.extend(most(device, blocks, &format!("blocks per clock, {kind}"), &of_kind));
        }
    }
    found
}

/// The largest of the rates per clock, each times its factor, among the rows that have one.
fn most(device: &DeviceInfo, blocks: &Series, name: &str, factor: &dyn Fn(&Row) -> Option<f64>) -> Option<Finding> {
    let figure = |row| {
        let clock = Row::clock_hz(row).or(device.calibration.clock_hz)?;
        Some((row, scaled(blocks.estimate(row, "blocks")?, factor(row)? / clock)))
    };
    let figures = blocks.rows.iter().filter_map(figure);
    let (row, figure) = figures.reduce(|a, b| if b.1.value > a.1.value { b } else { a })?;
    let threads = blocks.number(row, "threads")?;
    let says = format!("In blocks of {threads} threads.");
    Some(Finding { says, ..finding(name, Unit::OpPerCycle, row, figure) })
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
    fn programmatic_launches_have_a_rate_by_what_their_blocks_do() {
        let of = |kind: &str, threads, seconds| {
            let plain = point(threads, seconds, Some(2e9));
            Point { at: vec![kind.into(), threads.into()], ..plain }
        };
        let points = [of(WAITING, 32, 1e-3), of(WAITING, 64, 1.1e-3), of(SIGNALLING, 32, 2e-3)];
        let found = findings(&DeviceInfo::default(), &[Series::new(programmatic(), points)]);
        let values: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value)).collect();
        assert!((values[0].1 - 0.5).abs() < 1e-9 && values[0].0 == "blocks per clock, waiting", "{values:?}");
        assert!((values[1].1 - 0.25).abs() < 1e-9 && values[1].0 == "blocks per clock, signalling", "{values:?}");
        assert_eq!(values.len(), 2);
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
