//! Series: points along named axes, and the figures derived from them.
//!
//! A [`Point`] is what was sampled and is all that a record keeps. A [`Series`] joins the rounds of each point into a
//! [`Row`] and derives every metric from raw samples, so that a later reader can derive it again. What a series means
//! is said by the findings in `plimsoll-suite`; how it is drawn, in `plimsoll-report`.

mod spec;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flag::Flags;
use crate::sample::{Evidence, Work};
use crate::stats::{Interval, Scratch, estimate};

pub use spec::{Axis, Draw, Metric, Quantity, SeriesSpec, Value, axis, metric};

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
mod tests;
