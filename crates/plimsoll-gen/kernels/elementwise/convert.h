// Conversions between carriers, with the semantics of casts: floats are truncated to integers and saturate, NaN becomes 0; integers
// wrap; every value is rounded once, to nearest even. `rounded<T>` rounds a carrier to the precision of a 16 or 8-bit float.
#pragma once
#include "types.h"

template <typename T> struct Limits;
template <> struct Limits<i8> { NUMBER(low, i64(-128)) NUMBER(high, i64(127)) };
template <> struct Limits<u8> { NUMBER(low, i64(0)) NUMBER(high, i64(255)) };
template <> struct Limits<i16> { NUMBER(low, i64(-32768)) NUMBER(high, i64(32767)) };
template <> struct Limits<u16> { NUMBER(low, i64(0)) NUMBER(high, i64(65535)) };
template <> struct Limits<i32> { NUMBER(low, i64(-2147483647 - 1)) NUMBER(high, i64(2147483647)) };
template <> struct Limits<u32> { NUMBER(low, i64(0)) NUMBER(high, i64(4294967295ll)) };

// a < 0; without a comparison for unsigned integers.
template <typename T> __device__ __forceinline__ bool is_negative(T a) {
    if constexpr (T(-1) < T(0)) return a < T(0);
    else return false;
}

// Converts a float to an integer.
template <typename T, typename F> __device__ __forceinline__ T truncated(F x) {
    if constexpr (sizeof(T) == 8) {
        constexpr bool SIGNED = T(-1) < T(0);
        const F above = SIGNED ? F(9223372036854775808.0) : F(18446744073709551616.0);
        const T most = SIGNED ? T(0x7fffffffffffffffull) : T(~0ull);
        if (x >= above) return most;
        if (SIGNED ? x <= -above : x <= F(0)) return SIGNED ? T(0x8000000000000000ull) : T(0);
        return x == x ? T(x) : T(0);
    } else {
#if defined(__CUDA_ARCH__)
        // The device's conversions saturate; NaN gives 0, except for doubles.
        if constexpr (sizeof(F) == 8) {
            if (x != x) return T(0);
        }
        if constexpr (Limits<T>::high() > 2147483647) return T(u32(x));
        const i32 whole = i32(x);
        const i32 low = i32(Limits<T>::low()), high = i32(Limits<T>::high());
        return T(whole < low ? low : whole > high ? high : whole);
#else
        if (x != x) return T(0);
        if (x <= F(Limits<T>::low())) return T(Limits<T>::low());
        if (x >= F(Limits<T>::high())) return T(Limits<T>::high());
        return T(x);
#endif
    }
}

// Converts an integer to f32, rounding to odd, so that rounding to any narrower format gives the same result as from the integer.
template <typename T> __device__ __forceinline__ float odd_float(T i) {
    if constexpr (sizeof(T) < 4) return float(i);
    const bool negative = is_negative(i);
    const u64 magnitude = negative ? 0ull - u64(i) : u64(i);
    u64 kept = magnitude;
    if (magnitude >> 24 != 0) {
#if defined(__CUDA_ARCH__)
        const int surplus = 40 - __clzll((long long)magnitude);
#else
        const int surplus = 40 - __builtin_clzll(magnitude);
#endif
        kept = magnitude >> surplus;
        kept = (kept | u64(kept << surplus != magnitude)) << surplus;
    }
    const float x = float(kept);
    return negative ? -x : x;
}

// Converts a double to f32 in the same way.
__device__ __forceinline__ float odd_float(double x) {
#if defined(__CUDA_ARCH__)
    const float toward_zero = __double2float_rz(x);
#else
    const float largest = as_float(0x7f7fffffu);
    float toward_zero = __builtin_fabs(x) > double(largest) && __builtin_fabs(x) <= 1.7976931348623157e308
                            ? (x < 0 ? -largest : largest)
                            : float(x);
    if (__builtin_fabs(double(toward_zero)) > __builtin_fabs(x)) toward_zero = as_float(as_bits(toward_zero) - 1);
#endif
    return x == x && double(toward_zero) != x ? as_float(as_bits(toward_zero) | 1) : toward_zero;
}
__device__ __forceinline__ float odd_float(float x) { return x; }
__device__ __forceinline__ float odd_float(bool x) { return float(x); }

template <typename T> struct IsFloat { enum { value = 0 }; };
template <> struct IsFloat<float> { enum { value = 1 }; };
template <> struct IsFloat<double> { enum { value = 1 }; };

// Converts between carriers other than `bool`.
template <typename T, typename F> __device__ __forceinline__ T converted(F x) {
    if constexpr (IsFloat<F>::value && !IsFloat<T>::value) return truncated<T>(x);
    else return T(x);
}
// Everything except 0 is true, including NaN.
template <typename F> __device__ __forceinline__ bool truth(F x) { return x != F(0); }

// x rounded to the precision of T.
template <typename T> __device__ __forceinline__ float rounded(float x) {
    return Small<T>::one(Small<T>::pack_one(x));
}
