//! Kernels with a given number of multiply-adds per word read.

pub use super::Type;
use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("roofline", include_str!("kernel.cu"), |_| kernels());

impl Type {
    /// Bytes of a word: a number, or two.
    #[must_use]
    pub fn bytes(self) -> u32 {
        if self == Self::F64 { 8 } else { 4 }
    }

    /// Operations of one multiply-add instruction on a word.
    #[must_use]
    pub fn operations(self) -> u32 {
        if matches!(self, Self::F64 | Self::F32) { 2 } else { 4 }
    }

    /// The struct in `kernel.cu`, and the mnemonic.
    fn code(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::F64 => ("F64", &["DFMA"]),
            Self::F32 => ("F32", &["FFMA"]),
            Self::F16x2 => ("F16x2", &["HFMA2"]),
            Self::Bf16x2 => ("BF16x2", &["HFMA2"]),
        }
    }
}

/// `fma` multiply-adds for one word in `per`; all words are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The type.
    pub real: Type,
    /// Multiply-adds for each word that has any.
    pub fma: u32,
    /// One word in `per` goes through multiply-adds; above 1 only where `fma` is 1.
    pub per: u32,
}

/// Binary logarithms of the lowest and the highest intensity in FLOP per byte.
const INTENSITIES: std::ops::RangeInclusive<i32> = -3..=8;
/// Up to this many multiply-adds per word a kernel is memory-bound and keeps more loads in flight.
const MEMORY_BOUND: u32 = 8;
/// Multiply-adds per word that are written out: in the innermost loop (`INNER` in `kernel.cu`), or all of them where there is
/// no such loop.
fn inner(fma: u32) -> u32 {
    if fma < 32 { fma } else { (fma / 2).min(64) }
}

impl Form {
    /// The forms of a type from 1/8 to 256 FLOP per byte, each twice the one before.
    pub fn all_of_type(real: Type) -> impl Iterator<Item = Self> {
        INTENSITIES.map(move |power| {
            let fma = f64::from(power).exp2() * f64::from(real.bytes()) / f64::from(real.operations());
            let form = if fma >= 1.0 { (fma as u32, 1) } else { (1, fma.recip() as u32) };
            Self { real, fma: form.0, per: form.1 }
        })
    }

    /// Operations per byte read.
    #[must_use]
    pub fn arithmetic_intensity(self) -> f64 {
        f64::from(self.fma * self.real.operations()) / f64::from(self.per * self.real.bytes())
    }

    /// Vectors of 16 bytes that a thread holds at once.
    #[must_use]
    pub fn vectors(self) -> u32 {
        if self.fma <= MEMORY_BOUND || self.real == Type::F64 { 4 } else { 2 }
    }

    /// Words that a thread holds at once, each with its accumulator.
    fn words(self) -> u32 {
        self.vectors() * 16 / self.real.bytes()
    }

    /// The kernel. n counts vectors of 16 bytes, a whole number of grid iterations.
    #[must_use]
    pub fn kernel(self) -> KernelDesc {
        let Self { real, fma, per } = self;
        let ((product, mnemonics), vectors) = (real.code(), self.vectors());
        let name = format!("roofline_{}_{fma}_in_{per}", real.name());
        KernelDesc {
            entry: format!("ROOFLINE({name}, {product}, {fma}, {per}, {vectors})"),
            parameters: if vectors == 4 {
                takes!(
                    out: [fill 4; PerWarp(4)], in: [read 16; PerThread(4 * 16, &["iterations"])],
                    clock: [fill 8; Times(16, &[])], iterations: U32,
                )
            } else {
                takes!(
                    out: [fill 4; PerWarp(4)], in: [read 16; PerThread(2 * 16, &["iterations"])],
                    clock: [fill 8; Times(16, &[])], iterations: U32,
                )
            },
            issues: vec![Issue { mnemonics, count: inner(fma) * self.words() / per, chains: self.words() / per }],
            ..base(name)
        }
    }
}

/// The reference for the check: does the same, one accumulator after the other.
#[must_use]
pub fn reference(real: Type) -> KernelDesc {
    let name = format!("roofline_{}_reference", real.name());
    KernelDesc {
        entry: format!("ROOFLINE_REFERENCE({name}, {})", real.code().0),
        parameters: takes!(
            out: [fill 4; PerWarp(4)], in: [read 16; PerThread(16, &["iterations", "vectors"])], iterations: U32, fma: U32,
            per: U32 [Least(Is(1))], vectors: U32,
        ),
        ..base(name)
    }
}

fn base(name: String) -> KernelDesc {
    KernelDesc { element: Element::Vector16, inputs: 1, vector_bytes: 16, ..resident(1, &SOURCE, name, 256) }
}

/// All kernels.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    Type::ALL.into_iter().flat_map(|real| Form::all_of_type(real).map(Form::kernel).chain([reference(real)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_covers_an_eighth_to_256_in_steps_of_two() {
        for real in Type::ALL {
            let found: Vec<f64> = Form::all_of_type(real).map(Form::arithmetic_intensity).collect();
            let expected: Vec<f64> = INTENSITIES.map(|power| f64::from(power).exp2()).collect();
            assert_eq!(found, expected, "{}", real.name());
        }
    }

    #[test]
    fn every_form_holds_whole_groups_of_words_and_whole_inner_loops() {
        for form in Type::ALL.into_iter().flat_map(Form::all_of_type) {
            assert_eq!(form.words() % form.per, 0, "{form:?}");
            assert_eq!(form.fma % inner(form.fma), 0, "{form:?}");
        }
    }
}
