//! latency on a GPU: its series, and what they show. The kernel counts its cycles itself. All memory lies in large pages, so
//! what tells translation from memory is the order of the chain: all lines of a page before the next hardly need it, and
//! one line a page needs nothing else.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// All lines in one random order.
pub const RANDOM: &str = "page-random";
/// All lines of a page in random order before the next page.
pub const LOCAL: &str = "page-local";
/// One line in each page.
pub const SPARSE: &str = "line a page";
/// The orders.
pub const ORDERS: [&str; 3] = [RANDOM, LOCAL, SPARSE];
/// The metric that the kernel counts.
pub const CYCLES: &str = "cycles";

/// One hop over the footprint, by order.
#[must_use]
pub fn chase() -> SeriesSpec {
    spec("chase")
}

/// The same between the neighbours of each knee of `chase`: where capacities are found.
#[must_use]
pub fn knees() -> SeriesSpec {
    spec("knees")
}

fn spec(case: &str) -> SeriesSpec {
    SeriesSpec::new(
        case,
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("order", Unit::One), axis("footprint", Unit::Byte)],
        vec![metric("latency", Unit::Second, Quantity::TimePerOperation), metric(CYCLES, Unit::Cycle, Quantity::Extra)],
        Draw::Lines { x: "footprint".into(), y: CYCLES.into(), by: Some("order".into()), log_x: true, log_y: true },
    )
}

/// Cycles per hop over footprint in bytes, in one order, over all of `series` that have them.
#[must_use]
pub fn curve(series: &[Series], order: &str) -> Vec<(f64, f64)> {
    rows(series, order, CYCLES).map(|(footprint, _, cycles)| (footprint, cycles.value)).collect()
}

fn rows<'s>(series: &'s [Series], order: &'s str, metric: &'s str) -> impl Iterator<Item = (f64, &'s Row, Estimate)> {
    let of = move |series: &'s Series| {
        let figure = move |row| Some((series.number(row, "footprint")?, row, series.estimate(row, metric)?));
        series.rows.iter().filter(move |row| series.text(row, "order") == Some(order)).filter_map(figure)
    };
    series.iter().flat_map(of)
}

/// What the series of a GPU show.
pub(super) fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
