//! So many multiply-adds for so many words read.

use crate::prelude::kernels::*;

/// The source of these kernels.
pub static SOURCE: Source = Source::new("roofline", include_str!("kernel.cu"), |_| kernels());

/// A type that the kernels compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// Double precision.
    F64,
    /// Single precision.
    F32,
    /// Two of binary16 in a word.
    F16x2,
    /// Two of bfloat16 in a word.
    Bf16x2,
}

impl Real {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::F64, Self::F32, Self::F16x2, Self::Bf16x2];

    /// As the axis names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::F16x2 => "f16x2",
            Self::Bf16x2 => "bf16x2",
        }
    }

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

/// `fma` multiply-adds for one word in `per`, of which all are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The type.
    pub real: Real,
    /// Multiply-adds for each word that goes through any.
    pub fma: u32,
    /// One word in so many does; above 1 only where `fma` is 1.
    pub per: u32,
}

/// Powers of two of the lowest and the highest intensity, FLOP per byte.
const INTENSITIES: std::ops::RangeInclusive<i32> = -3..=8;
/// Up to so many multiply-adds per word memory decides, and more is kept in flight.
const MEMORY_BOUND: u32 = 8;
/// Multiply-adds for a word in the innermost loop, `ROUND` in `kernel.cu`.
fn round(fma: u32) -> u32 {
    if fma < 32 { fma } else { (fma / 2).min(64) }
}

impl Form {
    /// The forms of a type from 1/8 to 256 FLOP per byte, each twice the one before.
    pub fn of(real: Real) -> impl Iterator<Item = Self> {
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

    /// Vectors of 16 bytes that a thread has in hand.
    #[must_use]
    pub fn vectors(self) -> u32 {
        if self.fma <= MEMORY_BOUND || self.real == Real::F64 { 4 } else { 2 }
    }

    /// Words that a thread has in hand, each with its accumulator.
    fn words(self) -> u32 {
        self.vectors() * 16 / self.real.bytes()
    }

    /// The kernel. n counts vectors of 16 bytes; they are a whole number of iterations of the grid.
    #[must_use]
    pub fn kernel(self) -> KernelDesc {
        let Self { real, fma, per } = self;
        let ((of, mnemonics), vectors) = (real.code(), self.vectors());
        let name = format!("roofline_{}_{fma}_in_{per}", real.name());
        KernelDesc {
            entry: format!("ROOFLINE({name}, {of}, {fma}, {per}, {vectors})"),
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
            issues: vec![Issue { mnemonics, count: round(fma) * self.words() / per, chains: self.words() / per }],
            ..base(name)
        }
    }
}

/// Does the same one accumulator after the other, for the check.
#[must_use]
pub fn reference(real: Real) -> KernelDesc {
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
    KernelDesc {
        element: Element::Vector16,
        inputs: 1,
        vector_bytes: 16,
        grid: Grid::Resident { blocks: 1 },
        looping: true,
        ..KernelDesc::new(&SOURCE, name, 256)
    }
}

/// Every kernel.
#[must_use]
pub fn kernels() -> Vec<KernelDesc> {
    Real::ALL.into_iter().flat_map(|real| Form::of(real).map(Form::kernel).chain([reference(real)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_goes_from_an_eighth_to_256_in_steps_of_two() {
        for real in Real::ALL {
            let found: Vec<f64> = Form::of(real).map(Form::arithmetic_intensity).collect();
            let expected: Vec<f64> = INTENSITIES.map(|power| f64::from(power).exp2()).collect();
            assert_eq!(found, expected, "{}", real.name());
        }
    }

    #[test]
    fn every_form_has_a_word_of_each_kind_in_hand() {
        for form in Real::ALL.into_iter().flat_map(Form::of) {
            assert_eq!(form.words() % form.per, 0, "{form:?}");
            assert_eq!(form.fma % round(form.fma), 0, "{form:?}");
        }
    }
}
