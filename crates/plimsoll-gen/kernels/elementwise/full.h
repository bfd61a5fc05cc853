// Functions to the precision of their carrier. CUDA's functions are used where they exist; docs/mathematics.md documents their
// published errors with ours. Other functions are composed here such that small results lose no digits.
#pragma once
#include "arithmetic.h"

// Σ cᵢ xⁱ.
__device__ __forceinline__ float polynomial(float, float c) { return c; }
template <typename... C> __device__ __forceinline__ float polynomial(float x, float c, C... more) {
    return fused(polynomial(x, more...), x, c);
}

namespace full {

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

// Below this, e^u or its products may lose digits as subnormals, so products are computed in two steps with e^(u/2).
template <typename F> struct Tail;
template <> struct Tail<float> { NUMBER(from, -80.0f) };
template <> struct Tail<double> { NUMBER(from, -700.0) };

// 1/x to half a unit in the last place, for normal x with a normal inverse. Skips the special cases that a division checks for.
__device__ __forceinline__ double plain_inverse(double x) { return 1.0 / x; }
__device__ __forceinline__ float plain_inverse(float x) {
#if defined(__CUDA_ARCH__)
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return fused(fused(-x, r, 1.0f), r, r);
#else
    return 1.0f / x;
#endif
}

// x/(1 + e^−y), for y = hi + lo with a small lo.
template <typename F> __device__ __forceinline__ F logistic(F x, F y, F lo) {
    const F u = -absolute(y);
    const bool small = u < Tail<F>::from();
    F e = exp(small ? F(0.5) * u : u);
    const F part = small ? F(0.5) * lo : lo;
    e = fused(e, y < F(0) ? part : -part, e);
    const F product = y < F(0) ? x * e : x;
    return product * (small && y < F(0) ? e : plain_inverse(F(1) + e));
}
template <typename F> __device__ __forceinline__ F sigmoid(F x) { return logistic(x == x ? F(1) : x, x, F(0)); }
template <typename F> __device__ __forceinline__ F silu(F x) { return logistic(x, x, F(0)); }

// ln(1 + e^x) = max(x, 0) + ln(1 + e^−|x|).
template <typename F> __device__ __forceinline__ F softplus(F x) {
    return rectified(x) + log1p(exp(-absolute(x)));
}

// tanh(ln(1 + E)) = E(E + 2)/(E(E + 2) + 2), with E = e^x.
template <typename F> __device__ __forceinline__ F mish(F x) {
    const F u = x < F(40) ? x : F(40);
    const bool small = u < Tail<F>::from();
    const F e = exp(small ? F(0.5) * u : u);
    if (small) return x * e * e;
    const F n = fused(e, e, e + e);
    return x * (n * plain_inverse(n + F(2)));
}

// x·Φ(x), where Φ(−t) = e^(−t²/2)·r·P(r), r = 1/(1 + 5t/16), to 2⁻²⁵. The exponential would amplify the rounding error of t²,
// so the error is computed and corrected.
__device__ __forceinline__ float gelu(float x) {
    const float t = fabsf(x) < 64.0f ? fabsf(x) : 64.0f;
    const float s = t * t, rest = fused(t, t, -s);
    const float u = -0.5f * s;
    const bool small = u < Tail<float>::from();
    float e = exp(small ? 0.5f * u : u);
    e = fused(e, (small ? -0.25f : -0.5f) * rest, e);
    const float r = plain_inverse(fused(t, 0.3125f, 1.0f));
    const float q = r * polynomial(r, 0.124665484f, 0.124747962f, 0.111903563f, 0.0899941921f, 0.0558247976f,
                                   -0.00308575761f, 0.0749669746f, -0.151609629f, 0.0916600525f, -0.0190676451f);
    return x < 0.0f ? x * q * e * (small ? e : 1.0f) : x * (1.0f - q * e);
}
__device__ __forceinline__ double gelu(double x) {
    const double t = fabs(x) < 64.0 ? fabs(x) : 64.0;
    // x/√2 and its rounding error; the derivative of erfc z is about −2z·erfc z where it matters.
    const double z = t * 0x1.6a09e667f3bcdp-1;
    const double rest = fused(t, 0x1.6a09e667f3bcdp-1, -z) + t * -0x1.bdd3413b26456p-55;
    const double c = erfc(z);
    const double tail = 0.5 * fused(-2.0 * z * rest, c, c);
    return x * (x < 0.0 ? tail : 1.0 - tail);
}

// x·sigmoid(y), y = √(8/π)·(x + 0.044715 x³). In the tail the error would grow with y, so the error of y is computed and corrected.
template <typename F> struct Gelu;
template <> struct Gelu<float> {
    NUMBER(a, 0x1.988454p+0f) NUMBER(a_low, -0x1.857936p-25f) NUMBER(b, 0x1.2444f2p-4f) NUMBER(b_low, 0x1.49b16ap-29f)
};
template <> struct Gelu<double> {
    NUMBER(a, 0x1.9884533d43651p+0) NUMBER(a_low, -0x1.cbc0d30ebfd15p-54)
    NUMBER(b, 0x1.2444f2a4d8b4bp-4) NUMBER(b_low, -0x1.6c843a29d1c70p-61)
};
template <typename F> __device__ __forceinline__ F gelu_tanh(F x) {
    const F clamped = absolute(x) < F(256) ? x : copy_sign(F(256), x);
    const F square = clamped * clamped, square_low = fused(clamped, clamped, -square);
    const F term = Gelu<F>::b() * square;
    const F term_low = fused(Gelu<F>::b(), square, -term) + fused(Gelu<F>::b(), square_low, Gelu<F>::b_low() * square);
    const F sum = Gelu<F>::a() + term, part = sum - Gelu<F>::a();
    const F sum_low = (Gelu<F>::a() - (sum - part)) + (term - part) + (term_low + Gelu<F>::a_low());
    const F y = clamped * sum;
    const F rest = fused(clamped, sum, -y) + clamped * sum_low;
    if (x != x) return x;
    return logistic(x, y, rest);
}

}  // namespace full
