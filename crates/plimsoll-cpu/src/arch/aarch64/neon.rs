//! NEON: 16-byte registers, the base of 64-bit Arm. Its non-temporal store is only a hint, so there is none here.

use core::arch::aarch64::*;

use crate::arch::vector::{Kernel, Simd, Single, Vector};

/// [`Vector`] from the intrinsics of one register type; `vfma` takes the addend first.
macro_rules! vector {
    ($name:ident, $register:ty, $element:ty, $lanes:literal,
     $splat:ident, $load:ident, $store:ident, $add:ident, $mul:ident, $fma:ident, $xor:ident,
     $reduce:ident) => {
        #[doc = concat!(stringify!($lanes), " lanes of ", stringify!($element), " in one register.")]
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        impl Vector for $name {
            type Element = $element;
            type Single = Single<$element, true>;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(value: $element) -> Self {
                // SAFETY: NEON belongs to every 64-bit Arm machine that std runs on.
                Self(unsafe { $splat(value) })
            }
            #[inline(always)]
            unsafe fn load(source: *const $element) -> Self {
                // SAFETY: the caller promises the memory; the element's alignment is enough.
                Self(unsafe { $load(source) })
            }
            #[inline(always)]
            unsafe fn store(self, target: *mut $element) {
                // SAFETY: the caller promises the memory; the element's alignment is enough.
                unsafe { $store(target, self.0) }
            }
            #[inline(always)]
            unsafe fn store_nontemporal(self, target: *mut $element) {
                // SAFETY: as for `store`, which the caller promises.
                unsafe { self.store(target) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: every 64-bit Arm machine has NEON.
                Self(unsafe { $add(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: every 64-bit Arm machine has NEON.
                Self(unsafe { $mul(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, addend: Self) -> Self {
                // SAFETY: every 64-bit Arm machine has NEON.
                Self(unsafe { $fma(addend.0, self.0, factor.0) })
            }
            #[inline(always)]
            unsafe fn xor(self, other: Self) -> Self {
                // SAFETY: every 64-bit Arm machine has NEON.
                Self(unsafe { $xor(self.0, other.0) })
            }
            #[inline(always)]
            unsafe fn reduce(self) -> $element {
                // SAFETY: every 64-bit Arm machine has NEON.
                unsafe { $reduce(self.0) }
            }
        }
    };
}

// NEON has no XOR intrinsic for floating-point vectors; integer vectors use the same registers.
#[inline(always)]
unsafe fn xor_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t {
    // SAFETY: every 64-bit Arm machine has NEON.
    unsafe { vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b))) }
}

#[inline(always)]
unsafe fn xor_f32(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    // SAFETY: every 64-bit Arm machine has NEON.
    unsafe { vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b))) }
}

vector!(
    F64x2,
    float64x2_t,
    f64,
    2,
    vdupq_n_f64,
    vld1q_f64,
    vst1q_f64,
    vaddq_f64,
    vmulq_f64,
    vfmaq_f64,
    xor_f64,
    vaddvq_f64
);
vector!(
    F32x4,
    float32x4_t,
    f32,
    4,
    vdupq_n_f32,
    vld1q_f32,
    vst1q_f32,
    vaddq_f32,
    vmulq_f32,
    vfmaq_f32,
    xor_f32,
    vaddvq_f32
);

/// The instruction set `neon`.
pub(crate) struct Neon;

impl Simd for Neon {
    type F64 = F64x2;
    type F32 = F32x4;

    #[inline(always)]
    unsafe fn fence() {}
}

/// Runs `kernel` compiled for NEON.
///
/// # Safety
/// The pointers held by the kernel are valid as it requires.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    // SAFETY: the caller promises the pointers; NEON is enabled here.
    unsafe { kernel.run::<Neon>() }
}
