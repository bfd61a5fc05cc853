//! managed: the cost to a kernel of unified memory, whose pages migrate to whichever of host and device touches them.

probe! {
    /// The cost to a kernel of unified-memory pages that are elsewhere, and what prefetch and advice save.
    "managed" in "transfers", seconds: [4.0, 13.0, 45.0], files: cuda, takes bytes
}

use crate::prelude::meaning::*;

names! {
    /// Where the pages are, in display order.
    pub enum Placement {
        /// Ordinary device memory, for comparison.
        Ordinary = "device memory",
        /// Unified memory whose pages are on the device.
        Resident = "resident",
        /// Untouched pages.
        FirstTouch = "first touch",
        /// Pages that the host wrote last.
        FromHost = "from the host",
        /// The same with advice that they are mostly read: they are copied instead of moved.
        ReadMostly = "from the host, read mostly",
        /// Pages that stay in host memory, where the device reads and writes them.
        Staying = "staying with the host",
        /// Prefetching pages that the host wrote last.
        Prefetch = "prefetch to the device",
        /// Prefetching pages back to the host.
        PrefetchBack = "prefetch to the host",
    }
}

axes! {
    /// Arrays by where their pages are.
    pub struct ByPlacement {
        /// Where the pages are.
        placement: Placement,
    }
}

/// One triad over arrays with their pages in each placement, or one prefetch of all arrays.
#[must_use]
pub fn triad() -> TypedSeries<ByPlacement> {
    let metrics = vec![metrics::bandwidth(), metrics::time()];
    let draw = Draw::bars("placement", "bandwidth");
    TypedSeries::new("triad", Figure::Latency, CachePolicy::Hot, metrics, draw).with_precision(HOST_PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(triad) = series.iter().find(|series| series.spec.case == "triad") else { return Vec::new() };
    let to_finding = |(ByPlacement { placement }, row): (ByPlacement, &Row)| {
        let figure = triad.estimate(row, "bandwidth")?;
        let plain = finding(placement.name(), Unit::BytePerSecond, row, figure);
        Some(Finding { says: meaning(placement).to_owned(), ..plain })
    };
    known_rows(triad).filter_map(to_finding).collect()
}

fn meaning(placement: Placement) -> &'static str {
    match placement {
        Placement::Ordinary => "One triad over memory of the device.",
        Placement::Resident => "One triad over unified memory that is on the device.",
        Placement::FirstTouch => "One triad over untouched pages.",
        Placement::FromHost => "One triad over pages that the host wrote last: they move as they are touched.",
        Placement::ReadMostly => "One triad over inputs that are copied to the device as they are touched.",
        Placement::Staying => "One triad over pages that the device reaches through the link.",
        Placement::Prefetch | Placement::PrefetchBack => "One prefetch of all arrays, by the bytes that move.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Traffic;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    #[test]
    fn every_placement_has_a_bandwidth_and_an_explanation() {
        let point = |placement: Placement| {
            Point::new(
                ByPlacement { placement }.to_values(),
                Work { traffic: Traffic::new(2_000_000, 1_000_000), ..Work::default() },
                vec![1_000_000; 30],
            )
        };
        let found = findings(&DeviceInfo::default(), &[Series::new(triad(), Placement::ALL.map(point))]);
        assert_eq!(found.len(), Placement::ALL.len());
        assert!(found.iter().all(|finding| (finding.value - 3e9).abs() < 1.0 && !finding.says.is_empty()));
    }
}
