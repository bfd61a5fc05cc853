//! loaded-latency: a pointer chase while other cores put a growing load on memory: the latency of a busy memory system.

probe! {
    /// How the latency of memory rises with the bandwidth that other cores draw.
    "loaded-latency" in "latency", seconds: [4.0, 18.0, 54.0], files: cpu gpu kernels, takes bytes, headlines: [
        Headline::gate("latency-full-read", "latency under full read", Less, &["latency full read"], 0.02).shown_only(),
    ]
}

use plimsoll_core::series::Cycles;

use crate::prelude::meaning::*;

plimsoll_core::names! {
    /// The load of the other cores, in display order.
    pub enum Background {
        /// They only read.
        Read = "read",
        /// One write per read.
        Copy = "copy",
        /// They write past the caches.
        NonTemporalWrite = "non-temporal write",
    }
}

plimsoll_core::axes! {
    /// A chase with a background load.
    pub struct Load {
        /// The load of the other cores.
        background: Background,
        /// Their pause after each block.
        delay: Cycles,
        /// Number of background threads; 0 for a chase alone.
        threads: Threads,
    }
}

/// The metric that the workload measures in addition to latency: reads + writes of the other cores together.
pub const BACKGROUND_BANDWIDTH: &str = "background bandwidth";

/// Requested relative half-width of the interval: queueing ahead of a single load varies from launch to launch.
const PRECISION: f64 = 0.005;

/// Chase latency against background bandwidth, by kind of background.
#[must_use]
pub fn load() -> TypedSeries<Load> {
    TypedSeries::hot(
        "load",
        vec![metrics::latency(), metrics::cycles(), metric(BACKGROUND_BANDWIDTH, Unit::BytePerSecond, Quantity::Extra)],
        Draw::lines(BACKGROUND_BANDWIDTH, "latency").grouped_by("background"),
    )
    .with_precision(PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(load) = series.iter().find(|series| series.spec.case == "load") else { return Vec::new() };
    // Every background has an idle point; they are all alike, so the first one is used.
    let idle = known_rows(load).find(|(at, _): &(Load, &Row)| at.threads == Threads(0));
    let idle =
        idle.and_then(|(_, row)| Some(finding("latency idle", Unit::Second, row, load.estimate(row, "latency")?)));
    idle.into_iter()
        .chain(Background::ALL.into_iter().flat_map(|background| loaded_findings(load, background)))
        .collect()
}

/// A row as a place on the curve: background bandwidth in B/s, and latency.
#[derive(Clone, Copy)]
struct Place<'r> {
    row: &'r Row,
    bandwidth: f64,
    latency: Estimate,
}

/// A background with this share of the highest bandwidth counts as full. Beyond that, more load only waits longer, and
/// differences of a thousandth are noise.
const FULL_SHARE: f64 = 0.99;

/// The lowest latency at which a background reaches its full bandwidth, and the latency at half of that.
fn loaded_findings(load: &Series, background: Background) -> Vec<Finding> {
    let place = |(_, row)| {
        let (bandwidth, latency) = (load.estimate(row, BACKGROUND_BANDWIDTH)?, load.estimate(row, "latency")?);
        Some(Place { row, bandwidth: bandwidth.value, latency })
    };
    let rows = known_rows(load).filter(|(at, _): &(Load, &Row)| at.background == background);
    let mut places: Vec<Place<'_>> = rows.filter_map(place).collect();
    places.sort_by(|one, other| one.bandwidth.total_cmp(&other.bandwidth));
    let most = places.last().map_or(0.0, |place| place.bandwidth);
    let full = places.iter().filter(|place| place.bandwidth > 0.0 && place.bandwidth >= FULL_SHARE * most);
    let Some(full) = full.min_by(|a, b| a.latency.value.total_cmp(&b.latency.value)).copied() else {
        return Vec::new();
    };
    let finding = |name: &str, bandwidth: f64, place: Place<'_>, latency: Estimate| Finding {
        says: format!("with {} of {background}", Unit::BytePerSecond.format(bandwidth)),
        ..finding(format!("latency {name} {background}"), Unit::Second, place.row, latency)
    };
    let mut found = Vec::new();
    if let Some((place, latency)) = interpolate(&places, full.bandwidth / 2.0) {
        found.push(finding("half", full.bandwidth / 2.0, place, latency));
    }
    found.push(finding("full", full.bandwidth, full, full.latency));
    found
}

/// The latency at a bandwidth, interpolated linearly between the places on either side, and the nearer of the two.
fn interpolate<'r>(places: &[Place<'r>], bandwidth: f64) -> Option<(Place<'r>, Estimate)> {
    let after = places.iter().position(|place| place.bandwidth >= bandwidth)?;
    let (low, high) = (places[after.checked_sub(1)?], places[after]);
    let share = (bandwidth - low.bandwidth) / (high.bandwidth - low.bandwidth);
    let between = |part: fn(&Estimate) -> f64| part(&low.latency) * (1.0 - share) + part(&high.latency) * share;
    let interval = Interval { lo: between(|e| e.interval.lo), hi: between(|e| e.interval.hi) };
    Some((if share < 0.5 { low } else { high }, Estimate { value: between(|e| e.value), interval }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(background: Background, threads: u64, bandwidth: f64, nanoseconds: u64) -> Point {
        let at = Load { background, delay: Cycles(bandwidth as u64), threads: Threads(threads) };
        Point {
            extra: [(BACKGROUND_BANDWIDTH.to_owned(), bandwidth)].into(),
            ..Point::new(
                at.to_values(),
                Work { operations: 1000.0, in_kernel: true, ..Work::default() },
                vec![nanoseconds * 1000; 30],
            )
        }
    }

    fn figures(points: Vec<Point>) -> Vec<(String, f64)> {
        let found = findings(&DeviceInfo::default(), &[Series::new(load(), points)]);
        found.into_iter().map(|f| (f.name, (f.value * 1e9).round())).collect()
    }

    #[test]
    fn findings_give_latency_when_idle_and_at_half_and_full_bandwidth() {
        let points = vec![
            point(Background::Read, 0, 0.0, 100),
            point(Background::Read, 3, 40e9, 300),
            point(Background::Read, 3, 30e9, 200),
            point(Background::Read, 3, 10e9, 120),
            point(Background::Copy, 0, 0.0, 100),
            point(Background::Copy, 3, 20e9, 180),
        ];
        let expected = [
            ("latency idle", 100.0),
            ("latency half read", 160.0),
            ("latency full read", 300.0),
            ("latency half copy", 140.0),
            ("latency full copy", 180.0),
        ];
        // A row with hardly more bandwidth but longer latency is not taken as full load.
        assert_eq!(
            figures([points.clone(), vec![point(Background::Read, 3, 40.2e9, 500)]].concat()),
            figures(points.clone())
        );
        assert_eq!(figures(points), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn loaded_findings_need_no_idle_row() {
        let one = vec![point(Background::Read, 3, 40e9, 300)];
        assert_eq!(figures(one), [("latency full read".to_owned(), 300.0)]);
        assert!(figures(vec![point(Background::Read, 3, 0.0, 300)]).is_empty());
    }
}
