//! AVX-512 Foundation: 64-byte registers, one cache line each.

use core::arch::x86_64::*;

use crate::arch::vector::{composed, vector};

// The XOR of floating-point registers needs AVX-512 DQ; that of integers only the Foundation.
composed! {
    xor_pd(a, b: __m512d) -> __m512d =
        _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(a), _mm512_castpd_si512(b)));
    xor_ps(a, b: __m512) -> __m512 =
        _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}

vector!(
    F64x8, __m512d, f64, 8, fused: true,
    _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_stream_pd, _mm512_add_pd, _mm512_mul_pd,
    _mm512_fmadd_pd, xor_pd, _mm512_reduce_add_pd
);
vector!(
    F32x16, __m512, f32, 16, fused: true,
    _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_stream_ps, _mm512_add_ps, _mm512_mul_ps,
    _mm512_fmadd_ps, xor_ps, _mm512_reduce_add_ps
);
super::simd!(Avx512, F64x8, F32x16, "avx512f,avx2,fma");
