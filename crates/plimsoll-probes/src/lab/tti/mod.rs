//! tti: how much of the copies into shared memory a kernel can hide that has its multiprocessor to itself: loads through
//! registers, asynchronous copies and bulk copies of the next plane of a wave in a tilted medium.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;
#[cfg(feature = "gpu")]
mod model;
#[cfg(feature = "gpu")]
mod oracle;
#[cfg(feature = "gpu")]
mod verify;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::Finding;
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, axis, metric};
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::advice;
use plimsoll_suite::findings::{derived, finding};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "tti",
    group: "lab",
    sentence: "How well copies into shared memory are hidden at one block per multiprocessor.",
    seconds: [3.0, 12.0, 40.0],
    findings,
};

/// Loads and stores of the threads, when a plane is needed: the control.
pub const DIRECT: &str = "direct loads";
/// `cp.async` of the next plane.
pub const ASYNC: &str = "cp.async";
/// `cp.async.bulk` of the next plane.
pub const BULK: &str = "bulk copies";
/// The same work on planes of zeros that nobody brought.
pub const NONE: &str = "no copies";
/// Every way, in the order in which they are shown.
pub const WAYS: [&str; 4] = [DIRECT, ASYNC, BULK, NONE];

/// Cells per second by the way in which planes come.
#[must_use]
pub fn speed() -> SeriesSpec {
    SeriesSpec::new(
        "speed",
        Figure::Throughput,
        CachePolicy::Stream,
        vec![axis("copies", Unit::One)],
        vec![
            metric("speed", Unit::ElementPerSecond, Quantity::OperationsPerSecond),
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        ],
        Draw::Bars { x: "copies".into(), y: "speed".into(), by: None },
    )
}

/// A row of a way with its speed.
fn known<'s>(series: &'s Series, way: &str) -> Option<(&'s Row, Estimate)> {
    let row = series.rows.iter().find(|row| series.text(row, "copies") == Some(way))?;
    Some((row, series.estimate(row, "speed")?))
}

/// The speed of every way, its share of what the rest alone would take, and the advice.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "speed") else { return Vec::new() };
    let mut found = Vec::new();
    for (way, (row, speed)) in WAYS.into_iter().filter_map(|way| Some((way, known(series, way)?))) {
        found.push(finding(way, Unit::ElementPerSecond, row, speed));
        if let Some((other, without)) = known(series, NONE).filter(|_| way != NONE) {
            let share = advice::ratio(speed, without);
            let flags = row.flags.union(other.flags);
            let says = "Of the speed without any copies: what is missing to 1 isn't hidden.".to_owned();
            let name = format!("{way}, share hidden");
            found.push(Finding { says, ..derived(name, Unit::One, share, flags) });
        }
    }
    found.extend(advise(series));
    found
}

/// Which way to take, decided by the fastest over direct loads.
fn advise(series: &Series) -> Option<Finding> {
    let (control_row, control) = known(series, DIRECT)?;
    let ahead = [ASYNC, BULK].into_iter().filter_map(|way| Some((way, known(series, way)?)));
    let (way, (row, best)) = ahead.max_by(|a, b| a.1.1.value.total_cmp(&b.1.1.value))?;
    let gain = advice::ratio(best, control);
    let words = advice::differs(gain, ["faster", "as fast", "slower"]);
    let speed = Unit::ElementPerSecond.format(best.value);
    let advice = match words.as_str() {
        "as fast" => format!("Copies a plane ahead gain nothing here: {way} are as fast as {DIRECT} ({speed})"),
        _ if gain.value < 1.0 => {
            format!("Load planes directly: {way}, the better of the copies ahead, is {words} ({speed})")
        }
        _ => format!("Bring the next plane by {way}: {words} than {DIRECT} ({speed})"),
    };
    let left = known(series, NONE).map(|(_, without)| {
        let percent = |estimate: Estimate| 100.0 * (1.0 - estimate.value / without.value).max(0.0);
        format!(
            "; {:.0} % of the time goes on copies with it and {:.0} % with {DIRECT}",
            percent(best),
            percent(control)
        )
    });
    let says = format!("{advice}{}.", left.unwrap_or_default());
    Some(advice::advice(says, Unit::One, gain, [control_row, row]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    /// A step of so many Gcells/s.
    fn point(way: &str, speed: f64) -> Point {
        synthetic::point(vec![way.into()], 1e6 / (speed * 1e9), Work { operations: 1e6, ..Work::default() }, &[])
    }

    fn found(speeds: &[(&str, f64)]) -> Vec<Finding> {
        let points = speeds.iter().map(|(way, speed)| point(way, *speed));
        findings(&DeviceInfo::default(), &[Series::new(speed(), points)])
    }

    fn told(speeds: &[(&str, f64)]) -> Finding {
        found(speeds).into_iter().find(advice::is_advice).unwrap()
    }

    #[test]
    fn the_better_way_is_named_with_what_is_left_of_the_copies() {
        let told = told(&[(DIRECT, 15.0), (ASYNC, 18.0), (BULK, 17.0), (NONE, 20.0)]);
        assert!((told.value - 1.2).abs() < 1e-5);
        let expected = "Bring the next plane by cp.async: 20 % faster than direct loads (18.0 Gelement/s); 10 % of the \
                        time goes on copies with it and 25 % with direct loads.";
        assert_eq!(told.says, expected);
        let all = found(&[(DIRECT, 15.0), (NONE, 20.0)]);
        assert_eq!(all.len(), 3);
        assert!((all[1].value - 0.75).abs() < 1e-5 && all[1].name == "direct loads, share hidden");
    }

    #[test]
    fn copies_that_gain_nothing_or_lose_are_not_advised() {
        assert!(told(&[(DIRECT, 15.0), (ASYNC, 15.0)]).says.starts_with("Copies a plane ahead gain nothing here"));
        assert!(told(&[(DIRECT, 15.0), (ASYNC, 12.0)]).says.starts_with("Load planes directly"));
        assert!(found(&[]).is_empty() && found(&[(DIRECT, 15.0)]).len() == 1);
    }
}
