//! loaded-latency: a pointer chase beside cores that load the memory system ever harder: the latency that a full memory
//! system really has.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "loaded-latency",
    group: "latency",
    sentence: "How the latency of memory rises with the bandwidth that other cores draw.",
    page: "loaded-latency.md",
    seconds: [5.0, 30.0, 90.0],
    findings,
};

/// Chase latency against background bandwidth, by what the background does.
#[must_use]
pub fn load() -> SeriesSpec {
    SeriesSpec::new(
        "load",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("background", Unit::One), axis("delay", Unit::Cycle), axis("threads", Unit::Thread)],
        vec![
            metric("latency", Unit::Second, Quantity::TimePerOperation),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
            metric("background bandwidth", Unit::BytePerSecond, Quantity::Extra),
        ],
        Draw::Lines {
            x: "background bandwidth".into(),
            y: "latency".into(),
            by: Some("background".into()),
            log_x: false,
            log_y: false,
        },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
