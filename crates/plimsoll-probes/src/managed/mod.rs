//! managed: memory that host and device share and whose pages move to who touches them: what a kernel pays for that.

#[cfg(feature = "cuda")]
pub mod cuda;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::{HOST_PRECISION, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "managed",
    group: "transfers",
    sentence: "What a kernel on unified memory pays for pages that are elsewhere, and what prefetch and advice save.",
    seconds: [4.0, 13.0, 45.0],
    findings,
};

/// Memory of the device, to compare with.
pub const ORDINARY: &str = "device memory";
/// Unified memory whose pages are on the device.
pub const RESIDENT: &str = "resident";
/// Pages that nobody has touched.
pub const FIRST_TOUCH: &str = "first touch";
/// Pages that the host wrote last.
pub const FROM_HOST: &str = "from the host";
/// The same where all were advised to be read mostly: they are copied and not moved.
pub const READ_MOSTLY: &str = "from the host, read mostly";
/// Pages that stay with the host, where the device reads and writes them.
pub const STAYING: &str = "staying with the host";
/// Prefetching pages that the host wrote last.
pub const PREFETCH: &str = "prefetch to the device";
/// Prefetching them back.
pub const PREFETCH_BACK: &str = "prefetch to the host";
/// Every placement, in the order in which they are shown.
pub const PLACEMENTS: [&str; 8] =
    [ORDINARY, RESIDENT, FIRST_TOUCH, FROM_HOST, READ_MOSTLY, STAYING, PREFETCH, PREFETCH_BACK];

/// One triad over arrays whose pages are as named, or one prefetch of all of them.
#[must_use]
pub fn triad() -> SeriesSpec {
    SeriesSpec::new(
        "triad",
        Figure::Latency,
        CachePolicy::Hot,
        vec![axis("placement", Unit::One)],
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("time", Unit::Second, Quantity::Time),
        ],
        Draw::Bars { x: "placement".into(), y: "bandwidth".into(), by: None },
    )
    .within(HOST_PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(triad) = series.iter().find(|series| series.spec.case == "triad") else { return Vec::new() };
    let one = |row: &Row| {
        let placement = triad.text(row, "placement")?;
        let figure = triad.estimate(row, "bandwidth")?;
        Some(Finding { says: meaning(placement).to_owned(), ..finding(placement, Unit::BytePerSecond, row, figure) })
    };
    triad.rows.iter().filter_map(one).collect()
}

fn meaning(placement: &str) -> &'static str {
    match placement {
        ORDINARY => "One triad over memory of the device.",
        RESIDENT => "One triad over unified memory that is on the device.",
        FIRST_TOUCH => "One triad over pages that nobody has touched.",
        FROM_HOST => "One triad over pages that the host wrote last: they move as they are touched.",
        READ_MOSTLY => "One triad over inputs that are copied to the device as they are touched.",
        STAYING => "One triad over pages that the device reaches through the link.",
        PREFETCH | PREFETCH_BACK => "Bytes that move, once.",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    #[test]
    fn every_placement_has_its_bandwidth_and_says_what_it_is() {
        let point = |placement: &str| Point {
            series: 0,
            round: 0,
            at: vec![placement.into()],
            k: 1,
            tick: 1e-9,
            work: Work { traffic: Traffic::new(2_000_000, 1_000_000), ..Work::default() },
            samples: vec![1_000_000; 30],
            evidence: Default::default(),
            flags: Default::default(),
            extra: Default::default(),
        };
        let found = findings(&DeviceInfo::default(), &[Series::new(triad(), PLACEMENTS.map(point))]);
        assert_eq!(found.len(), PLACEMENTS.len());
        assert!(found.iter().all(|finding| (finding.value - 3e9).abs() < 1.0 && !finding.says.is_empty()));
    }
}
