//! bench: elementwise expressions by size. Defines the points, the series, and the lines that the command shows next to the
//! ceilings. `plimsoll-expr` parses expressions, and each backend runs them.

use plimsoll_core::Traffic;
use plimsoll_core::device::DeviceInfo;
use plimsoll_core::flag::Flags;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Run};
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Draw, Estimate, Quantity, Row, Series, SeriesSpec, Value, axis, metric};
use plimsoll_core::unit::Unit;

use crate::kernels::KERNELS;
use crate::profile::Profile;

/// The description of `bench`. Its seconds are those of one point, because users choose the number of points: a sweep's share
/// is that number.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "bench",
    group: "elementwise",
    sentence: "How fast an elementwise expression runs, by size, compared with what memory can do.",
    seconds: [0.35, 1.0, 3.0],
    takes_bytes: true,
    headlines: &[],
    findings,
};

/// Metric of a point: the bandwidth that `stream` measured on this device for the point's mix of reads and writes.
pub const CEILING: &str = "ceiling";
/// Metric of a point: the host's time for a launch, seconds. Only for batches and what they are compared with.
pub const HOST: &str = "host";
/// Each launch begins after the one before it has ended.
pub const PLAIN: &str = "plain";
/// Each launch may begin before the one before it has ended.
pub const DEPENDENT: &str = "dependent";
/// The planner chose the plan.
pub const PLANNED: &str = "planned";

const AXES: [&str; 6] = ["expression", "types", "shape", "launch", "plan", "bytes"];

/// One point: an expression at one size.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The expression's name, such as `triad`, or its text where it has none.
    pub expression: String,
    /// The types of inputs and outputs: `bf16`, or `bf16+f32>bf16` where they differ.
    pub types: String,
    /// The inputs' shapes, or `flat` where all are flat.
    pub shape: String,
    /// [`PLAIN`] or [`DEPENDENT`].
    pub launch: &'static str,
    /// [`PLANNED`], or the parts of the plan that were chosen by hand.
    pub plan: String,
    /// Bytes of the largest tensor.
    pub bytes: u64,
    /// Hot, or cold by rotation of the arrays.
    pub cache: CachePolicy,
    /// Bytes that one launch must move.
    pub traffic: Traffic,
    /// The bandwidth measured for this mix of reads and writes, B/s, where it is known.
    pub ceiling: Option<f64>,
}

impl Cell {
    /// A point with flat inputs and cold data, launched plainly with the planner's plan, without a ceiling.
    #[must_use]
    pub fn flat(expression: impl Into<String>, types: impl Into<String>, bytes: u64, traffic: Traffic) -> Self {
        Self {
            expression: expression.into(),
            types: types.into(),
            shape: "flat".to_owned(),
            launch: PLAIN,
            plan: PLANNED.to_owned(),
            bytes,
            cache: CachePolicy::ColdRotate,
            traffic,
            ceiling: None,
        }
    }

    /// The coordinates in [`series`].
    #[must_use]
    pub fn coordinates(&self) -> Vec<Value> {
        vec![
            self.expression.as_str().into(),
            self.types.as_str().into(),
            self.shape.as_str().into(),
            self.launch.into(),
            self.plan.as_str().into(),
            self.bytes.into(),
        ]
    }
}

/// The series of one cache policy: `cold` or `hot`.
#[must_use]
pub fn series(cache: CachePolicy) -> SeriesSpec {
    let case = if cache.is_cold() { "cold" } else { "hot" };
    let unit = |name: &str| if name == "bytes" { Unit::Byte } else { Unit::One };
    let draw = |by: &str| Draw::lines("bytes", "bandwidth").grouped_by(by).log_x();
    SeriesSpec::new(
        case,
        Figure::Throughput,
        cache,
        AXES.map(|name| axis(name, unit(name))).to_vec(),
        vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("time", Unit::Second, Quantity::Time),
            metric(CEILING, Unit::BytePerSecond, Quantity::Extra),
            metric(HOST, Unit::Second, Quantity::Extra),
        ],
        draw("launch"),
    )
}

/// The bandwidth that `stream` measured for the nearest mix of reads and writes, B/s. Doubtful and published figures are
/// ignored.
#[must_use]
pub fn ceiling(profile: &Profile, traffic: Traffic) -> Option<f64> {
    let written_share = |read: f64, written: f64| written / (read + written).max(1.0);
    let wanted = written_share(traffic.read as f64, traffic.written as f64);
    let known = KERNELS.iter().filter_map(|kernel| {
        let stored = profile.finding("stream", kernel.name)?;
        let sound = !stored.is_published() && stored.finding.flags.doubtful().is_empty();
        let distance = (written_share(f64::from(kernel.reads), f64::from(kernel.writes)) - wanted).abs();
        sound.then_some((distance, stored.finding.value))
    });
    // Of equally near mixes the faster kernel counts: copy and scale differ only in arithmetic.
    known.min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1))).map(|(_, value)| value)
}

/// One measured point with its yardsticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The point.
    pub cell: Cell,
    /// Seconds per launch.
    pub time: Estimate,
    /// Bandwidth of reads and writes together, B/s.
    pub bandwidth: Estimate,
    /// Bandwidth as a share of [`Cell::ceiling`]; may exceed 1.
    pub of_ceiling: Option<f64>,
    /// Bandwidth as a share of the device's theoretical bandwidth, where that is known.
    pub of_peak: Option<f64>,
    /// The host's time for a launch, seconds, where it was measured.
    pub host: Option<f64>,
    /// Flags of all rounds.
    pub flags: Flags,
}

/// Every point of a run of `bench`, in the order measured.
#[must_use]
pub fn lines(run: &Run) -> Vec<Line> {
    let peak = |device: u32| {
        let info = run.header.devices.get(device as usize)?;
        Some(info.peak("bandwidth")?.value)
    };
    let bench_series = run.series.iter().filter(|series| series.spec.probe == SPEC.name);
    let lines = bench_series.flat_map(|series| {
        let peak = peak(series.spec.device);
        series.rows.iter().filter_map(move |row| line(series, row, peak))
    });
    lines.collect()
}

fn line(series: &Series, row: &Row, peak: Option<f64>) -> Option<Line> {
    let text = |axis: &str| series.text(row, axis).map(str::to_owned);
    let launch = if series.text(row, "launch") == Some(DEPENDENT) { DEPENDENT } else { PLAIN };
    let ceiling = series.estimate(row, CEILING).map(|ceiling| ceiling.value).filter(|ceiling| *ceiling > 0.0);
    let bandwidth = series.estimate(row, "bandwidth")?;
    let host = series.estimate(row, HOST).map(|host| host.value).filter(|host| *host > 0.0);
    let cell = Cell {
        expression: text("expression")?,
        types: text("types")?,
        shape: text("shape")?,
        launch,
        plan: text("plan")?,
        bytes: series.number(row, "bytes")? as u64,
        cache: series.spec.cache,
        traffic: row.points.first()?.work.traffic,
        ceiling,
    };
    let share_of = |yardstick: f64| bandwidth.value / yardstick;
    let of_peak = peak.filter(|peak| *peak > 0.0 && series.spec.cache.is_cold()).map(share_of);
    // Bandwidth from a cache can't be compared with memory's.
    let of_ceiling = ceiling.filter(|_| series.spec.cache.is_cold()).map(share_of);
    Some(Line { cell, time: row.time, bandwidth, of_ceiling, of_peak, host, flags: row.flags })
}

/// The bandwidth at the largest size, for each expression, type and kind of launch.
fn findings(_: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let mut found = Vec::new();
    for series in series {
        let mut last: Vec<(String, &Row)> = Vec::new();
        for row in series.rows.iter().filter(|row| series.text(row, "plan") == Some(PLANNED)) {
            let names = ["expression", "types", "shape", "launch"].map(|axis| series.text(row, axis).unwrap_or(""));
            let [expression, types, shape, launch] = names;
            let mut name = format!("{expression} {types}, {}", series.spec.case);
            if shape != "flat" {
                name = format!("{name}, {shape}");
            }
            if launch == DEPENDENT {
                name = format!("{name}, {launch}");
            }
            match last.iter_mut().find(|(known, _)| *known == name) {
                Some((_, largest)) if series.number(largest, "bytes") > series.number(row, "bytes") => {}
                Some((_, largest)) => *largest = row,
                None => last.push((name, row)),
            }
        }
        found.extend(last.into_iter().filter_map(|(name, row)| {
            let bytes = Unit::Byte.format(series.number(row, "bytes")?);
            let estimate = series.estimate(row, "bandwidth")?;
            let says = format!("at {bytes} per tensor");
            let finding = crate::findings::finding(name, Unit::BytePerSecond, row, estimate);
            Some(Finding { metric: "bandwidth".into(), says, ..finding })
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::StoredFinding;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::Point;
    use plimsoll_core::stats::Interval;

    fn cell(expression: &str, bytes: u64) -> Cell {
        Cell { ceiling: Some(4e12), ..Cell::flat(expression, "f32", bytes, Traffic::new(bytes, bytes)) }
    }

    fn point(cell: &Cell, bandwidth: f64) -> Point {
        let seconds = cell.traffic.total() as f64 / bandwidth;
        Point {
            extra: cell.ceiling.map(|ceiling| (CEILING.to_owned(), ceiling)).into_iter().collect(),
            ..Point::new(
                cell.coordinates(),
                Work { traffic: cell.traffic, ..Work::default() },
                vec![(seconds * 1e9) as u64; 30],
            )
        }
    }

    #[test]
    fn finding_is_the_bandwidth_at_the_largest_size() {
        let points = [(1 << 20, 1e12), (1 << 30, 4e12)].map(|(bytes, rate)| point(&cell("copy", bytes), rate));
        let series = Series::new(series(CachePolicy::ColdRotate), points);
        let found = findings(&DeviceInfo::default(), &[series]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "copy f32, cold");
        assert!((found[0].value / 4e12 - 1.0).abs() < 1e-3 && found[0].says.contains("1 GiB"), "{:?}", found[0]);
    }

    #[test]
    fn line_has_its_point_and_its_share_of_the_ceiling() {
        let mut spec = series(CachePolicy::ColdRotate);
        spec.probe = SPEC.name.to_owned();
        let cell = cell("copy", 1 << 30);
        let series = Series::new(spec, [point(&cell, 2e12)]);
        let line = line(&series, &series.rows[0], Some(5e12)).unwrap();
        assert_eq!(line.cell, cell);
        let near = |share: Option<f64>, expected: f64| (share.unwrap() - expected).abs() < 1e-3;
        assert!(near(line.of_ceiling, 0.5) && near(line.of_peak, 0.4), "{line:?}");
    }

    #[test]
    fn hot_points_have_no_share_of_memorys_ceiling() {
        let cell = Cell { cache: CachePolicy::Hot, ..cell("copy", 1 << 20) };
        let series = Series::new(series(CachePolicy::Hot), [point(&cell, 2e12)]);
        let line = line(&series, &series.rows[0], Some(5e12)).unwrap();
        assert_eq!((line.of_ceiling, line.of_peak), (None, None));
    }

    #[test]
    fn ceiling_is_that_of_the_nearest_mix() {
        let mut profile = Profile::new("id", "name", "0", "2026-01-01T00:00:00Z");
        for (name, value) in [("read", 4.6e12), ("copy", 4.1e12), ("scale", 4.0e12), ("triad", 4.3e12)] {
            let estimate = Estimate { value, interval: Interval { lo: value, hi: value } };
            let cell = cell("copy", 1 << 20);
            let row = Series::new(series(CachePolicy::Hot), [point(&cell, value)]).rows.remove(0);
            let finding = crate::findings::finding(name, Unit::BytePerSecond, &row, estimate);
            let finding = Finding { probe: "stream".into(), ..finding };
            let (run, when, tool, source) = Default::default();
            profile.findings.push(StoredFinding { finding, run, when, tool, source });
        }
        assert_eq!(ceiling(&profile, Traffic::new(100, 100)), Some(4.1e12));
        assert_eq!(ceiling(&profile, Traffic::new(210, 100)), Some(4.3e12));
        assert_eq!(ceiling(&profile, Traffic::new(100, 0)), Some(4.6e12));
    }
}
