//! strides: what a strided access pattern costs on data that fit in the first cache, and in memory: cycles per access and
//! useful bytes per cycle for strides 1 to 128 and elements of 4, 8 and 16 bytes.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "strides",
    group: "caches",
    sentence: "What strides of 1 to 128 elements cost on the first cache, for elements of 4, 8 and 16 bytes.",
    page: "strides.md",
    seconds: [6.0, 40.0, 120.0],
    findings,
};

/// Loads at each stride on an L1-resident buffer.
#[must_use]
pub fn tableau() -> SeriesSpec {
    SeriesSpec::new(
        "tableau",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("element", Unit::Byte), axis("stride", Unit::Element)],
        vec![
            metric("cycles", Unit::CyclePerOp, Quantity::CyclesPerOperation),
            metric("bytes per cycle", Unit::BytePerCycle, Quantity::BytesPerCycle),
        ],
        Draw::Heat { x: "stride".into(), y: "element".into(), value: "bytes per cycle".into() },
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
