//! block-order: L2 reuse between the blocks of one kernel. Every block reads one panel of each of two matrices, as a tile of a
//! matrix product does; the order of the tiles decides how much of that comes from memory.

probe! {
    /// How the order of a kernel's blocks changes its memory traffic: rows, columns and groups of rows of tiles.
    "block-order" in LAB, seconds: [4.0, 12.0, 40.0], files: gpu kernels
}

use plimsoll_core::counted;

use crate::prelude::meaning::*;

labels! {
    /// The order of a kernel's blocks.
    pub enum Order {
        /// Tile after tile of a row.
        Rows = "rows",
        /// Tile after tile of a column.
        Columns = "columns",
        /// Along the diagonals, where neighbours share nothing.
        Diagonals = "diagonals",
        /// This many rows of tiles at a time, column after column.
        Groups(rows: u32) = "groups of " rows " rows",
    }
}

axes! {
    /// One launch over all tiles.
    pub struct AllTiles {
        /// The order of its blocks.
        order: Order,
    }
}

/// All orders. Rows, the best and the slowest are then measured again: samples that made a choice never report it.
pub const ORDERS: &str = "orders";
/// See [`ORDERS`].
pub const AFRESH: &str = "afresh";

/// Both matrices once: the least that memory must deliver.
pub const LEAST: &str = "least from memory";

/// Time of one launch over all tiles, by order: `case` is [`ORDERS`] or [`AFRESH`]. Bytes are those that blocks read.
#[must_use]
pub fn orders(case: &str) -> TypedSeries<AllTiles> {
    let draw = Draw::bars("order", "time");
    TypedSeries::hot(
        case,
        vec![metrics::time(), metrics::bandwidth(), metric(LEAST, Unit::Byte, Quantity::Extra)],
        draw,
    )
}

/// Bytes that memory delivered over the least possible, if they were counted.
fn delivered(orders: &Series, row: &Row) -> Option<f64> {
    Some(orders.estimate(row, counted::DRAM_READ)?.value / orders.estimate(row, LEAST)?.value)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let case = |case: &str| series.iter().find(|series| series.spec.case == case && !series.rows.is_empty());
    let Some(orders) = case(ORDERS) else { return Vec::new() };
    let order_finding = |(at, row): (AllTiles, &Row)| {
        let counted = delivered(orders, row).map(|times| format!("memory read {times:.2} times what it must at least"));
        let bandwidth = orders.estimate(row, "bandwidth").map(|known| Unit::BytePerSecond.format(known.value));
        let says = counted.or(bandwidth.map(|bandwidth| format!("blocks read {bandwidth}")))?;
        let time = finding(at.order.to_string(), Unit::Second, row, orders.estimate(row, "time")?);
        Some(Finding { says, ..time })
    };
    known_rows(orders).filter_map(order_finding).chain(advise(orders, case(AFRESH).unwrap_or(orders))).collect()
}

/// The orders to measure again: rows, the best and the slowest.
#[must_use]
pub fn chosen(orders: &Series) -> Option<[Order; 3]> {
    let order = |row: &Row| AllTiles::from_values(&row.at).map(|at| at.order);
    let (best, _) = orders.best("time", |_| true)?;
    let slowest = orders.rows.iter().max_by(|a, b| a.time.value.total_cmp(&b.time.value))?;
    Some([Order::Rows, order(best)?, order(slowest)?])
}

/// The fastest order against rows and against the slowest: chosen from `orders`, figures from `afresh`.
fn advise(orders: &Series, afresh: &Series) -> Option<Finding> {
    /// The least gain that is worth the index arithmetic of an order.
    const GAIN: f64 = 1.02;
    let time = |row: &Row| afresh.estimate(row, "time");
    let [plain, order, last] = chosen(orders)?;
    let row = |order| Some(known_rows(afresh).find(|(at, _): &(AllTiles, &Row)| at.order == order)?.1);
    let (plain, best, slowest) = (row(plain)?, row(order)?, row(last)?);
    let (gain, most) = (ratio(time(plain)?, time(best)?), ratio(time(slowest)?, time(best)?));
    let bytes = delivered(afresh, plain).zip(delivered(afresh, best)).map_or_else(String::new, |(plain, best)| {
        format!(", and memory reads {best:.1} times the least instead of {plain:.1} times")
    });
    let last = format!("{last} take {:.2} times as long as the best", most.value);
    let says = if gain.value > GAIN {
        format!("Order tiles in {order}: {:.2} times as fast as row by row{bytes}; {last}.", gain.value)
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
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::SeriesSpec;
    use plimsoll_suite::findings::synthetic::point;

    fn measured(rows: f64, grouped: f64, counted: bool) -> Series {
        let mut spec = SeriesSpec::from(orders(ORDERS));
        spec.metrics.extend(counted::metrics());
        let walk = |order, seconds: f64, read: f64| {
            let work = Work { traffic: Traffic::new(1 << 30, 0), ..Work::default() };
            let extra = [(LEAST, 1e8), (counted::DRAM_READ, read)];
            point(AllTiles { order }.to_values(), seconds, work, if counted { &extra } else { &extra[..1] })
        };
        let diagonals = walk(Order::Diagonals, 2.0 * grouped, 3e9);
        Series::new(spec, [walk(Order::Rows, rows, 1e9), walk(Order::Groups(16), grouped, 2e8), diagonals])
    }

    fn advised(series: Series) -> Finding {
        findings(&DeviceInfo::default(), &[series]).into_iter().find(|finding| finding.name == "advice").unwrap()
    }

    #[test]
    fn advice_names_the_fastest_order_with_the_time_and_bytes_it_saves() {
        let found = advised(measured(1.5e-3, 1e-3, true));
        assert!((found.value - 1.5).abs() < 1e-6);
        let says = "Order tiles in groups of 16 rows: 1.50 times as fast as row by row, and memory reads 2.0 times the least \
                    instead of 10.0 times; diagonals take 2.00 times as long as the best.";
        assert_eq!(found.says, says);
    }

    #[test]
    fn advice_uses_the_repeated_measurement() {
        let (first, mut afresh) = (measured(1.5e-3, 1e-3, false), measured(1.4e-3, 1e-3, false));
        assert_eq!(chosen(&first).unwrap(), [Order::Rows, Order::Groups(16), Order::Diagonals]);
        afresh.spec.case = AFRESH.to_owned();
        let found = findings(&DeviceInfo::default(), &[first, afresh]);
        assert!((found.last().unwrap().value - 1.4).abs() < 1e-6);
    }

    #[test]
    fn advice_skips_orders_without_gain_and_omits_missing_counts() {
        let found = advised(measured(1.001e-3, 1e-3, false));
        assert!(found.says.starts_with("Row by row will do") && !found.says.contains("memory reads"), "{}", found.says);
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
        let named = findings(&DeviceInfo::default(), &[measured(1e-3, 1e-3, true)]);
        assert_eq!(named[0].says, "memory read 10.00 times what it must at least");
    }
}
