//! 32 bytes of lanes in an array, for machines without a specific instruction set here: the compiler uses what the target's base
//! instruction set offers. `fma` rounds twice, because a fused one may be a library call.

use super::vector::{Kernel, Simd, Vector};

/// The instruction set that every machine has.
pub(crate) struct Generic;

/// `LANES` elements.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T, const LANES: usize>([T; LANES]);

impl<T: Copy, const LANES: usize> Lanes<T, LANES> {
    #[inline(always)]
    fn combine(mut self, other: Self, operation: impl Fn(T, T) -> T) -> Self {
        for (lane, other) in self.0.iter_mut().zip(other.0) {
            *lane = operation(*lane, other);
        }
        self
    }
}

/// [`Vector`] for an array of a float type.
macro_rules! lanes {
    ($element:ty, $lanes:literal) => {
        impl Vector for Lanes<$element, $lanes> {
            type Element = $element;
            type Single = super::vector::Single<$element, false>;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                Self([value; $lanes])
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller promises `LANES` readable elements; an array is aligned as its element is.
                Self(unsafe { source.cast::<[$element; $lanes]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises `LANES` writable elements; an array is aligned as its element is.
                unsafe { target.cast::<[$element; $lanes]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn store_nontemporal(self, target: *mut $element) {
                // SAFETY: as for `store`, which the caller promises.
                unsafe { self.store(target) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                self.combine(other, |a, b| a + b)
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                self.combine(other, |a, b| a * b)
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, addend: Self) -> Self {
                // SAFETY: plain arithmetic, which every machine has.
                unsafe { self.mul(factor).add(addend) }
            }
            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                self.combine(other, |a, b| <$element>::from_bits(a.to_bits() ^ b.to_bits()))
            }
            #[inline(always)]
            unsafe fn reduce(self) -> $element {
                self.0.iter().sum()
            }
        }
    };
}

lanes!(f64, 4);
lanes!(f32, 8);

impl Simd for Generic {
    type F64 = Lanes<f64, 4>;
    type F32 = Lanes<f32, 8>;

    #[inline(always)]
    unsafe fn fence() {}
}

/// Runs `kernel` compiled for the target's base instruction set.
///
/// # Safety
/// The pointers held by the kernel are valid as it requires.
pub(crate) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller promises the pointers; only the base instruction set is used here.
    unsafe { kernel.run::<Generic>() }
}
