//! roofline: arithmetic rate over arithmetic intensity in one binary, from memory-bound to compute-bound (Williams,
//! Waterman and Patterson, 2009).

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "roofline",
    group: "arithmetic",
    sentence: "The rate of arithmetic from memory-bound to compute-bound, and where the two meet.",
    page: "roofline.md",
    seconds: [8.0, 45.0, 135.0],
    findings,
};

/// FLOP/s over FLOP per byte from memory, all cores.
#[must_use]
pub fn sweep() -> SeriesSpec {
    SeriesSpec::new(
        "sweep",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("type", Unit::One), axis("intensity", Unit::FlopPerByte)],
        vec![
            metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond),
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Lines { x: "intensity".into(), y: "rate".into(), by: Some("type".into()), log_x: true, log_y: true },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
