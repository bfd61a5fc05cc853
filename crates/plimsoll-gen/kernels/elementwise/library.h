// Functions to the precision of their carrier: CUDA's, whose published errors are in docs/mathematics.md, except for the reduction of
// large angles.
#pragma once
#include "arithmetic.h"

// Σ cᵢ xⁱ.
__device__ __forceinline__ float polynomial(float, float c) { return c; }
template <typename... C> __device__ __forceinline__ float polynomial(float x, float c, C... more) {
    return fused(polynomial(x, more...), x, c);
}

namespace library {

#define OWN(name, single, wide)                                                                                        \
    __device__ __forceinline__ float name(float x) { return single(x); }                                               \
    __device__ __forceinline__ double name(double x) { return wide(x); }
OWN(exp, ::expf, ::exp)
OWN(exp2, ::exp2f, ::exp2)
OWN(expm1, ::expm1f, ::expm1)
OWN(log, ::logf, ::log)
OWN(log2, ::log2f, ::log2)
OWN(log10, ::log10f, ::log10)
OWN(log1p, ::log1pf, ::log1p)
OWN(tanh, ::tanhf, ::tanh)
OWN(sinh, ::sinhf, ::sinh)
OWN(cosh, ::coshf, ::cosh)
OWN(asinh, ::asinhf, ::asinh)
OWN(acosh, ::acoshf, ::acosh)
OWN(atanh, ::atanhf, ::atanh)
OWN(atan, ::atanf, ::atan)
OWN(erf, ::erff, ::erf)
OWN(erfc, ::erfcf, ::erfc)
#undef OWN

// A word of 2/π, preceded by 32 zero bits.
__device__ __forceinline__ u32 two_over_pi(u32 word) {
    u32 bits = 0;
    if (word == 1) bits = 0xa2f9836e;
    if (word == 2) bits = 0x4e441529;
    if (word == 3) bits = 0xfc2757d1;
    if (word == 4) bits = 0xf534ddc0;
    if (word == 5) bits = 0xdb629599;
    if (word == 6) bits = 0x3c439041;
    if (word == 7) bits = 0xfe5163ab;
    return bits;
}

// Beyond this angle, three parts of π are not accurate enough.
NUMBER(large_angle, 65536.0f)

// x − n·π/2 for |x| ≥ 2¹⁶, and n modulo 4 (Payne and Hanek, 1983): of the product of x's significand with 2/π, only the 64 bits
// below the multiples of 4 are computed. CUDA's function keeps the product in local memory if a thread has several elements.
__device__ __forceinline__ float reduced_large(float x, u32* n) {
    const u32 bits = as_bits(x), place = (bits >> 23 & 0xff) - 120, shift = place & 31;
    const u32 word = place >> 5;
    const u64 m = (bits & 0x7fffff) | 0x800000;
    u64 window[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) window[i] = u32(((u64(two_over_pi(word + i)) << 32 | two_over_pi(word + i + 1)) << shift) >> 32);
    // The angle in full turns, times 2⁶⁴.
    u64 turns = (m * window[0] << 32) + m * window[1] + (m * window[2] >> 32);
    const u32 quarter = u32((turns + (1ull << 61)) >> 62);
    turns -= u64(quarter) << 62;
    const float part = float(i64(turns));
    const float rest = fused(part, 0x1.921fb6p-62f, part * -0x1.777a5cp-87f);
    const bool negative = bits >> 31 != 0;
    *n = negative ? 0u - quarter : quarter;
    return fabsf(x) < as_float(0x7f800000u) ? (negative ? -rest : rest) : as_float(0x7fffffffu);
}
// The same for any x. The parts are Cody and Waite's; all are positive, so that −0 is preserved. Adding 1.5·2²³ rounds to an
// integer, which is then in the low bits.
__device__ __forceinline__ float reduced_angle(float x, u32* n) {
    if (!(fabsf(x) < large_angle())) return reduced_large(x, n);
    const float sum = fused(x, 0x1.45f306p-1f, 12582912.0f), k = sum - 12582912.0f;
    *n = as_bits(sum);
    return fused(-k, 0x1.84698ap-48f, fused(-k, 0x1.4442dp-24f, fused(-k, 0x1.921fb4p+0f, x)));
}
// sin(r + n·π/2) for |r| ≤ π/4.
__device__ __forceinline__ float wave(float r, u32 n) {
    // Computed from |r|; the sign is applied last, because a sum with −0 would lose it.
    const float s = r * r, t = fabsf(r);
    const float even = fused(t * s, polynomial(s, -0.166666552f, 0.00833215844f, -0.00019514958f), t);
    const float odd = polynomial(s, 1.0f, -0.5f, 0.0416666195f, -0.00138866773f, 2.43831455e-05f);
    const u32 sign = (n & 1 ? 0 : as_bits(r) & 0x80000000u) ^ (n & 2) << 30;
    return as_float(as_bits(n & 1 ? odd : even) ^ sign);
}
__device__ __forceinline__ float sin(float x) {
    u32 n;
    const float r = reduced_angle(x, &n);
    return wave(r, n);
}
__device__ __forceinline__ float cos(float x) {
    u32 n;
    const float r = reduced_angle(x, &n);
    return wave(r, n + 1);
}
__device__ __forceinline__ double sin(double x) { return ::sin(x); }
__device__ __forceinline__ double cos(double x) { return ::cos(x); }

__device__ __forceinline__ float sqrt(float x) { return square_root(x); }
__device__ __forceinline__ double sqrt(double x) { return square_root(x); }
__device__ __forceinline__ float recip(float x) { return 1.0f / x; }
__device__ __forceinline__ double recip(double x) { return 1.0 / x; }
__device__ __forceinline__ float divide(float a, float b) { return a / b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }
__device__ __forceinline__ float pow(float a, float b) { return ::powf(a, b); }
__device__ __forceinline__ double pow(double a, double b) { return ::pow(a, b); }
__device__ __forceinline__ float atan2(float a, float b) { return ::atan2f(a, b); }
__device__ __forceinline__ double atan2(double a, double b) { return ::atan2(a, b); }

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float rsqrt(float x) { return ::rsqrtf(x); }
__device__ __forceinline__ double rsqrt(double x) { return ::rsqrt(x); }
#else
__device__ __forceinline__ float rsqrt(float x) { return float(1.0 / ::sqrt(double(x))); }
__device__ __forceinline__ double rsqrt(double x) { return 1.0 / ::sqrt(x); }
#endif

}  // namespace library
