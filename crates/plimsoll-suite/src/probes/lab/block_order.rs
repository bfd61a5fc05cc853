//! block-order: L2 reuse between the blocks of one kernel. Every block reads a panel of one matrix and a panel of another, as a
//! tile of a product needs them; which tile comes when decides how much of that memory must deliver.

use plimsoll_core::counted;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use super::advice::{advice, ratio};
use crate::probes::{LAB, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "block-order",
    group: LAB,
    sentence: "What the order of a kernel's blocks leaves of its traffic to memory: rows, columns and groups of rows of tiles.",
    page: "block-order.md",
    seconds: [4.0, 12.0, 40.0],
    findings,
};

/// The orders: tile after tile of a row, or of a column, or along the diagonals, where neighbours share nothing.
pub const ROWS: &str = "rows";
/// See [`ROWS`].
pub const COLUMNS: &str = "columns";
/// See [`ROWS`].
pub const DIAGONALS: &str = "diagonals";

/// Both matrices once: what memory must deliver at least.
pub const LEAST: &str = "least from memory";

/// So many rows of tiles at a time, column after column.
#[must_use]
pub fn groups(rows: u32) -> String {
    format!("groups of {rows} rows")
}

/// Time of one walk over all tiles, by its order. Bytes are those that blocks read.
#[must_use]
pub fn orders() -> SeriesSpec {
    let metrics = vec![
        metric("time", Unit::Second, Quantity::Time),
        metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        metric(LEAST, Unit::Byte, Quantity::Extra),
    ];
    let draw = Draw::Bars { x: "order".into(), y: "time".into(), by: None };
    SeriesSpec::new("orders", Figure::Throughput, CachePolicy::Hot, vec![axis("order", Unit::One)], metrics, draw)
}

/// How often memory delivered the least that it must, where that was counted.
fn delivered(orders: &Series, row: &Row) -> Option<f64> {
    Some(orders.estimate(row, counted::DRAM_READ)?.value / orders.estimate(row, LEAST)?.value)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(orders) = series.first() else { return Vec::new() };
    let of = |row| {
        let counted = delivered(orders, row).map(|times| format!("memory read {times:.2} times what it must at least"));
        let bandwidth = orders.estimate(row, "bandwidth").map(|known| Unit::BytePerSecond.format(known.value));
        let says = counted.or(bandwidth.map(|bandwidth| format!("blocks read {bandwidth}")))?;
        let time = finding(orders.text(row, "order")?, Unit::Second, row, orders.estimate(row, "time")?);
        Some(Finding { says, ..time })
    };
    orders.rows.iter().filter_map(of).chain(advise(orders)).collect()
}

/// The fastest order beside the one that a plain index gives, and beside the slowest.
fn advise(orders: &Series) -> Option<Finding> {
    /// What an order must gain to be worth its index arithmetic.
    const GAIN: f64 = 1.02;
    let time = |row: &Row| orders.estimate(row, "time");
    let plain = orders.rows.iter().find(|row| orders.text(row, "order") == Some(ROWS))?;
    let (best, _) = orders.best("time", |_| true)?;
    let slowest = orders.rows.iter().max_by(|a, b| a.time.value.total_cmp(&b.time.value))?;
    let (gain, most) = (ratio(time(plain)?, time(best)?), ratio(time(slowest)?, time(best)?));
    let bytes = delivered(orders, plain).zip(delivered(orders, best)).map_or_else(String::new, |(plain, best)| {
        format!(", and memory reads {best:.1} times the least instead of {plain:.1} times")
    });
    let order = orders.text(best, "order")?;
    let last = format!("{} take {:.2} times as long as the best", orders.text(slowest, "order")?, most.value);
    let says = if gain.value > GAIN {
        format!("Walk tiles in {order}: {:.2} times as fast as row by row{bytes}; {last}.", gain.value)
    } else {
        format!(
            "Row by row will do: the best order ({order}) gains {:.1} %{bytes}; {last}.",
            100.0 * (gain.value - 1.0)
        )
    };
    Some(advice(says, Unit::One, gain, [plain, best, slowest]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::lab::synthetic::point;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;

    fn measured(rows: f64, grouped: f64, counted: bool) -> Series {
        let mut spec = orders();
        spec.metrics.extend(counted::metrics());
        let order = |name: &str, seconds: f64, read: f64| {
            let work = Work { traffic: Traffic::new(1 << 30, 0), ..Work::default() };
            let extra = [(LEAST, 1e8), (counted::DRAM_READ, read)];
            point(vec![name.into()], seconds, work, if counted { &extra } else { &extra[..1] })
        };
        let diagonals = order(DIAGONALS, 2.0 * grouped, 3e9);
        Series::new(spec, [order(ROWS, rows, 1e9), order(&groups(16), grouped, 2e8), diagonals])
    }

    fn advised(series: Series) -> Finding {
        findings(&DeviceInfo::default(), &[series]).into_iter().find(|finding| finding.name == "advice").unwrap()
    }

    #[test]
    fn the_fastest_order_is_advised_with_the_time_and_bytes_that_it_saves() {
        let found = advised(measured(1.5e-3, 1e-3, true));
        assert!((found.value - 1.5).abs() < 1e-6);
        let says = "Walk tiles in groups of 16 rows: 1.50 times as fast as row by row, and memory reads 2.0 times the least \
                    instead of 10.0 times; diagonals take 2.00 times as long as the best.";
        assert_eq!(found.says, says);
    }

    #[test]
    fn an_order_that_gains_nothing_is_not_advised_and_nothing_uncounted_is_told() {
        let found = advised(measured(1.001e-3, 1e-3, false));
        assert!(found.says.starts_with("Row by row will do") && !found.says.contains("memory reads"), "{}", found.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        let named = findings(&DeviceInfo::default(), &[measured(1e-3, 1e-3, true)]);
        assert_eq!(named[0].says, "memory read 10.00 times what it must at least");
    }
}
