//! AVX2 with FMA: 32-byte registers.

use core::arch::x86_64::*;

use crate::arch::vector::{composed, vector};

composed! {
    reduce_pd(a: __m256d) -> f64 =
        super::sse2::reduce_pd(_mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a)));
    reduce_ps(a: __m256) -> f32 =
        super::sse2::reduce_ps(_mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a)));
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
