//! SSE2: 16-byte registers, the base of x86-64. It has no fused multiply-add: `fma` rounds twice.

use core::arch::x86_64::*;

use crate::arch::vector::{composed, vector};

composed! {
    fma_pd(a, b, c: __m128d) -> __m128d = _mm_add_pd(_mm_mul_pd(a, b), c);
    fma_ps(a, b, c: __m128) -> __m128 = _mm_add_ps(_mm_mul_ps(a, b), c);
    reduce_pd(a: __m128d) -> f64 = _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a)));
    reduce_ps(a: __m128) -> f32 = {
        let pairs = _mm_add_ps(a, _mm_movehl_ps(a, a));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps::<1>(pairs, pairs)))
    };
}

vector!(
    F64x2, __m128d, f64, 2, fused: false,
    _mm_set1_pd, _mm_loadu_pd, _mm_storeu_pd, _mm_stream_pd, _mm_add_pd, _mm_mul_pd, fma_pd, _mm_xor_pd, reduce_pd
);
vector!(
    F32x4, __m128, f32, 4, fused: false,
    _mm_set1_ps, _mm_loadu_ps, _mm_storeu_ps, _mm_stream_ps, _mm_add_ps, _mm_mul_ps, fma_ps, _mm_xor_ps, reduce_ps
);
super::simd!(Sse2, F64x2, F32x4, "sse2");
