// Operations that are exact or correctly rounded: integer operations, and float operations that need no approximation.
// Functions are in library.h.
#pragma once
#include "convert.h"

// Integer arithmetic is done on unsigned types, which wrap.

template <typename T> struct Unsigned { typedef u32 type; };
template <> struct Unsigned<i64> { typedef u64 type; };
template <> struct Unsigned<u64> { typedef u64 type; };
template <typename T> using U = typename Unsigned<T>::type;

// Returns the same value, but hides from the compiler how it was computed. The compiler recognises x < 0 ? −x : x as an absolute
// value, however it is written (also max(x, −x)), and assumes that an absolute value is never negative. It then drops sign
// extensions, |float(x)| and x < 0, although the least integer is its own absolute value. Generates no instruction.
template <typename T> __device__ __forceinline__ T opaque(T a) {
#if defined(__CUDA_ARCH__)
    if constexpr (sizeof(T) < 4 && T(-1) != T(1)) {
        i16 same;
        asm("mov.b16 %0, %1;" : "=h"(same) : "h"(i16(a)));
        return T(same);
    } else if constexpr (T(-1) < T(0) && sizeof(T) == 4) {
        asm("mov.b32 %0, %1;" : "=r"(a) : "r"(a));
    } else if constexpr (T(-1) < T(0)) {
        asm("mov.b64 %0, %1;" : "=l"(a) : "l"(a));
    }
#endif
    return a;
}
// A wrapped result. The compiler mustn't know how 8 and 16-bit results were computed: it turns 0 - x, ~x + 1 and x * (-1) into
// neg.s16, and assumes that -(-32768) is 32768 if the result is widened.
template <typename T> __device__ __forceinline__ T wrapped(U<T> a) {
    if constexpr (sizeof(T) < 4 && T(-1) < T(0)) return T(opaque(i32(a)));
    else return T(a);
}

template <typename T> __device__ __forceinline__ T add(T a, T b) { return wrapped<T>(U<T>(a) + U<T>(b)); }
template <typename T> __device__ __forceinline__ T sub(T a, T b) { return wrapped<T>(U<T>(a) - U<T>(b)); }
template <typename T> __device__ __forceinline__ T mul(T a, T b) { return wrapped<T>(U<T>(a) * U<T>(b)); }
template <typename T> __device__ __forceinline__ T fused_multiply_add(T a, T b, T c) {
    return wrapped<T>(U<T>(a) * U<T>(b) + U<T>(c));
}
template <typename T> __device__ __forceinline__ T negative(T a) { return wrapped<T>(U<T>(0) - U<T>(a)); }
template <typename T> __device__ __forceinline__ T absolute(T a) {
    if constexpr (T(-1) < T(0)) {
        typedef decltype(a + 0) Wide;
        const Wide wide = a, minus = opaque(negative(wide));
        return T(minus > wide ? minus : wide);
    } else {
        return a;
    }
}
// The same for a zero: of x < 0 ? x : 0, the compiler makes min(x, 0), which is -0 for -0.
__device__ __forceinline__ float opaque_zero(float zero) {
#if defined(__CUDA_ARCH__)
    asm("" : "+f"(zero));
#endif
    return zero;
}
__device__ __forceinline__ double opaque_zero(double zero) {
#if defined(__CUDA_ARCH__)
    asm("" : "+d"(zero));
#endif
    return zero;
}
// c ? a : b for integers.
template <typename T> __device__ __forceinline__ T selected(bool c, T a, T b) {
    const T first = opaque(a);
    return c ? first : b;
}
template <typename T> __device__ __forceinline__ T signum(T a) { return T(T(a > T(0)) - T(is_negative(a))); }
template <typename T> __device__ __forceinline__ T complement(T a) { return T(~a); }
__device__ __forceinline__ bool complement(bool a) { return !a; }
template <typename T> __device__ __forceinline__ T bit_and(T a, T b) { return T(a & b); }
template <typename T> __device__ __forceinline__ T bit_or(T a, T b) { return T(a | b); }
template <typename T> __device__ __forceinline__ T bit_xor(T a, T b) { return T(a ^ b); }
// The minimum and maximum of 8 and 16-bit integers are computed in 32 bits. Where the compiler (ptxas 13.0) sees that a 16-bit one is
// compared with its operand, it compares in VIMNMX.S16x2. Both halves then write one predicate, and the unused half wins.
#if defined(__CUDA_ARCH__)
#define EXTREME(name, first_wins, instruction)                                                                         \
    template <typename T> __device__ __forceinline__ T name(T a, T b) {                                                \
        if constexpr (sizeof(T) < 4 && T(-1) < T(0)) {                                                                 \
            i32 c;                                                                                                     \
            asm(instruction ".s32 %0, %1, %2;" : "=r"(c) : "r"(i32(a)), "r"(i32(b)));                                  \
            return T(c);                                                                                               \
        } else if constexpr (sizeof(T) < 4) {                                                                          \
            u32 c;                                                                                                     \
            asm(instruction ".u32 %0, %1, %2;" : "=r"(c) : "r"(u32(a)), "r"(u32(b)));                                  \
            return T(c);                                                                                               \
        } else {                                                                                                       \
            const T other = opaque(b);                                                                                 \
            return first_wins ? a : other;                                                                             \
        }                                                                                                              \
    }
#else
#define EXTREME(name, first_wins, instruction)                                                                         \
    template <typename T> __device__ __forceinline__ T name(T a, T b) {                                                \
        const T other = b;                                                                                             \
        return first_wins ? a : other;                                                                                 \
    }
#endif
EXTREME(minimum, a < other, "min")
EXTREME(maximum, other < a, "max")
#undef EXTREME
template <typename T> __device__ __forceinline__ T minimum_number(T a, T b) { return minimum(a, b); }
template <typename T> __device__ __forceinline__ T maximum_number(T a, T b) { return maximum(a, b); }
template <typename T> __device__ __forceinline__ T rectified(T a) { return maximum(a, T(0)); }

// ⌊a/b⌋; 0 if b is 0. The least integer divided by −1 wraps.
template <typename T> __device__ __forceinline__ T floor_div(T a, T b) {
    if (b == T(0)) return T(0);
    if constexpr (T(-1) < T(0)) {
        if (b == T(-1)) return negative(a);
        const T quotient = T(a / b);
        return T(quotient - T(quotient * b != a && is_negative(a) != is_negative(b)));
    } else {
        return T(a / b);
    }
}
// a − b·⌊a/b⌋, with the sign of b; a if b is 0.
template <typename T> __device__ __forceinline__ T floor_rem(T a, T b) {
    if (b == T(0)) return a;
    if constexpr (T(-1) < T(0)) {
        if (b == T(-1)) return T(0);
        const T rem = T(a % b);
        return rem != T(0) && is_negative(rem) != is_negative(b) ? T(rem + b) : rem;
    } else {
        return T(a % b);
    }
}
template <typename T> __device__ __forceinline__ T shift_left(T a, T b) {
    return u64(b) < 8 * sizeof(T) ? T(U<T>(a) << int(b)) : T(0);
}
template <typename T> __device__ __forceinline__ T shift_right(T a, T b) {
    return opaque(u64(b) < 8 * sizeof(T) ? T(a >> int(b)) : T(is_negative(a) ? -1 : 0));
}
// aᵇ by squaring, at most 64 steps.
template <typename T> __device__ __forceinline__ T power(T a, T b) {
    if (is_negative(b)) return a == T(1) ? T(1) : a == T(-1) ? T(b & T(1) ? -1 : 1) : T(0);
    T result = T(1);
#pragma unroll 1
    for (; b != T(0); b = T(b >> 1)) {
        if (b & T(1)) result = mul(result, a);
        a = mul(a, a);
    }
    return result;
}

#define FLOAT_ARITHMETIC(F)                                                                                            \
    __device__ __forceinline__ F add(F a, F b) { return a + b; }                                                       \
    __device__ __forceinline__ F sub(F a, F b) { return a - b; }                                                       \
    __device__ __forceinline__ F mul(F a, F b) { return a * b; }                                                       \
    __device__ __forceinline__ F fused_multiply_add(F a, F b, F c) { return fused(a, b, c); }                          \
    __device__ __forceinline__ F negative(F a) { return -a; }                                                          \
    __device__ __forceinline__ F signum(F a) { return a > F(0) ? F(1) : a < F(0) ? F(-1) : a == F(0) ? F(0) : a; }
FLOAT_ARITHMETIC(float)
FLOAT_ARITHMETIC(double)
#undef FLOAT_ARITHMETIC

// Whether neither is NaN. The compiler (ptxas 13.0) assumes |a| >= c to be true for c up to 0, although a may be NaN.
__device__ __forceinline__ bool is_ordered(float a, float b) {
#if defined(__CUDA_ARCH__)
    int ordered;
    asm("{\n.reg .pred p;\nsetp.num.f32 p, %1, %2;\nselp.s32 %0, 1, 0, p;\n}" : "=r"(ordered) : "f"(a), "f"(b));
    return ordered != 0;
#else
    return a == a && b == b;
#endif
}
__device__ __forceinline__ float absolute(float a) { return fabsf(a); }
__device__ __forceinline__ double absolute(double a) { return fabs(a); }
__device__ __forceinline__ float floor_of(float a) { return floorf(a); }
__device__ __forceinline__ double floor_of(double a) { return floor(a); }
__device__ __forceinline__ float ceil_of(float a) { return ceilf(a); }
__device__ __forceinline__ double ceil_of(double a) { return ceil(a); }
__device__ __forceinline__ float round_of(float a) { return rintf(a); }
__device__ __forceinline__ double round_of(double a) { return rint(a); }
__device__ __forceinline__ float trunc_of(float a) { return truncf(a); }
__device__ __forceinline__ double trunc_of(double a) { return trunc(a); }
__device__ __forceinline__ float copy_sign(float a, float b) { return copysignf(a, b); }
__device__ __forceinline__ double copy_sign(double a, double b) { return copysign(a, b); }

// −0 is less than +0. If one operand is NaN, `minimum` returns NaN and `minimum_number` returns the other operand.
__device__ __forceinline__ float minimum_number(float a, float b) {
#if defined(__CUDA_ARCH__)
    return fminf(a, b);
#else
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : as_float(as_bits(a) | as_bits(b));
#endif
}
__device__ __forceinline__ float maximum_number(float a, float b) {
#if defined(__CUDA_ARCH__)
    return fmaxf(a, b);
#else
    return a != a ? b : b != b ? a : a < b ? b : b < a ? a : as_float(as_bits(a) & as_bits(b));
#endif
}
__device__ __forceinline__ float minimum(float a, float b) {
#if defined(__CUDA_ARCH__)
    float c;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#else
    return a != a ? a : b != b ? b : minimum_number(a, b);
#endif
}
__device__ __forceinline__ float maximum(float a, float b) {
#if defined(__CUDA_ARCH__)
    float c;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
    return c;
#else
    return a != a ? a : b != b ? b : maximum_number(a, b);
#endif
}
__device__ __forceinline__ double minimum_number(double a, double b) {
#if defined(__CUDA_ARCH__)
    return fmin(a, b);
#else
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : as_double(as_bits(a) | as_bits(b));
#endif
}
__device__ __forceinline__ double maximum_number(double a, double b) {
#if defined(__CUDA_ARCH__)
    return fmax(a, b);
#else
    return a != a ? b : b != b ? a : a < b ? b : b < a ? a : as_double(as_bits(a) & as_bits(b));
#endif
}
__device__ __forceinline__ double minimum(double a, double b) {
    return a != a ? a : b != b ? b : minimum_number(a, b);
}
__device__ __forceinline__ double maximum(double a, double b) {
    return a != a ? a : b != b ? b : maximum_number(a, b);
}
__device__ __forceinline__ float rectified(float a) { return maximum(a, 0.0f); }
__device__ __forceinline__ double rectified(double a) { return maximum(a, 0.0); }

// Correctly rounded.
__device__ __forceinline__ float divide(float a, float b) { return a / b; }
__device__ __forceinline__ double divide(double a, double b) { return a / b; }
__device__ __forceinline__ float square_root(float a) { return sqrtf(a); }
__device__ __forceinline__ double square_root(double a) { return sqrt(a); }

// a − b·⌊a/b⌋ with the sign of b, rounded once: fmod is exact.
template <typename F> __device__ __forceinline__ F float_rem(F b, F rem) {
    if (rem == F(0)) return copy_sign(rem, b);
    return (rem < F(0)) != (b < F(0)) ? rem + b : rem;
}
__device__ __forceinline__ float floor_rem(float a, float b) { return float_rem(b, fmodf(a, b)); }
__device__ __forceinline__ double floor_rem(double a, double b) { return float_rem(b, fmod(a, b)); }

// Up to this magnitude, every integer is representable in the type.
template <typename F> struct Whole;
template <> struct Whole<float> { NUMBER(most, 0x1p24f) };
template <> struct Whole<double> { NUMBER(most, 0x1p53) };

// Half a unit in the last place of a larger integer.
__device__ __forceinline__ float half_place(float x) { return as_float((as_bits(x) & 0x7f800000u) - (24u << 23)); }
__device__ __forceinline__ double half_place(double x) {
    return as_double((as_bits(x) & 0x7ff0000000000000ull) - (53ull << 52));
}

// ⌊a/b⌋ of the exact quotient, rounded to nearest even. The rounded quotient exceeds the exact one if the remainder of a, whose
// sign is exact, has the opposite sign of b. Beyond `most` this matters if ⌊a/b⌋ is half-way between two representable numbers
// and the quotient exceeds it by less than 1: then the remainder is half a place times b plus less than b, and the difference
// ties to even.
template <typename F> __device__ __forceinline__ F float_floor_div(F a, F b) {
    const F whole = floor_of(a / b);
    // 0 times an infinite b would be NaN.
    const F left = whole == F(0) ? a : fused(-whole, b, a);
    // An infinite or NaN a has no quotient: the result is NaN.
    if (a - a != F(0)) return a - a;
    if (b < F(0) ? !(left > F(0)) : !(left < F(0))) return whole;
    if (absolute(whole) <= Whole<F>::most()) return whole - F(1);
    const F half = half_place(whole);
    return fused(F(1) - half, absolute(b), absolute(left)) > F(0) ? whole - half : whole;
}
__device__ __forceinline__ float floor_div(float a, float b) { return float_floor_div(a, b); }
__device__ __forceinline__ double floor_div(double a, double b) { return float_floor_div(a, b); }
