// Element types in memory, their carrier types for arithmetic, and the conversions between them: `to_carrier` and `to_memory`
// for one element, `unpack` and `pack` for the words of one access. Conversions between carriers are in convert.h.
//
// The carrier of 16 and 8-bit floats is f32; every other type is its own carrier. One instruction packs two 16-bit results, and
// from compute capability 8.9 on also two 8-bit ones. Without __CUDA_ARCH__ the same is plain C++, so that a host compiler can
// run the generated code.
#pragma once
#include "device.h"

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef unsigned char u8;
typedef unsigned short u16;

// A named constant, as a function: variables become data of the module even if they aren't used, and on an H200 every kernel of
// a module with data took 0.1 µs longer to launch.
#define NUMBER(name, value) __device__ __forceinline__ static constexpr auto name() { return value; }

struct f16_t { u16 bits; };
struct bf16_t { u16 bits; };
struct f8e4m3_t { u8 bits; };
struct f8e5m2_t { u8 bits; };
struct bool_t { u8 bits; };

// The indices of an element; only set as far as the expression uses them.
struct At {
    i64 place;          // row-major index
    i64 coordinate[8];  // 0 is the slowest dimension
};

template <typename T> struct Carried { typedef T type; };
template <> struct Carried<f16_t> { typedef float type; };
template <> struct Carried<bf16_t> { typedef float type; };
template <> struct Carried<f8e4m3_t> { typedef float type; };
template <> struct Carried<f8e5m2_t> { typedef float type; };
template <> struct Carried<bool_t> { typedef bool type; };
template <typename T> using Carrier = typename Carried<T>::type;

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ u32 as_bits(float x) { return __float_as_uint(x); }
__device__ __forceinline__ u64 as_bits(double x) { return u64(__double_as_longlong(x)); }
__device__ __forceinline__ float as_float(u32 bits) { return __uint_as_float(bits); }
__device__ __forceinline__ double as_double(u64 bits) { return __longlong_as_double((long long)bits); }
#else
__device__ __forceinline__ u32 as_bits(float x) { u32 b; __builtin_memcpy(&b, &x, 4); return b; }
__device__ __forceinline__ u64 as_bits(double x) { u64 b; __builtin_memcpy(&b, &x, 8); return b; }
__device__ __forceinline__ float as_float(u32 bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
__device__ __forceinline__ double as_double(u64 bits) { double x; __builtin_memcpy(&x, &bits, 8); return x; }
#endif

// |x| as bits, rounded to nearest even in a format of EXPONENT and FRACTION bits that is narrower than f32. Values beyond its
// largest number give the bits that follow: infinity, or NaN in a format without infinities.
template <int EXPONENT, int FRACTION> __device__ __forceinline__ u32 round_bits(u32 magnitude) {
    constexpr int DROPPED = 23 - FRACTION, BIAS = (1 << (EXPONENT - 1)) - 1;
    constexpr u32 LOWEST = u32(128 - BIAS) << 23;  // the smallest normal number
    if (magnitude < LOWEST) {
        // Adding a power of two whose last place is the format's smallest number rounds as the format does.
        const u32 unit = u32(128 - BIAS + DROPPED) << 23;
        return as_bits(as_float(magnitude) + as_float(unit)) - unit;
    }
    return (magnitude - (u32(127 - BIAS) << 23) + (1u << (DROPPED - 1)) - 1 + (magnitude >> DROPPED & 1)) >> DROPPED;
}

// Floats of 16 and 8 bits: `pair` holds two of them in its low bits, the first in the lowest.
template <typename T> struct Small;

template <> struct Small<bf16_t> {
    __device__ __forceinline__ static float one(u32 bits) { return as_float(bits << 16); }
    __device__ __forceinline__ static void two(u32 pair, float* x) {
        x[0] = as_float(pair << 16);
        x[1] = as_float(pair & 0xffff0000u);
    }
    __device__ __forceinline__ static u32 pack_two(float low, float high) {
#if defined(__CUDA_ARCH__)
        u32 pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
#else
        return pack_one(low) | pack_one(high) << 16;
#endif
    }
    __device__ __forceinline__ static u32 pack_one(float x) {
#if defined(__CUDA_ARCH__)
        u16 bits;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
#else
        const u32 b = as_bits(x);
        return x != x ? 0x7fffu : (b + 0x7fffu + (b >> 16 & 1)) >> 16;
#endif
    }
};

template <> struct Small<f16_t> {
    __device__ __forceinline__ static float one(u32 bits) {
#if defined(__CUDA_ARCH__)
        float x;
        asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(u16(bits)));
        return x;
#else
        const u32 magnitude = bits & 0x7fff;
        // Multiplying by 2¹¹² adjusts the exponent to f32's, also for subnormals.
        const float x = as_float(magnitude << 13) * as_float(0x77800000u);
        return as_float((magnitude >= 0x7c00 ? magnitude << 13 | 0x7f800000u : as_bits(x)) | (bits & 0x8000) << 16);
#endif
    }
    __device__ __forceinline__ static void two(u32 pair, float* x) {
#if defined(__CUDA_ARCH__)
        asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
            : "=f"(x[0]), "=f"(x[1]) : "r"(pair));
#else
        x[0] = one(pair & 0xffff);
        x[1] = one(pair >> 16);
#endif
    }
    __device__ __forceinline__ static u32 pack_two(float low, float high) {
#if defined(__CUDA_ARCH__)
        u32 pair;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
#else
        return pack_one(low) | pack_one(high) << 16;
#endif
    }
    __device__ __forceinline__ static u32 pack_one(float x) {
#if defined(__CUDA_ARCH__)
        u16 bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
        return bits;
#else
        if (x != x) return 0x7fff;
        const u32 b = as_bits(x), bits = round_bits<5, 10>(b & 0x7fffffffu);
        return (bits < 0x7c00 ? bits : 0x7c00) | (b >> 16 & 0x8000);
#endif
    }
};

// No infinities: values above 464 in magnitude round to NaN, while the device's conversion would saturate.
template <> struct Small<f8e4m3_t> {
    __device__ __forceinline__ static float one(u32 bits) {
        float x[2];
        two(bits, x);
        return x[0];
    }
    __device__ __forceinline__ static void two(u32 pair, float* x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        u32 halves;
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(u16(pair)));
        Small<f16_t>::two(halves, x);
#else
        for (int k = 0; k < 2; ++k) {
            const u32 bits = pair >> 8 * k & 0xff, magnitude = bits & 0x7f;
            const float y = as_float(magnitude << 20) * as_float(0x7b800000u);
            x[k] = as_float((magnitude == 0x7f ? 0x7fc00000u : as_bits(y)) | (bits & 0x80) << 24);
        }
#endif
    }
    __device__ __forceinline__ static u32 pack_two(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        const float nan = as_float(0x7fffffffu);
        low = fabsf(low) <= 464.0f ? low : nan;
        high = fabsf(high) <= 464.0f ? high : nan;
        u16 pair;
        asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
        return pair;
#else
        return pack_one(low) | pack_one(high) << 8;
#endif
    }
    __device__ __forceinline__ static u32 pack_one(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        return pack_two(x, 0.0f) & 0xff;
#else
        const u32 b = as_bits(x), magnitude = b & 0x7fffffffu;
        return magnitude > 0x43e80000u ? 0x7f : round_bits<4, 3>(magnitude) | (b >> 24 & 0x80);
#endif
    }
};

template <> struct Small<f8e5m2_t> {
    // The upper half of an f16.
    __device__ __forceinline__ static float one(u32 bits) { return Small<f16_t>::one(bits << 8 & 0xff00); }
    __device__ __forceinline__ static void two(u32 pair, float* x) {
        Small<f16_t>::two((pair << 8 & 0xff00) | (pair << 16 & 0xff000000u), x);
    }
    __device__ __forceinline__ static u32 pack_two(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        // The conversion saturates to the largest number, whose bits are one less than infinity's.
        u16 pair;
        asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
        return pair + (fabsf(low) >= 61440.0f) + (fabsf(high) >= 61440.0f ? 0x100 : 0);
#else
        return pack_one(low) | pack_one(high) << 8;
#endif
    }
    __device__ __forceinline__ static u32 pack_one(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
        return pack_two(x, 0.0f) & 0xff;
#else
        const u32 b = as_bits(x), magnitude = b & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return 0x7e;
        const u32 bits = round_bits<5, 2>(magnitude);
        return (bits < 0x7c ? bits : 0x7c) | (b >> 24 & 0x80);
#endif
    }
};

template <typename T> struct IsSmall { enum { value = 0 }; };
template <> struct IsSmall<f16_t> { enum { value = 1 }; };
template <> struct IsSmall<bf16_t> { enum { value = 1 }; };
template <> struct IsSmall<f8e4m3_t> { enum { value = 1 }; };
template <> struct IsSmall<f8e5m2_t> { enum { value = 1 }; };

// One element as its carrier.
template <typename T> __device__ __forceinline__ Carrier<T> to_carrier(T x) {
    if constexpr (IsSmall<T>::value) return Small<T>::one(x.bits);
    else return x;
}
template <> __device__ __forceinline__ bool to_carrier<bool_t>(bool_t x) { return x.bits != 0; }

// One element rounded to its type in memory.
template <typename T> __device__ __forceinline__ T to_memory(Carrier<T> x) {
    if constexpr (IsSmall<T>::value) {
        T small;
        small.bits = decltype(small.bits)(Small<T>::pack_one(x));
        return small;
    } else {
        return x;
    }
}
template <> __device__ __forceinline__ bool_t to_memory<bool_t>(bool x) {
    bool_t small;
    small.bits = x;
    return small;
}

// The element in the low bits, whatever its size.
template <typename T> __device__ __forceinline__ Carrier<T> from_bits(u64 bits) {
    if constexpr (IsSmall<T>::value) return Small<T>::one(u32(bits) & (sizeof(T) == 2 ? 0xffffu : 0xffu));
    else return T(bits);
}
template <> __device__ __forceinline__ float from_bits<float>(u64 bits) { return as_float(u32(bits)); }
template <> __device__ __forceinline__ double from_bits<double>(u64 bits) { return as_double(bits); }
template <> __device__ __forceinline__ bool from_bits<bool_t>(u64 bits) { return (bits & 0xff) != 0; }

// The element in the low bits; the upper ones are zero.
template <typename T> __device__ __forceinline__ u64 to_bits(Carrier<T> x) {
    if constexpr (IsSmall<T>::value) return Small<T>::pack_one(x);
    else if constexpr (sizeof(T) == 8) return u64(x);
    else if constexpr (sizeof(T) == 4) return u32(x);
    else if constexpr (sizeof(T) == 2) return u16(x);
    else return u8(x);
}
template <> __device__ __forceinline__ u64 to_bits<float>(float x) { return as_bits(x); }
template <> __device__ __forceinline__ u64 to_bits<double>(double x) { return as_bits(x); }
template <> __device__ __forceinline__ u64 to_bits<bool_t>(bool x) { return x; }

// N neighbouring elements from the words of one access. N elements are whole words.
template <typename T, int N> __device__ __forceinline__ void unpack(const u32* word, Carrier<T>* x) {
    static_assert(N * sizeof(T) % 4 == 0, "whole words");
#pragma unroll
    for (int i = 0; i < N; ++i) {
        if constexpr (sizeof(T) == 8) {
            x[i] = from_bits<T>(u64(word[2 * i + 1]) << 32 | word[2 * i]);
        } else if constexpr (sizeof(T) == 4) {
            x[i] = from_bits<T>(word[i]);
        } else if constexpr (IsSmall<T>::value) {
            constexpr int PAIRS = 2 / sizeof(T);  // in a word
            if (i % 2 == 0) Small<T>::two(word[i / 2 / PAIRS] >> 16 * (i / 2 % PAIRS), x + i);
        } else {
            constexpr int LANES = 4 / sizeof(T);
            x[i] = from_bits<T>(word[i / LANES] >> 8 * sizeof(T) * (i % LANES));
        }
    }
}

// N neighbouring elements, rounded to their type, as the words of one access.
template <typename T, int N> __device__ __forceinline__ void pack(const Carrier<T>* x, u32* word) {
    static_assert(N * sizeof(T) % 4 == 0, "whole words");
#pragma unroll
    for (int w = 0; w < N * int(sizeof(T)) / 4; ++w) {
        if constexpr (sizeof(T) == 8) {
            word[w] = u32(to_bits<T>(x[w / 2]) >> 32 * (w % 2));
        } else if constexpr (sizeof(T) == 4) {
            word[w] = u32(to_bits<T>(x[w]));
        } else if constexpr (sizeof(T) == 2 && IsSmall<T>::value) {
            word[w] = Small<T>::pack_two(x[2 * w], x[2 * w + 1]);
        } else if constexpr (IsSmall<T>::value) {
            word[w] = Small<T>::pack_two(x[4 * w], x[4 * w + 1]) | Small<T>::pack_two(x[4 * w + 2], x[4 * w + 3]) << 16;
        } else if constexpr (sizeof(T) == 2) {
            word[w] = u32(to_bits<T>(x[2 * w])) | u32(to_bits<T>(x[2 * w + 1])) << 16;
        } else {
            word[w] = u32(to_bits<T>(x[4 * w])) | u32(to_bits<T>(x[4 * w + 1])) << 8 |
                      u32(to_bits<T>(x[4 * w + 2])) << 16 | u32(to_bits<T>(x[4 * w + 3])) << 24;
        }
    }
}
