//! Records: the output of a run, as JSON lines that are written as soon as each result is known.
//!
//! Reports, comparisons and profiles read only records. Numbers are JSON numbers in SI base units; non-finite ones can't be
//! written. A reader skips unknown kinds of lines, so that later versions may add some.

mod conditions;
mod member;
mod read;
mod unpack;
mod write;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::DeviceInfo;
use crate::flag::Flags;
use crate::sample::Effort;
use crate::series::{Axis, Point, Series, SeriesSpec, Value};
use crate::stats::Interval;
use crate::unit::Unit;
use crate::{Fault, FaultClass};

pub use conditions::Conditions;
pub use member::{Member, Rank};
pub use read::{Damage, Limits, ReadError, Run, read, read_file};
pub use unpack::{FILE, UNPACKED, Unpacked, path_in, read_text, unpack};
pub use write::{RecordFile, Writer};

/// Version of the record's schema. It changes only where an old reader would misread a new record.
pub const SCHEMA: u32 = 1;

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "records are made one at a time and written immediately")]
pub enum Record {
    /// The first line: who measured what, where, how.
    Run(RunHeader),
    /// After the header of a fleet's file: the place of its device in the fleet.
    Member(Member),
    /// Before the first point of a series.
    Series(SeriesSpec),
    /// One point in one round.
    Point(Point),
    /// A finding derived from the series.
    Finding(Finding),
    /// Something that could not be measured.
    Fault(FaultRecord),
    /// The last line.
    End {
        /// True where everything requested was tried.
        complete: bool,
    },
    /// A kind from a later version.
    #[serde(other)]
    Unknown,
}

/// The header of a run: everything needed to trust its figures later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHeader {
    /// The writer's [`SCHEMA`].
    pub schema: u32,
    /// Version of plimsoll.
    pub tool: String,
    /// Start time, UTC, RFC 3339.
    pub started: String,
    /// The command line without the program's path, for people. The parts that matter for the figures are in `conditions`.
    pub argv: Vec<String>,
    /// The other options of the run. For older records without this field, the reader derives them from the command line.
    #[serde(default)]
    pub conditions: Conditions,
    /// The effort of the run.
    pub effort: Effort,
    /// Seed of all random data and orders.
    pub seed: u64,
    /// Operating system and other facts of the host, by name.
    #[serde(default)]
    pub host: BTreeMap<String, String>,
    /// The devices; series refer to them by index.
    pub devices: Vec<DeviceInfo>,
}

/// A result derived from series, for the machine's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Index into the run's devices.
    #[serde(default)]
    pub device: u32,
    /// The probe that it comes from.
    #[serde(default)]
    pub probe: String,
    /// Its name, unique within the probe: `capacity L1`, `latency L2`.
    pub name: String,
    /// In `unit`.
    pub value: f64,
    /// 95 % interval, or the range that the method can't resolve further.
    pub interval: Interval,
    /// A base unit.
    pub unit: Unit,
    /// Flags of the row that it was derived from.
    #[serde(default, skip_serializing_if = "crate::flag::is_none")]
    pub flags: Flags,
    /// The metric under which it is compared with peaks and references (`bandwidth`, `latency`); empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metric: String,
    /// One explanatory sentence; empty where name and value suffice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// A published figure for the same quantity of the same chip design, where the probe knows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// Larger numbers may overflow when they are scaled to a smaller unit (femto, a factor of 10¹⁵).
const LARGEST: f64 = 1e290;

impl Finding {
    /// Whether the interval contains the value, the published range is not reversed, and all numbers can be displayed. To be
    /// checked after reading a file, which may hold anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        // A comparison with NaN is always false.
        let are_displayable = |numbers: &[f64]| numbers.iter().all(|number| number.abs() <= LARGEST);
        let published = self.published.as_ref().is_none_or(|published| {
            let Interval { lo, hi } = published.range;
            are_displayable(&[lo, hi]) && lo <= hi
        });
        are_displayable(&[self.interval.lo, self.value, self.interval.hi])
            && self.interval.contains(self.value)
            && published
    }
}

/// A published figure, in the unit of its finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The least and the most; equal where a single number is published.
    pub range: Interval,
    /// The document that publishes it.
    pub source: String,
}

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecord {
    /// Index into the run's devices. A device that could not be opened isn't in that list: its index is past the end.
    #[serde(default)]
    pub device: u32,
    /// The command-line name of a device that could not be opened; empty for a device of the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unopened: String,
    /// The probe.
    pub probe: String,
    /// The series that `at` belongs to; none where the fault concerns the whole probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<u32>,
    /// The point's coordinates; empty where the fault concerns the whole probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Value>,
    /// The kind of fault.
    pub class: FaultClass,
    /// The error message.
    pub what: String,
}

impl FaultRecord {
    /// A fault of a whole probe.
    #[must_use]
    pub fn from_fault(device: u32, probe: &str, fault: &Fault) -> Self {
        Self::new(device, probe, fault.class(), fault.to_string())
    }

    /// A fault of a whole probe, from its class and message.
    #[must_use]
    pub fn new(device: u32, probe: &str, class: FaultClass, what: String) -> Self {
        Self { device, unopened: String::new(), probe: probe.to_owned(), series: None, at: vec![], class, what }
    }

    /// The fault of a requested device that could not be opened, with its name and the reason; `index` is past those of the
    /// run's devices.
    #[must_use]
    pub fn unopened(index: u32, name: &str, why: &str) -> Self {
        let fault = Self::new(index, "open", FaultClass::Unavailable, format!("{name}: {why}"));
        Self { unopened: name.to_owned(), ..fault }
    }

    /// The same fault, attributed to one point.
    #[must_use]
    pub fn at_point(self, series: u32, at: Vec<Value>) -> Self {
        Self { series: Some(series), at, ..self }
    }

    /// Formats the point for display: `footprint 64 GiB, kernel read`. Without axes and units where the series isn't among
    /// `known`; empty where the fault concerns the whole probe.
    #[must_use]
    pub fn place(&self, known: &[Series]) -> String {
        let series = known.iter().find(|series| Some(series.spec.id) == self.series);
        let axes = series.map(|series| &*series.spec.axes).filter(|axes| axes.len() == self.at.len());
        let words: Vec<String> = match axes {
            Some(axes) => {
                let word = |(axis, value): (&Axis, &Value)| format!("{} {}", axis.name, value.format(&axis.unit));
                axes.iter().zip(&self.at).map(word).collect()
            }
            None => self.at.iter().map(Value::to_string).collect(),
        };
        words.join(", ")
    }
}

/// Where records go.
pub trait Sink {
    /// Takes one record.
    ///
    /// # Errors
    /// [`Fault::Sink`] where it can't be written.
    fn write(&mut self, record: &Record) -> Result<(), Fault>;

    /// Reports the progress of the current probe. May be ignored.
    fn progress(&mut self, _progress: &Progress<'_>) {}
}

/// Progress of the current probe.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The probe's name.
    pub probe: &'a str,
    /// Points measured so far, over all rounds and sweeps.
    pub points: usize,
    /// Spent share of the probe's time budget, 0…1.
    pub spent: f64,
    /// Maximum remaining time, seconds.
    pub seconds_left: f64,
}

impl Sink for Vec<Record> {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.push(record.clone());
        Ok(())
    }
}

/// The JSON Schema of one line.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Record).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("$id".into(), format!("urn:plimsoll:record:{SCHEMA}").into());
        object.insert("title".into(), "One line of a plimsoll record".into());
    }
    schema
}
