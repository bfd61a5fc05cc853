//! formats: the limits of number formats, found by the device's own arithmetic and compared with the standards bit by bit, and the
//! device's speed with each format: one number at a time, in pairs, and in the matrix units.
//!
//! Limits are bit patterns. 64 bits don't fit into a number of a record, so limits are coordinates in hexadecimal; metrics have
//! their values, where they are numbers.

probe! {
    /// The limits of number formats, bit by bit, and the speed of each: alone, in pairs, in the matrix units.
    "formats" in "lab", seconds: [5.0, 14.0, 40.0], files: gpu kernels
}

use plimsoll_suite::formats::{self, FORMATS, Format, LIMITS, Limit, Meaning};

use crate::prelude::meaning::*;

/// Relative half-width for the time of the kernels that find limits; that time has no meaning, so any precision will do.
const ANY_TIME: f64 = 0.5;

names! {
    /// How many numbers an instruction processes.
    pub enum Form {
        /// One per thread.
        Scalar = "scalar",
        /// Two in a register.
        Packed = "packed",
        /// Matrices.
        Matrix = "matrix",
    }
}

/// A known number format.
#[derive(Clone, Copy, Debug)]
pub struct Known(pub &'static Format);

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Coordinate for Known {
    const UNIT: Unit = Unit::One;

    fn to_value(&self) -> Value {
        self.0.name.into()
    }

    fn from_value(value: &Value) -> Option<Self> {
        formats::format(value.text()?).map(Self)
    }
}

axes! {
    /// A format and its limits, each as hexadecimal bits.
    pub struct Limits {
        /// The format.
        format: Known,
        /// See [`Limit::Largest`].
        largest: Name,
        /// See [`Limit::Doubled`].
        doubled as "largest doubled": Name,
        /// See [`Limit::Normal`].
        normal as "smallest normal": Name,
        /// See [`Limit::Smallest`].
        smallest: Name,
        /// See [`Limit::Step`].
        step as "step at 1": Name,
        /// See [`Limit::After`].
        after as "after 1": Name,
        /// See [`Limit::Nan`].
        nan as "not a number": Name,
    }
}

impl Limits {
    /// The bits of a format, in the order of [`LIMITS`].
    #[must_use]
    pub fn new(format: &'static Format, bits: [u64; LIMITS.len()]) -> Self {
        let [largest, doubled, normal, smallest, step, after, nan] = bits.map(|bits| Name::from(format.to_hex(bits)));
        Self { format: Known(format), largest, doubled, normal, smallest, step, after, nan }
    }

    /// The bits, in the order of [`LIMITS`].
    fn bits(&self) -> Option<Vec<u64>> {
        let all = [&self.largest, &self.doubled, &self.normal, &self.smallest, &self.step, &self.after, &self.nan];
        all.into_iter().map(|bits| Format::parse_hex(bits.as_str())).collect()
    }
}

axes! {
    /// An instruction of a format.
    pub struct Rate {
        /// The format.
        format: Known,
        /// How many numbers it processes.
        form: Form,
        /// Its name.
        instruction: Name,
    }
}

/// Each format's limits: the bits that the device found.
#[must_use]
pub fn limits() -> TypedSeries<Limits> {
    let values = LIMITS.into_iter().filter_map(value_name);
    let values = values.map(|name| metric(name, Unit::One, Quantity::Extra)).collect();
    TypedSeries::hot("limits", values, Draw::Table).with_precision(ANY_TIME)
}

/// Operations per second of the whole device by format and form, at the fastest of its instructions.
#[must_use]
pub fn rates() -> TypedSeries<Rate> {
    let rate = metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond);
    let draw = Draw::bars("format", "rate").grouped_by("form");
    TypedSeries::hot("rates", vec![rate], draw)
}

/// The metric with a limit's value; `None` if the limit may not be a number.
fn value_name(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::Largest => "largest value",
        Limit::Normal => "smallest normal value",
        Limit::Smallest => "smallest value",
        Limit::Step => "step value",
        Limit::Doubled | Limit::After | Limit::Nan => return None,
    })
}

/// The values of a format's bits, by metric name, without infinities and NaNs.
pub fn values(format: &Format, bits: &[u64]) -> impl Iterator<Item = (&'static str, f64)> {
    let number = |(limit, bits): (&Limit, &u64)| match format.meaning(*bits) {
        Meaning::Number(number) => Some((value_name(*limit)?, number)),
        _ => None,
    };
    LIMITS.iter().zip(bits).filter_map(number)
}

/// A format's limits as the device found them.
struct FormatLimits<'s> {
    format: &'static Format,
    row: &'s Row,
    bits: Vec<u64>,
}

fn format_limits(series: &[Series]) -> Vec<FormatLimits<'_>> {
    let Some(limits) = series.iter().find(|series| series.spec.case == "limits") else { return Vec::new() };
    let to_limits = |(at, row): (Limits, _)| Some(FormatLimits { format: at.format.0, row, bits: at.bits()? });
    known_rows(limits).filter_map(to_limits).collect()
}

/// The rate of a format in one form.
struct FormatRate<'s> {
    row: &'s Row,
    form: Form,
    instruction: Name,
    rate: Estimate,
}

fn format_rates<'s>(series: &'s [Series], format: &'static Format) -> Vec<FormatRate<'s>> {
    let Some(rates) = series.iter().find(|series| series.spec.case == "rates") else { return Vec::new() };
    let to_rate = |(at, row): (Rate, &'s Row)| {
        Some(FormatRate { row, form: at.form, instruction: at.instruction, rate: rates.estimate(row, "rate")? })
    };
    known_rows(rates).filter(|(at, _): &(Rate, &Row)| at.format == Known(format)).filter_map(to_rate).collect()
}

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let found = format_limits(series);
    let limits = found.iter().map(limits_finding);
    let fast = FORMATS.iter().flat_map(|format| format_rates(series, format).into_iter().map(move |one| (format, one)));
    let rates = fast.map(|(format, one)| rate_finding(info, format, &one));
    let table = found.iter().filter_map(|held| table_finding(held, &sorted_rates(series, held.format)));
    limits.chain(rates).chain(table).chain(advise(series)).collect()
}

fn sorted_rates<'s>(series: &'s [Series], format: &'static Format) -> Vec<FormatRate<'s>> {
    let mut all = format_rates(series, format);
    all.sort_by_key(|one| one.form);
    all
}

/// How many of a format's limits match the standard, and which don't.
fn limits_finding(held: &FormatLimits<'_>) -> Finding {
    let FormatLimits { format, row, bits } = held;
    let wrong: Vec<String> = LIMITS
        .iter()
        .zip(bits)
        .filter(|(limit, bits)| !format.has_limit(**limit, **bits))
        .map(|(limit, bits)| format!("{} is {}", limit.name(), format.to_hex(*bits)))
        .collect();
    let right = (LIMITS.len() - wrong.len()) as f64;
    let says = match wrong.as_slice() {
        [] => "All bits are those of the standard.".to_owned(),
        some => format!("Not as the standard has it: {}.", some.join(", ")),
    };
    let all = LIMITS.len() as f64;
    let published = Some(Published { range: Interval { lo: all, hi: all }, source: format.source.to_owned() });
    let figure = Estimate { value: right, interval: Interval { lo: right, hi: right } };
    Finding { says, published, ..finding(format!("limits {}", format.name), Unit::One, row, figure) }
}

/// The kind of arithmetic as named by peaks.
fn kind(format: &str, form: Form) -> String {
    // The matrix units are equally fast with both 8-bit formats, and peaks name only one.
    let format = if format.starts_with("f8") { "f8" } else { format };
    match form {
        Form::Scalar => format.to_owned(),
        Form::Packed => format!("{format}x2"),
        Form::Matrix => format!("{format} matrix"),
    }
}

fn rate_finding(info: &DeviceInfo, format: &Format, one: &FormatRate<'_>) -> Finding {
    let name = format!("rate {} {}", one.form.name(), format.name);
    let mut found = finding(name, Unit::FlopPerSecond, one.row, one.rate);
    found.metric = kind(format.name, one.form);
    found.says = format!("by {}", one.instruction);
    if let Some(peak) = info.peak(&found.metric).filter(|peak| peak.value > 0.0) {
        let theory = Unit::FlopPerSecond.format(peak.value);
        found.says = format!("by {}: {:.1} % of {theory}", one.instruction, 100.0 * one.rate.value / peak.value);
    }
    found
}

/// A format's table line: range, precision, and every rate. Its figure is the fastest rate.
fn table_finding(held: &FormatLimits<'_>, fast: &[FormatRate<'_>]) -> Option<Finding> {
    let best = fast.iter().max_by(|a, b| a.rate.value.total_cmp(&b.rate.value))?;
    let rates: Vec<String> =
        fast.iter().map(|one| format!("{} {}", one.form.name(), Unit::FlopPerSecond.format(one.rate.value))).collect();
    let number = |limit: Limit| {
        let place = LIMITS.iter().position(|one| *one == limit)?;
        match held.format.meaning(*held.bits.get(place)?) {
            Meaning::Number(number) => Some(format!("{number:.2e}")),
            _ => None,
        }
    };
    let says = format!(
        "{}; largest {}, smallest normal {}, step at 1 {}",
        rates.join(", "),
        number(Limit::Largest)?,
        number(Limit::Normal)?,
        number(Limit::Step)?
    );
    Some(Finding { says, ..finding(format!("table {}", held.format.name), Unit::FlopPerSecond, best.row, best.rate) })
}

/// Decimal digits of a format: its bits of precision in powers of ten.
fn digits(format: &Format) -> f64 {
    f64::from(format.fraction + 1) * std::f64::consts::LOG10_2
}

/// The advice: the gain of each format over single precision, one number at a time.
fn advise(series: &[Series]) -> Option<Finding> {
    let best = |format: &'static Format, form: Option<Form>| {
        let all = format_rates(series, format).into_iter().filter(|one| form.is_none_or(|form| one.form == form));
        all.max_by(|a, b| a.rate.value.total_cmp(&b.rate.value))
    };
    let control = best(formats::format("f32")?, Some(Form::Scalar))?;
    let cases: Vec<(&'static Format, FormatRate<'_>)> = FORMATS
        .iter()
        .filter(|format| !matches!(format.name, "f32" | "f8e5m2"))
        .filter_map(|format| Some((format, best(format, None)?)))
        .collect();
    let (_, fastest) = cases.iter().max_by(|a, b| a.1.rate.value.total_cmp(&b.1.rate.value))?;
    let gains: Vec<String> = cases
        .iter()
        .map(|(format, one)| {
            let times = one.rate.value / control.rate.value;
            let where_ = if one.form == Form::Matrix { "in matrices" } else { one.form.name() };
            format!("{} {where_} {times:.1} times ({:.1} digits)", format.name, digits(format))
        })
        .collect();
    let says = format!(
        "Compute in the narrowest format whose digits suffice, and in matrices where the work is one: against f32 one \
         number at a time ({}, {:.1} digits) this device does {}.",
        Unit::FlopPerSecond.format(control.rate.value),
        digits(&FORMATS[1]),
        gains.join(", ")
    );
    let decides = ratio(fastest.rate, control.rate);
    Some(advice(says, Unit::One, decides, cases.iter().map(|(_, one)| one.row).chain([control.row])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::device::Peak;
    use plimsoll_core::sample::Work;
    use plimsoll_core::series::{Axes, Point};

    fn point(at: impl Axes, operations: f64, extra: impl Iterator<Item = (&'static str, f64)>) -> Point {
        Point {
            extra: extra.map(|(name, value)| (name.to_owned(), value)).collect(),
            ..Point::new(at.to_values(), Work { operations, ..Work::default() }, vec![1000; 30])
        }
    }

    fn found_bits(format: &Format) -> Vec<u64> {
        let nan = if format.storage == 64 { f64::NAN.to_bits() } else { (1 << (format.storage - 1)) - 1 };
        format.bits.into_iter().chain([nan]).collect()
    }

    fn limit_point(format: &'static Format, bits: &[u64]) -> Point {
        point(Limits::new(format, bits.try_into().unwrap()), 0.0, values(format, bits))
    }

    fn rate_point(format: &str, form: Form, rate: f64) -> Point {
        let format = Known(formats::format(format).unwrap());
        point(Rate { format, form, instruction: "an instruction".into() }, rate * 1e-6, std::iter::empty())
    }

    #[test]
    fn findings_report_formats_that_match_their_standards() {
        let series = [Series::new(limits(), FORMATS.iter().map(|format| limit_point(format, &found_bits(format))))];
        let found = findings(&DeviceInfo::default(), &series);
        assert_eq!(found.len(), FORMATS.len());
        for one in &found {
            assert!(one.value == 7.0 && one.says.starts_with("All bits"), "{one:?}");
            assert!(one.published.as_ref().is_some_and(|known| known.range.lo == 7.0 && !known.source.is_empty()));
        }
        let f64s = &series[0].rows[0];
        assert_eq!(series[0].text(f64s, "largest"), Some("0x7fefffffffffffff"));
        assert_eq!(series[0].estimate(f64s, "smallest value").map(|one| one.value), Some(f64::from_bits(1)));
    }

    #[test]
    fn findings_name_deviations_from_the_standard_with_their_bits() {
        let format = formats::format("f16").unwrap();
        let mut bits = found_bits(format);
        // A device that flushes subnormals to zero.
        bits[3] = 0x0400;
        let found = findings(&DeviceInfo::default(), &[Series::new(limits(), [limit_point(format, &bits)])]);
        assert_eq!(found[0].value, 6.0);
        assert_eq!(found[0].says, "Not as the standard has it: smallest is 0x0400.");
    }

    #[test]
    fn table_has_range_precision_and_every_rate_of_a_format() {
        let format = formats::format("bf16").unwrap();
        let rates = [("bf16", Form::Matrix, 800e12), ("bf16", Form::Packed, 120e12), ("bf16", Form::Scalar, 60e12)];
        let series = [
            Series::new(limits(), [limit_point(format, &found_bits(format))]),
            Series::new(super::rates(), rates.map(|(format, form, rate)| rate_point(format, form, rate))),
        ];
        let peak = Peak { metric: "bf16x2".into(), value: 133e12, unit: Unit::FlopPerSecond, source: "x".into() };
        let found = findings(&DeviceInfo { peaks: vec![peak], ..DeviceInfo::default() }, &series);
        let find = |name: &str| found.iter().find(|finding| finding.name == name).expect(name);
        let table = find("table bf16");
        assert!((table.value - 800e12).abs() < 1e6, "{table:?}");
        assert!(
            table.says.starts_with("scalar 60.0 TFLOP/s, packed 120 TFLOP/s, matrix 800 TFLOP/s;"),
            "{}",
            table.says
        );
        assert!(table.says.ends_with("largest 3.39e38, smallest normal 1.18e-38, step at 1 7.81e-3"), "{}", table.says);
        assert!(find("rate packed bf16").says.ends_with("90.2 % of 133 TFLOP/s"), "{:?}", find("rate packed bf16"));
        assert_eq!(find("rate matrix bf16").metric, "bf16 matrix");
    }

    #[test]
    fn advice_compares_every_format_with_single_precision() {
        let rates = [
            ("f64", Form::Scalar, 30e12),
            ("f64", Form::Matrix, 60e12),
            ("f32", Form::Scalar, 60e12),
            ("bf16", Form::Packed, 120e12),
            ("bf16", Form::Matrix, 720e12),
        ];
        let rates = Series::new(super::rates(), rates.map(|(format, form, rate)| rate_point(format, form, rate)));
        let found = advise(&[rates]).unwrap();
        assert!((found.value - 12.0).abs() < 1e-9);
        assert!(found.says.contains("f64 in matrices 1.0 times (16.0 digits)"), "{}", found.says);
        assert!(found.says.contains("bf16 in matrices 12.0 times (2.4 digits)"), "{}", found.says);
        assert!(advise(&[]).is_none());
        let alone = Series::new(super::rates(), [rate_point("f64", Form::Scalar, 1e12)]);
        assert!(advise(&[alone]).is_none());
    }

    #[test]
    fn the_axes_are_the_limits() {
        let names: Vec<String> = Limits::axes().into_iter().skip(1).map(|axis| axis.name).collect();
        assert_eq!(names, LIMITS.map(Limit::name));
    }

    #[test]
    fn both_eight_bit_formats_share_one_peak() {
        assert_eq!(kind("f8e5m2", Form::Matrix), "f8 matrix");
        assert_eq!((kind("f32", Form::Scalar), kind("f16", Form::Packed)), ("f32".to_owned(), "f16x2".to_owned()));
    }
}
