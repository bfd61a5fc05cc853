//! pic: whether small matrix products rotate the velocities of particles faster than fused multiply-adds do, and the error of half
//! precision.

probe! {
    /// Whether matrix units rotate velocities in a magnetic field faster than fused multiply-adds, and how exactly.
    "pic" in "lab", seconds: [3.0, 12.0, 40.0], files: gpu kernels, takes bytes
}

#[cfg(feature = "gpu")]
mod oracle;

use plimsoll_suite::findings::advice;

use crate::prelude::meaning::*;

names! {
    /// How particles are pushed, the control first.
    pub enum Way {
        /// One thread per particle, in single precision: the control.
        Fused = "fused multiply-add",
        /// One warp per sixteen particles, directions in half precision.
        Matrix = "matrix units",
    }
}

axes! {
    /// Some pushes in one way.
    pub struct Push {
        /// The way.
        way: Way,
        /// Pushes per read and write of a particle.
        pushes: Count,
    }
}

/// How far |v| is off after the pushes of a launch, as a share of it: the mean of squares over particles, rooted.
pub const SPEED: &str = "speed drift";
/// The angle between a velocity and the exact one after the pushes of a launch, radians: root mean square over particles.
pub const ANGLE: &str = "angle error";
/// Operations of the scalar units per push.
pub const SCALAR_OPERATIONS: &str = "scalar operations";
/// Operations of the matrix units per push.
pub const MATRIX_OPERATIONS: &str = "matrix operations";

/// Pushes per second by way and by pushes per read and write of a particle.
#[must_use]
pub fn rate() -> TypedSeries<Push> {
    let metrics = vec![
        metric("rate", Unit::OpPerSecond, Quantity::OperationsPerSecond),
        metrics::bandwidth(),
        metric(SPEED, Unit::One, Quantity::Extra),
        metric(ANGLE, Unit::One, Quantity::Extra),
        metric(SCALAR_OPERATIONS, Unit::One, Quantity::Extra),
        metric(MATRIX_OPERATIONS, Unit::One, Quantity::Extra),
    ];
    let draw = Draw::bars("pushes", "rate").grouped_by("way");
    TypedSeries::new("pushes", Figure::Throughput, CachePolicy::Stream, metrics, draw)
}

/// The row of a way and number of pushes.
fn row(series: &Series, way: Way, pushes: Count) -> Option<&Row> {
    let here = |(at, _): &(Push, &Row)| *at == Push { way, pushes };
    known_rows(series).find(here).map(|(_, row)| row)
}

/// The rate, the errors and the arithmetic of each way, and the advice.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let Some(series) = series.iter().find(|series| series.spec.case == "pushes") else { return Vec::new() };
    let mut found = Vec::new();
    for (Push { way, pushes: Count(pushes) }, row) in known_rows(series) {
        let spent =
            [SCALAR_OPERATIONS, MATRIX_OPERATIONS].map(|metric| series.estimate(row, metric).map_or(0.0, |e| e.value));
        let metrics =
            [("rate", Unit::OpPerSecond, ""), (SPEED, Unit::One, ", speed drift"), (ANGLE, Unit::One, ", angle error")];
        found.extend(metrics.into_iter().filter_map(|(metric, unit, suffix)| {
            let figure = series.estimate(row, metric)?;
            let says = match metric {
                "rate" => format!("Each push spends {:.0} scalar and {:.0} matrix operations.", spent[0], spent[1]),
                _ => format!("Root of the mean square after {pushes} pushes."),
            };
            let name = format!("{way}, {pushes} pushes{suffix}");
            Some(Finding { says, ..finding(name, unit, row, figure) })
        }));
    }
    found.extend(advise(series));
    found
}

/// The advice: matrix units over fused multiply-adds, at the most pushes per read.
fn advise(series: &Series) -> Option<Finding> {
    let most = known_rows(series).map(|(at, _): (Push, &Row)| at.pushes).max()?;
    let rows = [row(series, Way::Fused, most)?, row(series, Way::Matrix, most)?];
    let estimates = |metric: &str| -> Option<[Estimate; 2]> {
        Some([series.estimate(rows[0], metric)?, series.estimate(rows[1], metric)?])
    };
    let [control, case] = estimates("rate")?;
    let gain = advice::ratio(case, control);
    let words = advice::describe_ratio(gain, ["faster", "as fast", "slower"]);
    let which = if gain.value > 1.0 && words != "as fast" {
        "Matrix units pay if half precision will do"
    } else {
        "Turn particles by fused multiply-adds"
    };
    let rates = [control, case].map(|rate| Unit::OpPerSecond.format(rate.value));
    let compared = if words == "as fast" { words } else { format!("{words} than fused multiply-adds") };
    let errors = estimates(ANGLE).map_or(String::new(), |[single, half]| {
        format!(", and off by {:.1e} rad after {} pushes, not {:.1e}", half.value, most.0, single.value)
    });
    let says =
        format!("{which}: products of 16 particles are {compared} ({} against {} pushes){errors}.", rates[1], rates[0]);
    Some(advice::advice(says, Unit::One, gain, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic;

    /// A point of `rate` Gpushes/s with an angle error.
    fn point(way: Way, pushes: u64, rate: f64, angle: f64) -> Point {
        let extra = [(SPEED, 1e-7), (ANGLE, angle), (SCALAR_OPERATIONS, 108.0), (MATRIX_OPERATIONS, 0.0)];
        synthetic::point(
            Push { way, pushes: Count(pushes) }.to_values(),
            1e6 / (rate * 1e9),
            Work { operations: 1e6, ..Work::default() },
            &extra,
        )
    }

    fn find_all(points: Vec<Point>) -> Vec<Finding> {
        findings(&DeviceInfo::default(), &[Series::new(rate(), points)])
    }

    #[test]
    fn findings_have_rates_errors_and_arithmetic_and_advise_the_faster_way() {
        let points = vec![
            point(Way::Fused, 1, 80.0, 1e-7),
            point(Way::Matrix, 1, 60.0, 1e-4),
            point(Way::Fused, 16, 250.0, 1.5e-6),
            point(Way::Matrix, 16, 100.0, 1e-3),
        ];
        let found = find_all(points);
        assert_eq!(found.len(), 13);
        assert!(found[0].name == "fused multiply-add, 1 pushes" && (found[0].value / 80e9 - 1.0).abs() < 1e-5);
        assert!(found[0].says.contains("108 scalar"), "{}", found[0].says);
        let advice = found.iter().find(|finding| advice::is_advice(finding)).unwrap();
        assert!((advice.value - 0.4).abs() < 1e-5);
        let expected = "Turn particles by fused multiply-adds: products of 16 particles are 60 % slower than fused \
                        multiply-adds (100 Gop/s against 250 Gop/s pushes), and off by 1.0e-3 rad after 16 pushes, not 1.5e-6.";
        assert_eq!(advice.says, expected);
    }

    #[test]
    fn advice_prefers_faster_matrix_units_and_needs_both_ways() {
        let both = vec![point(Way::Fused, 16, 100.0, 1e-6), point(Way::Matrix, 16, 150.0, 1e-3)];
        let advice = find_all(both.clone()).into_iter().find(advice::is_advice).unwrap();
        assert!(advice.says.starts_with("Matrix units pay if half precision will do"), "{}", advice.says);
        assert!(!find_all(both[..1].to_vec()).iter().any(advice::is_advice));
        assert!(find_all(vec![]).is_empty());
    }
}
