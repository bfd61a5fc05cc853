//! Four lanes in an array, for machines without an instruction set of their own here: the compiler makes of them
//! what the target offers. Rounds `fma` twice, because a fused one may be a library call.

use super::vector::{Kernel, Simd, Vector};

/// Lanes per array.
const LANES: usize = 4;

/// The instruction set that every machine has.
pub(crate) struct Generic;

/// Four elements.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T>([T; LANES]);

/// [`Vector`] for an array of a float type.
macro_rules! lanes {
    ($element:ty) => {
        impl Vector for Lanes<$element> {
            type Element = $element;
            type Single = super::vector::Single<$element, false>;
            const LANES: usize = LANES;

            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                Self([value; LANES])
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller promises LANES readable elements; an array is aligned as its element is.
                Self(unsafe { source.cast::<[$element; LANES]>().read() })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises LANES writable elements; an array is aligned as its element is.
                unsafe { target.cast::<[$element; LANES]>().write(self.0) }
            }
            #[inline(always)]
            unsafe fn store_nontemporal(self, target: *mut $element) {
                // SAFETY: as for `store`, which the caller promises.
                unsafe { self.store(target) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                let mut sum = self;
                for (lane, other) in sum.0.iter_mut().zip(other.0) {
                    *lane += other;
                }
                sum
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                let mut product = self;
                for (lane, other) in product.0.iter_mut().zip(other.0) {
                    *lane *= other;
                }
                product
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, addend: Self) -> Self {
                // SAFETY: plain arithmetic, which every machine has.
                unsafe { self.mul(factor).add(addend) }
            }
            #[inline(always)]
            unsafe fn reduce(self) -> $element {
                self.0.iter().sum()
            }
        }
    };
}

lanes!(f64);
lanes!(f32);

impl Simd for Generic {
    type F64 = Lanes<f64>;
    type F32 = Lanes<f32>;

    #[inline(always)]
    unsafe fn fence() {}
}

/// Runs `kernel` as the compiler makes it for the target's base instruction set.
///
/// # Safety
/// The pointers held by the kernel are valid as it says.
pub(crate) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller vouches for the pointers; nothing here needs more than the base instruction set.
    unsafe { kernel.run::<Generic>() }
}
