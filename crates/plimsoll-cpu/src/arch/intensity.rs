//! Arithmetic of a chosen intensity over an array: `n` fused multiply-adds for every element read, nothing written.
//! The roofline probe sweeps `n`; peaks and pictures are its business.
//!
//! Read-only keeps it one stream, so an intensity is `2n` FLOP over one element's bytes: from 1/4 FLOP/B (f64) or
//! 1/2 (f32) at `n = 1`. Each accumulator takes an element in with one FMA, `acc = x · a + acc`, then does `n − 1` of
//! `acc = acc · a + b`; it is never started afresh, so there are as many independent chains in flight at every `n`.

use super::Isa;
use super::vector::{Kernel, Simd, Vector, dispatch};

/// The FMA per element that kernels exist for.
pub const FMA_PER_ELEMENT: [usize; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Accumulators: at least latency × throughput (4 cycles × 2 FMA on current x86-64 cores, up to 3 per cycle besides),
/// and with the two constants they fit the 16 registers of AVX2.
pub const CHAINS: usize = 12;

/// FMA per chain in one turn of the inner loop: its counter costs 1 of 96.
const ROUND: usize = 8;

/// What each step multiplies by. Below 1, so that the accumulators of any array stay finite: they tend to
/// `ADDEND / (1 − FACTOR)` = 1.6.
pub const FACTOR: f32 = 0.75;
/// What each step adds: see [`FACTOR`].
pub const ADDEND: f32 = 0.4;

/// A type that the kernels exist for: f64 and f32, and no others.
pub trait Real: sealed::Sealed + Copy {
    /// Bytes of one element.
    const BYTES: u64;
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
        }
    };
}

real!(f64, F64);
real!(f32, F32);

/// The intensity kernel of one instruction set, element type and number of FMA per element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntensityKernel {
    isa: Isa,
    fma_per_element: usize,
}

impl IntensityKernel {
    /// The kernel, or none if this machine lacks the set or `fma_per_element` is not of [`FMA_PER_ELEMENT`].
    pub fn new(isa: Isa, fma_per_element: usize) -> Option<Self> {
        (isa.is_available() && FMA_PER_ELEMENT.contains(&fma_per_element)).then_some(Self { isa, fma_per_element })
    }

    /// The instruction set. Where it has no fused multiply-add (SSE2, generic), each is two instructions.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// FMA per element read.
    pub fn fma_per_element(&self) -> usize {
        self.fma_per_element
    }

    /// How many of `elements` a run takes: whole blocks of twelve vectors, the rest being left out.
    pub fn elements<T: Real>(&self, elements: usize) -> usize {
        let block = CHAINS * self.isa.vector_bytes() / T::BYTES as usize;
        elements / block * block
    }

    /// Floating-point operations of a run over `elements`: two per FMA, for the elements that it takes.
    pub fn flops<T: Real>(&self, elements: usize) -> u64 {
        2 * self.fma_per_element as u64 * self.elements::<T>(elements) as u64
    }

    /// Bytes that a run over `elements` reads.
    pub fn bytes<T: Real>(&self, elements: usize) -> u64 {
        self.elements::<T>(elements) as u64 * T::BYTES
    }

    /// FLOP per byte read.
    pub fn arithmetic_intensity<T: Real>(&self) -> f64 {
        2.0 * self.fma_per_element as f64 / T::BYTES as f64
    }

    /// Runs over `a`, and returns the sum of the accumulators, which depends on every element taken.
    pub fn run<T: Real>(&self, a: &[T]) -> T {
        // SAFETY: `new` checked the set, and the pointer and length are those of a live slice.
        unsafe {
            match self.fma_per_element {
                1 => dispatch(self.isa, Chains::<T, 1>::over(a)),
                2 => dispatch(self.isa, Chains::<T, 2>::over(a)),
                4 => dispatch(self.isa, Chains::<T, 4>::over(a)),
                8 => dispatch(self.isa, Chains::<T, 8>::over(a)),
                16 => dispatch(self.isa, Chains::<T, 16>::over(a)),
                32 => dispatch(self.isa, Chains::<T, 32>::over(a)),
                64 => dispatch(self.isa, Chains::<T, 64>::over(a)),
                128 => dispatch(self.isa, Chains::<T, 128>::over(a)),
                256 => dispatch(self.isa, Chains::<T, 256>::over(a)),
                512 => dispatch(self.isa, Chains::<T, 512>::over(a)),
                _ => dispatch(self.isa, Chains::<T, 1024>::over(a)),
            }
        }
    }
}

/// `FMA` per element of `a[..length]`.
struct Chains<T, const FMA: usize> {
    a: *const T,
    length: usize,
}

impl<T: Real, const FMA: usize> Chains<T, FMA> {
    fn over(a: &[T]) -> Self {
        Self { a: a.as_ptr(), length: a.len() }
    }
}

impl<T: Real, const FMA: usize> Kernel for Chains<T, FMA> {
    type Output = T;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> T {
        // SAFETY: the caller promises the set and `length` readable elements; only whole blocks inside them are read.
        unsafe {
            let factor = T::Of::<S>::splat(T::of(FACTOR));
            let addend = T::Of::<S>::splat(T::of(ADDEND));
            let mut chains = [addend; CHAINS];
            let lanes = T::Of::<S>::LANES;
            let mut at = 0;
            while at + CHAINS * lanes <= self.length {
                for (k, chain) in chains.iter_mut().enumerate() {
                    *chain = T::Of::<S>::load(self.a.add(at + k * lanes)).fma(factor, *chain);
                }
                for _ in 0..(FMA - 1) / ROUND {
                    for _ in 0..ROUND {
                        step::<T::Of<S>>(&mut chains, factor, addend);
                    }
                }
                for _ in 0..(FMA - 1) % ROUND {
                    step::<T::Of<S>>(&mut chains, factor, addend);
                }
                at += CHAINS * lanes;
            }
            let mut total = chains[0];
            for chain in &chains[1..] {
                total = total.add(*chain);
            }
            total.reduce()
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
            .flat_map(|isa| FMA_PER_ELEMENT.into_iter().filter_map(move |n| IntensityKernel::new(isa, n)))
    }

    /// The same chains in plain f64, one lane after another.
    fn oracle(a: &[f64], lanes: usize, fma: usize) -> f64 {
        let chains = lanes * CHAINS;
        let mut sums = vec![f64::from(ADDEND); chains];
        for (i, x) in a[..a.len() / chains * chains].iter().enumerate() {
            let sum = &mut sums[i % chains];
            *sum += x * f64::from(FACTOR);
            for _ in 1..fma {
                *sum = *sum * f64::from(FACTOR) + f64::from(ADDEND);
            }
        }
        sums.iter().sum()
    }

    #[test]
    fn every_element_goes_through_its_multiply_adds() {
        let wide: Vec<f64> = (0..500).map(|i| f64::from(i % 37) - 11.5).collect();
        let narrow: Vec<f32> = wide.iter().map(|&x| x as f32).collect();
        for kernel in kernels() {
            let n = kernel.fma_per_element();
            for length in [0, 1, 96, 191, 192, 500] {
                let lanes = kernel.isa().vector_bytes() / 8;
                let (got, expected) = (kernel.run(&wide[..length]), oracle(&wide[..length], lanes, n));
                assert!((got - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{kernel:?} f64: {got}, {expected}");
                let expected = oracle(&wide[..length], 2 * lanes, n);
                let got = f64::from(kernel.run(&narrow[..length]));
                assert!((got - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{kernel:?} f32: {got}, {expected}");
            }
        }
    }

    #[test]
    fn flops_and_bytes_count_only_the_elements_taken() {
        let kernel = IntensityKernel::new(Isa::Generic, 4).expect("generic is everywhere");
        assert_eq!(kernel.elements::<f64>(100), 96);
        assert_eq!(kernel.flops::<f64>(100), 96 * 8);
        assert_eq!(kernel.bytes::<f64>(100), 96 * 8);
        assert_eq!(kernel.arithmetic_intensity::<f64>(), 1.0);
        assert_eq!(kernel.arithmetic_intensity::<f32>(), 2.0);
    }

    #[test]
    fn an_unknown_intensity_has_no_kernel() {
        assert_eq!(IntensityKernel::new(Isa::Generic, 0), None);
        assert_eq!(IntensityKernel::new(Isa::Generic, 3), None);
    }
}
