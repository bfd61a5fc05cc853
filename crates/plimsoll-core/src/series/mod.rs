//! Series: points along named axes, and the figures derived from them.
//!
//! A [`Point`] holds raw samples and is all that a record keeps. A [`Series`] joins the rounds of each point into a
//! [`Row`] and derives every metric from the samples, so that a later reader can derive it again. Findings are derived in
//! `plimsoll-probes`; series are drawn in `plimsoll-report`.

mod axes;
mod labels;
mod spec;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flag::Flags;
use crate::sample::{Evidence, Work};
use crate::stats::{Interval, Scratch, estimate};

pub use axes::{
    Axes, Bytes, Coordinate, Count, Cycles, Elements, FlopPerByte, Name, Seconds, ShapeError, SweptSeries, Threads,
    TypedSeries,
};
pub use labels::Label;
pub use spec::{Axis, Draw, Metric, Quantity, SeriesSpec, Value, axis, metric};

/// One point as sampled in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Id of the series.
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
    /// What happened during sampling.
    pub evidence: Evidence,
    /// Reasons not to take it at face value.
    pub flags: Flags,
    /// Metrics that the workload itself measured, base units.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, f64>,
}

impl Point {
    /// A point with one launch per sample and ticks of 1 ns, in series 0 and round 0, without evidence, flags or extra metrics.
    #[must_use]
    pub fn new(at: Vec<Value>, work: Work, samples: Vec<u64>) -> Self {
        Self {
            series: 0,
            round: 0,
            at,
            k: 1,
            tick: 1e-9,
            work,
            samples,
            evidence: Evidence::default(),
            flags: Flags::NONE,
            extra: BTreeMap::new(),
        }
    }

    /// Seconds per launch of each sample, in order.
    pub fn seconds(&self) -> impl Iterator<Item = f64> + '_ {
        let to_launch = self.tick / f64::from(self.k.max(1));
        self.samples.iter().map(move |&ticks| ticks as f64 * to_launch)
    }
}

/// A figure and how well it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over the rounds of each round's median.
    pub value: f64,
    /// 95 % interval of the value, widened to span the medians of all rounds. A metric that the workload itself measured
    /// ([`Quantity::Extra`]) has one number per round and no samples: its interval is the range of the rounds. With a single
    /// round the width of 0 says nothing about precision.
    pub interval: Interval,
}

impl Estimate {
    /// Joins rounds with equal weight, however many samples each took. The 95 % half-widths add in quadrature, as for
    /// independent errors. `None` where there is no round or the mean is not finite.
    fn from_rounds(rounds: &[Estimate]) -> Option<Self> {
        if let [single] = rounds {
            return Some(*single);
        }
        let n = rounds.len() as f64;
        let value = rounds.iter().map(|round| round.value).sum::<f64>() / n;
        let (mut lo, mut hi, mut below, mut above) = (value, value, 0.0_f64, 0.0_f64);
        for round in rounds {
            lo = lo.min(round.value);
            hi = hi.max(round.value);
            below = below.hypot(round.value - round.interval.lo);
            above = above.hypot(round.interval.hi - round.value);
        }
        let interval = Interval { lo: lo.min(value - below / n), hi: hi.max(value + above / n) };
        value.is_finite().then_some(Self { value, interval })
    }
}

/// The rounds of one point, joined.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Coordinates.
    pub at: Vec<Value>,
    /// One point per round, in order.
    pub points: Vec<Point>,
    /// Seconds per launch of each of `points`: the median and its interval.
    pub rounds: Vec<Estimate>,
    /// Seconds per launch.
    pub time: Estimate,
    /// Samples in all rounds.
    pub n: usize,
    /// The flags of all rounds together.
    pub flags: Flags,
}

impl Row {
    /// Mean clock over the rounds, hertz.
    #[must_use]
    pub fn clock_hz(&self) -> Option<f64> {
        let clocks: Vec<f64> = self.points.iter().filter_map(|point| point.evidence.clock_hz).collect();
        (!clocks.is_empty()).then(|| clocks.iter().sum::<f64>() / clocks.len() as f64)
    }

    fn new(mut points: Vec<Point>) -> Option<Self> {
        points.retain(|point| !point.samples.is_empty());
        let mut scratch = Scratch::with_capacity(0);
        let round = |point: &Point| {
            let median = estimate(&point.seconds().collect::<Vec<f64>>(), &mut scratch);
            Estimate { value: median.median, interval: median.interval }
        };
        let rounds: Vec<Estimate> = points.iter().map(round).collect();
        let time = Estimate::from_rounds(&rounds)?;
        let n = points.iter().map(|point| point.samples.len()).sum();
        let flags = points.iter().fold(Flags::NONE, |flags, point| flags.union(point.flags));
        Some(Self { at: points.first()?.at.clone(), points, rounds, time, n, flags })
    }

    /// The metric in every round, computed with that round's clock and work. Rounds that lack an input are left out.
    /// [`Row::estimate`] joins these.
    pub fn rounds_of<'r>(&'r self, metric: &'r Metric) -> impl Iterator<Item = (&'r Point, Estimate)> {
        self.points.iter().zip(&self.rounds).filter_map(move |(point, time)| {
            if metric.quantity == Quantity::Extra {
                let value = point.extra.get(&metric.name).copied().filter(|value| value.is_finite())?;
                return Some((point, Estimate { value, interval: Interval { lo: value, hi: value } }));
            }
            // Every quantity is monotonic in the time, so medians and intervals carry over.
            let compute = |seconds| metric.quantity.compute(seconds, &point.work, point.evidence.clock_hz);
            let (a, b) = (compute(time.interval.lo)?, compute(time.interval.hi)?);
            Some((point, Estimate { value: compute(time.value)?, interval: Interval { lo: a.min(b), hi: a.max(b) } }))
        })
    }

    /// The row's figure for a metric: the mean of its rounds. Reports and comparisons both use it.
    #[must_use]
    pub fn estimate(&self, metric: &Metric) -> Option<Estimate> {
        Estimate::from_rounds(&self.rounds_of(metric).map(|(_, round)| round).collect::<Vec<Estimate>>())
    }
}

/// A series with everything derived from its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its specification.
    pub spec: SeriesSpec,
    /// One row per point, in the order first measured.
    pub rows: Vec<Row>,
}

impl Series {
    /// A row's flags that cast doubt on its figures.
    #[must_use]
    pub fn doubtful(&self, row: &Row) -> Flags {
        row.flags.doubtful().without(self.spec.expected)
    }

    /// Groups points by their coordinates; ignores points of other series.
    ///
    /// # Panics
    /// Where a point of this series has more or fewer coordinates than axes. Sessions and the record reader check this
    /// first and return an error.
    #[must_use]
    pub fn new(spec: impl Into<SeriesSpec>, points: impl IntoIterator<Item = Point>) -> Self {
        let spec = spec.into();
        let mut groups: Vec<Vec<Point>> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for point in points {
            if point.series != spec.id {
                continue;
            }
            if let Some(wrong) = spec.count_error(&point.at) {
                panic!("{wrong} (series '{}')", spec.case);
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

    /// The index of the axis with this name.
    #[must_use]
    pub fn axis(&self, name: &str) -> Option<usize> {
        self.spec.axes.iter().position(|axis| axis.name == name)
    }

    /// The metric with this name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        self.spec.metrics.iter().find(|metric| metric.name == name)
    }

    /// A row's figure for the metric with this name.
    #[must_use]
    pub fn estimate(&self, row: &Row, metric: &str) -> Option<Estimate> {
        row.estimate(self.metric(metric)?)
    }

    /// A row's coordinate on the axis with this name.
    #[must_use]
    pub fn coordinate<'r>(&self, row: &'r Row, axis: &str) -> Option<&'r Value> {
        row.at.get(self.axis(axis)?)
    }

    /// A row's number on the axis with this name.
    #[must_use]
    pub fn number(&self, row: &Row, axis: &str) -> Option<f64> {
        self.coordinate(row, axis)?.number()
    }

    /// A row's text on the categorical axis with this name.
    #[must_use]
    pub fn text<'r>(&self, row: &'r Row, axis: &str) -> Option<&'r str> {
        self.coordinate(row, axis)?.text()
    }

    /// The best row by a metric among those that `keep` accepts; `None` also where the better direction is unknown. Choosing
    /// the best biases its figure upwards: measure it again before quoting it.
    #[must_use]
    pub fn best(&self, metric: &str, keep: impl Fn(&Row) -> bool) -> Option<(&Row, Estimate)> {
        let more = self.metric(metric)?.more_is_better()?;
        let figures =
            self.rows.iter().filter(|row| keep(row)).filter_map(|row| Some((row, self.estimate(row, metric)?)));
        figures.reduce(|best, next| if (next.1.value > best.1.value) == more { next } else { best })
    }
}

#[cfg(test)]
mod tests;
