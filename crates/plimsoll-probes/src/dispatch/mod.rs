//! dispatch: how many blocks and threads a device starts per clock, a lower bound for kernels of small blocks. Also for overlapping
//! (programmatic) launches, whose blocks wait and may signal that the next kernel may begin.

probe! {
    /// How many blocks and threads the device starts per clock, in ordinary and in programmatic launches.
    "dispatch" in "launch", seconds: [3.0, 10.0, 30.0], files: gpu kernels
}

use crate::prelude::meaning::*;

names! {
    /// What the blocks of a programmatic launch do, in display order.
    pub enum Kind {
        /// They wait for the previous kernel, which has already ended.
        Waiting = "waiting",
        /// They also signal that the next kernel may begin.
        Signalling = "signalling",
    }
}

axes! {
    /// A grid of empty blocks.
    pub struct Plain {
        /// Threads of a block.
        threads: Threads,
    }

    /// A grid of blocks that a programmatic launch starts.
    pub struct Programmatic {
        /// What they do.
        kind: Kind,
        /// Threads of a block.
        threads: Threads,
    }
}

fn figures() -> Vec<Metric> {
    vec![
        metric("blocks", Unit::OpPerSecond, Quantity::OperationsPerSecond),
        metric("blocks per clock", Unit::OpPerCycle, Quantity::OperationsPerCycle),
        metric("time per block", Unit::Second, Quantity::TimePerOperation),
    ]
}

/// Blocks started per second and per clock, by threads in a block. An operation is a block.
#[must_use]
pub fn blocks() -> TypedSeries<Plain> {
    let draw = Draw::lines("threads", "blocks").log_x().log_y();
    TypedSeries::hot("blocks", figures(), draw)
}

/// The same of programmatic launches, by what their blocks do.
#[must_use]
pub fn programmatic() -> TypedSeries<Programmatic> {
    let draw = Draw::lines("threads", "blocks").grouped_by("kind").log_x().log_y();
    TypedSeries::hot("programmatic", figures(), draw)
}

/// The most blocks and the most threads per clock, over all sizes of blocks, and the most blocks of each kind of programmatic
/// launch.
fn findings(device: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let find_series = |case: &str| series.iter().find(|series| series.spec.case == case);
    let mut found = Vec::new();
    if let Some(blocks) = find_series("blocks") {
        let rows = || known_rows(blocks).map(|(at, row): (Plain, &Row)| (at.threads, row));
        found.extend(most(device, blocks, rows(), "blocks per clock", |_| 1.0));
        found.extend(most(device, blocks, rows(), "threads per clock", |threads| threads.0 as f64));
    }
    if let Some(blocks) = find_series("programmatic") {
        for kind in Kind::ALL {
            let of_kind = known_rows(blocks).filter(|(at, _): &(Programmatic, &Row)| at.kind == kind);
            let rows = of_kind.map(|(at, row)| (at.threads, row));
            found.extend(most(device, blocks, rows, &format!("blocks per clock, {kind}"), |_| 1.0));
        }
    }
    found
}

/// The largest rate per clock, times the factor for its threads per block.
fn most<'s>(
    device: &DeviceInfo,
    blocks: &Series,
    rows: impl Iterator<Item = (Threads, &'s Row)>,
    name: &str,
    factor: impl Fn(Threads) -> f64,
) -> Option<Finding> {
    let figure = |(threads, row): (Threads, &'s Row)| {
        let clock = row.clock_hz().or(device.calibration.clock_hz)?;
        Some((threads, row, scaled(blocks.estimate(row, "blocks")?, factor(threads) / clock)))
    };
    let (threads, row, figure) = rows.filter_map(figure).reduce(|a, b| if b.2.value > a.2.value { b } else { a })?;
    let says = format!("In blocks of {} threads.", threads.0);
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
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::{Axes, Point};

    /// A million blocks in `seconds`.
    fn point(at: impl Axes, seconds: f64, clock_hz: Option<f64>) -> Point {
        Point {
            evidence: Evidence { clock_hz, ..Evidence::default() },
            ..Point::new(at.to_values(), Work { operations: 1e6, ..Work::default() }, vec![(seconds * 1e9) as u64; 30])
        }
    }

    fn plain(threads: u64) -> Plain {
        Plain { threads: Threads(threads) }
    }

    #[test]
    fn findings_report_the_most_blocks_and_the_most_threads_per_clock() {
        let points =
            [(32, 1e-3), (256, 1e-3), (1024, 16e-3)].map(|(threads, time)| point(plain(threads), time, Some(2e9)));
        let found = findings(&DeviceInfo::default(), &[Series::new(blocks(), points)]);
        assert_eq!(found.len(), 2);
        assert!((found[0].value - 0.5).abs() < 1e-9 && found[0].name == "blocks per clock", "{found:?}");
        assert!((found[1].value - 128.0).abs() < 1e-6 && found[1].says.contains("256"), "{found:?}");
        assert!(found[1].interval.contains(found[1].value));
    }

    #[test]
    fn programmatic_launches_have_one_rate_per_kind() {
        let timed = |kind, threads, seconds| {
            let at = Programmatic { kind, threads: Threads(threads) };
            point(at, seconds, Some(2e9))
        };
        let points =
            [timed(Kind::Waiting, 32, 1e-3), timed(Kind::Waiting, 64, 1.1e-3), timed(Kind::Signalling, 32, 2e-3)];
        let found = findings(&DeviceInfo::default(), &[Series::new(programmatic(), points)]);
        let values: Vec<_> = found.iter().map(|one| (one.name.as_str(), one.value)).collect();
        assert!((values[0].1 - 0.5).abs() < 1e-9 && values[0].0 == "blocks per clock, waiting", "{values:?}");
        assert!((values[1].1 - 0.25).abs() < 1e-9 && values[1].0 == "blocks per clock, signalling", "{values:?}");
        assert_eq!(values.len(), 2);
    }

    #[test]
    fn calibrated_clock_is_used_where_none_was_measured() {
        let calibration = Calibration { clock_hz: Some(1e9), ..Calibration::default() };
        let device = DeviceInfo { calibration, ..DeviceInfo::default() };
        let series = [Series::new(blocks(), [point(plain(32), 1e-3, None)])];
        assert!((findings(&device, &series)[0].value - 1.0).abs() < 1e-9);
        assert!(findings(&DeviceInfo::default(), &series).is_empty());
    }
}
