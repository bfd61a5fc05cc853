//! latency: pointer chase in one random cycle over cache lines, one thread. Page-random order pays for translation, page-local
//! order (all lines of a page before the next) hardly does, so the two separate memory from translation.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "latency",
    group: "latency",
    sentence: "How long one dependent load takes from each cache level and from memory, and where each level ends.",
    page: "latency.md",
    seconds: [9.0, 60.0, 180.0],
    findings,
};

/// One hop over the footprint, by page size and order.
#[must_use]
pub fn chase() -> SeriesSpec {
    SeriesSpec::new(
        "chase",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("pages", Unit::One), axis("order", Unit::One), axis("footprint", Unit::Byte)],
        vec![
            metric("latency", Unit::Second, Quantity::TimePerOperation),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
        ],
        Draw::Lines { x: "footprint".into(), y: "latency".into(), by: Some("pages".into()), log_x: true, log_y: true },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
