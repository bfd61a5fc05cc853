//! Sizes, ranges, clocks, bandwidths and times as people type them: `8MiB`, `1MiB..2GiB`, `1.512 GHz`, `1935 GB/s`.
//! Each type prints itself so that parsing the text gives the same value bit for bit;
//! [`Unit::format`](super::Unit::format) gives the rounded form for tables.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::number::step;
use crate::text::shorten;

/// An unreadable quantity: what was typed, what is wrong with it, and a correct example.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("can't read {text:?} as {what}: {why}; write it like {example}")]
pub struct ParseQuantityError {
    /// What was typed, shortened to 40 characters.
    pub text: String,
    /// The expected kind of quantity, as a noun with its article.
    pub what: &'static str,
    /// The error.
    pub why: Why,
    /// An example of a valid text.
    pub example: &'static str,
}

/// What is wrong with a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// Nothing was typed.
    #[error("it is empty")]
    Empty,
    /// It doesn't begin with a number.
    #[error("it doesn't start with a number")]
    NoNumber,
    /// The number is negative.
    #[error("it must not be negative")]
    Negative,
    /// The number has no unit, and there is no default.
    #[error("it has no unit")]
    NoUnit,
    /// The unit is unknown.
    #[error("{unit:?} is not a known unit (known: {known})")]
    UnknownUnit {
        /// The unit as typed, shortened.
        unit: String,
        /// The known units, separated by commas.
        known: &'static str,
    },
    /// The unit could mean a power of 1000 or of 1024.
    #[error("{unit:?} could mean {binary} (powers of 1024) or {decimal} (powers of 1000)")]
    Ambiguous {
        /// The unit as typed.
        unit: String,
        /// The unit in powers of 1024.
        binary: String,
        /// The unit in powers of 1000.
        decimal: String,
    },
    /// The value is larger than the type holds.
    #[error("it is too large")]
    TooLarge,
    /// The range's lower end is above its upper end.
    #[error("the range is empty, because {lo} is more than {hi}")]
    Backwards {
        /// The lower end.
        lo: ByteSize,
        /// The upper end.
        hi: ByteSize,
    },
}

/// A number of bytes. Parsed from `8MiB`, `1.5 GiB` (powers of 1024), `1GB` (10⁹) or `512`; a fraction of a byte is
/// rounded. `64k` is refused, because it could mean either. Zero is accepted: callers decide whether it makes sense.
///
/// Printed in the largest IEC unit that divides it (`1536 MiB`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Sizes from `lo` to `hi`, both included, `lo` ≤ `hi`. Parsed from `1MiB..2GiB`, or from one size for a range of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    lo: ByteSize,
    hi: ByteSize,
}

/// A clock in hertz. Parsed from `1.512GHz` or `2400 MHz`; the unit is required, in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Frequency(pub f64);

/// Bytes per second. Parsed from `4.26 TB/s`, `1935 GB/s` (powers of 1000) or `900 GiB/s` (powers of 1024); the unit is
/// required.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bandwidth(pub f64);

/// A time in seconds. Parsed from `36 µs`, `36us`, `2.5 ms`, `3 s`, `10 min`, `1 h`, or `3` (seconds).
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seconds(pub f64);

const KNOWN_SIZES: &str = "B, kB, MB, GB, TB, PB, EB, KiB, MiB, GiB, TiB, PiB, EiB";
const KNOWN_CLOCKS: &str = "Hz, kHz, MHz, GHz, THz";
const KNOWN_BANDWIDTHS: &str = "a size's unit followed by /s, such as GB/s or GiB/s";
const KNOWN_TIMES: &str = "ps, ns, µs or us, ms, s, min, h";
const DECIMAL: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const LONGEST_QUOTE: usize = 40;

/// A number as typed, `whole.fraction` · 10^`exponent`, with its digits still as text, and the unit that follows.
struct Typed<'a> {
    whole: &'a str,
    fraction: &'a str,
    exponent: i32,
    unit: &'a str,
}

impl<'a> Typed<'a> {
    fn parse(text: &'a str) -> Result<Self, Why> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Why::Empty);
        }
        if text.starts_with(['-', '\u{2212}']) {
            return Err(Why::Negative);
        }
        let (whole, rest) = split_digits(text.strip_prefix('+').unwrap_or(text));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after) => split_digits(after),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(Why::NoNumber);
        }
        let (exponent, rest) = split_exponent(rest)?;
        Ok(Self { whole, fraction, exponent, unit: rest.trim_start() })
    }

    /// The number times 10^`power`, correctly rounded, because the power is added to the exponent before parsing.
    fn to_scaled(&self, power: i32) -> Result<f64, Why> {
        let exponent = self.exponent.saturating_add(power);
        let text = format!("0{}.{}e{exponent}", self.whole, self.fraction);
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(Why::TooLarge),
        }
    }

    /// The number times `multiplier`, rounded to a whole number.
    fn to_multiple(&self, multiplier: u64) -> Result<u64, Why> {
        let digits = format!("{}{}", self.whole, self.fraction);
        let digits = digits.trim_start_matches('0');
        if digits.is_empty() {
            return Ok(0);
        }
        let mantissa: u128 = digits.parse().map_err(|_| Why::TooLarge)?;
        let product = mantissa.checked_mul(u128::from(multiplier)).ok_or(Why::TooLarge)?;
        let fraction_digits = i32::try_from(self.fraction.len()).map_err(|_| Why::TooLarge)?;
        let exponent = self.exponent.saturating_sub(fraction_digits);
        let scaled = match 10u128.checked_pow(exponent.unsigned_abs()) {
            Some(power) if exponent >= 0 => product.checked_mul(power).ok_or(Why::TooLarge)?,
            // Half a byte rounds up. The sum can't overflow, because `power` is at least 10.
            Some(power) => product / power + u128::from(product % power >= power.div_ceil(2)),
            None if exponent >= 0 => return Err(Why::TooLarge),
            None => 0,
        };
        u64::try_from(scaled).map_err(|_| Why::TooLarge)
    }
}

/// Splits off leading ASCII digits.
fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Splits off a decimal exponent: `e9`, `E-3`. An `E` without digits after it belongs to the unit (`1 EB`, `1EiB`).
fn split_exponent(text: &str) -> Result<(i32, &str), Why> {
    let Some(after) = text.strip_prefix(['e', 'E']) else {
        return Ok((0, text));
    };
    let (negative, unsigned) = match after.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, after.strip_prefix('+').unwrap_or(after)),
    };
    let (exponent, rest) = split_digits(unsigned);
    if exponent.is_empty() {
        return Ok((0, text));
    }
    let exponent: i32 = exponent.parse().map_err(|_| Why::TooLarge)?;
    Ok((if negative { -exponent } else { exponent }, rest))
}

/// Parses a size unit into its base (1000 or 1024) and power. `kb` and `mib` are accepted; `Mb` is not, because it means bits.
fn parse_size_unit(unit: &str, known: &'static str) -> Result<(u64, u32), Why> {
    let matches = |symbol: &str| symbol == unit || symbol.to_ascii_lowercase() == unit;
    if let Some(power) = BINARY.iter().position(|symbol| matches(symbol)) {
        return Ok((1024, power as u32));
    }
    if let Some(power) = DECIMAL.iter().position(|symbol| matches(symbol)) {
        return Ok((1000, power as u32));
    }
    let letter = unit.trim_end_matches("/s");
    let prefix = if letter == "KB" { "K" } else { letter };
    let ambiguous = ["k", "m", "g", "t", "p", "e"].iter().position(|candidate| candidate.eq_ignore_ascii_case(prefix));
    Err(match ambiguous {
        Some(power) => {
            let rate = if known == KNOWN_BANDWIDTHS { "/s" } else { "" };
            Why::Ambiguous {
                unit: unit.to_owned(),
                binary: format!("{}{rate}", BINARY[power + 1]),
                decimal: format!("{}{rate}", DECIMAL[power + 1]),
            }
        }
        None => Why::UnknownUnit { unit: shorten(unit, LONGEST_QUOTE), known },
    })
}

fn parse_size(text: &str) -> Result<ByteSize, Why> {
    let typed = Typed::parse(text)?;
    let (base, power) = match typed.unit {
        "" => (1024, 0),
        unit => parse_size_unit(unit, KNOWN_SIZES)?,
    };
    // 1024^6 and 1000^6 both fit in 64 bits.
    typed.to_multiple(base.pow(power)).map(ByteSize)
}

fn parse_range(text: &str) -> Result<ByteRange, Why> {
    let (lo, hi) = match text.split_once("..") {
        Some((lo, hi)) => (parse_size(lo)?, parse_size(hi)?),
        None => {
            let size = parse_size(text)?;
            (size, size)
        }
    };
    ByteRange::new(lo, hi).ok_or(Why::Backwards { lo, hi })
}

fn parse_frequency(text: &str) -> Result<Frequency, Why> {
    let typed = Typed::parse(text)?;
    let power = match typed.unit.to_ascii_lowercase().as_str() {
        "" => return Err(Why::NoUnit),
        "hz" => 0,
        "khz" => 3,
        "mhz" => 6,
        "ghz" => 9,
        "thz" => 12,
        _ => {
            return Err(Why::UnknownUnit { unit: shorten(typed.unit, LONGEST_QUOTE), known: KNOWN_CLOCKS });
        }
    };
    typed.to_scaled(power).map(Frequency)
}

fn parse_bandwidth(text: &str) -> Result<Bandwidth, Why> {
    let typed = Typed::parse(text)?;
    if typed.unit.is_empty() {
        return Err(Why::NoUnit);
    }
    let Some(size) = typed.unit.strip_suffix("/s") else {
        return Err(Why::UnknownUnit { unit: shorten(typed.unit, LONGEST_QUOTE), known: KNOWN_BANDWIDTHS });
    };
    let (base, power) = parse_size_unit(size.trim_end(), KNOWN_BANDWIDTHS)?;
    if base == 1000 || power == 0 {
        return typed.to_scaled(3 * power as i32).map(Bandwidth);
    }
    let value = typed.to_scaled(0)? * 1024f64.powi(power as i32);
    if value.is_finite() { Ok(Bandwidth(value)) } else { Err(Why::TooLarge) }
}

fn parse_seconds(text: &str) -> Result<Seconds, Why> {
    let typed = Typed::parse(text)?;
    let value = match typed.unit {
        "" | "s" => typed.to_scaled(0)?,
        "ms" => typed.to_scaled(-3)?,
        // U+00B5 is the micro sign, U+03BC the Greek letter on keyboards.
        "us" | "\u{b5}s" | "\u{3bc}s" => typed.to_scaled(-6)?,
        "ns" => typed.to_scaled(-9)?,
        "ps" => typed.to_scaled(-12)?,
        "min" => typed.to_scaled(0)? * 60.0,
        "h" => typed.to_scaled(0)? * 3600.0,
        unit => {
            return Err(Why::UnknownUnit { unit: shorten(unit, LONGEST_QUOTE), known: KNOWN_TIMES });
        }
    };
    if value.is_finite() { Ok(Seconds(value)) } else { Err(Why::TooLarge) }
}

macro_rules! from_str {
    ($type:ty, $parse:ident, $what:literal, $example:literal) => {
        impl FromStr for $type {
            type Err = ParseQuantityError;

            fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
                $parse(text).map_err(|why| ParseQuantityError {
                    text: shorten(text, LONGEST_QUOTE),
                    what: $what,
                    why,
                    example: $example,
                })
            }
        }
    };
}

from_str!(ByteSize, parse_size, "a size", "8MiB");
from_str!(ByteRange, parse_range, "a range of sizes", "1MiB..2GiB");
from_str!(Frequency, parse_frequency, "a clock", "1.512GHz");
from_str!(Bandwidth, parse_bandwidth, "a bandwidth", "1935GB/s");
from_str!(Seconds, parse_seconds, "a time", "2.5ms");

impl ByteRange {
    /// The sizes from `lo` to `hi`, or `None` where `lo` > `hi`.
    #[must_use]
    pub fn new(lo: ByteSize, hi: ByteSize) -> Option<Self> {
        (lo <= hi).then_some(Self { lo, hi })
    }

    /// The smallest size.
    #[must_use]
    pub fn lo(self) -> ByteSize {
        self.lo
    }

    /// The largest size, included in the range.
    #[must_use]
    pub fn hi(self) -> ByteSize {
        self.hi
    }

    /// True where `size` lies in the range.
    #[must_use]
    pub fn contains(self, size: ByteSize) -> bool {
        (self.lo..=self.hi).contains(&size)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let power = (self.0.trailing_zeros() / 10).min(6);
        match self.0 {
            0 => f.pad("0 B"),
            bytes => f.pad(&format!("{} {}", bytes >> (10 * power), BINARY[power as usize])),
        }
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}..{}", self.lo, self.hi))
    }
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_exactly(self.0, &["Hz", "kHz", "MHz", "GHz", "THz"], 0))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s", "EB/s"];
        f.pad(&format_exactly(self.0, &labels, 0))
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format_exactly(self.0, &["ps", "ns", "µs", "ms", "s"], -4))
    }
}

/// Formats `value` with all digits needed to parse it back exactly. `labels` stand for 1000^`first`, 1000^(`first` + 1) …
/// The decimal point is moved in the text, because a division would round.
fn format_exactly(value: f64, labels: &[&str], first: i32) -> String {
    let last = first + labels.len() as i32 - 1;
    let step = if value.is_finite() { step(value.abs(), 1000.0, first, last) } else { 0 };
    // `step` was clamped to the labels, which include step 0.
    let label = labels[(step - first) as usize];
    let text = format!("{value:e}");
    let shifted = match text.split_once('e') {
        Some((mantissa, exponent)) if value.is_finite() => {
            move_point(mantissa, exponent.parse::<i32>().unwrap_or(0) - 3 * step)
        }
        _ => text,
    };
    format!("{shifted} {label}")
}

/// Formats `mantissa` · 10^`places` in plain digits, or with an exponent where that would take many zeros.
fn move_point(mantissa: &str, places: i32) -> String {
    if !(-6..=20).contains(&places) {
        return format!("{mantissa}e{places}");
    }
    let (sign, unsigned) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = unsigned.chars().filter(|c| *c != '.').collect();
    let point = 1 + places;
    if point <= 0 {
        let zeros = "0".repeat(point.unsigned_abs() as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let point = point as usize;
    if digits.len() <= point {
        let zeros = "0".repeat(point - digits.len());
        return format!("{sign}{digits}{zeros}");
    }
    let (whole, fraction) = digits.split_at(point);
    format!("{sign}{whole}.{fraction}")
}

#[cfg(test)]
mod tests;
