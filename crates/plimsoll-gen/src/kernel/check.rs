//! Kernels that fill arrays and check results; they are never timed. Any grid works; blocks of 256 threads.

use super::Op;
use super::parameter::takes;
use super::spirv::{Build, Features, NOT_WRITTEN, Spirv, spirv_builds};
use super::{Element, Grid, Index, KernelDesc, Source};

spirv_builds! {
    "crates/plimsoll-gen/kernels/vulkan", "../../kernels/vulkan/":
    FILL = "fill.spv", "fill.comp", [];
    FILL_DOUBLE = "fill_double.spv", "fill.comp", ["DOUBLE"];
    FILL_WORDS = "fill_words.spv", "fill_words.comp", [];
    CHECK_MAP = "check_map.spv", "check_map.comp", [];
    CHECK_MAP_EXACT = "check_map_exact.spv", "check_map.comp", ["EXACT"];
    CHECK_MAP_DOUBLE = "check_map_double.spv", "check_map.comp", ["DOUBLE"];
    CHECK_MAP_WORDS = "check_map_words.spv", "check_map.comp", ["WORDS"];
    CHECK_MIX = "check_mix.spv", "check_mix.comp", [];
    FOLD_WORDS = "fold_words.spv", "fold_words.comp", [];
    SUM = "sum.spv", "sum.comp", [];
    SUM_DOUBLE = "sum_double.spv", "sum.comp", ["DOUBLE"];
}

/// The source of these kernels.
pub static SOURCE: Source =
    Source::new("check", include_str!("../../kernels/check.cu"), |_| kernels()).with_spirv(spirv, BUILDS);

/// The number of block marks in `check_map.comp`; operations have their index in [`Op::ALL`].
const MARKS: u32 = 100;
const NO_DOUBLE: &str = "the device has no double precision (shaderFloat64)";
const NO_ATOMICS: &str = "the device has no 64-bit atomics in memory (shaderBufferInt64Atomics)";

fn spirv(kernel: &KernelDesc, features: Features) -> Result<Spirv, &'static str> {
    let double = kernel.element == Element::F64;
    if double && !features.double {
        return Err(NO_DOUBLE);
    }
    let choose = |for_single: Build, for_double: Build| if double { for_double } else { for_single };
    let name = kernel.name.as_str();
    let (build, constants, atomics) = match name {
        "fill_words" => (FILL_WORDS, vec![], false),
        "fold_words" => (FOLD_WORDS, vec![], false),
        "check_mix" => (CHECK_MIX, vec![], true),
        "check_marks" => (CHECK_MAP_WORDS, vec![(1, MARKS)], true),
        _ if name.starts_with("fill_bits_") => (choose(FILL, FILL_DOUBLE), vec![(1, 0)], false),
        _ if name.starts_with("fill_unit_") => (choose(FILL, FILL_DOUBLE), vec![(1, 1)], false),
        _ if name.starts_with("fill_small_") => (choose(FILL, FILL_DOUBLE), vec![(1, 2)], false),
        _ if name.starts_with("sum_") => {
            if !features.double {
                return Err(NO_DOUBLE);
            }
            (choose(SUM, SUM_DOUBLE), vec![(1, u32::from(name.starts_with("sum_products_")))], true)
        }
        _ => {
            let op = Op::ALL.iter().position(|op| name.starts_with(&format!("check_{}_", op.name())));
            let op = op.ok_or(NOT_WRITTEN)? as u32;
            let single = match kernel.element {
                Element::Word => CHECK_MAP_WORDS,
                _ if features.double => CHECK_MAP_EXACT,
                _ => CHECK_MAP,
            };
            (choose(single, CHECK_MAP_DOUBLE), vec![(1, op)], true)
        }
    };
    if atomics && !features.atomics {
        return Err(NO_ATOMICS);
    }
    Ok(Spirv::new(build, constants))
}

/// The parameters of an element check, given the extent of each input.
macro_rules! map {
    ($a:expr, $b:expr, $c:expr) => {
        takes!(
            out: [read ELEMENT; Elements("n")], a: [read ELEMENT; $a], b: [read ELEMENT; $b], c: [read ELEMENT; $c],
            s: SCALAR, n: U64, result: [update 8; Times(16, &[])],
        )
    };
}

/// Bytes of `$arrays` arrays of words, a pitch apart.
macro_rules! words_of {
    ($arrays:literal) => {
        Product(&[Is(4), Pitched { arrays: &Of($arrays), pitch: &Of("pitch"), each: &Of("n") }])
    };
}

/// The data that buffers are filled with, as in [`crate::pattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Any bits.
    Bits,
    /// 1 ≤ x < 2.
    Unit,
    /// 1, 2, 3 or 4.
    Small,
}

/// Fills an array with data generated from a seed.
#[must_use]
pub fn fill(data: Data, element: Element) -> KernelDesc {
    let (name, in_source) = match data {
        Data::Bits => ("bits", "BITS"),
        Data::Unit => ("unit", "UNIT"),
        Data::Small => ("small", "SMALL"),
    };
    let name = format!("fill_{name}_{}", element.name());
    let entry = format!("CHECK_FILL({name}, {in_source}, {})", element.c_name());
    KernelDesc {
        entry,
        parameters: takes!(out: [fill ELEMENT; Elements("n")], seed: U64, n: U64),
        element,
        ..base(name)
    }
}

/// Checks that every element is the result of this operation on the inputs. `None` for operations that output one value
/// per warp: [`bits`] or [`sum`] folds those further, and the result is compared with the same fold of the inputs.
#[must_use]
pub fn map(op: Op, element: Element) -> Option<KernelDesc> {
    let formula = super::formula(op)?;
    let name = format!("check_{}_{}", op.name(), element.name());
    Some(KernelDesc {
        entry: format!("CHECK_MAP({name}, {}, {formula})", element.c_name()),
        parameters: match op.mix().reads {
            0 => map!(Nothing, Nothing, Nothing),
            1 => map!(Elements("n"), Nothing, Nothing),
            2 => map!(Elements("n"), Elements("n"), Nothing),
            _ => map!(Elements("n"), Elements("n"), Elements("n")),
        },
        element,
        ..base(name)
    })
}

/// Fills words with one value: poison, or zeros for a result.
#[must_use]
pub fn words() -> KernelDesc {
    KernelDesc { parameters: takes!(out: [fill 4; Elements("n")], word: U32, n: U64), ..base("fill_words".to_owned()) }
}

/// Checks all outputs of a mix of reads and writes. The pitch and n are in words.
#[must_use]
pub fn mix() -> KernelDesc {
    KernelDesc {
        parameters: takes!(
            out: [read 4; Bytes(words_of!("writes"))], in: [read 4; Bytes(words_of!("reads"))], pitch: U64, n: U64,
            reads: U32, writes: U32, result: [update 8; Times(16, &[])],
        ),
        ..base("check_mix".to_owned())
    }
}

/// Checks that every word equals its index: the output of kernels whose blocks store their number.
#[must_use]
pub fn marks() -> KernelDesc {
    let name = "check_marks".to_owned();
    let entry = format!("CHECK_MAP({name}, u32, i)");
    KernelDesc { entry, parameters: map!(Nothing, Nothing, Nothing), ..base(name) }
}

/// Folds words: result ^= every word.
#[must_use]
pub fn bits() -> KernelDesc {
    KernelDesc {
        parameters: takes!(in: [read 4; Elements("n")], n: U64, result: [update 4; Times(4, &[])]),
        ..base("fold_words".to_owned())
    }
}

/// Sums in double precision: result += every element, or every a·b if `product` is true.
#[must_use]
pub fn sum(product: bool, element: Element) -> KernelDesc {
    let (name, formula) = if product { ("sum_products", "double(a[i]) * b[i]") } else { ("sum", "a[i]") };
    let name = format!("{name}_{}", element.name());
    let entry = format!("CHECK_SUM({name}, {}, {formula})", element.c_name());
    KernelDesc {
        entry,
        parameters: if product {
            takes!(
                a: [read ELEMENT; Elements("n")], b: [read ELEMENT; Elements("n")], n: U64,
                result: [update 8; Times(8, &[])],
            )
        } else {
            takes!(
                a: [read ELEMENT; Elements("n")], b: [read ELEMENT; Nothing], n: U64, result: [update 8; Times(8, &[])],
            )
        },
        element,
        ..base(name)
    }
}

fn base(name: String) -> KernelDesc {
    KernelDesc {
        index: Index::U64,
        looping: true,
        grid: Grid::Least { waves: 1 },
        threads_fixed: false,
        ..KernelDesc::new(&SOURCE, name, 256)
    }
}

/// All fill and check kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    let floats = [Element::F32, Element::F64];
    let fills = floats.iter().flat_map(|element| [Data::Unit, Data::Small].map(|data| fill(data, *element)));
    let maps = floats.iter().flat_map(|element| Op::ALL.into_iter().filter_map(|op| map(op, *element)));
    let sums = floats.iter().flat_map(|element| [true, false].map(|product| sum(product, *element)));
    let words = [words(), mix(), marks(), bits(), fill(Data::Bits, Element::Word)];
    words.into_iter().chain(map(Op::Copy, Element::Word)).chain(fills).chain(maps).chain(sums).collect()
}
