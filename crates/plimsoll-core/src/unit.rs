//! Units and how values are printed in them. A record holds only SI base units and plain counts; this file formats them for
//! people, and [`quantity`] parses the sizes, ranges, clocks, bandwidths and times that people type.
//!
//! Sizes are printed in IEC steps (8 MiB), rates and times in SI steps (4.26 TB/s), and the two never mix: 1 GB/s is
//! 10⁹ bytes per second, as memory vendors count.

mod number;
pub mod quantity;

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

pub use quantity::{Bandwidth, ByteRange, ByteSize, Frequency, ParseQuantityError, Seconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The unit of a number in a record: an SI base unit, a quotient of them, or a plain count. Its JSON form is its symbol
/// (`"B/s"`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[non_exhaustive]
pub enum Unit {
    /// `B`: bytes, printed in IEC steps.
    Byte,
    /// `s`: seconds.
    Second,
    /// `B/s`: bytes per second, printed in SI steps.
    BytePerSecond,
    /// `B/cycle`: bytes per clock cycle.
    BytePerCycle,
    /// `Hz`: cycles per second.
    Hertz,
    /// `cycle`: clock cycles of the core or SM.
    Cycle,
    /// `cycle/op`: cycles per operation (reciprocal throughput).
    CyclePerOp,
    /// `op/cycle`: operations per cycle.
    OpPerCycle,
    /// `op/s`: operations per second.
    OpPerSecond,
    /// `FLOP/s`: floating-point operations per second; a fused multiply-add counts as two.
    FlopPerSecond,
    /// `FLOP/cycle`: floating-point operations per cycle.
    FlopPerCycle,
    /// `FLOP/B`: arithmetic intensity.
    FlopPerByte,
    /// `W`: watts.
    Watt,
    /// `J`: joules.
    Joule,
    /// `J/B`: joules per byte.
    JoulePerByte,
    /// `J/FLOP`: joules per floating-point operation.
    JoulePerFlop,
    /// `°C`: degrees Celsius.
    Celsius,
    /// `%`: per cent; 85 % is stored as 85, not 0.85.
    Percent,
    /// `1`: a number without a dimension.
    One,
    /// `thread`: a count of threads.
    Thread,
    /// `core`: a count of cores or SMs.
    Core,
    /// `element`: a count of array elements.
    Element,
    /// `element/s`: elements per second.
    ElementPerSecond,
    /// `instruction`: a count of instructions.
    Instruction,
    /// `launch`: a count of kernel launches.
    Launch,
    /// `digest`: 32 bits that stand for a result, printed in hexadecimal. A double holds them exactly.
    Digest,
    /// A symbol that this version doesn't know, kept as it was read. Construct it through [`Unit::from`], never directly: a
    /// known symbol in here would not equal its own variant.
    Other(String),
}

/// How the numbers of a unit are scaled.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    /// Powers of 1024.
    Iec,
    /// Powers of 1000, from the first to the last exponent of ten.
    Si(i32, i32),
    /// No scaling.
    Plain,
    /// No scaling, and whole numbers are printed in full.
    Count,
}

const IEC: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
/// SI prefixes for 10^-15, 10^-12 … 10^18.
const SI: [&str; 12] = ["f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];

impl Unit {
    /// Every unit that this version knows, in order of declaration.
    pub const KNOWN: &[Self] = &[
        Self::Byte,
        Self::Second,
        Self::BytePerSecond,
        Self::BytePerCycle,
        Self::Hertz,
        Self::Cycle,
        Self::CyclePerOp,
        Self::OpPerCycle,
        Self::OpPerSecond,
        Self::FlopPerSecond,
        Self::FlopPerCycle,
        Self::FlopPerByte,
        Self::Watt,
        Self::Joule,
        Self::JoulePerByte,
        Self::JoulePerFlop,
        Self::Celsius,
        Self::Percent,
        Self::One,
        Self::Thread,
        Self::Core,
        Self::Element,
        Self::ElementPerSecond,
        Self::Instruction,
        Self::Launch,
        Self::Digest,
    ];

    /// The symbol in records.
    #[must_use]
    pub fn symbol(&self) -> &str {
        match self {
            Self::Byte => "B",
            Self::Second => "s",
            Self::BytePerSecond => "B/s",
            Self::BytePerCycle => "B/cycle",
            Self::Hertz => "Hz",
            Self::Cycle => "cycle",
            Self::CyclePerOp => "cycle/op",
            Self::OpPerCycle => "op/cycle",
            Self::OpPerSecond => "op/s",
            Self::FlopPerSecond => "FLOP/s",
            Self::FlopPerCycle => "FLOP/cycle",
            Self::FlopPerByte => "FLOP/B",
            Self::Watt => "W",
            Self::Joule => "J",
            Self::JoulePerByte => "J/B",
            Self::JoulePerFlop => "J/FLOP",
            Self::Celsius => "°C",
            Self::Percent => "%",
            Self::One => "1",
            Self::Thread => "thread",
            Self::Core => "core",
            Self::Element => "element",
            Self::ElementPerSecond => "element/s",
            Self::Instruction => "instruction",
            Self::Launch => "launch",
            Self::Digest => "digest",
            Self::Other(symbol) => symbol,
        }
    }

    /// False for a symbol that only a later version knows.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// True where a larger value means a better machine; `None` where that doesn't follow from the unit alone.
    #[must_use]
    pub fn larger_is_better(&self) -> Option<bool> {
        match self {
            Self::BytePerSecond
            | Self::BytePerCycle
            | Self::OpPerCycle
            | Self::OpPerSecond
            | Self::FlopPerSecond
            | Self::FlopPerCycle
            | Self::ElementPerSecond => Some(true),
            Self::Second | Self::Cycle | Self::CyclePerOp | Self::Joule | Self::JoulePerByte | Self::JoulePerFlop => {
                Some(false)
            }
            _ => None,
        }
    }

    /// Formats `value` with three significant digits (four for clocks): `4.26 TB/s`, `8 MiB`, `2.37 µs`,
    /// `1.512 GHz`, `4.02 cycles`. Zero, negative, tiny, huge and non-finite values are printed too.
    #[must_use]
    pub fn format(&self, value: f64) -> String {
        if let Some(digest) = self.digest(value) {
            return digest;
        }
        let (factor, label) = self.scale_for(value);
        let text = number::significant(value / factor, self.digits(), self.keeps_whole_numbers());
        join(&text, &self.plural(&label, &text))
    }

    /// Formats `value` with its interval in the same scaled unit: `232 KiB ± 12` where both sides round to the same number,
    /// else `2.37 µs [2.35, 2.41]`. The interval's width determines the number of decimals.
    #[must_use]
    pub fn format_with_interval(&self, value: f64, interval: [f64; 2]) -> String {
        let [lo, hi] = interval;
        if let Some(digest) = self.digest(value).filter(|_| lo == value && hi == value) {
            return digest;
        }
        if !(value.is_finite() && lo.is_finite() && hi.is_finite()) {
            return format!("{} [{lo}, {hi}]", self.format(value));
        }
        let (factor, label) = self.scale_for(value);
        let unscaled = value;
        let (value, lo, hi) = (value / factor, lo / factor, hi / factor);
        // An end far larger than the value may overflow in the value's scale.
        if !(lo.is_finite() && hi.is_finite()) {
            return format!("{} [{}, {}]", self.format(unscaled), self.format(interval[0]), self.format(interval[1]));
        }
        let decimals = number::decimals_for_interval(value, (hi - lo).abs() / 2.0, self.digits());
        let text = number::fixed(value, decimals);
        let head = join(&text, &self.plural(&label, &text));
        let below = number::fixed(value - lo, decimals);
        let above = number::fixed(hi - value, decimals);
        if below == above {
            format!("{head} ± {above}")
        } else {
            let (lo, hi) = (number::fixed(lo, decimals), number::fixed(hi, decimals));
            format!("{head} [{lo}, {hi}]")
        }
    }

    /// 32 bits in hexadecimal; `None` for other units, and for numbers that aren't 32 bits.
    fn digest(&self, value: f64) -> Option<String> {
        let bits = value as u32;
        (*self == Self::Digest && f64::from(bits) == value).then(|| format!("{bits:#010x}"))
    }

    /// Formats a range in one scale: `4.47 … 4.77 TB/s`.
    #[must_use]
    pub fn format_range(&self, lo: f64, hi: f64) -> String {
        let (factor, label) = self.scale_for(lo.abs().max(hi.abs()));
        let [lo, hi] = [lo, hi].map(|end| number::significant(end / factor, self.digits(), self.keeps_whole_numbers()));
        join(&format!("{lo} … {hi}"), &self.plural(&label, &hi))
    }

    /// One scale for a whole axis or table column whose largest magnitude is `max`: the factor to **divide** values by, and
    /// the label of the quotient (`(1e12, "TB/s")`; the label of [`Unit::One`] is empty).
    #[must_use]
    pub fn scale_for(&self, max: f64) -> (f64, String) {
        let max = max.abs();
        match self.steps() {
            Steps::Iec => {
                let step = number::step(max, 1024.0, 0, IEC.len() as i32 - 1);
                // `step` was clamped to the table.
                (1024f64.powi(step), IEC[step as usize].to_owned())
            }
            Steps::Si(first, last) => {
                let rounded = number::round_significant(max, self.digits());
                let step = number::step(rounded, 1000.0, first / 3, last / 3);
                let label = format!("{}{}", SI[(step + 5) as usize], self.symbol());
                (10f64.powi(3 * step), label)
            }
            Steps::Plain | Steps::Count if *self == Self::One => (1.0, String::new()),
            Steps::Plain | Steps::Count => (1.0, self.symbol().to_owned()),
        }
    }

    fn steps(&self) -> Steps {
        match self {
            Self::Byte => Steps::Iec,
            Self::Second => Steps::Si(-12, 0),
            Self::BytePerSecond | Self::Hertz | Self::OpPerSecond | Self::FlopPerSecond | Self::ElementPerSecond => {
                Steps::Si(0, 18)
            }
            Self::Watt | Self::Joule => Steps::Si(-9, 9),
            Self::JoulePerByte | Self::JoulePerFlop => Steps::Si(-15, 0),
            Self::Thread | Self::Core | Self::Element | Self::Instruction | Self::Launch => Steps::Count,
            _ => Steps::Plain,
        }
    }

    /// Significant digits. Clocks are set in steps of 15 MHz or less, so three digits would hide a step.
    fn digits(&self) -> i32 {
        if *self == Self::Hertz { 4 } else { 3 }
    }

    fn keeps_whole_numbers(&self) -> bool {
        matches!(self.steps(), Steps::Iec | Steps::Count)
    }

    /// Labels that are words take a plural, symbols don't.
    fn plural<'a>(&self, label: &'a str, text: &str) -> Cow<'a, str> {
        let is_word = *self == Self::Cycle || self.steps() == Steps::Count;
        if is_word && text != "1" { Cow::Owned(format!("{label}s")) } else { Cow::Borrowed(label) }
    }
}

fn join(text: &str, label: &str) -> String {
    if label.is_empty() { text.to_owned() } else { format!("{text} {label}") }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.symbol())
    }
}

impl From<&str> for Unit {
    fn from(symbol: &str) -> Self {
        Self::KNOWN
            .iter()
            .find(|unit| unit.symbol() == symbol)
            .cloned()
            .unwrap_or_else(|| Self::Other(symbol.to_owned()))
    }
}

impl From<String> for Unit {
    fn from(symbol: String) -> Self {
        Self::from(symbol.as_str())
    }
}

impl From<Unit> for String {
    fn from(unit: Unit) -> Self {
        unit.symbol().to_owned()
    }
}

impl FromStr for Unit {
    /// Unknown symbols are kept, so parsing can't fail.
    type Err = Infallible;

    fn from_str(symbol: &str) -> Result<Self, Infallible> {
        Ok(Self::from(symbol))
    }
}

impl JsonSchema for Unit {
    fn schema_name() -> Cow<'static, str> {
        "Unit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let symbols: Vec<&str> = Self::KNOWN.iter().map(Self::symbol).collect();
        json_schema!({
            "type": "string",
            "description": "An SI base unit, a quotient of them, or a plain count; later versions may add symbols.",
            "examples": symbols,
        })
    }
}

#[cfg(test)]
mod tests;
