//! What a series is: its axes, its metrics and how each follows from a launch's time, and the picture that shows it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sample::{CachePolicy, Figure, Work};
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

impl Metric {
    /// True where more is better, false where less is; `None` where neither the quantity nor the unit says.
    #[must_use]
    pub fn more_is_better(&self) -> Option<bool> {
        match self.of {
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
    /// Least relative half-width of a figure's interval that is asked for, whatever the effort; 0 leaves it to the effort.
    /// For figures that move by more than that from run to run however long they are sampled: the host's own work.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub precision: f64,
    /// Every launch is a sample of its own, from the very first one on; set by the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trace: bool,
}

fn is_zero(precision: &f64) -> bool {
    *precision == 0.0
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
        }
    }

    /// The same with a [`SeriesSpec::precision`].
    #[must_use]
    pub fn within(self, precision: f64) -> Self {
        Self { precision, ..self }
    }

    /// What is wrong with a point that has more or fewer coordinates than this series has axes.
    pub(crate) fn count_error(&self, at: &[Value]) -> Option<String> {
        let (coordinates, axes) = (at.len(), self.axes.len());
        (coordinates != axes).then(|| format!("a point with {coordinates} coordinates on {axes} axes"))
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
