//! Published instruction figures of CPU cores, found by CPUID or MIDR, to compare measurements of `incore` and `roofline` with.
//! Only figures on which the named sources agree are listed; others are left out.

use Operation::{Add, Div, Fma, Mul, Sqrt};
use Width::{Scalar, V128, V256, V512};

/// The type of number in one lane of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// 64-bit floating point.
    F64,
    /// 32-bit floating point.
    F32,
    /// 64-bit integer.
    I64,
    /// 32-bit integer.
    I32,
}

impl Number {
    /// Its name in records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::I64 => "i64",
            Self::I32 => "i32",
        }
    }

    /// Bytes of one lane.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::F64 | Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
        }
    }
}

/// How much of a register one instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Width {
    /// One lane.
    Scalar,
    /// 128 bits.
    V128,
    /// 256 bits.
    V256,
    /// 512 bits.
    V512,
}

impl Width {
    /// Its name in records and tables: `scalar`, or the number of bits.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::V128 => "128",
            Self::V256 => "256",
            Self::V512 => "512",
        }
    }

    /// Lanes of `number` that one instruction works on.
    #[must_use]
    pub fn lanes(self, number: Number) -> usize {
        match self {
            Self::Scalar => 1,
            Self::V128 => 16 / number.bytes(),
            Self::V256 => 32 / number.bytes(),
            Self::V512 => 64 / number.bytes(),
        }
    }
}

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Addition.
    Add,
    /// Multiplication (the low half, for integers).
    Mul,
    /// Multiplication and addition in one, rounded once.
    Fma,
    /// Division.
    Div,
    /// Square root.
    Sqrt,
}

impl Operation {
    /// Its name in records and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "ADD",
            Self::Mul => "MUL",
            Self::Fma => "FMA",
            Self::Div => "DIV",
            Self::Sqrt => "SQRT",
        }
    }
}

/// Published latency and throughput of an operation, for one or more types of numbers and widths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The operation.
    pub operation: Operation,
    /// The types of numbers that it applies to.
    pub numbers: &'static [Number],
    /// The widths that it applies to.
    pub widths: &'static [Width],
    /// Smallest and largest published latency in cycles; they differ where the latency depends on the operands or on the consumer.
    pub latency: Option<[f64; 2]>,
    /// Cycles per instruction while all units are busy.
    pub reciprocal_throughput: Option<f64>,
}

/// Groups of figures.
pub type Figures = &'static [&'static [Figure]];

/// A core design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Microarchitecture {
    /// The name of the design.
    pub name: &'static str,
    /// Vendor string of CPUID (`GenuineIntel`, `AuthenticAMD`), or `ARM`.
    pub vendor: &'static str,
    /// Display family of x86, implementer code of ARM (0x41).
    pub family: u32,
    /// Display models of x86, part numbers of ARM.
    pub models: &'static [u32],
    /// Floating-point operations per cycle and core with all FMA units busy, f64; f32 has twice as many.
    pub f64_flop_per_cycle: u32,
    /// Instruction figures, in groups that several designs may share.
    pub figures: Figures,
    /// The source of the figures.
    pub source: &'static str,
}

impl Microarchitecture {
    /// The published figure of an instruction as records name it: `FMA f64 512`.
    #[must_use]
    pub fn figure_by_name(&self, name: &str) -> Option<&'static Figure> {
        let words: Vec<&str> = name.split(' ').collect();
        let [operation, number, width] = words[..] else { return None };
        self.figures.iter().copied().flatten().find(|figure| {
            figure.operation.name() == operation
                && figure.numbers.iter().any(|known| known.name() == number)
                && figure.widths.iter().any(|known| known.name() == width)
        })
    }

    /// Largest number of floating-point operations per cycle and core, for f64 or f32; `None` for integers.
    #[must_use]
    pub fn flop_per_cycle(&self, number: Number) -> Option<u32> {
        match number {
            Number::F64 => Some(self.f64_flop_per_cycle),
            Number::F32 => Some(2 * self.f64_flop_per_cycle),
            Number::I64 | Number::I32 => None,
        }
    }
}

/// The core design with this vendor string, display family and display model (ARM: `ARM`, implementer, part).
#[must_use]
pub fn microarchitecture(vendor: &str, family: u32, model: u32) -> Option<&'static Microarchitecture> {
    MICROARCHITECTURES
        .iter()
        .find(|core| core.vendor == vendor && core.family == family && core.models.contains(&model))
}

/// The core design with this ARM Main ID Register: implementer in bits 31–24, part number in bits 15–4.
#[must_use]
pub fn from_midr(midr: u32) -> Option<&'static Microarchitecture> {
    microarchitecture("ARM", midr >> 24, (midr >> 4) & 0xfff)
}

const FLOATS: &[Number] = &[Number::F64, Number::F32];
const F64: &[Number] = &[Number::F64];
const F32: &[Number] = &[Number::F32];
const I64: &[Number] = &[Number::I64];
const I32: &[Number] = &[Number::I32];
const SCALAR: &[Width] = &[Scalar];
const NARROW: &[Width] = &[Scalar, V128];
const AVX: &[Width] = &[Scalar, V128, V256];
const VECTORS: &[Width] = &[V128, V256];
const YMM: &[Width] = &[V256];
const ZMM: &[Width] = &[V512];

/// A figure with one latency.
const fn row(
    operation: Operation,
    numbers: &'static [Number],
    widths: &'static [Width],
    latency: f64,
    reciprocal_throughput: f64,
) -> Figure {
    spread(operation, numbers, widths, [latency, latency], reciprocal_throughput)
}

/// A figure with a range of latencies.
const fn spread(
    operation: Operation,
    numbers: &'static [Number],
    widths: &'static [Width],
    latency: [f64; 2],
    reciprocal_throughput: f64,
) -> Figure {
    Figure { operation, numbers, widths, latency: Some(latency), reciprocal_throughput: Some(reciprocal_throughput) }
}

/// A figure with throughput only.
const fn rate(
    operation: Operation,
    numbers: &'static [Number],
    widths: &'static [Width],
    reciprocal_throughput: f64,
) -> Figure {
    Figure { operation, numbers, widths, latency: None, reciprocal_throughput: Some(reciprocal_throughput) }
}

/// ADD, MUL and FMA of f64 and f32 by cores with two FMA units, which take two per cycle: latencies.
const fn two_per_cycle(widths: &'static [Width], [add, mul, fma]: [f64; 3]) -> [Figure; 3] {
    [row(Add, FLOATS, widths, add, 0.5), row(Mul, FLOATS, widths, mul, 0.5), row(Fma, FLOATS, widths, fma, 0.5)]
}

/// ADD, MUL and FMA of 64-bit Arm cores. Latency of a multiply-add whose addend alone is forwarded is 2.
const fn neoverse(reciprocal_throughput: f64) -> [Figure; 3] {
    [
        row(Add, FLOATS, NARROW, 2.0, reciprocal_throughput),
        row(Mul, FLOATS, NARROW, 3.0, reciprocal_throughput),
        spread(Fma, FLOATS, NARROW, [2.0, 4.0], reciprocal_throughput),
    ]
}

const IMUL: Figure = row(Mul, I64, SCALAR, 3.0, 1.0);
/// ADD and MUL of 64-bit integers by cores that add four per cycle.
const FOUR_ADDERS: &[Figure] = &[row(Add, I64, SCALAR, 1.0, 0.25), IMUL];
/// The same by Golden Cove.
const FIVE_ADDERS: &[Figure] = &[row(Add, I64, SCALAR, 1.0, 0.2), IMUL];

/// ADD of vectors of 32-bit integers by a number of units.
const fn vector_adders(units: u32) -> [Figure; 1] {
    [row(Add, I32, VECTORS, 1.0, 1.0 / units as f64)]
}

const SKYLAKE_FLOATS: &[Figure] = &two_per_cycle(AVX, [4.0, 4.0, 4.0]);

/// Golden Cove has two separate adders, which forward results to each other in 2 cycles and to other units in 3.
const GOLDEN_COVE_FLOATS: &[Figure] =
    &[spread(Add, FLOATS, AVX, [2.0, 3.0], 0.5), row(Mul, FLOATS, AVX, 4.0, 0.5), row(Fma, FLOATS, AVX, 4.0, 0.5)];

/// Divider and vector integer figures of Skylake, which later cores kept up to Golden Cove.
const SINCE_SKYLAKE: &[Figure] = &[
    spread(Div, F64, NARROW, [13.0, 14.0], 4.0),
    spread(Div, F64, YMM, [13.0, 15.0], 8.0),
    row(Div, F32, NARROW, 11.0, 3.0),
    row(Div, F32, YMM, 11.0, 5.0),
    row(Sqrt, F32, NARROW, 12.0, 3.0),
    row(Sqrt, F32, YMM, 12.0, 6.0),
    row(Add, I32, VECTORS, 1.0, 1.0 / 3.0),
    row(Mul, I32, VECTORS, 10.0, 1.0),
];

/// The 512-bit instructions except ADD, of all these cores with two 512-bit FMA units.
const INTEL_512: &[Figure] = &[
    row(Mul, FLOATS, ZMM, 4.0, 0.5),
    row(Fma, FLOATS, ZMM, 4.0, 0.5),
    rate(Div, F64, ZMM, 16.0),
    rate(Div, F32, ZMM, 10.0),
    rate(Sqrt, F32, ZMM, 12.0),
    row(Add, I32, ZMM, 1.0, 0.5),
];
const SKYLAKE_512: &[Figure] = &[row(Add, FLOATS, ZMM, 4.0, 0.5)];
/// The 512-bit ADD's latency depends on the port that takes it, so none is given.
const GOLDEN_COVE_512: &[Figure] = &[rate(Add, FLOATS, ZMM, 0.5)];

const SKYLAKE: Figures = &[SKYLAKE_FLOATS, FOUR_ADDERS, SINCE_SKYLAKE];
const SKYLAKE_SERVER: Figures = &[SKYLAKE_FLOATS, FOUR_ADDERS, SINCE_SKYLAKE, INTEL_512, SKYLAKE_512];
const GOLDEN_COVE_CLIENT: Figures = &[GOLDEN_COVE_FLOATS, FIVE_ADDERS, SINCE_SKYLAKE];
const GOLDEN_COVE_SERVER: Figures = &[GOLDEN_COVE_FLOATS, FIVE_ADDERS, SINCE_SKYLAKE, INTEL_512, GOLDEN_COVE_512];

/// Redwood Cove; the manual gives multiply-adds the same figures as Golden Cove's.
const REDWOOD_COVE: Figures = &[&[row(Fma, FLOATS, AVX, 4.0, 0.5), row(Fma, FLOATS, ZMM, 4.0, 0.5)]];

/// Haswell adds floating-point numbers in one unit only.
const HASWELL_FLOATS: &[Figure] =
    &[row(Add, FLOATS, AVX, 3.0, 1.0), row(Mul, FLOATS, AVX, 5.0, 0.5), row(Fma, FLOATS, AVX, 5.0, 0.5)];
/// As Haswell, with a shorter MUL.
const BROADWELL_FLOATS: &[Figure] =
    &[row(Add, FLOATS, AVX, 3.0, 1.0), row(Mul, FLOATS, AVX, 3.0, 0.5), row(Fma, FLOATS, AVX, 5.0, 0.5)];
const HASWELL: Figures = &[HASWELL_FLOATS, FOUR_ADDERS, &vector_adders(2)];
const BROADWELL: Figures = &[BROADWELL_FLOATS, FOUR_ADDERS, &vector_adders(2)];

const ZEN2: Figures = &[&two_per_cycle(AVX, [3.0, 3.0, 5.0]), FOUR_ADDERS, &vector_adders(3)];
const ZEN3: Figures = &[&two_per_cycle(AVX, [3.0, 3.0, 4.0]), FOUR_ADDERS, &vector_adders(4)];
/// Zen 4 runs 512-bit instructions in two passes of its 256-bit units.
const ZEN4_512: &[Figure] = &[rate(Add, FLOATS, ZMM, 1.0), rate(Mul, FLOATS, ZMM, 1.0), rate(Fma, FLOATS, ZMM, 1.0)];
const ZEN4: Figures = &[&two_per_cycle(AVX, [3.0, 3.0, 4.0]), ZEN4_512, FOUR_ADDERS, &vector_adders(4)];
const ZEN5: Figures = &[&[
    row(Mul, FLOATS, AVX, 3.0, 0.5),
    row(Fma, FLOATS, AVX, 4.0, 0.5),
    row(Mul, FLOATS, ZMM, 3.0, 0.5),
    row(Fma, FLOATS, ZMM, 4.0, 0.5),
    IMUL,
]];

const NEOVERSE_N: Figures = &[&neoverse(0.5)];
const NEOVERSE_V: Figures = &[&neoverse(0.25)];

const INTEL: &str = "GenuineIntel";
const AMD: &str = "AuthenticAMD";
const UOPS: &str = "uops.info tables; Intel 64 and IA-32 Architectures Optimization Reference Manual";
const INTEL_GUIDE: &str = "Intel 64 and IA-32 Architectures Optimization Reference Manual";
const UOPS_AMD: &str = "uops.info tables; AMD software optimization guide of the family";
const ARM_GUIDE: &str = "Arm software optimization guide of the core";

const fn core(
    name: &'static str,
    (vendor, family): (&'static str, u32),
    models: &'static [u32],
    f64_flop_per_cycle: u32,
    figures: Figures,
    source: &'static str,
) -> Microarchitecture {
    Microarchitecture { name, vendor, family, models, f64_flop_per_cycle, figures, source }
}

/// Every known core design.
pub static MICROARCHITECTURES: &[Microarchitecture] = &[
    core("Haswell", (INTEL, 6), &[60, 63, 69, 70], 16, HASWELL, UOPS),
    core("Broadwell", (INTEL, 6), &[61, 71, 79, 86], 16, BROADWELL, UOPS),
    core("Skylake (client)", (INTEL, 6), &[78, 94, 142, 158, 165, 166], 16, SKYLAKE, UOPS),
    // Processors of this model with one 512-bit FMA unit (some Bronze and Silver) have half the 512-bit rate.
    core("Skylake-SP / Cascade Lake", (INTEL, 6), &[85], 32, SKYLAKE_SERVER, UOPS),
    core("Sunny Cove (client)", (INTEL, 6), &[125, 126], 16, SKYLAKE, UOPS),
    core("Sunny Cove (Ice Lake-SP)", (INTEL, 6), &[106, 108], 32, SKYLAKE_SERVER, UOPS),
    core("Golden Cove (Alder Lake, Raptor Lake)", (INTEL, 6), &[151, 154, 183, 186, 191], 16, GOLDEN_COVE_CLIENT, UOPS),
    core("Golden Cove (Sapphire Rapids)", (INTEL, 6), &[143], 32, GOLDEN_COVE_SERVER, UOPS),
    core("Raptor Cove (Emerald Rapids)", (INTEL, 6), &[207], 32, GOLDEN_COVE_SERVER, UOPS),
    core("Redwood Cove (Granite Rapids)", (INTEL, 6), &[173, 174], 32, REDWOOD_COVE, INTEL_GUIDE),
    core("Zen 2", (AMD, 0x17), &[0x31, 0x60, 0x68, 0x71], 16, ZEN2, UOPS_AMD),
    core("Zen 3", (AMD, 0x19), &[0x01, 0x08, 0x21, 0x44, 0x50], 16, ZEN3, UOPS_AMD),
    core("Zen 4", (AMD, 0x19), &[0x11, 0x61, 0x74, 0x75, 0x78, 0xa0], 16, ZEN4, UOPS_AMD),
    core("Zen 5", (AMD, 0x1a), &[0x02, 0x11, 0x44], 32, ZEN5, UOPS_AMD),
    core("Neoverse N1", ("ARM", 0x41), &[0xd0c], 8, NEOVERSE_N, ARM_GUIDE),
    core("Neoverse N2", ("ARM", 0x41), &[0xd49], 8, NEOVERSE_N, ARM_GUIDE),
    core("Neoverse V1", ("ARM", 0x41), &[0xd40], 16, NEOVERSE_V, ARM_GUIDE),
    core("Neoverse V2", ("ARM", 0x41), &[0xd4f], 16, NEOVERSE_V, ARM_GUIDE),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emerald_rapids_has_golden_coves_figures() {
        let core = microarchitecture(INTEL, 6, 207).unwrap();
        for width in ["scalar", "128", "256", "512"] {
            let fma = core.figure_by_name(&format!("FMA f64 {width}")).unwrap();
            assert_eq!(fma.latency, Some([4.0, 4.0]));
            assert_eq!(fma.reciprocal_throughput, Some(0.5));
        }
        assert_eq!(core.flop_per_cycle(Number::F64), Some(32));
        assert_eq!(core.flop_per_cycle(Number::F32), Some(64));
        assert_eq!(core.flop_per_cycle(Number::I64), None);
    }

    #[test]
    fn peaks_agree_with_the_widest_fma() {
        for core in MICROARCHITECTURES.iter().filter(|core| core.vendor != "ARM") {
            let peak = [("FMA f64 256", 4.0), ("FMA f64 512", 8.0)]
                .iter()
                .filter_map(|(name, lanes)| {
                    let fma = core.figure_by_name(name)?;
                    Some(2.0 * lanes / fma.reciprocal_throughput?)
                })
                .fold(0.0, f64::max);
            assert!((peak - f64::from(core.f64_flop_per_cycle)).abs() < 1e-9, "{}: {peak}", core.name);
        }
    }

    #[test]
    fn no_model_or_instruction_is_listed_twice() {
        let mut seen = std::collections::BTreeSet::new();
        for core in MICROARCHITECTURES {
            for model in core.models {
                assert!(seen.insert((core.vendor, core.family, *model)), "{}", core.name);
            }
            let mut rows = std::collections::HashSet::new();
            for figure in core.figures.iter().copied().flatten() {
                for number in figure.numbers {
                    for width in figure.widths {
                        assert!(rows.insert((figure.operation, *number, *width)), "{}", core.name);
                    }
                }
            }
        }
    }

    #[test]
    fn arm_core_is_found_by_its_midr() {
        assert_eq!(from_midr(0x413f_d0c1).map(|core| core.name), Some("Neoverse N1"));
        assert_eq!(from_midr(0), None);
        assert_eq!(microarchitecture("GenuineIntel", 6, 9999), None);
    }
}
