// Number formats as structs: storage type, conversions, sum, product and bits. `nan` is an infinity less itself, by the format's
// own sum if it has one and overflows to infinity. CUDA only; part of `kernel.cu`.
#pragma once

#include "device.h"

#define OPERATION(name, instruction)                                                                                   \
    static __device__ __forceinline__ T name(T a, T b) {                                                               \
        T d;                                                                                                           \
        asm volatile(instruction : "=" KIND(d) : KIND(a), KIND(b));                                                    \
        return d;                                                                                                      \
    }

struct f64 {
    typedef double T;
#define KIND "d"
    OPERATION(add, "add.rn.f64 %0, %1, %2;")
    OPERATION(mul, "mul.rn.f64 %0, %1, %2;")
#undef KIND
    static __device__ T of(float x) { return x; }
    static __device__ double value(T x) { return x; }
    static __device__ u64 bits(T x) { return u64(__double_as_longlong(x)); }
    static __device__ T nan(T over, u32) { return add(over, -over); }
};

#define KIND "f"
struct f32 {
    typedef float T;
    OPERATION(add, "add.rn.f32 %0, %1, %2;")
    OPERATION(mul, "mul.rn.f32 %0, %1, %2;")
    static __device__ T of(float x) { return x; }
    static __device__ double value(T x) { return x; }
    static __device__ u64 bits(T x) { return __float_as_uint(x); }
    static __device__ T nan(T over, u32) { return add(over, -over); }
};

// A NaN of f32, made at run time.
__device__ __forceinline__ float f32_nan(u32 zero) {
    const float infinity = __uint_as_float(0x7f800000 + zero);
    return f32::nan(infinity, zero);
}

// An f32 with 19 significant bits, rounded as `cvt` rounds for the matrix units.
struct tf32 {
    typedef float T;
    static __device__ T of(float x) {
        u32 d;
        asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(x));
        return __uint_as_float(d);
    }
    static __device__ T add(T a, T b) { return of(f32::add(a, b)); }
    static __device__ T mul(T a, T b) { return of(f32::mul(a, b)); }
    static __device__ double value(T x) { return x; }
    static __device__ u64 bits(T x) { return __float_as_uint(x); }
    static __device__ T nan(T, u32 zero) { return of(f32_nan(zero)); }
};
#undef KIND

typedef unsigned short half;

// 16 bits: a sum of bf16 is a fused multiply-add with 1, the only one before compute capability 9.0.
#define KIND "h"
#define HALF(name, to_half, sum, product, to_single)                                                                   \
    struct name {                                                                                                      \
        typedef half T;                                                                                                \
        OPERATION(add, sum)                                                                                            \
        OPERATION(mul, product)                                                                                        \
        static __device__ T nan(T over, u32) { return add(over, half(over ^ 0x8000)); }                                \
        static __device__ T of(float x) {                                                                              \
            T d;                                                                                                       \
            asm volatile(to_half : "=h"(d) : "f"(x));                                                                  \
            return d;                                                                                                  \
        }                                                                                                              \
        static __device__ double value(T x) {                                                                          \
            float d;                                                                                                   \
            asm volatile(to_single : "=f"(d) : "h"(x));                                                                \
            return d;                                                                                                  \
        }                                                                                                              \
        static __device__ u64 bits(T x) { return x; }                                                                  \
    };
HALF(f16, "cvt.rn.f16.f32 %0, %1;", "add.rn.f16 %0, %1, %2;", "mul.rn.f16 %0, %1, %2;", "cvt.f32.f16 %0, %1;")
HALF(bf16, "cvt.rn.bf16.f32 %0, %1;", "{.reg .b16 one; mov.b16 one, 0x3f80; fma.rn.bf16 %0, %1, one, %2;}",
     "{.reg .b16 zero; mov.b16 zero, 0x8000; fma.rn.bf16 %0, %1, %2, zero;}",
     "{.reg .b16 zero; mov.b16 zero, 0; mov.b32 %0, {zero, %1};}")
#undef KIND

// 8 bits: only conversions exist, and conversions to these formats never make an infinity ('cvt', .satfinite).
#define BYTE(name, format)                                                                                             \
    struct name {                                                                                                      \
        typedef half T;                                                                                                \
        static __device__ T of(float x) {                                                                              \
            T d;                                                                                                       \
            asm volatile("cvt.rn.satfinite." format "x2.f32 %0, %1, %1;" : "=h"(d) : "f"(x));                          \
            return d;                                                                                                  \
        }                                                                                                              \
        static __device__ float single(T x) {                                                                          \
            float d;                                                                                                   \
            asm volatile("{.reg .b32 p; .reg .b16 l, h; cvt.rn.f16x2." format "x2 p, %1; mov.b32 {l, h}, p; "          \
                         "cvt.f32.f16 %0, l;}" : "=f"(d) : "h"(x));                                                    \
            return d;                                                                                                  \
        }                                                                                                              \
        static __device__ T add(T a, T b) { return of(f32::add(single(a), single(b))); }                               \
        static __device__ T mul(T a, T b) { return of(f32::mul(single(a), single(b))); }                               \
        static __device__ double value(T x) { return single(x); }                                                      \
        static __device__ u64 bits(T x) { return x & 0xff; }                                                           \
        static __device__ T nan(T, u32 zero) { return of(f32_nan(zero)); }                                             \
    };
#if __CUDA_ARCH__ >= 890
BYTE(f8e4m3, "e4m3")
BYTE(f8e5m2, "e5m2")
#endif
