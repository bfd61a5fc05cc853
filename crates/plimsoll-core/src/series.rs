//! Series: points along named axes, and the figures derived from them.
//!
//! A [`Point`] is what was sampled and is all that a record keeps. A [`Series`] joins the rounds of each point into a
//! [`Row`] and derives every metric from raw samples, so that a later reader can derive it again. What a series means
//! is said by the findings in `plimsoll-suite`; how it is drawn, in `plimsoll-report`.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flag::Flags;
use crate::sample::{CachePolicy, Evidence, Figure, Work};
use crate::stats::{Interval, Scratch, estimate};
use crate::unit::Unit;

/// A column: what varies along an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// The field's name for it: `footprint`, `stride`, `kernel`.
    pub name: String,
    /// The unit of its numbers; dimensionless for text.
    pub unit: Unit,
}

/// A coordinate on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// In the axis' unit.
    Number(f64),
    /// A name, on a categorical axis.
    Text(String),
}

impl Value {
    /// The number, where it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// The name, where it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Text(text) => Some(text),
        }
    }
}

impl Value {
    /// For a person, in the axis' unit: `32 KiB`, `triad`. Whole numbers are whole (`4 cycles`, not `4.00`).
    #[must_use]
    pub fn format(&self, unit: &Unit) -> String {
        let number = match self {
            Self::Text(text) => return text.clone(),
            Self::Number(number) => *number,
        };
        let whole = number.fract() == 0.0 && number.abs() < 1e9 && unit.scale_for(number).0 == 1.0;
        match unit.format(number).split_once(' ') {
            Some(_) if whole && number == 1.0 => format!("1 {unit}"),
            Some((_, label)) if whole => format!("{number} {label}"),
            None if whole => number.to_string(),
            _ => unit.format(number),
        }
    }
}

impl From<u64> for Value {
    /// Exact up to 2⁵³.
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// How a metric follows from a launch's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds per launch.
    Time,
    /// Reads + writes of the algorithm over time, B/s.
    Bandwidth,
    /// The same with the lines that ordinary stores fetch first, B/s.
    BandwidthWithAllocate,
    /// Reads + writes of the algorithm over core cycles, B/cycle.
    BytesPerCycle,
    /// Seconds per operation.
    TimePerOperation,
    /// Core cycles per operation, by the clock measured beside the samples.
    CyclesPerOperation,
    /// Operations per core cycle.
    OperationsPerCycle,
    /// Operations per second.
    OperationsPerSecond,
    /// Measured by the workload itself beside its time.
    Extra,
    /// Of a later version: no value can be derived.
    #[serde(other)]
    Unknown,
}

impl Quantity {
    /// True where more is better.
    #[must_use]
    pub const fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::Bandwidth
                | Self::BandwidthWithAllocate
                | Self::BytesPerCycle
                | Self::OperationsPerCycle
                | Self::OperationsPerSecond
        )
    }

    /// The value for a launch of `seconds`; `None` where what it needs was not measured.
    #[must_use]
    pub fn of(self, seconds: f64, work: &Work, clock_hz: Option<f64>) -> Option<f64> {
        let bytes = work.traffic.total() as f64;
        let operations = (work.operations > 0.0).then_some(work.operations);
        let value = match self {
            Self::Time => seconds,
            Self::Bandwidth => bytes / seconds,
            Self::BandwidthWithAllocate => (bytes + work.write_allocate as f64) / seconds,
            Self::BytesPerCycle => bytes / (seconds * clock_hz?),
            Self::TimePerOperation => seconds / operations?,
            Self::CyclesPerOperation => seconds * clock_hz? / operations?,
            Self::OperationsPerCycle => operations? / (seconds * clock_hz?),
            Self::OperationsPerSecond => operations? / seconds,
            Self::Extra | Self::Unknown => return None,
        };
        value.is_finite().then_some(value)
    }
}

/// A metric of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name: `bandwidth`, `latency`.
    pub name: String,
    /// Its base unit.
    pub unit: Unit,
    /// How it follows from the samples.
    pub of: Quantity,
}

/// The picture that shows the series best. Names are those of axes or metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum Draw {
    /// y over x, one line per value of `by`.
    Lines {
        /// Axis or metric along x.
        x: String,
        /// Metric along y.
        y: String,
        /// One line per value of this axis.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Logarithmic x.
        log_x: bool,
        /// Logarithmic y.
        log_y: bool,
    },
    /// One bar per value of `x`, grouped by `by`.
    Bars {
        /// Categorical axis.
        x: String,
        /// Metric that is the bars' length.
        y: String,
        /// Groups within a category.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// Colour over two axes.
    Heat {
        /// Axis along x.
        x: String,
        /// Axis along y.
        y: String,
        /// Metric that is the colour.
        value: String,
    },
    /// Figures only.
    Table,
    /// Of a later version: shown as a table.
    #[serde(other)]
    Unknown,
}

/// What a series is, written before its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesSpec {
    /// Number within the run; assigned by the session.
    #[serde(default)]
    pub id: u32,
    /// Index into the run's devices; assigned by the session.
    #[serde(default)]
    pub device: u32,
    /// The probe's name; assigned by the session.
    #[serde(default)]
    pub probe: String,
    /// Which of the probe's series.
    pub case: String,
    /// Throughput or latency.
    pub figure: Figure,
    /// Where the data were.
    pub cache: CachePolicy,
    /// What varies.
    pub axes: Vec<Axis>,
    /// What is derived; the first is the one that tables and comparisons show.
    pub metrics: Vec<Metric>,
    /// How it is drawn.
    pub draw: Draw,
}

impl SeriesSpec {
    /// A series as a probe states it; the session fills in the rest.
    #[must_use]
    pub fn new(
        case: &str,
        figure: Figure,
        cache: CachePolicy,
        axes: Vec<Axis>,
        metrics: Vec<Metric>,
        draw: Draw,
    ) -> Self {
        Self { id: 0, device: 0, probe: String::new(), case: case.to_owned(), figure, cache, axes, metrics, draw }
    }
}

/// One point as sampled in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The series' id.
    pub series: u32,
    /// Round, from 0.
    pub round: u32,
    /// Coordinates, one per axis.
    pub at: Vec<Value>,
    /// Launches per sample.
    pub k: u32,
    /// Seconds per tick.
    pub tick: f64,
    /// What one launch does.
    pub work: Work,
    /// Ticks of each sample (all k launches together), in the order taken; at most 4,096.
    pub samples: Vec<u64>,
    /// What happened meanwhile.
    pub evidence: Evidence,
    /// Why not to take it at face value.
    pub flags: Flags,
    /// Metrics that the workload measured itself, base units.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

impl Point {
    /// Seconds per launch of each sample, in order.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        let to_launch = self.tick / f64::from(self.k.max(1));
        self.samples.iter().map(move |&ticks| ticks as f64 * to_launch)
    }
}

/// A figure and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// 95 % interval of the median; it spans the medians of all rounds.
    pub interval: Interval,
}

/// The rounds of one point, joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Coordinates.
    pub at: Vec<Value>,
    /// One point per round, in order.
    pub points: Vec<Point>,
    /// Seconds per launch.
    pub time: Estimate,
    /// Samples in all rounds.
    pub n: usize,
    /// Flags of all rounds.
    pub flags: Flags,
}

impl Row {
    /// Mean clock over the rounds, hertz.
    #[must_use]
    pub fn clock_hz(&self) -> Option<f64> {
        let clocks: Vec<f64> = self.points.iter().filter_map(|point| point.evidence.clock_hz).collect();
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
    }

    fn new(points: Vec<Point>) -> Option<Self> {
        let mut scratch = Scratch::with_capacity(0);
        let mut all = Vec::new();
        let (mut lo, mut hi) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut flags = Flags::NONE;
        for point in &points {
            let seconds: Vec<f64> = point.seconds().collect();
            flags = flags.union(point.flags);
            if seconds.is_empty() {
                continue;
            }
            let round = estimate(&seconds, &mut scratch);
            let single = points.len() == 1;
            lo = lo.min(if single { round.interval.lo } else { round.median });
            hi = hi.max(if single { round.interval.hi } else { round.median });
            all.extend(seconds);
        }
        if all.is_empty() {
            return None;
        }
        let pooled = estimate(&all, &mut scratch);
        let interval = Interval { lo: lo.min(pooled.interval.lo), hi: hi.max(pooled.interval.hi) };
        let time = Estimate { value: pooled.median, interval };
        Some(Self { at: points[0].at.clone(), time, n: all.len(), flags, points })
    }

    fn metric(&self, metric: &Metric) -> Option<Estimate> {
        let first = self.points.first()?;
        if metric.of == Quantity::Extra {
            let values: Vec<f64> =
                self.points.iter().filter_map(|point| point.extra.get(&metric.name).copied()).collect();
            let lo = values.iter().copied().reduce(f64::min)?;
            let hi = values.iter().copied().reduce(f64::max)?;
            let value = values.iter().sum::<f64>() / values.len() as f64;
            return Some(Estimate { value, interval: Interval { lo, hi } });
        }
        let clock = self.clock_hz();
        let of = |seconds| metric.of.of(seconds, &first.work, clock);
        let (a, b) = (of(self.time.interval.lo)?, of(self.time.interval.hi)?);
        Some(Estimate { value: of(self.time.value)?, interval: Interval { lo: a.min(b), hi: a.max(b) } })
    }
}

/// A short way to write an axis.
#[must_use]
pub fn axis(name: &str, unit: Unit) -> Axis {
    Axis { name: name.to_owned(), unit }
}

/// A short way to write a metric.
#[must_use]
pub fn metric(name: &str, unit: Unit, of: Quantity) -> Metric {
    Metric { name: name.to_owned(), unit, of }
}

/// A series with everything derived from its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is.
    pub spec: SeriesSpec,
    /// One row per point, in the order first measured.
    pub rows: Vec<Row>,
}

impl Series {
    /// Joins points by their coordinates; points of other series are left out.
    #[must_use]
    pub fn new(spec: SeriesSpec, points: impl IntoIterator<Item = Point>) -> Self {
        let mut groups: Vec<Vec<Point>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for point in points {
            if point.series != spec.id || point.at.len() != spec.axes.len() {
                continue;
            }
            let key = format!("{:?}", point.at);
            let place = *places.entry(key).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[place].push(point);
        }
        let rows = groups.into_iter().filter_map(Row::new).collect();
        Self { spec, rows }
    }

    /// The place of the axis of this name.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.spec.axes.iter().position(|axis| axis.name == name)
    }

    /// The metric of this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.spec.metrics.iter().find(|metric| metric.name == name)
    }

    /// A row's figure for the metric of this name.
    #[must_use]
    pub fn estimate(&self, row: &Row, metric: &str) -> Option<Estimate> {
        row.metric(self.metric(metric)?)
    }

    /// A row's coordinate on the axis of this name.
    #[must_use]
    pub fn at<'r>(&self, row: &'r Row, axis: &str) -> Option<&'r Value> {
        row.at.get(self.axis(axis)?)
    }

    /// A row's number on the axis of this name.
    #[must_use]
    pub fn number(&self, row: &Row, axis: &str) -> Option<f64> {
        self.at(row, axis)?.number()
    }

    /// A row's name on the categorical axis of this name.
    #[must_use]
    pub fn text<'r>(&self, row: &'r Row, axis: &str) -> Option<&'r str> {
        self.at(row, axis)?.text()
    }

    /// The best row by a metric among those that `keep` accepts. Its figure is biased upwards: measure it afresh before
    /// quoting it.
    #[must_use]
    pub fn best(&self, metric: &str, keep: impl Fn(&Row) -> bool) -> Option<(&Row, Estimate)> {
        let more = self.metric(metric)?.of.more_is_better();
        let figures =
            self.rows.iter().filter(|row| keep(row)).filter_map(|row| Some((row, self.estimate(row, metric)?)));
        figures.reduce(|best, next| if (next.1.value > best.1.value) == more { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Traffic;

    fn point(round: u32, at: f64, samples: &[u64]) -> Point {
        Point {
            series: 0,
            round,
            at: vec![at.into()],
            k: 2,
            tick: 1e-9,
            work: Work { traffic: Traffic { read: 600, written: 400 }, operations: 10.0, ..Work::default() },
            samples: samples.to_vec(),
            evidence: Evidence { clock_hz: Some(2e9), ..Evidence::default() },
            flags: Flags::NONE,
            extra: BTreeMap::new(),
        }
    }

    fn series(points: Vec<Point>) -> Series {
        let metrics = vec![
            metric("bandwidth", Unit::BytePerSecond, Quantity::Bandwidth),
            metric("cycles", Unit::Cycle, Quantity::CyclesPerOperation),
        ];
        let axes = vec![axis("footprint", Unit::Byte)];
        Series::new(SeriesSpec::new("c", Figure::Throughput, CachePolicy::Hot, axes, metrics, Draw::Table), points)
    }

    #[test]
    fn metrics_follow_from_ticks_launches_and_work() {
        let series = series(vec![point(0, 1.0, &[1000; 30])]);
        let row = &series.rows[0];
        // 1000 ticks of 1 ns for two launches: 500 ns each.
        let near = |figure: f64, expected: f64| (figure / expected - 1.0).abs() < 1e-12;
        assert!(near(row.time.value, 500e-9));
        assert!(near(series.estimate(row, "bandwidth").unwrap().value, 1000.0 / 500e-9));
        assert!(near(series.estimate(row, "cycles").unwrap().value, 100.0));
        assert!(series.estimate(row, "nothing").is_none());
    }

    #[test]
    fn rounds_join_in_one_row_and_their_spread_is_part_of_the_interval() {
        let points = vec![point(0, 1.0, &[1000; 30]), point(0, 2.0, &[1; 3]), point(1, 1.0, &[1100; 30])];
        let series = series(points);
        assert_eq!(series.rows.len(), 2);
        let row = &series.rows[0];
        assert_eq!((row.points.len(), row.n), (2, 60));
        assert!(row.time.interval.lo <= 500.1e-9 && row.time.interval.hi >= 549.9e-9);
        let bandwidth = series.estimate(row, "bandwidth").unwrap();
        assert!(bandwidth.interval.lo < bandwidth.value && bandwidth.value < bandwidth.interval.hi);
    }

    #[test]
    fn words_of_later_versions_are_read_and_yield_no_figure() {
        let spec = r#"{"case":"c","figure":"teleported","cache":"warm","axes":[{"name":"x","unit":"parsec"}],
            "metrics":[{"name":"m","unit":"B/s","of":"entropy"}],"draw":{"form":"hologram","z":1}}"#;
        let spec: SeriesSpec = serde_json::from_str(spec).unwrap();
        assert_eq!(
            (spec.figure, spec.cache, spec.draw.clone()),
            (Figure::Unknown, CachePolicy::Unknown, Draw::Unknown)
        );
        let series = Series::new(spec, vec![point(0, 1.0, &[1000; 30])]);
        assert!(series.estimate(&series.rows[0], "m").is_none());
    }

    #[test]
    fn the_best_row_is_the_one_with_more_bandwidth_and_fewer_cycles() {
        let series = series(vec![point(0, 1.0, &[1000; 30]), point(0, 2.0, &[500; 30])]);
        for metric in ["bandwidth", "cycles"] {
            assert_eq!(series.best(metric, |_| true).unwrap().0.at, [Value::Number(2.0)]);
        }
        assert!(series.best("bandwidth", |_| false).is_none());
    }
}
