//! gemm: rates of matrix products on random numbers: single instructions without memory traffic (double precision against its
//! multiply-add, products with half of A zero against dense ones), and whole products by the vendor's library.

probe! {
    /// Matrix products on random numbers: double precision, half zeros, and whole ones by cuBLAS.
    "gemm" in "lab", seconds: [5.0, 20.0, 60.0], files: cuda kernels
}

#[cfg(feature = "cuda")]
mod products;

use plimsoll_suite::machines::{Arithmetic, machine, rates};
use plimsoll_suite::operations;

use crate::prelude::meaning::*;

names! {
    /// The operands of an instruction.
    pub enum Form {
        /// One number per thread.
        Scalar = "scalar",
        /// Matrices.
        Dense = "dense",
        /// Matrices with two zeros in every four numbers of A (in tf32 one in two).
        Sparse = "half zeros",
    }

    /// The numbers that are multiplied.
    pub enum Numbers {
        /// Double precision.
        F64 = "f64",
        /// Single precision, reduced to 19 bits by the products.
        Tf32 = "tf32",
        /// binary16.
        F16 = "f16",
        /// bfloat16.
        Bf16 = "bf16",
        /// Floats of 8 bits.
        F8 = "f8",
        /// Bytes.
        I8 = "i8",
    }
}

axes! {
    /// An instruction.
    pub struct Instruction {
        /// The type of its numbers.
        numbers: Numbers,
        /// Whether these are matrices.
        form: Form,
        /// Its name.
        instruction: Name,
    }

    /// A product of square matrices.
    pub struct Product {
        /// The type of their numbers.
        numbers: Numbers,
        /// Their rows.
        rows as "n": Count,
    }
}

/// Operations per second of the whole device for one repeated instruction, in its fastest configuration. Zeros count as numbers,
/// as vendors count them.
#[must_use]
pub fn instructions() -> TypedSeries<Instruction> {
    let draw = Draw::bars("instruction", "rate");
    spec("instructions", draw)
}

/// The same for whole products by the library: square matrices of n rows.
#[must_use]
pub fn products() -> TypedSeries<Product> {
    let draw = Draw::bars("numbers", "rate").grouped_by("n");
    spec("products", draw)
}

/// The largest error of the checked elements, relative to the sum of the products' magnitudes.
pub const ERROR: &str = "error";

fn spec<A: Axes>(case: &str, draw: Draw) -> TypedSeries<A> {
    let metrics: Vec<Metric> = vec![
        metric("rate", Unit::FlopPerSecond, Quantity::OperationsPerSecond),
        metric(ERROR, Unit::One, Quantity::Extra),
    ];
    TypedSeries::hot(case, metrics, draw)
}

/// A row with its operands and figures.
struct Measured<'s> {
    row: &'s Row,
    numbers: Numbers,
    form: Form,
    /// The instruction, or the size of the product.
    which: String,
    rate: Estimate,
    error: Option<Estimate>,
}

/// The rows of a series; `what` returns their numbers, form, and instruction or product size.
fn measured_rows<'s, A: Axes>(
    series: &'s [Series],
    case: &str,
    what: impl Fn(A) -> (Numbers, Form, String),
) -> Vec<Measured<'s>> {
    let Some(series) = series.iter().find(|series| series.spec.case == case) else { return Vec::new() };
    let to_measured = |(at, row): (A, &'s Row)| {
        let (numbers, form, which) = what(at);
        let (rate, error) = (series.estimate(row, "rate")?, series.estimate(row, ERROR));
        Some(Measured { row, numbers, form, which, rate, error })
    };
    known_rows(series).filter_map(to_measured).collect()
}

impl Measured<'_> {
    /// The kind of arithmetic as named by peaks; products with zeros have none.
    fn kind(&self) -> Option<String> {
        match self.form {
            Form::Scalar => Some(self.numbers.to_string()),
            Form::Dense => Some(format!("{} matrix", self.numbers)),
            Form::Sparse => None,
        }
    }

    fn unit(&self) -> Unit {
        operations::unit(&Unit::FlopPerSecond, self.numbers.name())
    }

    /// The vendor's published rate: dense, at the highest clock.
    fn published(&self, info: &DeviceInfo) -> Option<Published> {
        let arithmetic = match (self.form, self.numbers) {
            (Form::Scalar, Numbers::F64) => Arithmetic::F64,
            (Form::Dense, Numbers::F64) => Arithmetic::F64Matrix,
            (Form::Dense, Numbers::Tf32) => Arithmetic::Tf32Matrix,
            (Form::Dense, Numbers::F16 | Numbers::Bf16) => Arithmetic::F16Matrix,
            (Form::Dense, Numbers::F8) => Arithmetic::F8Matrix,
            (Form::Dense, Numbers::I8) => Arithmetic::I8Matrix,
            _ => return None,
        };
        let known = machine(&info.name).ok()?;
        let peak = known.peak(arithmetic)?;
        Some(Published { range: Interval { lo: peak, hi: peak }, source: format!("{}: {}", known.name, known.source) })
    }

    /// The share of the published rate, the clock, the share of the units' rate at that clock, and whether power lowered it.
    fn evidence(&self, info: &DeviceInfo) -> String {
        let mut parts = Vec::new();
        if let Some(known) = self.published(info) {
            let share = 100.0 * self.rate.value / known.range.lo;
            parts.push(format!("{share:.1} % of the published {}", self.unit().format(known.range.lo)));
        }
        if let Some(clock) = self.row.clock_hz() {
            parts.push(format!("at {}", Unit::Hertz.format(clock)));
            let capability = info.architecture.as_deref().and_then(|name| name.strip_prefix("sm_")?.parse().ok());
            let per_cycle =
                capability.zip(self.kind()).and_then(|(capability, kind)| rates::per_cycle(capability, &kind));
            if let Some(most) = per_cycle.map(|rate| rate * f64::from(info.multiprocessors) * clock) {
                parts.push(format!("{:.1} % of what the units do at that clock", 100.0 * self.rate.value / most));
            }
        }
        if self.row.flags.contains(Flag::ThrottlePower) {
            parts.push("the power limit lowered the clock".to_owned());
        }
        parts.join(", ")
    }
}

fn findings(info: &DeviceInfo, series: &[Series]) -> Vec<Finding> {
    let instructions =
        measured_rows(series, "instructions", |at: Instruction| (at.numbers, at.form, at.instruction.to_string()));
    let products = measured_rows(series, "products", |at: Product| (at.numbers, Form::Dense, at.rows.0.to_string()));
    let rate_finding = |one: &Measured<'_>, name: String| {
        let mut rate = finding(name, one.unit(), one.row, one.rate);
        rate.metric = one.kind().unwrap_or_default();
        Finding { says: one.evidence(info), published: one.published(info), ..rate }
    };
    let errors = products.iter().filter_map(|one| {
        let name = format!("error {} {}", one.numbers, one.which);
        let says = "the largest of some elements, relative to the sum of their products' magnitudes".to_owned();
        Some(Finding { says, ..finding(name, Unit::One, one.row, one.error?) })
    });
    let mut all: Vec<Finding> =
        instructions.iter().map(|one| rate_finding(one, format!("rate {}", one.which))).collect();
    all.extend(gains(&instructions));
    all.extend(products.iter().map(|one| rate_finding(one, format!("product {} {}", one.numbers, one.which))));
    all.extend(errors);
    all.extend(advise(info, &instructions, &products));
    all
}

/// The fastest row of a type and form.
fn best<'f, 's>(all: &'f [Measured<'s>], numbers: Numbers, form: Form) -> Option<&'f Measured<'s>> {
    let candidates = all.iter().filter(|one| one.numbers == numbers && one.form == form);
    candidates.max_by(|a, b| a.rate.value.total_cmp(&b.rate.value))
}

/// The best sparse and dense product of each type that has both, in the order of the rows.
fn pairs<'f, 's>(all: &'f [Measured<'s>]) -> Vec<(&'f Measured<'s>, &'f Measured<'s>)> {
    let mut seen: Vec<Numbers> = Vec::new();
    for one in all {
        if !seen.contains(&one.numbers) {
            seen.push(one.numbers);
        }
    }
    seen.into_iter()
        .filter_map(|numbers| Some((best(all, numbers, Form::Sparse)?, best(all, numbers, Form::Dense)?)))
        .collect()
}

/// Each case's gain over its control.
fn gains(all: &[Measured<'_>]) -> Vec<Finding> {
    let gain = |name: String, case: &Measured<'_>, control: &Measured<'_>| {
        let flags = case.row.flags.union(control.row.flags);
        let says = format!("{} against {}", case.which, control.which);
        Finding { says, ..derived(name, Unit::One, ratio(case.rate, control.rate), flags) }
    };
    let double = best(all, Numbers::F64, Form::Dense).zip(best(all, Numbers::F64, Form::Scalar));
    let double = double.map(|(case, control)| gain("f64 matrix over scalar".to_owned(), case, control));
    let sparse = pairs(all).into_iter();
    double.into_iter().chain(sparse.map(|(s, d)| gain(format!("half zeros over dense {}", d.numbers), s, d))).collect()
}

/// The advice: where double precision belongs, the library's rate, and the gain from zeros.
fn advise(info: &DeviceInfo, instructions: &[Measured<'_>], products: &[Measured<'_>]) -> Option<Finding> {
    let scalar = best(instructions, Numbers::F64, Form::Scalar)?;
    let matrix = best(instructions, Numbers::F64, Form::Dense)?;
    let double = ratio(matrix.rate, scalar.rate);
    let mut says = if double.interval.lo > 1.0 {
        format!(
            "Write double precision as matrix products: {} brings {:.2} times a multiply-add",
            matrix.which, double.value
        )
    } else {
        format!("Matrices bring double precision nothing here ({:.2} times a multiply-add)", double.value)
    };
    let mut rows = vec![scalar.row, matrix.row];
    if let Some(library) = best(products, Numbers::F64, Form::Dense) {
        let evidence = library.evidence(info);
        let rate = Unit::FlopPerSecond.format(library.rate.value);
        says.push_str(&format!("; cuBLAS does {rate} at n = {}", library.which));
        if !evidence.is_empty() {
            says.push_str(&format!(" ({evidence})"));
        }
        rows.push(library.row);
    }
    let gained: Vec<String> = pairs(instructions)
        .into_iter()
        .map(|(sparse, dense)| {
            rows.extend([sparse.row, dense.row]);
            format!("{:.2} in {}", sparse.rate.value / dense.rate.value, dense.numbers)
        })
        .collect();
    if !gained.is_empty() {
        says.push_str(&format!(
            "; zeros in every other place bring the units a factor of {}, not two for granted",
            gained.join(", ")
        ));
    }
    says.push('.');
    Some(advice(says, Unit::One, double, rows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::sample::{Evidence, Work};
    use plimsoll_core::series::Point;
    use plimsoll_suite::findings::synthetic::assert_says;

    fn point(at: impl Axes, rate: f64, clock: f64, error: Option<f64>) -> Point {
        Point {
            evidence: Evidence { clock_hz: Some(clock), ..Evidence::default() },
            extra: error.map(|error| (ERROR.to_owned(), error)).into_iter().collect(),
            ..Point::new(at.to_values(), Work { operations: rate * 1e-6, ..Work::default() }, vec![1000; 30])
        }
    }

    fn instruction(numbers: Numbers, form: Form, name: &'static str, rate: f64) -> Point {
        point(Instruction { numbers, form, instruction: name.into() }, rate, 1.98e9, None)
    }

    fn hopper() -> DeviceInfo {
        DeviceInfo {
            name: "NVIDIA H200".into(),
            architecture: Some("sm_90".into()),
            multiprocessors: 132,
            ..DeviceInfo::default()
        }
    }

    fn measured() -> [Series; 2] {
        let all = [
            instruction(Numbers::F64, Form::Scalar, "FMA f64", 33e12),
            instruction(Numbers::F64, Form::Dense, "mma f64 8x8x4", 33e12),
            instruction(Numbers::F64, Form::Dense, "mma f64 16x8x16", 66e12),
            instruction(Numbers::F16, Form::Dense, "mma f16", 600e12),
            instruction(Numbers::F16, Form::Dense, "wgmma f16", 750e12),
            instruction(Numbers::F16, Form::Sparse, "wgmma.sp f16", 1200e12),
        ];
        let at = Product { numbers: Numbers::F64, rows: Count(8192) };
        let mut library = point(at, 60e12, 1.8e9, Some(3e-16));
        library.flags.insert_if(Flag::ThrottlePower, true);
        [Series::new(instructions(), all), Series::new(products(), [library])]
    }

    #[test]
    fn gains_name_case_and_control() {
        let found = findings(&hopper(), &measured());
        let find = |name: &str| found.iter().find(|finding| finding.name == name).expect(name);
        let double = find("f64 matrix over scalar");
        assert!((double.value - 2.0).abs() < 1e-9 && double.says == "mma f64 16x8x16 against FMA f64", "{double:?}");
        let zeros = find("half zeros over dense f16");
        assert!((zeros.value - 1.6).abs() < 1e-9 && zeros.says == "wgmma.sp f16 against wgmma f16", "{zeros:?}");
        assert_eq!(find("rate mma f64 16x8x16").metric, "f64 matrix");
        assert_eq!((find("rate wgmma.sp f16").metric.as_str(), find("rate FMA f64").metric.as_str()), ("", "f64"));
    }

    #[test]
    fn finding_of_a_product_below_its_peak_names_clock_and_power() {
        let found = findings(&hopper(), &measured());
        let product = found.iter().find(|finding| finding.name == "product f64 8192").unwrap();
        assert!(product.published.as_ref().is_some_and(|known| (known.range.lo / 66.9e12 - 1.0).abs() < 0.01));
        // 132 · 256 · 1.8 GHz = 60.8 TFLOP/s.
        assert_says(
            product,
            &["% of the published", "at 1.800 GHz", "98.6 % of what the units do", "power limit lowered"],
        );
        let error = found.iter().find(|finding| finding.name == "error f64 8192").unwrap();
        assert_eq!(error.value, 3e-16);
    }

    #[test]
    fn advice_has_gain_library_and_zeros() {
        let found = findings(&hopper(), &measured());
        let advice = found.iter().find(|finding| plimsoll_suite::findings::advice::is_advice(finding)).unwrap();
        assert!((advice.value - 2.0).abs() < 1e-9);
        assert!(advice.says.starts_with("Write double precision as matrix products"), "{}", advice.says);
        assert!(advice.says.contains("cuBLAS does 60.0 TFLOP/s at n = 8192"), "{}", advice.says);
        assert!(advice.says.contains("1.60 in f16"), "{}", advice.says);
        let [instructions, _] = measured();
        assert!(!findings(&hopper(), &[instructions]).last().unwrap().says.contains("cuBLAS"));
    }

    #[test]
    fn advice_says_if_matrices_gain_nothing() {
        let all = [
            instruction(Numbers::F64, Form::Scalar, "FMA f64", 1e12),
            instruction(Numbers::F64, Form::Dense, "mma f64 8x8x4", 1e12),
        ];
        let found = findings(&DeviceInfo::default(), &[Series::new(instructions(), all)]);
        assert!(found.last().unwrap().says.starts_with("Matrices bring double precision nothing"));
        assert!(findings(&DeviceInfo::default(), &[]).is_empty());
    }
}
