// Functions to the precision of the type of the result: results stored as bf16 or f16 need only a few more digits than those
// types have, not those of f32. They accept any f32 and handle special cases: NaN, infinities, signed zeros, results that are
// subnormal in their type. FAST is for f32 results with the errors that docs/mathematics.md states.
//
// They are composed from the device's approximations of 2^x, log₂ x, 1/x and tanh x; polynomials are used where a difference would
// cancel. Coefficients are minimax in relative error (Lawson's weights over Chebyshev nodes), except for those of erf.
#pragma once
#include "full.h"

enum Need { BF16, F16, FAST };

namespace narrow {

// No f16 number is near f32's subnormals, so the short forms, which flush subnormals, suffice for f16.
#if defined(__CUDA_ARCH__)
#define APPROXIMATE(name, short_form, long_form)                                                                       \
    template <int NEED> __device__ __forceinline__ float name(float x) {                                               \
        float y;                                                                                                       \
        if constexpr (NEED == F16) asm(short_form " %0, %1;" : "=f"(y) : "f"(x));                                      \
        else asm(long_form " %0, %1;" : "=f"(y) : "f"(x));                                                             \
        return y;                                                                                                      \
    }
#else
#define APPROXIMATE(name, short_form, long_form)                                                                       \
    template <int NEED> __device__ __forceinline__ float name(float x) { return host_##name(x); }
inline float host_ex2(float x) { return ::exp2f(x); }
inline float host_lg2(float x) { return ::log2f(x); }
inline float host_rcp(float x) { return 1.0f / x; }
inline float host_root(float x) { return ::sqrtf(x); }
inline float host_inverse_root(float x) { return float(1.0 / ::sqrt(double(x))); }
inline float host_tanh(float x) { return ::tanhf(x); }
#endif
APPROXIMATE(ex2, "ex2.approx.ftz.f32", "ex2.approx.f32")
APPROXIMATE(lg2, "lg2.approx.ftz.f32", "lg2.approx.f32")
APPROXIMATE(rcp, "rcp.approx.ftz.f32", "rcp.approx.f32")
APPROXIMATE(root, "sqrt.approx.ftz.f32", "sqrt.approx.f32")
APPROXIMATE(inverse_root, "rsqrt.approx.ftz.f32", "rsqrt.approx.f32")
#if defined(__CUDA_ARCH__)
__device__ __forceinline__ float tanh_approximate(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
inline float tanh_approximate(float x) { return host_tanh(x); }
#endif
#undef APPROXIMATE

// 1/x for normal x with a normal inverse.
__device__ __forceinline__ float inverse(float x) { return rcp<F16>(x); }

NUMBER(log2_e, 0x1.715476p+0f)
NUMBER(ln_2, 0x1.62e43p-1f)
NUMBER(log10_2, 0x1.344136p-2f)
NUMBER(log10_e, 0x1.bcb7b2p-2f)

template <int NEED> __device__ __forceinline__ float exp2(float x) { return ex2<NEED>(x); }
template <int NEED> __device__ __forceinline__ float exp(float x) {
    return ex2<NEED>(x * log2_e());
}
template <int NEED> __device__ __forceinline__ float expm1(float x) {
    float p;
    if constexpr (NEED == BF16) p = polynomial(x, 1.0f, 0.501927078f, 0.166848794f);
    else if constexpr (NEED == F16) p = polynomial(x, 1.0f, 0.50000447f, 0.167098254f, 0.0416370407f);
    else p = polynomial(x, 1.0f, 0.499998361f, 0.166667104f, 0.041774191f, 0.00833593961f);
    return fabsf(x) < 0.25f ? x * p : exp<NEED>(x) - 1.0f;
}

// ln(1 + t)/t for |t| < 1/16.
template <int NEED> __device__ __forceinline__ float near_one(float t) {
    if constexpr (NEED == FAST) return polynomial(t, 1.0f, -0.499999583f, 0.33398211f, -0.250693887f);
    else return polynomial(t, 1.0f, -0.500731766f, 0.333993018f);
}
// Near 1 the error of log₂ x is absolute, so a polynomial replaces it. x − 1 is exact there.
template <int NEED> __device__ __forceinline__ float scaled_log(float x, float of_two, float of_e) {
    const float t = x - 1.0f;
    const float close = t * of_e * near_one<NEED>(t);
    return fabsf(t) < 0.0625f ? close : lg2<NEED == F16 ? BF16 : NEED>(x) * of_two;
}
template <int NEED> __device__ __forceinline__ float log(float x) { return scaled_log<NEED>(x, ln_2(), 1.0f); }
template <int NEED> __device__ __forceinline__ float log2(float x) { return scaled_log<NEED>(x, 1.0f, log2_e()); }
template <int NEED> __device__ __forceinline__ float log10(float x) { return scaled_log<NEED>(x, log10_2(), log10_e()); }
// Logarithms of 16-bit operands, which are 1 or not very near to it: there the absolute error of log₂ x is 0.01 units in the
// last place in bf16, and in f16 as measured on an H200. For f16, ln 2 is reduced by two units in the last place: then the
// error of every operand is at most 0.5003 units, where it was 0.509 for 1.0107.
NUMBER(ln_2_f16, 0x1.62e42cp-1f)
template <int NEED> __device__ __forceinline__ float coarse_log(float x) {
    return lg2<NEED>(x) * (NEED == F16 ? ln_2_f16() : ln_2());
}
template <int NEED> __device__ __forceinline__ float coarse_log2(float x) { return lg2<NEED>(x); }
template <int NEED> __device__ __forceinline__ float coarse_log10(float x) { return lg2<NEED>(x) * log10_2(); }
template <int NEED> __device__ __forceinline__ float log1p(float x) {
    // 1 + x is never subnormal: it is a multiple of 2⁻²⁴ where it is small.
    return fabsf(x) < 0.0625f ? x * near_one<NEED>(x) : lg2<F16>(1.0f + x) * ln_2();
}

// sin r·(−1)^k for |r| ≤ π/2.
template <int NEED> __device__ __forceinline__ float sine(float r, u32 k) {
    const float s = r * r;
    float p;
    if constexpr (NEED == BF16) p = polynomial(s, 0.999891818f, -0.165960118f, 0.00760290353f);
    else if constexpr (NEED == F16) p = polynomial(s, 0.999999046f, -0.16665554f, 0.00831189938f, -0.000184881399f);
    else p = polynomial(s, 1.0f, -0.166666567f, 0.0083330255f, -0.000198074194f, 2.60190313e-06f);
    return as_float(as_bits(r * p) ^ k << 31);
}
// x − k·π in three parts (Cody and Waite); k is an integer, or half an odd integer. All parts are positive, so that −0 is
// preserved.
__device__ __forceinline__ float reduced(float x, float k) {
    return fused(-k, 0x1.84698ap-47f, fused(-k, 0x1.4442dp-23f, fused(-k, 0x1.921fb4p+1f, x)));
}
// Adding this, 1.5·2²³, rounds to the nearest integer, which is then in the low bits.
NUMBER(whole, 12582912.0f)
// sin(r + n·π/2) for |r| ≤ π/4, by the sine alone: cos r is sin(π/2 − |r|).
template <int NEED> __device__ __forceinline__ float quarter_sine(float r, u32 n) {
    return sine<NEED>(n & 1 ? 0x1.921fb6p+0f - fabsf(r) : r, n >> 1);
}
template <int NEED> __device__ __forceinline__ float sin(float x) {
    u32 n;
    if (!(fabsf(x) < full::large_angle())) {
        const float r = full::reduced_large(x, &n);
        return quarter_sine<NEED>(r, n);
    }
    const float sum = fused(x, 0x1.45f306p-2f, whole());
    return sine<NEED>(reduced(x, sum - whole()), as_bits(sum));
}
// cos x = sin(x + π/2)
template <int NEED> __device__ __forceinline__ float cos(float x) {
    u32 n;
    if (!(fabsf(x) < full::large_angle())) {
        const float r = full::reduced_large(x, &n);
        return quarter_sine<NEED>(r, n + 1);
    }
    const float sum = fused(x, 0x1.45f306p-2f, 0.5f) + whole();
    return sine<NEED>(reduced(x, sum - whole() - 0.5f), as_bits(sum));
}

template <int NEED> __device__ __forceinline__ float tanh(float x) {
    if constexpr (NEED == BF16) {
        return tanh_approximate(x);
    } else {
        const float s = x * x, t = fabsf(x);
        const float large = copysignf(fused(-2.0f, inverse(1.0f + ex2<F16>(t * (2.0f * log2_e()))), 1.0f), x);
        if constexpr (NEED == F16) return t < 0.125f ? x * polynomial(s, 0.999995947f, -0.331261754f) : large;
        else return t < 0.25f ? x * polynomial(s, 1.0f, -0.333332062f, 0.133231327f, -0.051327724f) : large;
    }
}

// a = e^|x|/2, because e^|x| itself may exceed the range of f32.
template <int NEED> __device__ __forceinline__ float sinh(float x) {
    const float t = fabsf(x);
    const float a = ex2<NEED>(fused(t, log2_e(), -1.0f));
    const float large = copysignf(fused(-0.25f, inverse(a), a), x);
    float p;
    if constexpr (NEED == FAST) p = polynomial(x * x, 1.0f, 0.166666642f, 0.00833798386f);
    else p = polynomial(x * x, 0.999999762f, 0.166796878f);
    return t < 0.125f ? x * p : large;
}
template <int NEED> __device__ __forceinline__ float cosh(float x) {
    const float t = fabsf(x);
    const float a = ex2<NEED>(fused(t, log2_e(), -1.0f));
    return fused(0.25f, inverse(a), a);
}

template <int NEED> __device__ __forceinline__ float asinh(float x) {
    const float t = fabsf(x), s = x * x;
    // Beyond 2²⁰ the square may overflow, and √(t² + 1) is t.
    const bool huge = t > 1048576.0f;
    const float u = huge ? t : t + root<F16>(s + 1.0f);
    const float large = copysignf(fused(lg2<F16>(u), ln_2(), huge ? ln_2() : 0.0f), x);
    float p;
    if constexpr (NEED == FAST) p = polynomial(s, 1.0f, -0.166660637f, 0.0739667341f);
    else p = polynomial(s, 0.999997735f, -0.165505201f);
    return t < 0.125f ? x * p : large;
}
// ln(1 + v), v = t + √(t(t + 2)), t = x − 1.
template <int NEED> __device__ __forceinline__ float acosh(float x) {
    const float t = x - 1.0f;
    const bool huge = x > 1048576.0f;
    const float v = huge ? x : t + root<F16>(fused(t, t, t + t));
    const float y = log1p<NEED>(v) + (huge ? ln_2() : 0.0f);
    return x < 1.0f ? as_float(0x7fffffffu) : y;
}
template <int NEED> __device__ __forceinline__ float atanh(float x) {
    const float t = fabsf(x), s = x * x;
    const float large = copysignf(lg2<F16>((1.0f + t) * inverse(1.0f - t)) * (0.5f * ln_2()), x);
    float p;
    if constexpr (NEED == FAST) p = polynomial(s, 1.0f, 0.333313346f, 0.203396603f);
    else p = polynomial(s, 0.999993801f, 0.336491555f);
    return t < 0.125f ? x * p : t > 1.0f ? as_float(0x7fffffffu) : large;
}

// arctan q for 0 ≤ q ≤ 1, over q.
template <int NEED> __device__ __forceinline__ float arctangent(float q) {
    const float s = q * q;
    if constexpr (NEED == BF16) {
        return polynomial(s, 0.999970019f, -0.331700832f, 0.185215667f, -0.0919265673f, 0.0238634013f);
    } else if constexpr (NEED == F16) {
        return polynomial(s, 0.999995649f, -0.33299461f, 0.195635915f, -0.121239066f, 0.0574773028f, -0.0134804659f);
    } else {
        return polynomial(s, 0.999999344f, -0.333265156f, 0.198814824f, -0.134871915f, 0.0838711858f, -0.0370129943f,
                          0.00786337443f);
    }
}
template <int NEED> __device__ __forceinline__ float atan(float x) {
    const float t = fabsf(x);
    const bool steep = t > 1.0f;
    const float q = steep ? inverse(t) : t;
    const float a = q * arctangent<NEED>(q);
    return copysignf(steep ? 0x1.921fb6p+0f - a : a, x);
}

// erfc t for t ≥ 0: e^(−t²)·Q(r), r = 1/(1 + p·t); to about 2⁻¹⁴ for bf16, 2⁻¹⁷ up to 4 for f16, else 2⁻¹⁹.
template <int NEED> __device__ __forceinline__ float erfc_tail(float t) {
    const float e = exp<NEED>(-t * t);
    const float r = inverse(fused(t, NEED == BF16 ? 0.55f : 0.5f, 1.0f));
    if constexpr (NEED == BF16) {
        return e * (r * polynomial(r, 0.310067296f, 0.316483974f, 0.213744342f, 0.334329277f, -0.174681053f));
    } else if constexpr (NEED == F16) {
        return e * (r * polynomial(r, 0.2770482f, 0.332436979f, 0.0518767573f, 0.534179389f, -0.19553493f));
    } else {
        return e * (r * polynomial(r, 0.282325208f, 0.277668178f, 0.281041712f, 0.0391276255f, 0.387471765f,
                                   -0.355483055f, 0.0878471434f));
    }
}
// For bf16 and f16, odd polynomials that round correctly for every operand of the type (f16: within 0.5001 units in the last
// place), found by scripts/erf_coefficients.py; beyond their range, erf is 1 to a tenth of a unit.
template <int NEED> __device__ __forceinline__ float erf(float x) {
    if constexpr (NEED == BF16) {
        const float t = minimum(maximum(x, -2.7f), 2.7f);
        return t * polynomial(t * t, 0x1.20dd6ep+0f, -0x1.813032p-2f, 0x1.ce5e06p-4f, -0x1.b3471ep-6f, 0x1.397152p-8f,
                              -0x1.3d8e2ap-11f, 0x1.841460p-15f, -0x1.a1c2d8p-20f);
    } else if constexpr (NEED == F16) {
        const float t = minimum(maximum(x, -2.9f), 2.9f);
        return t * polynomial(t * t, 0x1.20dd76p+0f, -0x1.812710p-2f, 0x1.ce216ep-4f, -0x1.b72a28p-6f, 0x1.504008p-8f,
                              -0x1.9cb9ecp-11f, 0x1.840654p-14f, -0x1.0070b0p-17f, 0x1.9e8782p-22f, -0x1.2f1ae4p-27f);
    } else {
        const float s = x * x;
        const float large = copysignf(1.0f - erfc_tail<NEED>(fabsf(x)), x);
        return fabsf(x) < 0.5f ? x * polynomial(s, 1.12837899f, -0.376107335f, 0.112456292f, -0.0243893117f) : large;
    }
}
template <int NEED> __device__ __forceinline__ float erfc(float x) {
    const float tail = erfc_tail<NEED>(fabsf(x));
    return x < 0.0f ? 2.0f - tail : tail;
}

// x·sigmoid(y): for large negative y it uses e^y instead of 1/e^−y.
template <int NEED> __device__ __forceinline__ float logistic(float x, float y) {
    if constexpr (NEED == F16) {
        return x * inverse(1.0f + ex2<F16>(y * -log2_e()));
    } else {
        const float e = exp<NEED>(-fabsf(y));
        const float r = inverse(1.0f + e);
        return x * (y < 0.0f ? e * r : r);
    }
}
template <int NEED> __device__ __forceinline__ float sigmoid(float x) { return logistic<NEED>(1.0f, x); }
template <int NEED> __device__ __forceinline__ float silu(float x) { return logistic<NEED>(x, x); }
template <int NEED> __device__ __forceinline__ float gelu_tanh(float x) {
    return logistic<NEED>(x, x * polynomial(x * x, 0x1.988454p+0f, 0x1.2444f2p-4f));
}
template <int NEED> __device__ __forceinline__ float gelu(float x) {
    const float tail = 0.5f * erfc_tail<NEED>(fabsf(x) * 0x1.6a09e6p-1f);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}
// max(x, 0) + ln(1 + e), e = e^−|x|, the logarithm as a polynomial over [0, 1].
template <int NEED> __device__ __forceinline__ float softplus(float x) {
    const float e = exp<NEED>(-fabsf(x));
    float p;
    if constexpr (NEED == BF16) {
        p = polynomial(e, 0.999943256f, -0.496977806f, 0.306300908f, -0.157427192f, 0.0413472913f);
    } else if constexpr (NEED == F16) {
        p = polynomial(e, 0.999991596f, -0.499361366f, 0.325206667f, -0.210048646f, 0.101222232f, -0.0238691289f);
    } else {
        p = polynomial(e, 0.999999821f, -0.499974042f, 0.332754791f, -0.244954631f, 0.1774524f, -0.107681699f,
                       0.0440896228f, -0.00853920635f);
    }
    return fused(e, p, fmaxf(x, 0.0f));
}
template <int NEED> __device__ __forceinline__ float mish(float x) {
    const float e = exp<NEED>(fminf(x, 20.0f));
    const float n = fused(e, e, e + e);
    return x * (n * inverse(n + 2.0f));
}

// Correctly rounded except for FAST: they are cheap enough.
template <int NEED> __device__ __forceinline__ float sqrt(float x) {
    if constexpr (NEED == FAST) return root<FAST>(x);
    else return square_root(x);
}
template <int NEED> __device__ __forceinline__ float recip(float x) {
    if constexpr (NEED == FAST) return rcp<FAST>(x);
    else return 1.0f / x;
}
template <int NEED> __device__ __forceinline__ float divide(float a, float b) {
#if defined(__CUDA_ARCH__)
    if constexpr (NEED == FAST) {
        float q;
        asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
        return q;
    }
#endif
    return a / b;
}
// A negative subnormal has no real root, so it must not be flushed to -0. Operands of 16 bits are never that small.
template <int NEED> __device__ __forceinline__ float rsqrt(float x) { return inverse_root<NEED == F16 ? BF16 : NEED>(x); }
template <int NEED> __device__ __forceinline__ float coarse_rsqrt(float x) { return inverse_root<NEED>(x); }

// |a|^b = 2^(b·log₂|a|), with the sign and the special cases of C's pow. The error of the logarithm grows with the exponent, so f32
// results use full.h.
template <int NEED> __device__ __forceinline__ float pow(float a, float b) {
    if constexpr (NEED == FAST) {
        return full::pow(a, b);
    } else {
        const float t = fabsf(a), infinity = as_float(0x7f800000u);
        const bool whole = truncf(b) == b, odd = whole && truncf(0.5f * b) != 0.5f * b;
        float y = ex2<NEED>(b * log2<FAST>(t));
        y = b == 0.0f || a == 1.0f || (t == 1.0f && b == b) ? 1.0f : y;
        y = odd ? copysignf(y, a) : y;
        return a < 0.0f && !whole && t < infinity ? as_float(0x7fffffffu) : y;
    }
}

template <int NEED> __device__ __forceinline__ float atan2(float a, float b) {
    if constexpr (NEED == FAST) {
        return full::atan2(a, b);
    } else {
        const float rise = fabsf(a), run = fabsf(b);
        const float low = minimum(rise, run), high = maximum(rise, run);
        // 0/0 is 0 here, and ∞/∞ is 1.
        const float q = low == high ? (low == 0.0f ? 0.0f : 1.0f) : divide<FAST>(low, high);
        float angle = q * arctangent<NEED>(q);
        angle = rise > run ? 0x1.921fb6p+0f - angle : angle;
        angle = as_bits(b) >> 31 != 0 ? 0x1.921fb6p+1f - angle : angle;
        return high == high ? copysignf(angle, a) : high;
    }
}

}  // namespace narrow
