//! stream: the bandwidth of memory for each read:write mix, by the STREAM kernels and their kin (McCalpin, STREAM;
//! Treibig, Hager and Wellein for the Schönauer triad). Its best figures are the ceilings that everything else quotes.

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "stream",
    group: "bandwidth",
    sentence: "How fast memory moves for each mix of reads and writes, from arrays far larger than any cache.",
    page: "stream.md",
    seconds: [9.0, 60.0, 180.0],
    findings,
};

/// Every kernel with both kinds of store, cold, on all cores.
#[must_use]
pub fn kernels() -> SeriesSpec {
    SeriesSpec::new(
        "kernels",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("stores", Unit::One)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("bandwidth with write-allocate", Unit::BytePerSecond, Quantity::BandwidthWithAllocate),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Bars { x: "kernel".into(), y: "bandwidth".into(), by: Some("stores".into()) },
    )
}

/// Bandwidth against the number of cores that take part.
#[must_use]
pub fn threads() -> SeriesSpec {
    SeriesSpec::new(
        "threads",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("threads", Unit::Thread)],
        vec![metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth)],
        Draw::Lines {
            x: "threads".into(),
            y: "bandwidth".into(),
            by: Some("kernel".into()),
            log_x: false,
            log_y: false,
        },
    )
}

/// The best configuration of each kernel, measured afresh: the figures to quote.
#[must_use]
pub fn best() -> SeriesSpec {
    SeriesSpec::new(
        "best",
        Figure::Throughput,
        CachePolicy::ColdRotate,
        vec![axis("kernel", Unit::One), axis("stores", Unit::One), axis("threads", Unit::Thread)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("bandwidth with write-allocate", Unit::BytePerSecond, Quantity::BandwidthWithAllocate),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Table,
    )
}

fn findings(_: &DeviceInfo, _: &[Series]) -> Vec<Finding> {
    Vec::new()
}
