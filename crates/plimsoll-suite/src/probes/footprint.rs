//! footprint: bandwidth against footprint, hot: every cache level, memory and translation in one curve, on private data
//! per core.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "footprint",
    group: "bandwidth",
    sentence: "Bandwidth of read, copy and triad from the smallest cache to memory, in one curve.",
    page: "footprint.md",
    seconds: [8.0, 40.0, 120.0],
    findings,
};

/// Bandwidth over the bytes that all arrays of all cores take together.
#[must_use]
pub fn curve() -> SeriesSpec {
    SeriesSpec::new(
        "curve",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("kernel", Unit::One), axis("footprint", Unit::Byte)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Lines {
            x: "footprint".into(),
            y: "bandwidth".into(),
            by: Some("kernel".into()),
            log_x: true,
            log_y: true,
        },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
