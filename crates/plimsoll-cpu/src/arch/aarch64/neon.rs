//! NEON: 16-byte registers, the base of 64-bit Arm. Its non-temporal store is only a hint, so there is none here.

use core::arch::aarch64::*;

use crate::arch::vector::{Kernel, Simd, composed, vector};

// NEON has no XOR intrinsic for floating-point vectors; integer vectors use the same registers. Its FMA takes the addend first.
composed! {
    xor_f64(a, b: float64x2_t) -> float64x2_t =
        vreinterpretq_f64_u64(veorq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b)));
    xor_f32(a, b: float32x4_t) -> float32x4_t =
        vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
    fma_f64(a, b, c: float64x2_t) -> float64x2_t = vfmaq_f64(c, a, b);
    fma_f32(a, b, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
}

vector!(
    F64x2, float64x2_t, f64, 2, fused: true,
    vdupq_n_f64, vld1q_f64, vst1q_f64, vst1q_f64, vaddq_f64, vmulq_f64, fma_f64, xor_f64, vaddvq_f64
);
vector!(
    F32x4, float32x4_t, f32, 4, fused: true,
    vdupq_n_f32, vld1q_f32, vst1q_f32, vst1q_f32, vaddq_f32, vmulq_f32, fma_f32, xor_f32, vaddvq_f32
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
