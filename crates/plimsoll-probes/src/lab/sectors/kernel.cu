// sectors: the cost of a warp's load by the places that its lanes read, from the L1 and from the L2.
//
// Why the compiler keeps it: every thread stores the exclusive or of everything it loaded.
// Its loop in SASS: UNROLL loads of BYTES with immediate offsets from one address, the exclusive or of their words, the
// address' arithmetic and one branch; no local memory.
//
// Lane l reads places[l] bytes from its warp's position. The UNROLL loads of an iteration are a line apart, so that all have the
// same pattern of sectors. Warp w of the grid starts w · apart bytes into the array and advances by UNROLL lines per iteration,
// modulo mask + 1: with apart 0 all warps read the same few lines.
#include "walk.h"

// A variable would be part of the module and make every launch take longer.
enum : u32 { LINE = 128 };

template <int BYTES> struct Datum : Words<BYTES> {};
template <> struct Datum<1> { typedef unsigned char type; };
template <> struct Datum<2> { typedef unsigned short type; };

__device__ __forceinline__ u32 folded(u32 x) { return x; }
__device__ __forceinline__ u32 folded(uint2 x) { return x.x ^ x.y; }
__device__ __forceinline__ u32 folded(uint4 x) { return x.x ^ x.y ^ x.z ^ x.w; }

// A load that bypasses the L1, or goes through it.
template <bool PAST, typename T> __device__ __forceinline__ T loaded(const T* p) {
#if defined(__CUDA_ARCH__)
    if constexpr (PAST) return __ldcg(p);
#endif
    return *p;
}

template <bool PAST, int BYTES, int UNROLL>
__device__ __forceinline__ void pattern(u32* out, u64* cycles, const unsigned char* in, const u32* places, u32 apart, u32 mask,
                                        u32 warm, u32 iterations) {
    typedef typename Datum<BYTES>::type T;
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 begin = thread / WARP * apart, mine = places[threadIdx.x % WARP];
    u32 bits = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        u32 at = begin;
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            const unsigned char* p = in + ((at & mask) + mine);
            T x[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) x[u] = loaded<PAST>(reinterpret_cast<const T*>(p + u * LINE));
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) bits ^= folded(x[u]);
            at += UNROLL * LINE;
        }
    });
    out[thread] = bits;
}

#define SECTORS(name, past, bytes, unroll, threads)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const unsigned char* in, const u32* places, u32 apart, u32 mask, u32 warm,         \
             u32 iterations) {                                                                                              \
        pattern<past, bytes, unroll>(out, cycles, in, places, apart, mask, warm, iterations);                               \
    }
