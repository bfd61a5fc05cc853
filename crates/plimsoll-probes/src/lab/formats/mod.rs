//! formats: what number formats hold, found by the device's own arithmetic and held to the standards bit by bit, and how
//! fast it computes with them: one number at a time, in pairs, and in the matrix units.
//!
//! Limits are bits, and 64 of them fit no number of a record: they are coordinates, in hexadecimal. What they stand for
//! stands beside them as numbers, where it is one.

#[cfg(feature = "gpu")]
pub mod gpu;
#[cfg(feature = "kernels")]
pub mod kernels;

use plimsoll_core::device::DeviceInfo;
use plimsoll_core::probe::ProbeSpec;
use plimsoll_core::record::{Finding, Published};
use plimsoll_core::sample::{CachePolicy, Figure};
use plimsoll_core::series::{Coordinate, Draw, Estimate, Name, Quantity, Row, Series, TypedSeries, Value, metric};
use plimsoll_core::stats::Interval;
use plimsoll_core::unit::Unit;

use plimsoll_suite::findings::advice::{advice, ratio};
use plimsoll_suite::findings::{finding, known_rows};
use plimsoll_suite::formats::{self, FORMATS, Format, LIMITS, Limit, Meaning};

/// What the probe is.
pub static SPEC: ProbeSpec = ProbeSpec {
    name: "formats",
    group: "lab",
    sentence: "What the number formats hold, bit by bit, and how fast each is: alone, in pairs, in the matrix units.",
    seconds: [5.0, 14.0, 40.0],
    findings,
};

/// Relative half-width of the time of the kernels that look for limits: it tells nothing, so it needs none.
const ANY_TIME: f64 = 0.5;

plimsoll_core::names! {
    /// How many numbers an instruction computes with.
    pub enum Form {
        /// One per thread.
        Scalar = "scalar",
        /// Two in a register.
        Packed = "packed",
        /// Matrices.
        Matrix = "matrix",
    }
}

/// A number format that is known.
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

plimsoll_core::axes! {
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
        let [largest, doubled, normal, smallest, step, after, nan] = bits.map(|bits| Name::from(format.text(bits)));
        Self { format: Known(format), largest, doubled, normal, smallest, step, after, nan }
    }

    /// The bits, in the order of [`LIMITS`].
    fn bits(&self) -> Option<Vec<u64>> {
        let all = [&self.largest, &self.doubled, &self.normal, &self.smallest, &self.step, &self.after, &self.nan];
        all.into_iter().map(|bits| Format::read(bits.as_str())).collect()
    }
}

plimsoll_core::axes! {
    /// An instruction of a format.
    pub struct Rate {
        /// The format.
        format: Known,
        /// How many numbers it computes with.
        form: Form,
        /// Its name.
        instruction: Name,
    }
}

/// What each format holds: the bits that the device found.
#[must_use]
pub fn limits() -> TypedSeries<Limits> {
    let values = LIMITS.into_iter().filter_map(value_name);
    let values = values.map(|name| metric(name, Unit::One, Quantity::Extra)).collect();
    TypedSeries::new("limits", Figure::Throughput, CachePolicy::Hot, values, Draw::Table).within(ANY_TIME)
}

/// Operations per second of the whole device by format and form, at the fastest of its instructions.
#[must_use]
pub fn rates() -> TypedSeries<Rate> {
    let rate = metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond);
    let draw = Draw::Bars { x: "format".into(), y: "rate".into(), by: Some("form".into()) };
    TypedSeries::new("rates", Figure::Throughput, CachePolicy::Hot, vec![rate], draw)
}

/// The name of the metric that tells a limit as a number; none where it needn't be one.
fn value_name(limit: Limit) -> Option<&'static str> {
    Some(match limit {
        Limit::Largest => "largest value",
        Limit::Normal => "smallest normal value",
        Limit::Smallest => "smallest value",
        Limit::Step => "step value",
        Limit::Doubled | Limit::After | Limit::Nan => return None,
    })
}

/// What a format's bits stand for, by the names of the metrics; infinities and what is no number are left out.
pub fn values(format: &Format, bits: &[u64]) -> impl Iterator<Item = (&'static str, f64)> {
    let number = |(limit, bits): (&Limit, &u64)| match format.meaning(*bits) {
        Meaning::Number(number) => Some((value_name(*limit)?, number)),
        _ => None,
    };
    LIMITS.iter().zip(bits).filter_map(number)
}

/// A format's limits, as the device found them.
struct Held<'s> {
    format: &'static Format,
    row: &'s Row,
    bits: Vec<u64>,
}

fn held(series: &[Series]) -> Vec<Held<'_>> {
    let Some(limits) = series.iter().find(|series| series.spec.case == "limits") else { return Vec::new() };
    let of = |(at, row): (Limits, _)| Some(Held { format: at.format.0, row, bits: at.bits()? });
    known_rows(limits).filter_map(of).collect()
}

/// How fast a format is in one form.
struct Fast<'s> {
    row: &'s Row,
    form: Form,
    instruction: Name,
    rate: Estimate,
}

fn fast<'s>(series: &'s [Series], format: &'static Format) -> Vec<Fast<'s>> {
    let Some(rates) = series.iter().find(|series| series.spec.case == "rates") else { return Vec::new() };
    let of = |(at, row): (Rate, &'s Row)| {
        Some(Fast { row, form: at.form, instruction: at.instruction, rate: rates.estimate(row, "rate")? })
    };
    known_rows(rates).filter(|(at, _): &(Rate, &Row)| at.format == Known(format)).filter_map(of).collect()
}

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let held = held(series);
    let limits = held.iter().map(limits_of);
    let fast = FORMATS.iter().flat_map(|format| fast(series, format).into_iter().map(move |one| (format, one)));
    let rates = fast.map(|(format, one)| rate_of(info, format, &one));
    let table = held.iter().filter_map(|held| line_of_table(held, &fast_sorted(series, held.format)));
    limits.chain(rates).chain(table).chain(advised(series)).collect()
}

fn fast_sorted<'s>(series: &'s [Series], format: &'static Format) -> Vec<Fast<'s>> {
    let mut all = fast(series, format);
    all.sort_by_key(|one| one.form);
    all
}

/// How many of a format's limits are those of the standard, and which aren't.
fn limits_of(held: &Held<'_>) -> Finding {
    let Held { format, row, bits } = held;
    let wrong: Vec<String> = LIMITS
        .iter()
        .zip(bits)
        .filter(|(limit, bits)| !format.holds(**limit, **bits))
        .map(|(limit, bits)| format!("{} is {}", limit.name(), format.text(*bits)))
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

/// The kind of arithmetic as peaks name it.
fn kind(format: &str, form: Form) -> String {
    // The matrix units are as fast with either form of 8 bits, and peaks name one.
    let format = if format.starts_with("f8") { "f8" } else { format };
    match form {
        Form::Scalar => format.to_owned(),
        Form::Packed => format!("{format}x2"),
        Form::Matrix => format!("{format} matrix"),
    }
}

fn rate_of(info: &DeviceInfo, format: &Format, one: &Fast<'_>) -> Finding {
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

/// A format's line of the table: range, precision, and every rate. Its figure is the fastest of these.
fn line_of_table(held: &Held<'_>, fast: &[Fast<'_>]) -> Option<Finding> {
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

/// Decimal digits that a format tells apart: the step at 1, as a power of ten.
fn digits(format: &Format) -> f64 {
    f64::from(format.fraction + 1) * std::f64::consts::LOG10_2
}

/// The sentence for this device: what each step down in precision brings over single precision one number at a time.
fn advised(series: &[Series]) -> Option<Finding> {
    let best = |format: &'static Format, form: Option<Form>| {
        let all = fast(series, format).into_iter().filter(|one| form.is_none_or(|form| one.form == form));
        all.max_by(|a, b| a.rate.value.total_cmp(&b.rate.value))
    };
    let control = best(formats::format("f32")?, Some(Form::Scalar))?;
    let cases: Vec<(&'static Format, Fast<'_>)> = FORMATS
        .iter()
        .filter(|format| !matches!(format.name, "f32" | "f8e5m2"))
        .filter_map(|format| Some((format, best(format, None)?)))
        .collect();
    let (_, fastest) = cases.iter().max_by(|a, b| a.1.rate.value.total_cmp(&b.1.rate.value))?;
    let told: Vec<String> = cases
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
        told.join(", ")
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
            series: 0,
            round: 0,
            at: at.to_values(),
            k: 1,
            tick: 1e-9,
            work: Work { operations, ..Work::default() },
            samples: vec![1000; 30],
            evidence: Default::default(),
            flags: Default::default(),
            extra: extra.map(|(name, value)| (name.to_owned(), value)).collect(),
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
    fn every_format_of_a_device_that_keeps_the_standards_is_told_so() {
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
    fn what_differs_from_the_standard_is_named_with_its_bits() {
        let format = formats::format("f16").unwrap();
        let mut bits = found_bits(format);
        // A device that takes subnormals for zero.
        bits[3] = 0x0400;
        let found = findings(&DeviceInfo::default(), &[Series::new(limits(), [limit_point(format, &bits)])]);
        assert_eq!(found[0].value, 6.0);
        assert_eq!(found[0].says, "Not as the standard has it: smallest is 0x0400.");
    }

    #[test]
    fn the_table_has_range_precision_and_every_rate_of_a_format() {
        let format = formats::format("bf16").unwrap();
        let rates = [("bf16", Form::Matrix, 800e12), ("bf16", Form::Packed, 120e12), ("bf16", Form::Scalar, 60e12)];
        let series = [
            Series::new(limits(), [limit_point(format, &found_bits(format))]),
            Series::new(super::rates(), rates.map(|(format, form, rate)| rate_point(format, form, rate))),
        ];
        let peak = Peak { metric: "bf16x2".into(), value: 133e12, unit: Unit::FlopPerSecond, source: "x".into() };
        let found = findings(&DeviceInfo { peaks: vec![peak], ..DeviceInfo::default() }, &series);
        let one = |name: &str| found.iter().find(|finding| finding.name == name).expect(name);
        let table = one("table bf16");
        assert!((table.value - 800e12).abs() < 1e6, "{table:?}");
        assert!(
            table.says.starts_with("scalar 60.0 TFLOP/s, packed 120 TFLOP/s, matrix 800 TFLOP/s;"),
            "{}",
            table.says
        );
        assert!(table.says.ends_with("largest 3.39e38, smallest normal 1.18e-38, step at 1 7.81e-3"), "{}", table.says);
        assert!(one("rate packed bf16").says.ends_with("90.2 % of 133 TFLOP/s"), "{:?}", one("rate packed bf16"));
        assert_eq!(one("rate matrix bf16").metric, "bf16 matrix");
    }

    #[test]
    fn advice_holds_every_format_against_single_precision() {
        let rates = [
            ("f64", Form::Scalar, 30e12),
            ("f64", Form::Matrix, 60e12),
            ("f32", Form::Scalar, 60e12),
            ("bf16", Form::Packed, 120e12),
            ("bf16", Form::Matrix, 720e12),
        ];
        let rates = Series::new(super::rates(), rates.map(|(format, form, rate)| rate_point(format, form, rate)));
        let found = advised(&[rates]).unwrap();
        assert!((found.value - 12.0).abs() < 1e-9);
        assert!(found.says.contains("f64 in matrices 1.0 times (16.0 digits)"), "{}", found.says);
        assert!(found.says.contains("bf16 in matrices 12.0 times (2.4 digits)"), "{}", found.says);
        assert!(advised(&[]).is_none());
        let alone = Series::new(super::rates(), [rate_point("f64", Form::Scalar, 1e12)]);
        assert!(advised(&[alone]).is_none());
    }

    #[test]
    fn the_axes_are_the_limits() {
        let names: Vec<String> = Limits::axes().into_iter().skip(1).map(|axis| axis.name).collect();
        assert_eq!(names, LIMITS.map(Limit::name));
    }

    #[test]
    fn bytes_count_among_the_peaks_of_eight_bits() {
        assert_eq!(kind("f8e5m2", Form::Matrix), "f8 matrix");
        assert_eq!((kind("f32", Form::Scalar), kind("f16", Form::Packed)), ("f32".to_owned(), "f16x2".to_owned()));
    }
}
