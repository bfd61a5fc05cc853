//! Random numbers for matrix products: turns random bits into numbers whose sums of products stay finite.

use plimsoll_suite::formats::{Format, format};

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("gemm", include_str!("kernel.cu"), |_| kernels());

/// The formats with a kernel; 8-bit integers use random bits unchanged.
pub const TAMED: [&str; 4] = ["f64", "tf32", "f16", "bf16"];

/// Turns bits of a format into a number from ⅛ to 2 with the same sign and fraction, one of four exponents, and unused bits 0.
#[must_use]
pub fn tamed(format: &Format, bits: u64) -> u64 {
    let place = format.fraction + format.unused;
    kept(format) & bits | (bias(format) - (bits >> place & 3)) << place
}

/// Mask of sign and fraction.
fn kept(format: &Format) -> u64 {
    let fraction = ((1_u64 << format.fraction) - 1) << format.unused;
    fraction | 1 << (format.storage - 1)
}

/// The exponent of 1.
fn bias(format: &Format) -> u64 {
    (1 << (format.exponent - 1)) - 1
}

/// Numbers in one word of the kernel.
#[must_use]
pub fn numbers(format: &Format) -> u32 {
    if format.storage == 16 { 2 } else { 1 }
}

/// Words of n numbers.
#[must_use]
pub fn words(format: &Format, n: u64) -> u64 {
    n.div_ceil(numbers(format).into())
}

/// The kernel of one format: over words of 32 bits, for f64 of 64.
#[must_use]
pub fn kernel(format: &Format) -> KernelDesc {
    let name = format!("gemm_tame_{}", format.name);
    let element = if format.storage == 64 { Element::F64 } else { Element::Word };
    let word = if format.storage == 64 { "u64" } else { "u32" };
    let (numbers, place, kept, bias) = (numbers(format), format.fraction + format.unused, kept(format), bias(format));
    KernelDesc {
        entry: format!("GEMM_TAME({name}, {word}, {numbers}, {place}, {kept:#x}, {bias})"),
        parameters: takes!(words: [update ELEMENT; Elements("n")], n: U64),
        element,
        inputs: 1,
        outputs: 1,
        vector_bytes: element.bytes(),
        grid: Grid::Waves { waves: 1 },
        looping: true,
        threads_fixed: false,
        ..KernelDesc::new(&SOURCE, name, 256)
    }
}

/// Every kernel.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    TAMED.iter().filter_map(|name| format(name)).map(kernel).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use plimsoll_suite::formats::{FORMATS, Meaning};

    proptest! {
        #[test]
        fn taming_keeps_sign_and_fraction_and_bounds_the_magnitude(bits: u64, place in 0..FORMATS.len()) {
            let format = &FORMATS[place];
            let bits = bits >> (64 - format.storage);
            let made = tamed(format, bits);
            let Meaning::Number(number) = format.meaning(made) else { panic!("{} {made:x}", format.name) };
            prop_assert!((0.125..2.0).contains(&number.abs()), "{} {}", format.name, number);
            prop_assert_eq!(number < 0.0, bits >> (format.storage - 1) == 1);
            let fraction = ((1_u64 << format.fraction) - 1) << format.unused;
            prop_assert_eq!(made & fraction, bits & fraction);
            prop_assert_eq!(made & ((1 << format.unused) - 1), 0);
        }
    }

    #[test]
    fn there_is_a_kernel_for_every_format_that_needs_one() {
        assert_eq!(kernels().len(), TAMED.len());
        assert_eq!((words(&FORMATS[3], 7), words(&FORMATS[0], 7)), (4, 7));
    }
}
