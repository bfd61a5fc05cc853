//! incore: latency and throughput of single instructions, by the number of independent dependency chains (ILP) on one
//! core. At ILP 1 the cycles per operation are the latency; where more chains no longer help, the reciprocal throughput.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "incore",
    group: "arithmetic",
    sentence: "Latency and throughput of add, multiply, FMA, divide and square root, scalar and vector, in core cycles.",
    page: "incore.md",
    seconds: [8.0, 40.0, 120.0],
    findings,
};

/// Cycles per instruction over the number of independent chains.
#[must_use]
pub fn operations() -> SeriesSpec {
    SeriesSpec::new(
        "operations",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("instruction", Unit::One), axis("ilp", Unit::One)],
        vec![
            metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
            metric("rate", Unit::OpPerCycle, Quantity::OperationsPerCycle),
        ],
        Draw::Lines { x: "ilp".into(), y: "cycles".into(), by: Some("instruction".into()), log_x: false, log_y: true },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
