//! loaded-latency: a pointer chase beside cores that load the memory system ever harder: the latency that a full memory
//! system really has.

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::finding;

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "loaded-latency",
    group: "latency",
    sentence: "How the latency of memory rises with the bandwidth that other cores draw.",
    seconds: [4.0, 18.0, 54.0],
    findings,
};

/// What the other cores do: only read, copy (one read a write), or write past the caches.
pub const BACKGROUNDS: [&str; 3] = ["read", "copy", "non-temporal write"];
/// The metric that the workload measures beside the latency: reads + writes of the other cores together.
pub const BACKGROUND_BANDWIDTH: &str = "background bandwidth";

/// Half-width that is asked for: what queues before a lone load differs from launch to launch.
const PRECISION: f64 = 0.005;

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
            metric(BACKGROUND_BANDWIDTH, Unit::BytePerSecond, Quantity::Extra),
        ],
        Draw::Lines {
            x: BACKGROUND_BANDWIDTH.into(),
            y: "latency".into(),
            by: Some("background".into()),
            log_x: false,
            log_y: false,
        },
    )
    .within(PRECISION)
}

fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(load) = series.iter().find(|series| series.spec.case == "load") else { return Vec::new() };
    // Every background has a point with nobody at work: they are all the same, and the first will do.
    let idle = load.rows.iter().find(|row| load.number(row, "threads") == Some(0.0));
    let idle = idle.and_then(|row| Some(finding("latency idle", Unit::Second, row, load.estimate(row, "latency")?)));
    idle.into_iter().chain(BACKGROUNDS.iter().flat_map(|background| under(load, background))).collect()
}

/// A row as a place on the curve: background bandwidth in B/s, and latency.
#[derive(Clone, Copy)]
struct Place<'r> {
    row: &'r Row,
    bandwidth: f64,
    latency: Estimate,
}

/// A background that draws so much of the most draws all: beyond that more of it only waits longer, and which of two such rows has a
/// thousandth more is chance.
const ALL_BUT: f64 = 0.99;

/// The latency where a background first draws all the bandwidth that it can, and at half of that.
fn under(load: &Series, background: &str) -> Vec<Finding> {
    let place = |row| {
        let (bandwidth, latency) = (load.estimate(row, BACKGROUND_BANDWIDTH)?, load.estimate(row, "latency")?);
        Some(Place { row, bandwidth: bandwidth.value, latency })
    };
    let rows = load.rows.iter().filter(|row| load.text(row, "background") == Some(background));
    let mut places: Vec<Place<'_>> = rows.filter_map(place).collect();
    places.sort_by(|one, other| one.bandwidth.total_cmp(&other.bandwidth));
    let most = places.last().map_or(0.0, |place| place.bandwidth);
    let full = places.iter().filter(|place| place.bandwidth > 0.0 && place.bandwidth >= ALL_BUT * most);
    let Some(full) = full.min_by(|a, b| a.latency.value.total_cmp(&b.latency.value)).copied() else {
        return Vec::new();
    };
    let finding = |name: &str, bandwidth: f64, place: Place<'_>, latency: Estimate| Finding {
        says: format!("beside {} of {background}", Unit::BytePerSecond.format(bandwidth)),
        ..finding(format!("latency {name} {background}"), Unit::Second, place.row, latency)
    };
    let mut found = Vec::new();
    if let Some((place, latency)) = at(&places, full.bandwidth / 2.0) {
        found.push(finding("half", full.bandwidth / 2.0, place, latency));
    }
    found.push(finding("full", full.bandwidth, full, full.latency));
    found
}

/// The latency at a bandwidth, on the straight line between the places on either side; the nearer one comes with it.
fn at<'r>(places: &[Place<'r>], bandwidth: f64) -> Option<(Place<'r>, Estimate)> {
    let after = places.iter().position(|place| place.bandwidth >= bandwidth)?;
    let (low, high) = (places[after.checked_sub(1)?], places[after]);
    let share = (bandwidth - low.bandwidth) / (high.bandwidth - low.bandwidth);
    let between = |of: fn(&Estimate) -> f64| of(&low.latency) * (1.0 - share) + of(&high.latency) * share;
    let interval = Interval { lo: between(|e| e.interval.lo), hi: between(|e| e.interval.hi) };
    Some((if share < 0.5 { low } else { high }, Estimate { value: between(|e| e.value), interval }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;

    fn point(background: &str, threads: u64, bandwidth: f64, nanoseconds: u64) -> Point {
        Point {
            series: 0,
            round: 0,
            at: vec![background.into(), bandwidth.into(), threads.into()],
            k: 1,
            tick: 1e-9,
            work: Work { operations: 1000.0, in_kernel: true, ..Work::default() },
            samples: vec![nanoseconds * 1000; 30],
            evidence: Default::default(),
            flags: Default::default(),
            extra: [(BACKGROUND_BANDWIDTH.to_owned(), bandwidth)].into(),
        }
    }

    fn figures(points: Vec<Point>) -> Vec<(String, f64)> {
        let found = findings(&DeviceInfo::default(), &[Series::new(load(), points)]);
        found.into_iter().map(|f| (f.name, (f.value * 1e9).round())).collect()
    }

    #[test]
    fn latency_is_told_idle_at_half_and_at_full_bandwidth() {
        let points = vec![
            point("read", 0, 0.0, 100),
            point("read", 3, 40e9, 300),
            point("read", 3, 30e9, 200),
            point("read", 3, 10e9, 120),
            point("copy", 0, 0.0, 100),
            point("copy", 3, 20e9, 180),
        ];
        let expected = [
            ("latency idle", 100.0),
            ("latency half read", 160.0),
            ("latency full read", 300.0),
            ("latency half copy", 140.0),
            ("latency full copy", 180.0),
        ];
        // More that draws next to no more is not full load but a longer queue.
        assert_eq!(figures([points.clone(), vec![point("read", 3, 40.2e9, 500)]].concat()), figures(points.clone()));
        assert_eq!(figures(points), expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn without_an_idle_figure_the_rest_is_still_told() {
        let one = vec![point("read", 3, 40e9, 300)];
        assert_eq!(figures(one), [("latency full read".to_owned(), 300.0)]);
        assert!(figures(vec![point("read", 3, 0.0, 300)]).is_empty());
    }
}
