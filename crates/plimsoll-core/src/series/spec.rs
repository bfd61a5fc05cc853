//! The specification of a series: its axes, its metrics and how each is derived from a launch's time, and its chart.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flag::Flags;
use crate::sample::{CachePolicy, Figure, Work};
use crate::unit::Unit;

/// An axis: a quantity or category that varies between points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Its name: `footprint`, `stride`, `kernel`.
    pub name: String,
    /// The unit of its numbers; [`Unit::One`] for text.
    pub unit: Unit,
}

/// A coordinate on an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// A number in the axis' unit.
    Number(f64),
    /// A name on a categorical axis.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// The name, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::Text(text) => Some(text),
        }
    }
}

impl Value {
    /// The value for display, in the axis' unit: `32 KiB`, `triad`. Whole numbers have no decimals (`4 cycles`, not `4.00`).
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

/// How a metric is derived from a launch's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Seconds per launch.
    Time,
    /// Reads + writes of the algorithm over time, B/s.
    Bandwidth,
    /// The same, including the cache lines that ordinary stores read first, B/s.
    BandwidthWithAllocate,
    /// Reads + writes of the algorithm over core cycles, B/cycle.
    BytesPerCycle,
    /// Seconds per operation.
    TimePerOperation,
    /// Core cycles per operation, by the clock measured alongside the samples.
    CyclesPerOperation,
    /// Operations per core cycle.
    OperationsPerCycle,
    /// Operations per second.
    OperationsPerSecond,
    /// Measured by the workload itself, in addition to its time.
    Extra,
    /// From a later version: no value can be derived.
    #[serde(other)]
    Unknown,
}

impl Quantity {
    /// The value for a launch of `seconds`; `None` where an input was not measured.
    #[must_use]
    pub fn compute(self, seconds: f64, work: &Work, clock_hz: Option<f64>) -> Option<f64> {
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
    /// How it is derived from the samples.
    #[serde(rename = "of")]
    pub quantity: Quantity,
}

impl Metric {
    /// True where more is better, false where less is; `None` where neither the quantity nor the unit says.
    #[must_use]
    pub fn more_is_better(&self) -> Option<bool> {
        match self.quantity {
            Quantity::Bandwidth
            | Quantity::BandwidthWithAllocate
            | Quantity::BytesPerCycle
            | Quantity::OperationsPerCycle
            | Quantity::OperationsPerSecond => Some(true),
            Quantity::Time | Quantity::TimePerOperation | Quantity::CyclesPerOperation => Some(false),
            Quantity::Extra => self.unit.larger_is_better(),
            Quantity::Unknown => None,
        }
    }
}

/// The chart that shows the series best. Names refer to axes or metrics.
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
        /// Metric shown as the bars' length.
        y: String,
        /// Groups within a category.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A heat map over two axes.
    Heat {
        /// Axis along x.
        x: String,
        /// Axis along y.
        y: String,
        /// Metric shown as colour.
        value: String,
    },
    /// A table without a chart.
    Table,
    /// From a later version: shown as a table.
    #[serde(other)]
    Unknown,
}

impl Draw {
    /// Lines of `y` over `x`, both linear, without groups.
    #[must_use]
    pub fn lines(x: &str, y: &str) -> Self {
        Self::Lines { x: x.into(), y: y.into(), by: None, log_x: false, log_y: false }
    }

    /// Bars of `y`, one for each value of `x`, without groups.
    #[must_use]
    pub fn bars(x: &str, y: &str) -> Self {
        Self::Bars { x: x.into(), y: y.into(), by: None }
    }

    /// A heat map of `value` over `x` and `y`.
    #[must_use]
    pub fn heat(x: &str, y: &str, value: &str) -> Self {
        Self::Heat { x: x.into(), y: y.into(), value: value.into() }
    }

    /// The same, with one line or one group of bars for each value of this axis.
    #[must_use]
    pub fn grouped_by(mut self, axis: &str) -> Self {
        if let Self::Lines { by, .. } | Self::Bars { by, .. } = &mut self {
            *by = Some(axis.into());
        }
        self
    }

    /// The same, with a logarithmic x of lines.
    #[must_use]
    pub fn log_x(mut self) -> Self {
        if let Self::Lines { log_x, .. } = &mut self {
            *log_x = true;
        }
        self
    }

    /// The same, with a logarithmic y of lines.
    #[must_use]
    pub fn log_y(mut self) -> Self {
        if let Self::Lines { log_y, .. } = &mut self {
            *log_y = true;
        }
        self
    }
}

/// The specification of a series, written before its points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesSpec {
    /// Id within the run; assigned by the session.
    #[serde(default)]
    pub id: u32,
    /// Index into the run's devices; assigned by the session.
    #[serde(default)]
    pub device: u32,
    /// The probe's name; assigned by the session.
    #[serde(default)]
    pub probe: String,
    /// The name of the series within its probe.
    pub case: String,
    /// Throughput or latency.
    pub figure: Figure,
    /// Where the data are when a launch begins.
    pub cache: CachePolicy,
    /// The axes.
    pub axes: Vec<Axis>,
    /// The derived metrics; tables and comparisons show the first.
    pub metrics: Vec<Metric>,
    /// Its chart.
    pub draw: Draw,
    /// Lower limit for the requested relative half-width of a figure's interval, at every effort; 0 sets no limit. Used for
    /// figures that vary more than that between runs however long they are sampled, because of the host's own work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub precision: f64,
    /// Every launch is one sample, from the very first launch on; set by the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
    /// Flags that it brings about, and that therefore cast no doubt on its figures.
    #[serde(default, skip_serializing_if = "crate::flag::is_none")]
    pub expected: Flags,
}

fn is_zero(precision: &f64) -> bool {
    *precision == 0.0
}

impl SeriesSpec {
    /// A series as a probe defines it; the session fills in the rest.
    #[must_use]
    pub fn new(
        case: &str,
        figure: Figure,
        cache: CachePolicy,
        axes: Vec<Axis>,
        metrics: Vec<Metric>,
        draw: Draw,
    ) -> Self {
        let case = case.to_owned();
        Self {
            id: 0,
            device: 0,
            probe: String::new(),
            case,
            figure,
            cache,
            axes,
            metrics,
            draw,
            precision: 0.0,
            trace: false,
            expected: Flags::NONE,
        }
    }

    /// Whether its points are windows of time: they are measured one after the other, in one round.
    #[must_use]
    pub fn is_over_time(&self) -> bool {
        self.axes.iter().any(|axis| axis.unit == Unit::Second)
    }

    /// Sets [`SeriesSpec::precision`].
    #[must_use]
    pub fn with_precision(self, precision: f64) -> Self {
        Self { precision, ..self }
    }

    /// Sets [`SeriesSpec::expected`].
    #[must_use]
    pub fn with_expected(self, expected: Flags) -> Self {
        Self { expected, ..self }
    }

    /// The error message for a point whose number of coordinates differs from the number of axes; `None` where they agree.
    pub(crate) fn count_error(&self, at: &[Value]) -> Option<String> {
        let (coordinates, axes) = (at.len(), self.axes.len());
        (coordinates != axes).then(|| format!("a point with {coordinates} coordinates on {axes} axes"))
    }
}

/// Shorthand for an [`Axis`].
#[must_use]
pub fn axis(name: &str, unit: Unit) -> Axis {
    Axis { name: name.to_owned(), unit }
}

/// Shorthand for a [`Metric`].
#[must_use]
pub fn metric(name: &str, unit: Unit, quantity: Quantity) -> Metric {
    Metric { name: name.to_owned(), unit, quantity }
}
