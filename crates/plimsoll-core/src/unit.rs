//! What a number is in, and how it is printed. A record holds SI base units and plain counts only; this file turns them
//! into words for people, and [`quantity`] reads the sizes, ranges, clocks and bandwidths that people type.
//!
//! Sizes are printed in IEC steps (8 MiB), rates and times in SI steps (4.26 TB/s), and the two never mix: 1 GB/s is
//! 10⁹ bytes in a second, as memory vendors count. Colours, tables and axes are the report's.

mod number;
pub mod quantity;

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

pub use quantity::{Bandwidth, ByteRange, ByteSize, Frequency, ParseQuantityError, Seconds};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// What a number in a record is in: an SI base unit, a quotient of them, or a plain count. It is written in JSON as its
/// symbol (`"B/s"`).
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
    /// `cycle`: clock cycles of the core or multiprocessor.
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
    /// `%`: hundredths; 85 is written as 85, not 0.85.
    Percent,
    /// `1`: a number without a dimension.
    One,
    /// `thread`: a count of threads.
    Thread,
    /// `core`: a count of cores or multiprocessors.
    Core,
    /// `element`: a count of array elements.
    Element,
    /// `element/s`: elements per second.
    ElementPerSecond,
    /// `instruction`: a count of instructions.
    Instruction,
    /// `launch`: a count of kernel launches.
    Launch,
    /// A symbol that this version doesn't know; kept as it was read. Make it through [`Unit::from`], never directly: a
    /// known symbol in here would differ from its own variant.
    Other(String),
}

/// How the numbers of a unit are stepped.
#[derive(Clone, Copy, PartialEq)]
enum Steps {
    /// Powers of 1024.
    Iec,
    /// Powers of 1000, from the first exponent of ten to the last.
    Si(i32, i32),
    /// None; the label follows the number as it is.
    Plain,
    /// None, and whole numbers are printed in full.
    Count,
}

const IEC: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
/// SI prefixes for 10^-15, 10^-12 … 10^18.
const SI: [&str; 12] = ["f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"];

impl Unit {
    /// Every unit that this version knows, in the order of their declaration.
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
    ];

    /// The symbol as records write it.
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
            Self::Other(symbol) => symbol,
        }
    }

    /// False for a symbol that only a later version understands.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// True where a larger value is a better machine, `None` where the unit alone doesn't say.
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

    /// `value` for people, with three significant digits (four for clocks): `4.26 TB/s`, `8 MiB`, `2.37 µs`,
    /// `1.512 GHz`, `4.02 cycles`. Zero, negative, tiny, huge and non-finite values are printed too.
    #[must_use]
    pub fn format(&self, value: f64) -> String {
        let (factor, label) = self.scale_for(value);
        let text = number::significant(value / factor, self.digits(), self.keeps_whole_numbers());
        join(&text, &self.plural(&label, &text))
    }

    /// `value` with its interval in the same scaled unit: `232 KiB ± 12` where both sides round alike, else
    /// `2.37 µs [2.35, 2.41]`. As many decimals as the interval's width makes meaningful.
    #[must_use]
    pub fn format_with_interval(&self, value: f64, interval: [f64; 2]) -> String {
        let [lo, hi] = interval;
        if !(value.is_finite() && lo.is_finite() && hi.is_finite()) {
            return format!("{} [{lo}, {hi}]", self.format(value));
        }
        let (factor, label) = self.scale_for(value);
        let whole = value;
        let (value, lo, hi) = (value / factor, lo / factor, hi / factor);
        // An end that is out of all proportion has no number in the value's scale.
        if !(lo.is_finite() && hi.is_finite()) {
            return format!("{} [{}, {}]", self.format(whole), self.format(interval[0]), self.format(interval[1]));
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

    /// One scale for a whole axis or table column whose largest magnitude is `max`: the factor by which to **divide**
    /// values in this unit, and the label of the quotient (`(1e12, "TB/s")`; the label of `1` is empty).
    #[must_use]
    pub fn scale_for(&self, max: f64) -> (f64, String) {
        let max = max.abs();
        match self.steps() {
            Steps::Iec => {
                let step = number::step(max, 1024.0, 0, IEC.len() as i32 - 1);
                // `step` lies within the table because it was clamped to it.
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

    /// Significant digits: clocks are set in steps of 15 MHz or less, so three digits would hide a step.
    fn digits(&self) -> i32 {
        if *self == Self::Hertz { 4 } else { 3 }
    }

    fn keeps_whole_numbers(&self) -> bool {
        matches!(self.steps(), Steps::Iec | Steps::Count)
    }

    /// Words take a plural, symbols don't.
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
    /// Unknown symbols are kept, so reading one can't fail.
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
