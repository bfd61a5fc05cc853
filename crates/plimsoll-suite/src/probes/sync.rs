//! sync: what it costs that threads wait for each other: barriers, wake-ups, a cache line sent from core to core.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "sync",
    group: "launch",
    sentence: "What barriers, wake-ups and hand-overs between threads cost.",
    page: "sync.md",
    seconds: [4.0, 25.0, 75.0],
    findings,
};

/// Time of one synchronisation.
#[must_use]
pub fn primitives() -> SeriesSpec {
    SeriesSpec::new(
        "primitives",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("primitive", Unit::One), axis("threads", Unit::Thread)],
        vec![
            metric("latency", Unit::Second, Quantity::TimePerOperation),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
        ],
        Draw::Bars { x: "primitive".into(), y: "latency".into(), by: Some("threads".into()) },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
