//! Records: what a run leaves behind, as JSON lines written the moment each thing is known.
//!
//! Reports, comparisons and profiles read records and nothing else. Numbers are JSON numbers in SI base units;
//! non-finite ones can't be written. A reader skips kinds that it doesn't know, so later versions may add some.

mod conditions;
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
pub use read::{Damage, Limits, ReadError, Run, read, read_file};
pub use unpack::{FILE, UNPACKED, Unpacked, path_in, read_text, unpack};
pub use write::{RecordFile, Writer};

/// Version of the record's schema. It changes only where an old reader would misread a new record.
pub const SCHEMA: u32 = 1;

/// One line of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "records are made one at a time and written at once")]
pub enum Record {
    /// The first line: who measured what, where, how.
    Run(RunHeader),
    /// Before the first point of a series.
    Series(SeriesSpec),
    /// One point in one round.
    Point(Point),
    /// What a series shows.
    Finding(Finding),
    /// Something that could not be measured.
    Fault(FaultRecord),
    /// The last line.
    End {
        /// True where everything asked for was tried.
        complete: bool,
    },
    /// A kind of a later version.
    #[serde(other)]
    Unknown,
}

/// What is needed to trust a run later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHeader {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of plimsoll.
    pub tool: String,
    /// UTC, RFC 3339.
    pub started: String,
    /// The command line, without the program's path: for people. What of it matters is in `conditions`.
    pub argv: Vec<String>,
    /// What else was asked. Records of before are read with what their command line tells.
    #[serde(default)]
    pub conditions: Conditions,
    /// How hard it tried.
    pub effort: Effort,
    /// Seed of all random data and orders.
    pub seed: u64,
    /// Operating system and other facts of the host, by name.
    #[serde(default)]
    pub host: BTreeMap<String, String>,
    /// Devices; series refer to them by place.
    pub devices: Vec<DeviceInfo>,
}

/// What a series shows, for the machine's profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Index into the run's devices.
    #[serde(default)]
    pub device: u32,
    /// The probe that found it.
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
    /// Flags of the row it was read from.
    #[serde(default, skip_serializing_if = "is_none")]
    pub flags: Flags,
    /// The metric it competes in, for peaks and references (`bandwidth`, `latency`); empty where in none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub metric: String,
    /// One sentence for a person; empty where name and value say it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// What is published of the same thing on the same design, where the probe knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
}

/// Larger numbers overflow when they are scaled to a smaller unit (femto at the least, 10¹⁵).
const LARGEST: f64 = 1e290;

impl Finding {
    /// Whether its interval holds its value and what is published is a range, all in numbers that can be shown: what a
    /// file says may be anything.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        // Of no comparison with NaN is the outcome true.
        let small = |numbers: &[f64]| numbers.iter().all(|number| number.abs() <= LARGEST);
        let published = self.published.as_ref().is_none_or(|published| {
            let Interval { lo, hi } = published.range;
            small(&[lo, hi]) && lo <= hi
        });
        small(&[self.interval.lo, self.value, self.interval.hi]) && self.interval.contains(self.value) && published
    }
}

/// A published figure, in the unit of the finding that it stands beside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// Least and most; equal where one number is published.
    pub range: Interval,
    /// The document.
    pub source: String,
}

fn is_none(flags: &Flags) -> bool {
    flags.is_empty()
}

/// Something that could not be measured, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecord {
    /// Index into the run's devices. A device that could not be opened isn't among them: its index is beyond theirs.
    #[serde(default)]
    pub device: u32,
    /// How the command line names a device that could not be opened; empty for one of the run's own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unopened: String,
    /// The probe.
    pub probe: String,
    /// The series whose axes `at` is on; none where the fault concerns the whole probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<u32>,
    /// The point's coordinates; empty where the fault concerns the whole probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Value>,
    /// What kind of fault.
    pub class: FaultClass,
    /// What happened, for a person.
    pub what: String,
}

impl FaultRecord {
    /// A fault that concerns a whole probe.
    #[must_use]
    pub fn of(device: u32, probe: &str, fault: &Fault) -> Self {
        Self::new(device, probe, fault.class(), fault.to_string())
    }

    /// The same where there is no [`Fault`] to tell of.
    #[must_use]
    pub fn new(device: u32, probe: &str, class: FaultClass, what: String) -> Self {
        Self { device, unopened: String::new(), probe: probe.to_owned(), series: None, at: vec![], class, what }
    }

    /// The fault of a device that was asked for and could not be opened, by its name and the reason; `place` is its index,
    /// past those of the run's devices.
    #[must_use]
    pub fn unopened(place: u32, name: &str, why: &str) -> Self {
        let fault = Self::new(place, "open", FaultClass::Unavailable, format!("{name}: {why}"));
        Self { unopened: name.to_owned(), ..fault }
    }

    /// The same of one point.
    #[must_use]
    pub fn at(self, series: u32, at: Vec<Value>) -> Self {
        Self { series: Some(series), at, ..self }
    }

    /// The point for a person: `footprint 64 GiB, kernel read`. Without units where the series isn't among `known`; empty
    /// where the fault concerns the whole probe.
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
    /// [`Fault::Sink`] where it can't be kept.
    fn write(&mut self, record: &Record) -> Result<(), Fault>;

    /// How far the probe at work is. Nothing needs to be kept.
    fn progress(&mut self, _progress: &Progress<'_>) {}
}

/// How far the probe at work is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Its name.
    pub probe: &'a str,
    /// Points measured so far, over all rounds and sweeps.
    pub points: usize,
    /// Share of the probe's time budget that is spent, 0…1.
    pub spent: f64,
    /// Seconds left to it at the most.
    pub seconds_left: f64,
}

impl Sink for Vec<Record> {
    fn write(&mut self, record: &Record) -> Result<(), Fault> {
        self.push(record.clone());
        Ok(())
    }
}

/// JSON Schema of one line.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Record).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("$id".into(), format!("urn:plimsoll:record:{SCHEMA}").into());
        object.insert("title".into(), "One line of a plimsoll record".into());
    }
    schema
}
