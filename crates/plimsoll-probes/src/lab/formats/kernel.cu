// formats: limits of number formats, found by the device's own conversions and arithmetic: every thread searches for the limits
// of one format, starting at 1, and stores them as bits.
//
// Why the compiler keeps it: conversions, sums and products are volatile PTX; 1 comes from threadIdx.y, which the compiler doesn't
// know to be 0, so that no limit is known at compile time; all limits are stored.
// Its loop in SASS: the search for one limit: a sum or a product of the format, in f32 with a conversion where the format
// has no arithmetic (tf32, 8 bits), a conversion to f64 and a comparison; no local memory, no load.
//
// A format is a struct of `formats.h`: sum, product, a number's value in f64, its bits, and a NaN.
#include "formats.h"

#define LIMITS 7
// The infinity of f64.
#define INFINITE __longlong_as_double(0x7ff0000000000000)

// The smallest power of two, halving from 1, that satisfies the predicate `pleases`.
template <class F, class P> __device__ __forceinline__ typename F::T down(typename F::T one, typename F::T half, P pleases) {
    typename F::T x = one;
#pragma unroll 1
    for (;;) {
        const typename F::T next = F::mul(x, half);
        if (!pleases(next, x)) return x;
        x = next;
    }
}

template <class F> __device__ __forceinline__ typename F::T largest(typename F::T one, typename F::T half) {
    typename F::T x = one;
#pragma unroll 1
    for (;;) {
        const typename F::T next = F::add(x, x);
        if (F::value(next) != 2 * F::value(x) || F::value(next) == INFINITE) break;
        x = next;
    }
#pragma unroll 1
    for (typename F::T step = F::mul(x, half);; step = F::mul(step, half)) {
        const typename F::T next = F::add(x, step);
        if (!(F::value(next) > F::value(x)) || F::value(next) == INFINITE) return x;
        x = next;
    }
}

template <class F> __device__ __forceinline__ void limits(u64* out, u64 n) {
    typedef typename F::T T;
    const u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float start = float(1 + threadIdx.y);
    const T one = F::of(start), half = F::of(start / 2);
    // Comparisons with the exact result: a tie may be rounded away from 1.
    const T step = down<F>(one, half, [=](T next, T) {
        const double sum = F::value(F::add(one, next));
        return sum > 1 && sum == 1 + F::value(next);
    });
    const T after = F::add(one, step), most = largest<F>(one, half), over = F::add(most, most);
    const T smallest = down<F>(one, half, [](T next, T x) { return 2 * F::value(next) == F::value(x); });
    const T normal = down<F>(one, half, [=](T next, T) {
        const double longer = F::value(F::mul(next, after));
        return longer > F::value(next) && longer == F::value(next) * F::value(after);
    });
    const T found[LIMITS] = {most, over, normal, smallest, step, after, F::nan(over, threadIdx.y)};
#pragma unroll
    for (int limit = 0; limit < LIMITS; ++limit) out[i * LIMITS + limit] = F::bits(found[limit]);
}

#define FORMATS(name, format)                                                                                          \
    extern "C" __global__ void __launch_bounds__(256) name(u64* out, u64 n) { limits<format>(out, n); }
