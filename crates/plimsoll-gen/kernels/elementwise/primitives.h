// The approximations of a device, one instruction or a few each, in f32 except for rough_inverse. `flush` forms treat subnormal operands
// and results as zeros. A host computes them exactly.
#pragma once
#include "library.h"

#if defined(__CUDA_ARCH__)
#define APPROXIMATE(name, instruction, exact)                                                                          \
    __device__ __forceinline__ float name(float x) {                                                                   \
        float y;                                                                                                       \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(x));                                                                \
        return y;                                                                                                      \
    }
#else
inline float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }
#define APPROXIMATE(name, instruction, exact)                                                                          \
    inline float name(float x) { return exact; }
#endif
APPROXIMATE(ex2, "ex2.approx.f32", ::exp2f(x))
APPROXIMATE(ex2_flush, "ex2.approx.ftz.f32", flushed(::exp2f(flushed(x))))
APPROXIMATE(lg2, "lg2.approx.f32", ::log2f(x))
APPROXIMATE(lg2_flush, "lg2.approx.ftz.f32", ::log2f(flushed(x)))
APPROXIMATE(rcp, "rcp.approx.f32", 1.0f / x)
APPROXIMATE(rcp_flush, "rcp.approx.ftz.f32", flushed(1.0f / flushed(x)))
APPROXIMATE(root, "sqrt.approx.f32", ::sqrtf(x))
APPROXIMATE(root_flush, "sqrt.approx.ftz.f32", ::sqrtf(flushed(x)))
APPROXIMATE(inverse_root, "rsqrt.approx.f32", float(1.0 / ::sqrt(double(x))))
APPROXIMATE(inverse_root_flush, "rsqrt.approx.ftz.f32", float(1.0 / ::sqrt(double(flushed(x)))))
APPROXIMATE(tanh_approximate, "tanh.approx.f32", ::tanhf(x))
#undef APPROXIMATE

__device__ __forceinline__ float quotient(float a, float b) {
#if defined(__CUDA_ARCH__)
    float q;
    asm("div.full.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
    return q;
#else
    return a / b;
#endif
}

// 1/x to 18 bits.
__device__ __forceinline__ double rough_inverse(double x) {
#if defined(__CUDA_ARCH__)
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
#else
    return 1.0 / x;
#endif
}

__device__ __forceinline__ u32 upper_half(double x) { return u32(as_bits(x) >> 32); }

// a·2ⁿ for the integer n in the low 12 bits of b. In two halves: a sum of 64 bits would take a second instruction for the carry.
__device__ __forceinline__ double scaled(double a, double b) {
    const u32 high = upper_half(a) + (u32(as_bits(b)) << 20);
    return as_double(u64(high) << 32 | u32(as_bits(a)));
}

// Clamped to 0 to 1; NaN becomes 0.
__device__ __forceinline__ float saturated(float x) {
#if defined(__CUDA_ARCH__)
    return __saturatef(x);
#else
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
#endif
}

// Moves every element of an array one place forward, and the first one to the end.
template <int N, typename T> __device__ __forceinline__ void rotate(T (&x)[N]) {
    const T first = x[0];
#pragma unroll
    for (int i = 0; i + 1 < N; ++i) x[i] = x[i + 1];
    x[N - 1] = first;
}
