//! AVX-512 Foundation: 64-byte registers, one cache line each.

use core::arch::x86_64::*;

super::vector!(
    F64x8, __m512d, f64, 8, fused: true,
    _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd, _mm512_add_pd, _mm512_mul_pd,
    _mm512_fmadd_pd, _mm512_reduce_add_pd
);
super::vector!(
    F32x16, __m512, f32, 16, fused: true,
    _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_add_ps, _mm512_mul_ps,
    _mm512_fmadd_ps, _mm512_reduce_add_ps
);
super::simd!(Avx512, F64x8, F32x16, "avx512f,avx2,fma");
