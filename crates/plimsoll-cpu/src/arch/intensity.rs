//! Arithmetic of a chosen intensity over an array: a number of fused multiply-adds for a number of elements read, without
//! writes. The roofline probe sweeps the [`FORMS`].
//!
//! Reading only means a single stream, so the intensity is two FLOP per FMA over the bytes of the elements. Each accumulator
//! takes an element with one FMA, `acc = x · a + acc`, then does the other FMAs as `acc = acc · a + b`. It is never reset, so
//! every form has the same number of independent chains in flight. In forms with fewer FMAs than elements, one vector in two
//! or four goes through an FMA; the others are combined by XOR, which isn't a floating-point operation. So every element is
//! read and affects the result.

use super::Isa;
use super::vector::{Kernel, Simd, Vector, dispatch};

/// The work of a kernel: `fma` fused multiply-adds for every `elements` read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Fused multiply-adds.
    pub fma: usize,
    /// Elements read meanwhile; more than one only if `fma` is one.
    pub elements: usize,
}

impl Form {
    /// FLOP per byte read, an FMA being two.
    #[must_use]
    pub fn arithmetic_intensity<T: Real>(self) -> f64 {
        2.0 * self.fma as f64 / (self.elements as u64 * T::BYTES) as f64
    }
}

/// The forms that kernels exist for, in ascending order: each has twice the intensity of the one before.
pub const FORMS: [Form; 13] = {
    let mut forms = [Form { fma: 1, elements: 4 }; 13];
    let mut place = 1;
    while place < forms.len() {
        let Form { fma, elements } = forms[place - 1];
        forms[place] =
            if elements > 1 { Form { fma, elements: elements / 2 } } else { Form { fma: 2 * fma, elements } };
        place += 1;
    }
    forms
};

/// Accumulators: at least latency × throughput (4 cycles × 2 FMA on current x86-64 cores; enough for up to 3 FMA per cycle).
/// With two constants, or one constant and the two vectors of `PARITIES`, they fit the 16 registers of AVX2.
pub const CHAINS: usize = 12;

/// FMAs per chain in one iteration of the inner loop: its counter is 1 instruction in 96.
const UNROLL: usize = 8;

/// XOR accumulators: two, so that the latency of one cycle doesn't delay the loads.
const PARITIES: usize = 2;

/// Lanes of the widest vector.
const MOST_LANES: usize = 16;

/// The factor of each step. Below 1, so that the accumulators stay finite for any array: they converge to
/// `ADDEND / (1 − FACTOR)` = 1.6.
pub const FACTOR: f32 = 0.75;
/// The addend of each step: see [`FACTOR`].
pub const ADDEND: f32 = 0.4;

/// The result of a run, which depends on every element read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reduction<T> {
    /// The sum of the accumulators.
    pub sum: T,
    /// The XOR of the bits of the elements that did not go through an FMA.
    pub parity: u64,
}

/// A type that the kernels exist for: f64 or f32.
pub trait Real: sealed::Sealed + Copy {
    /// Bytes of one element.
    const BYTES: u64;
    /// Its bits, zero-extended to 64.
    fn bits(self) -> u64;
}

#[allow(unnameable_types, reason = "a sealed trait")]
mod sealed {
    use crate::arch::vector::{Simd, Vector};

    /// The vectors of the type.
    pub trait Sealed: Sized {
        /// The vector of this type in the instruction set `S`.
        type VectorOf<S: Simd>: Vector<Element = Self>;
        /// Converts a constant.
        fn from_f32(value: f32) -> Self;
    }
}

/// [`Real`] for a type and the name of its vector.
macro_rules! real {
    ($type:ident, $vector:ident) => {
        impl sealed::Sealed for $type {
            type VectorOf<S: Simd> = S::$vector;

            fn from_f32(value: f32) -> Self {
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
    /// The kernel, or `None` if this machine lacks the set or `form` isn't in [`FORMS`].
    pub fn new(isa: Isa, form: Form) -> Option<Self> {
        (isa.is_available() && FORMS.contains(&form)).then_some(Self { isa, form })
    }

    /// The instruction set. Without a fused multiply-add (SSE2, generic), each FMA is two instructions.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Its FMAs and elements.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Elements in one of its vectors.
    pub fn lanes<T: Real>(&self) -> usize {
        self.isa.vector_bytes() / T::BYTES as usize
    }

    /// How many of `elements` a run reads: whole blocks of twelve vectors for each of the form's elements, without the
    /// remainder.
    pub fn elements<T: Real>(&self, elements: usize) -> usize {
        let block = CHAINS * self.form.elements * self.lanes::<T>();
        elements / block * block
    }

    /// Floating-point operations of a run over `elements`: two per FMA, for the elements that it reads.
    pub fn flops<T: Real>(&self, elements: usize) -> u64 {
        2 * (self.form.fma * (self.elements::<T>(elements) / self.form.elements)) as u64
    }

    /// Bytes that a run over `elements` reads.
    pub fn bytes<T: Real>(&self, elements: usize) -> u64 {
        self.elements::<T>(elements) as u64 * T::BYTES
    }

    /// Runs over `a`.
    pub fn run<T: Real>(&self, a: &[T]) -> Reduction<T> {
        // SAFETY: `new` checked the set, and the pointer and length are those of a live slice.
        unsafe {
            match (self.form.fma, self.form.elements) {
                (1, 4) => dispatch(self.isa, Chains::<T, 1, 4>::new(a)),
                (1, 2) => dispatch(self.isa, Chains::<T, 1, 2>::new(a)),
                (1, _) => dispatch(self.isa, Chains::<T, 1, 1>::new(a)),
                (2, _) => dispatch(self.isa, Chains::<T, 2, 1>::new(a)),
                (4, _) => dispatch(self.isa, Chains::<T, 4, 1>::new(a)),
                (8, _) => dispatch(self.isa, Chains::<T, 8, 1>::new(a)),
                (16, _) => dispatch(self.isa, Chains::<T, 16, 1>::new(a)),
                (32, _) => dispatch(self.isa, Chains::<T, 32, 1>::new(a)),
                (64, _) => dispatch(self.isa, Chains::<T, 64, 1>::new(a)),
                (128, _) => dispatch(self.isa, Chains::<T, 128, 1>::new(a)),
                (256, _) => dispatch(self.isa, Chains::<T, 256, 1>::new(a)),
                (512, _) => dispatch(self.isa, Chains::<T, 512, 1>::new(a)),
                _ => dispatch(self.isa, Chains::<T, 1024, 1>::new(a)),
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
    fn new(a: &[T]) -> Self {
        Self { a: a.as_ptr(), length: a.len() }
    }
}

impl<T: Real, const FMA: usize, const ELEMENTS: usize> Kernel for Chains<T, FMA, ELEMENTS> {
    type Output = Reduction<T>;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> Reduction<T> {
        // SAFETY: the caller promises the set and `length` readable elements; only whole blocks inside them are read, and
        // no vector has more lanes than `bits` has elements.
        unsafe {
            let factor = T::VectorOf::<S>::splat(T::from_f32(FACTOR));
            let addend = T::VectorOf::<S>::splat(T::from_f32(ADDEND));
            let mut chains = [addend; CHAINS];
            let mut parities = [T::VectorOf::<S>::splat(T::from_f32(0.0)); PARITIES];
            let lanes = T::VectorOf::<S>::LANES;
            let mut at = 0;
            while at + CHAINS * ELEMENTS * lanes <= self.length {
                for (k, chain) in chains.iter_mut().enumerate() {
                    let from = self.a.add(at + k * ELEMENTS * lanes);
                    *chain = T::VectorOf::<S>::load(from).fma(factor, *chain);
                    for other in 1..ELEMENTS {
                        let parity = &mut parities[(k + other) % PARITIES];
                        *parity = parity.xor(T::VectorOf::<S>::load(from.add(other * lanes)));
                    }
                }
                for _ in 0..(FMA - 1) / UNROLL {
                    for _ in 0..UNROLL {
                        step::<T::VectorOf<S>>(&mut chains, factor, addend);
                    }
                }
                for _ in 0..(FMA - 1) % UNROLL {
                    step::<T::VectorOf<S>>(&mut chains, factor, addend);
                }
                at += CHAINS * ELEMENTS * lanes;
            }
            let mut total = chains[0];
            for chain in &chains[1..] {
                total = total.add(*chain);
            }
            let mut bits = [T::from_f32(0.0); MOST_LANES];
            parities[0].xor(parities[1]).store(bits.as_mut_ptr());
            Reduction { sum: total.reduce(), parity: bits.iter().fold(0, |parity, lane| parity ^ lane.bits()) }
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

    /// The same chains in plain f64, one element at a time.
    fn oracle<T: Real + Into<f64>>(a: &[T], kernel: IntensityKernel) -> Reduction<f64> {
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
        Reduction { sum: sums.iter().sum(), parity }
    }

    /// Compares a kernel with the oracle.
    fn compare<T: Real + Into<f64>>(a: &[T], kernel: IntensityKernel, tolerance: f64) {
        let (got, expected) = (kernel.run(a), oracle(a, kernel));
        let off = (got.sum.into() - expected.sum).abs();
        assert!(off <= tolerance * expected.sum.abs().max(1.0), "{kernel:?} over {}: off by {off}", a.len());
        assert_eq!(got.parity, expected.parity, "{kernel:?} over {}", a.len());
    }

    #[test]
    fn every_element_goes_through_its_multiply_adds_or_the_xor() {
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
    fn flops_and_bytes_count_only_the_elements_read() {
        let kernel =
            |fma, elements| IntensityKernel::new(Isa::Generic, Form { fma, elements }).expect("every machine has it");
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
