//! rtm: whether the order in which a wave equation traverses its grid matters, and whether compressible memory helps while the wave
//! fills the grid.

probe! {
    /// Whether locality and compressible memory help a wave equation, from the first time step to a full grid.
    "rtm" in "lab", seconds: [4.0, 20.0, 60.0], files: cuda kernels, takes bytes
}

#[cfg(feature = "cuda")]
mod model;
#[cfg(feature = "cuda")]
mod oracle;
#[cfg(feature = "cuda")]
mod verify;

use std::fmt;

use plimsoll_suite::findings::advice;

use crate::prelude::meaning::*;

names! {
    /// Block shapes and traversals of the grid, the usual one first.
    pub enum Order {
        /// Square blocks, each through all planes.
        Usual = "32x32, full z",
        /// The same through some planes each.
        SquareSlabs = "32x32, slabs",
        /// Wide blocks, each through all planes.
        Wide = "128x8, full z",
        /// The same through some planes each.
        WideSlabs = "128x8, slabs",
    }
}

/// A timed case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The memory limit in cells per second: a kernel with the same traffic, three arrays read and one written.
    Ceiling,
    /// A time step, in plain or in compressible memory.
    Step {
        /// Block shape and traversal.
        order: Order,
        /// Whether the memory is compressible.
        compressible: bool,
    },
}

impl What {
    /// The name of the memory limit.
    const CEILING: &'static str = "stream 3:1";
    /// Suffix of a step in compressible memory.
    const COMPRESSIBLE: &'static str = ", compressible";
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ceiling => f.write_str(Self::CEILING),
            Self::Step { order, compressible: false } => order.fmt(f),
            Self::Step { order, compressible: true } => write!(f, "{order}{}", Self::COMPRESSIBLE),
        }
    }
}

impl Label for What {
    fn from_label(label: &str) -> Option<Self> {
        if label == Self::CEILING {
            return Some(Self::Ceiling);
        }
        let order = label.strip_suffix(Self::COMPRESSIBLE);
        Some(Self::Step { order: Order::from_name(order.unwrap_or(label))?, compressible: order.is_some() })
    }
}

axes! {
    /// A case at a time step.
    pub struct AtStep {
        /// The case.
        what as "case": What,
        /// The time step.
        step: Count,
    }

    /// A cell of the picture.
    pub struct Cell {
        /// Its column.
        x: Count,
        /// Its row.
        z: Count,
    }
}

/// Cells per second by case and time step.
#[must_use]
pub fn speed() -> TypedSeries<AtStep> {
    let metrics = vec![metrics::speed(), metrics::bandwidth()];
    let draw = Draw::lines("step", "speed").grouped_by("case");
    TypedSeries::new("speed", Figure::Throughput, CachePolicy::Stream, metrics, draw)
}

/// The field's name in the picture.
pub const PRESSURE: &str = "pressure";

/// The wavefield in the middle plane, sampled from the grid for a picture. Nothing is timed.
#[must_use]
pub fn wavefield() -> TypedSeries<Cell> {
    TypedSeries::hot("wavefield", vec![metric(PRESSURE, Unit::One, Quantity::Extra)], Draw::heat("x", "z", PRESSURE))
}

/// A row of a case with its speed.
type Known<'s> = (&'s Row, Estimate);

/// The speeds of all cases at the first and at the last time step.
struct Speeds<'s> {
    series: &'s Series,
    steps: [Count; 2],
}

impl<'s> Speeds<'s> {
    fn from_series(series: &'s [Series]) -> Option<Self> {
        let series = series.iter().find(|series| series.spec.case == "speed")?;
        let steps = || known_rows(series).map(|(at, _): (AtStep, &Row)| at.step);
        let (first, last) = (steps().min()?, steps().max()?);
        Some(Self { series, steps: [first, last] })
    }

    fn speed_of(&self, what: What, step: Count) -> Option<Known<'s>> {
        let (_, row) = known_rows(self.series).find(|(at, _): &(AtStep, &Row)| *at == AtStep { what, step })?;
        Some((row, self.series.estimate(row, "speed")?))
    }

    /// The fastest order at a step.
    fn fastest(&self, compressible: bool, step: Count) -> Option<(Order, Known<'s>)> {
        let speed = |order| Some((order, self.speed_of(What::Step { order, compressible }, step)?));
        let known = Order::ALL.into_iter().filter_map(speed);
        known.max_by(|a, b| a.1.1.value.total_cmp(&b.1.1.value))
    }
}

/// The speed of every case on an empty and on a full grid, its share of the memory limit, and the advice.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(speeds) = Speeds::from_series(series) else { return Vec::new() };
    let mut found = Vec::new();
    for (compressible, order) in [false, true].into_iter().flat_map(|kind| Order::ALL.map(|order| (kind, order))) {
        let case = What::Step { order, compressible };
        for (step, grid) in speeds.steps.into_iter().zip(["empty", "full"]) {
            let Some((row, speed)) = speeds.speed_of(case, step) else { continue };
            let says = format!("At time step {}.", step.0);
            let plain = finding(format!("{case}, {grid} grid"), Unit::ElementPerSecond, row, speed);
            found.push(Finding { says, ..plain });
        }
        let full = speeds.speed_of(case, speeds.steps[1]).zip(speeds.speed_of(What::Ceiling, speeds.steps[1]));
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

/// The advice, decided by the fastest order over the usual one on a full grid.
fn advise(speeds: &Speeds<'_>) -> Option<Finding> {
    let [first, last] = speeds.steps;
    let (usual_row, usual) = speeds.speed_of(What::Step { order: Order::Usual, compressible: false }, last)?;
    let (order, (row, best)) = speeds.fastest(false, last)?;
    let gain = advice::ratio(best, usual);
    let faster = ["faster", "as fast", "slower"];
    let words = advice::describe_ratio(gain, faster);
    let speed = Unit::ElementPerSecond.format(best.value);
    let of_memory = match speeds.speed_of(What::Ceiling, last) {
        Some((_, ceiling)) => format!("{speed}, {:.0} % of what memory streams", 100.0 * best.value / ceiling.value),
        None => speed,
    };
    let mut rows = vec![usual_row, row];
    let locality = if words == faster[1] {
        format!("The order hardly matters here: '{order}' is as fast as '{}' ({of_memory})", Order::Usual)
    } else {
        format!("Use '{order}': {words} than '{}' ({of_memory})", Order::Usual)
    };
    let mut compared = |step: Count| {
        let ((_, (plain_row, plain)), (_, (other_row, other))) =
            (speeds.fastest(false, step)?, speeds.fastest(true, step)?);
        rows.extend([plain_row, other_row]);
        Some(advice::describe_ratio(advice::ratio(other, plain), faster))
    };
    let compression = match (compared(first), compared(last)) {
        (Some(empty), Some(full)) => {
            format!("; compressible memory is {empty} at step {} and {full} at step {}.", first.0, last.0)
        }
        _ => "; compressible memory was not available.".to_owned(),
    };
    Some(advice::advice(format!("{locality}{compression}"), Unit::One, gain, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    fn plain(order: Order) -> What {
        What::Step { order, compressible: false }
    }

    /// A step at `speed` Gcells/s.
    fn point(what: What, step: u64, speed: f64) -> Point {
        synthetic::point(
            AtStep { what, step: Count(step) }.to_values(),
            1e6 / (speed * 1e9),
            Work { operations: 1e6, ..Work::default() },
            &[],
        )
    }

    fn find_all(points: Vec<Point>) -> Vec<Finding> {
        findings(&DeviceInfo::default(), &[Series::new(speed(), points)])
    }

    fn curve(what: What, first: f64, last: f64) -> Vec<Point> {
        vec![point(what, 0, first), point(what, 400, 0.5 * (first + last)), point(what, 900, last)]
    }

    #[test]
    fn advice_has_gains_of_order_and_compression_on_empty_and_full_grids() {
        let order = Order::WideSlabs;
        let points = [
            curve(plain(Order::Usual), 150.0, 150.0),
            curve(plain(order), 180.0, 180.0),
            curve(What::Step { order, compressible: true }, 270.0, 171.0),
            curve(What::Ceiling, 240.0, 240.0),
        ];
        let found = find_all(points.concat());
        let value = |name: &str| found.iter().find(|finding| finding.name == name).map(|finding| finding.value);
        assert!((value("128x8, slabs, compressible, empty grid").unwrap() / 270e9 - 1.0).abs() < 1e-5);
        assert!((value("128x8, slabs, share of memory").unwrap() - 0.75).abs() < 1e-5);
        let advised = found.iter().find(|finding| advice::is_advice(finding)).unwrap();
        assert!((advised.value - 1.2).abs() < 1e-5);
        let expected = "Use '128x8, slabs': 20 % faster than '32x32, full z' (180 Gelement/s, 75 % of what memory \
                        streams); compressible memory is 50 % faster at step 0 and 5.0 % slower at step 900.";
        assert_eq!(advised.says, expected);
    }

    #[test]
    fn advice_says_what_makes_no_difference_or_was_not_measured() {
        let all = find_all(
            [curve(plain(Order::Usual), 150.0, 150.0), curve(plain(Order::SquareSlabs), 150.5, 150.5)].concat(),
        );
        let advised = all.iter().find(|finding| advice::is_advice(finding)).unwrap();
        assert!(advised.says.starts_with("The order hardly matters here"), "{}", advised.says);
        assert!(advised.says.ends_with("compressible memory was not available."), "{}", advised.says);
        assert!(find_all(vec![]).is_empty());
        assert!(!find_all(curve(plain(Order::WideSlabs), 1.0, 1.0)).iter().any(advice::is_advice));
    }
}
