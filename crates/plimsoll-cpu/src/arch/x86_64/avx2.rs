//! AVX2 with FMA: 32-byte registers.

use core::arch::x86_64::*;

use crate::arch::vector::vector;

#[inline(always)]
unsafe fn reduce_pd(a: __m256d) -> f64 {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let half = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
        _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)))
    }
}

#[inline(always)]
unsafe fn reduce_ps(a: __m256) -> f32 {
    // SAFETY: the caller promises AVX2.
    unsafe {
        let half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let pairs = _mm_add_ps(half, _mm_movehl_ps(half, half));
        _mm_cvtss_f32(_mm_add_ss(pairs, _mm_shuffle_ps::<1>(pairs, pairs)))
    }
}

vector!(
    F64x4, __m256d, f64, 4, fused: true,
    _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_stream_pd, _mm256_add_pd, _mm256_mul_pd,
    _mm256_fmadd_pd, _mm256_xor_pd, reduce_pd
);
vector!(
    F32x8, __m256, f32, 8, fused: true,
    _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_stream_ps, _mm256_add_ps, _mm256_mul_ps,
    _mm256_fmadd_ps, _mm256_xor_ps, reduce_ps
);
super::simd!(Avx2, F64x4, F32x8, "avx2,fma");
