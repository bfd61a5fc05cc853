//! rtm: whether the order in which a wave equation walks through its grid matters, and whether compressible memory helps it
//! while the wave fills the grid.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "kernels")]
pub mod kernels;
#[cfg(feature = "cuda")]
mod model;
#[cfg(feature = "cuda")]
mod oracle;
#[cfg(feature = "cuda")]
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
    name: "rtm",
    group: "lab",
    sentence: "Whether locality and compressible memory help a wave equation, from the first time step to a full grid.",
    seconds: [4.0, 20.0, 60.0],
    findings,
};

/// What memory gives at the same reads and writes, in cells per second: three arrays read, one written.
pub const CEILING: &str = "stream 3:1";
/// The usual way: square blocks that walk through all planes.
pub const USUAL: &str = "32x32, full z";
/// Blocks and how they walk, the usual way first.
pub const WALKS: [&str; 4] = [USUAL, "32x32, slabs", "128x8, full z", "128x8, slabs"];
/// What a case on compressible memory has behind its walk.
const COMPRESSIBLE: &str = ", compressible";

/// The name of a walk on plain or compressible memory.
#[must_use]
pub fn case(walk: &str, compressible: bool) -> String {
    format!("{walk}{}", if compressible { COMPRESSIBLE } else { "" })
}

/// Cells per second by case and time step.
#[must_use]
pub fn speed() -> SeriesSpec {
    SeriesSpec::new(
        "speed",
        Figure::Throughput,
        CachePolicy::Stream,
        vec![axis("case", Unit::One), axis("step", Unit::One)],
        vec![
            metric("speed", Unit::ElementPerSecond, Quantity::OperationsPerSecond),
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
        ],
        Draw::Lines { x: "step".into(), y: "speed".into(), by: Some("case".into()), log_x: false, log_y: false },
    )
}

/// The field's name in the picture.
pub const PRESSURE: &str = "pressure";

/// The wavefield in the plane through the middle, a cell of the picture for some of the grid's. It is what was computed:
/// nothing is timed.
#[must_use]
pub fn wavefield() -> SeriesSpec {
    SeriesSpec::new(
        "wavefield",
        Figure::Throughput,
        CachePolicy::Hot,
        vec![axis("x", Unit::One), axis("z", Unit::One)],
        vec![metric(PRESSURE, Unit::One, Quantity::Extra)],
        Draw::Heat { x: "x".into(), y: "z".into(), value: PRESSURE.into() },
    )
}

/// A row of a case with its speed.
type Known<'s> = (&'s Row, Estimate);

/// The speeds of all cases at the first and at the last time step.
struct Speeds<'s> {
    series: &'s Series,
    steps: [f64; 2],
}

impl<'s> Speeds<'s> {
    fn of(series: &'s [Series]) -> Option<Self> {
        let series = series.iter().find(|series| series.spec.case == "speed")?;
        let steps = || series.rows.iter().filter_map(|row| series.number(row, "step"));
        let (first, last) = (steps().min_by(f64::total_cmp)?, steps().max_by(f64::total_cmp)?);
        Some(Self { series, steps: [first, last] })
    }

    fn at(&self, case: &str, step: f64) -> Option<Known<'s>> {
        let here =
            |row: &&Row| self.series.text(row, "case") == Some(case) && self.series.number(row, "step") == Some(step);
        let row = self.series.rows.iter().find(here)?;
        Some((row, self.series.estimate(row, "speed")?))
    }

    /// The fastest walk at a step.
    fn fastest(&self, compressible: bool, step: f64) -> Option<(&'static str, Known<'s>)> {
        let known = WALKS.into_iter().filter_map(|walk| Some((walk, self.at(&case(walk, compressible), step)?)));
        known.max_by(|a, b| a.1.1.value.total_cmp(&b.1.1.value))
    }
}

/// The speed of every case while the grid is empty and when it is full, its share of what memory streams, and the advice.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(speeds) = Speeds::of(series) else { return Vec::new() };
    let mut found = Vec::new();
    for (compressible, walk) in [false, true].into_iter().flat_map(|kind| WALKS.map(|walk| (kind, walk))) {
        let case = case(walk, compressible);
        for (step, grid) in speeds.steps.into_iter().zip(["empty", "full"]) {
            let Some((row, speed)) = speeds.at(&case, step) else { continue };
            let says = format!("At time step {step:.0}.");
            let plain = finding(format!("{case}, {grid} grid"), Unit::ElementPerSecond, row, speed);
            found.push(Finding { says, ..plain });
        }
        let full = speeds.at(&case, speeds.steps[1]).zip(speeds.at(CEILING, speeds.steps[1]));
        found.extend(full.filter(|_| !compressible).map(|((row, speed), (ceiling_row, ceiling))| {
            let share = advice::ratio(speed, ceiling);
            let flags = row.flags.union(ceiling_row.flags);
            let says = "Of what three arrays read and one written stream at 16 bytes per cell.".to_owned();
            let name = format!("{case}, share of memory");
            Finding { says, ..derived(name, Unit::One, share, flags) }
        }));
    }
    found.extend(advise(&speeds));
    found
}

/// What to do, decided by the fastest walk over the usual one on a full grid.
fn advise(speeds: &Speeds<'_>) -> Option<Finding> {
    let [first, last] = speeds.steps;
    let (usual_row, usual) = speeds.at(USUAL, last)?;
    let (walk, (row, best)) = speeds.fastest(false, last)?;
    let gain = advice::ratio(best, usual);
    let faster = ["faster", "as fast", "slower"];
    let words = advice::differs(gain, faster);
    let speed = Unit::ElementPerSecond.format(best.value);
    let of_memory = match speeds.at(CEILING, last) {
        Some((_, ceiling)) => format!("{speed}, {:.0} % of what memory streams", 100.0 * best.value / ceiling.value),
        None => speed,
    };
    let mut rows = vec![usual_row, row];
    let locality = if words == faster[1] {
        format!("The order of the walk hardly matters here: '{walk}' is as fast as '{USUAL}' ({of_memory})")
    } else {
        format!("Walk as '{walk}': {words} than '{USUAL}' ({of_memory})")
    };
    let mut compared = |step: f64| {
        let ((_, (plain_row, plain)), (_, (other_row, other))) =
            (speeds.fastest(false, step)?, speeds.fastest(true, step)?);
        rows.extend([plain_row, other_row]);
        Some(advice::differs(advice::ratio(other, plain), faster))
    };
    let compression = match (compared(first), compared(last)) {
        (Some(empty), Some(full)) => {
            format!("; compressible memory is {empty} at step {first:.0} and {full} at step {last:.0}.")
        }
        _ => "; compressible memory was not to be had.".to_owned(),
    };
    Some(advice::advice(format!("{locality}{compression}"), Unit::One, gain, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    /// A step of so many Gcells/s.
    fn point(case: &str, step: u64, speed: f64) -> Point {
        synthetic::point(
            vec![case.into(), step.into()],
            1e6 / (speed * 1e9),
            Work { operations: 1e6, ..Work::default() },
            &[],
        )
    }

    fn found(points: Vec<Point>) -> Vec<Finding> {
        findings(&DeviceInfo::default(), &[Series::new(speed(), points)])
    }

    fn curve(case: &str, first: f64, last: f64) -> Vec<Point> {
        vec![point(case, 0, first), point(case, 400, 0.5 * (first + last)), point(case, 900, last)]
    }

    #[test]
    fn gains_of_the_walk_and_of_compression_are_told_from_an_empty_to_a_full_grid() {
        let slabs = WALKS[3];
        let points = [
            curve(USUAL, 150.0, 150.0),
            curve(slabs, 180.0, 180.0),
            curve(&case(slabs, true), 270.0, 171.0),
            curve(CEILING, 240.0, 240.0),
        ];
        let found = found(points.concat());
        let value = |name: &str| found.iter().find(|finding| finding.name == name).map(|finding| finding.value);
        assert!((value("128x8, slabs, compressible, empty grid").unwrap() / 270e9 - 1.0).abs() < 1e-5);
        assert!((value("128x8, slabs, share of memory").unwrap() - 0.75).abs() < 1e-5);
        let told = found.iter().find(|finding| advice::is_advice(finding)).unwrap();
        assert!((told.value - 1.2).abs() < 1e-5);
        let expected = "Walk as '128x8, slabs': 20 % faster than '32x32, full z' (180 Gelement/s, 75 % of what memory \
                        streams); compressible memory is 50 % faster at step 0 and 5.0 % slower at step 900.";
        assert_eq!(told.says, expected);
    }

    #[test]
    fn what_makes_no_difference_and_what_was_not_measured_is_said_so() {
        let told = found([curve(USUAL, 150.0, 150.0), curve(WALKS[1], 150.5, 150.5)].concat());
        let told = told.iter().find(|finding| advice::is_advice(finding)).unwrap();
        assert!(told.says.starts_with("The order of the walk hardly matters here"), "{}", told.says);
        assert!(told.says.ends_with("compressible memory was not to be had."), "{}", told.says);
        assert!(found(vec![]).is_empty());
        assert!(!found(curve(WALKS[3], 1.0, 1.0)).iter().any(advice::is_advice));
    }
}
