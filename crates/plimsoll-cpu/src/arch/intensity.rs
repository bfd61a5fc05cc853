//! Arithmetic of a chosen intensity over an array: so many fused multiply-adds for so many elements read, nothing
//! written. The roofline probe sweeps the [`FORMS`]; peaks and pictures are its business.
//!
//! Read-only keeps it one stream, so an intensity is two FLOP per FMA over the bytes of the elements. Each accumulator
//! takes an element in with one FMA, `acc = x · a + acc`, then does the others as `acc = acc · a + b`; it is never
//! started afresh, so there are as many independent chains in flight in every form. Of forms with fewer FMA than elements,
//! one vector in two or four goes through an FMA and the others are joined bit by bit by XOR, which is no
//! floating-point operation: so every element is read and has its part in the result.

use super::Isa;
use super::vector::{Kernel, Simd, Vector, dispatch};

/// What a kernel does: `fma` fused multiply-adds for every `elements` read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Fused multiply-adds.
    pub fma: usize,
    /// Elements read meanwhile; more than one only where `fma` is one.
    pub elements: usize,
}

impl Form {
    /// FLOP per byte read, an FMA being two.
    #[must_use]
    pub fn arithmetic_intensity<T: Real>(self) -> f64 {
        2.0 * self.fma as f64 / (self.elements as u64 * T::BYTES) as f64
    }
}

/// The forms that kernels exist for, from little arithmetic to much: each has twice the intensity of the one before.
pub const FORMS: [Form; 13] = [
    Form { fma: 1, elements: 4 },
    Form { fma: 1, elements: 2 },
    Form { fma: 1, elements: 1 },
    Form { fma: 2, elements: 1 },
    Form { fma: 4, elements: 1 },
    Form { fma: 8, elements: 1 },
    Form { fma: 16, elements: 1 },
    Form { fma: 32, elements: 1 },
    Form { fma: 64, elements: 1 },
    Form { fma: 128, elements: 1 },
    Form { fma: 256, elements: 1 },
    Form { fma: 512, elements: 1 },
    Form { fma: 1024, elements: 1 },
];

/// Accumulators: at least latency × throughput (4 cycles × 2 FMA on current x86-64 cores, up to 3 per cycle besides),
/// and with two constants, or one and the two vectors of `PARITIES`, they fit the 16 registers of AVX2.
pub const CHAINS: usize = 12;

/// FMA per chain in one iteration of the inner loop: its counter costs 1 of 96.
const ROUND: usize = 8;

/// Vectors that XOR joins elements in, so that its latency of one cycle doesn't hold up the loads.
const PARITIES: usize = 2;

/// Lanes of the widest vector.
const MOST_LANES: usize = 16;

/// What each step multiplies by. Below 1, so that the accumulators of any array stay finite: they tend to
/// `ADDEND / (1 − FACTOR)` = 1.6.
pub const FACTOR: f32 = 0.75;
/// What each step adds: see [`FACTOR`].
pub const ADDEND: f32 = 0.4;

/// What a run leaves behind; it depends on every element taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken<T> {
    /// The sum of the accumulators.
    pub sum: T,
    /// The XOR of the bits of the elements that went through no FMA.
    pub parity: u64,
}

/// A type that the kernels exist for: f64 and f32, and no others.
pub trait Real: sealed::Sealed + Copy {
    /// Bytes of one element.
    const BYTES: u64;
    /// Its bits, the upper ones zero where it is shorter.
    fn bits(self) -> u64;
}

mod sealed {
    use crate::arch::vector::{Simd, Vector};

    /// How to find a set's vector of the type.
    pub trait Sealed: Sized {
        /// The vector of this type.
        type Of<S: Simd>: Vector<Element = Self>;
        /// From a constant.
        fn of(value: f32) -> Self;
    }
}

/// [`Real`] for a type and the name of its vector.
macro_rules! real {
    ($type:ident, $vector:ident) => {
        impl sealed::Sealed for $type {
            type Of<S: Simd> = S::$vector;

            fn of(value: f32) -> Self {
                Self::from(value)
            }
        }

        impl Real for $type {
            const BYTES: u64 = size_of::<$type>() as u64;

            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    };
}

real!(f64, F64);
real!(f32, F32);

/// The intensity kernel of one instruction set and form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntensityKernel {
    isa: Isa,
    form: Form,
}

impl IntensityKernel {
    /// The kernel, or none if this machine lacks the set or `form` is not of [`FORMS`].
    pub fn new(isa: Isa, form: Form) -> Option<Self> {
        (isa.is_available() && FORMS.contains(&form)).then_some(Self { isa, form })
    }

    /// The instruction set. Where it has no fused multiply-add (SSE2, generic), each is two instructions.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// What it does.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Elements in one of its vectors: those of a block belong together by vectors.
    pub fn lanes<T: Real>(&self) -> usize {
        self.isa.vector_bytes() / T::BYTES as usize
    }

    /// How many of `elements` a run takes: whole blocks of twelve vectors for each of the form's elements, the rest being
    /// left out.
    pub fn elements<T: Real>(&self, elements: usize) -> usize {
        let block = CHAINS * self.form.elements * self.lanes::<T>();
        elements / block * block
    }

    /// Floating-point operations of a run over `elements`: two per FMA, for the elements that it takes.
    pub fn flops<T: Real>(&self, elements: usize) -> u64 {
        2 * (self.form.fma * (self.elements::<T>(elements) / self.form.elements)) as u64
    }

    /// Bytes that a run over `elements` reads.
    pub fn bytes<T: Real>(&self, elements: usize) -> u64 {
        self.elements::<T>(elements) as u64 * T::BYTES
    }

    /// Runs over `a`.
    pub fn run<T: Real>(&self, a: &[T]) -> Taken<T> {
        // SAFETY: `new` checked the set, and the pointer and length are those of a live slice.
        unsafe {
            match (self.form.fma, self.form.elements) {
                (1, 4) => dispatch(self.isa, Chains::<T, 1, 4>::over(a)),
                (1, 2) => dispatch(self.isa, Chains::<T, 1, 2>::over(a)),
                (1, _) => dispatch(self.isa, Chains::<T, 1, 1>::over(a)),
                (2, _) => dispatch(self.isa, Chains::<T, 2, 1>::over(a)),
                (4, _) => dispatch(self.isa, Chains::<T, 4, 1>::over(a)),
                (8, _) => dispatch(self.isa, Chains::<T, 8, 1>::over(a)),
                (16, _) => dispatch(self.isa, Chains::<T, 16, 1>::over(a)),
                (32, _) => dispatch(self.isa, Chains::<T, 32, 1>::over(a)),
                (64, _) => dispatch(self.isa, Chains::<T, 64, 1>::over(a)),
                (128, _) => dispatch(self.isa, Chains::<T, 128, 1>::over(a)),
                (256, _) => dispatch(self.isa, Chains::<T, 256, 1>::over(a)),
                (512, _) => dispatch(self.isa, Chains::<T, 512, 1>::over(a)),
                _ => dispatch(self.isa, Chains::<T, 1024, 1>::over(a)),
            }
        }
    }
}

/// `FMA` per `ELEMENTS` of `a[..length]`.
struct Chains<T, const FMA: usize, const ELEMENTS: usize> {
    a: *const T,
    length: usize,
}

impl<T: Real, const FMA: usize, const ELEMENTS: usize> Chains<T, FMA, ELEMENTS> {
    fn over(a: &[T]) -> Self {
        Self { a: a.as_ptr(), length: a.len() }
    }
}

impl<T: Real, const FMA: usize, const ELEMENTS: usize> Kernel for Chains<T, FMA, ELEMENTS> {
    type Output = Taken<T>;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> Taken<T> {
        // SAFETY: the caller promises the set and `length` readable elements; only whole blocks inside them are read, and
        // no vector has more lanes than `bits` has elements.
        unsafe {
            let factor = T::Of::<S>::splat(T::of(FACTOR));
            let addend = T::Of::<S>::splat(T::of(ADDEND));
            let mut chains = [addend; CHAINS];
            let mut parities = [T::Of::<S>::splat(T::of(0.0)); PARITIES];
            let lanes = T::Of::<S>::LANES;
            let mut at = 0;
            while at + CHAINS * ELEMENTS * lanes <= self.length {
                for (k, chain) in chains.iter_mut().enumerate() {
                    let from = self.a.add(at + k * ELEMENTS * lanes);
                    *chain = T::Of::<S>::load(from).fma(factor, *chain);
                    for other in 1..ELEMENTS {
                        let parity = &mut parities[(k + other) % PARITIES];
                        *parity = parity.xor(T::Of::<S>::load(from.add(other * lanes)));
                    }
                }
                for _ in 0..(FMA - 1) / ROUND {
                    for _ in 0..ROUND {
                        step::<T::Of<S>>(&mut chains, factor, addend);
                    }
                }
                for _ in 0..(FMA - 1) % ROUND {
                    step::<T::Of<S>>(&mut chains, factor, addend);
                }
                at += CHAINS * ELEMENTS * lanes;
            }
            let mut total = chains[0];
            for chain in &chains[1..] {
                total = total.add(*chain);
            }
            let mut bits = [T::of(0.0); MOST_LANES];
            parities[0].xor(parities[1]).store(bits.as_mut_ptr());
            Taken { sum: total.reduce(), parity: bits.iter().fold(0, |parity, lane| parity ^ lane.bits()) }
        }
    }
}

/// One FMA of every chain.
///
/// # Safety
/// The machine has the vector's set.
#[inline(always)]
unsafe fn step<V: Vector>(chains: &mut [V; CHAINS], factor: V, addend: V) {
    for chain in chains {
        // SAFETY: the caller promises the set.
        *chain = unsafe { chain.fma(factor, addend) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::available;

    fn kernels() -> impl Iterator<Item = IntensityKernel> {
        available()
            .into_iter()
            .flat_map(|isa| FORMS.into_iter().filter_map(move |form| IntensityKernel::new(isa, form)))
    }

    /// The same chains in plain f64, one element after another.
    fn oracle<T: Real + Into<f64>>(a: &[T], kernel: IntensityKernel) -> Taken<f64> {
        let (lanes, Form { fma, elements }) = (kernel.lanes::<T>(), kernel.form());
        let mut sums = vec![f64::from(ADDEND); lanes * CHAINS];
        let mut parity = 0;
        for (i, &x) in a[..kernel.elements::<T>(a.len())].iter().enumerate() {
            let vector = i / lanes;
            if vector % elements > 0 {
                parity ^= x.bits();
                continue;
            }
            let sum = &mut sums[vector / elements % CHAINS * lanes + i % lanes];
            *sum += x.into() * f64::from(FACTOR);
            for _ in 1..fma {
                *sum = *sum * f64::from(FACTOR) + f64::from(ADDEND);
            }
        }
        Taken { sum: sums.iter().sum(), parity }
    }

    /// Compares a kernel with the oracle.
    fn compare<T: Real + Into<f64>>(a: &[T], kernel: IntensityKernel, tolerance: f64) {
        let (got, expected) = (kernel.run(a), oracle(a, kernel));
        let off = (got.sum.into() - expected.sum).abs();
        assert!(off <= tolerance * expected.sum.abs().max(1.0), "{kernel:?} over {}: off by {off}", a.len());
        assert_eq!(got.parity, expected.parity, "{kernel:?} over {}", a.len());
    }

    #[test]
    fn every_element_goes_through_its_multiply_adds_or_is_joined_by_xor() {
        let wide: Vec<f64> = (0..1700).map(|i| f64::from(i * i % 37) - 11.5).collect();
        let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
        for kernel in kernels() {
            for length in [0, 1, 96, 191, 192, 500, 767, 768, 1700] {
                compare(&wide[..length], kernel, 1e-12);
                compare(&narrow[..length], kernel, 1e-4);
            }
        }
    }

    #[test]
    fn flops_and_bytes_count_only_the_elements_taken() {
        let kernel =
            |fma, elements| IntensityKernel::new(Isa::Generic, Form { fma, elements }).expect("it is everywhere");
        let dense = kernel(4, 1);
        assert_eq!(dense.elements::<f64>(100), 96);
        assert_eq!(dense.flops::<f64>(100), 96 * 8);
        assert_eq!(dense.bytes::<f64>(100), 96 * 8);
        let sparse = kernel(1, 4);
        assert_eq!(sparse.elements::<f64>(400), 384);
        assert_eq!(sparse.flops::<f64>(400), 2 * 384 / 4);
        assert_eq!(sparse.bytes::<f64>(400), 384 * 8);
    }

    #[test]
    fn each_form_has_twice_the_intensity_of_the_one_before() {
        for pair in FORMS.windows(2) {
            assert_eq!(pair[1].arithmetic_intensity::<f64>(), 2.0 * pair[0].arithmetic_intensity::<f64>());
        }
        assert_eq!(FORMS[0].arithmetic_intensity::<f32>(), 0.125);
        assert_eq!(FORMS[2].arithmetic_intensity::<f64>(), 0.25);
    }

    #[test]
    fn an_unknown_form_has_no_kernel() {
        for (fma, elements) in [(0, 1), (3, 1), (2, 2), (1, 8)] {
            assert_eq!(IntensityKernel::new(Isa::Generic, Form { fma, elements }), None);
        }
    }
}
