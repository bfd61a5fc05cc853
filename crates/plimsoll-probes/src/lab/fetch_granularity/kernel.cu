// fetch-granularity: reads of 32 bytes at random places, with a hint of how many bytes the L2 should fetch.
//
// Why the compiler keeps it: every thread stores the exclusive or of everything it read.
// Its loop in SASS: 8 loads of 16 bytes, each preceded by its own hash and product and with the hint in the kernel's name.
//
// Two neighbouring threads read 32 aligned bytes. Access i of a launch reads line hash(i + seed) · lines / 2³² of 128 bytes, in
// the quarter given by the hash's lowest bits; i counts through all pairs of threads.
#include "device.h"

// lowbias32 (Wellons, 'Prospecting for Hash Functions', 2018).
__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

__device__ __forceinline__ u64 place(u32 i, u32 lines) {
    const u32 x = hash(i);
    return (((u64(x) * lines) >> 32) * 4 + (x & 3)) * 8 + threadIdx.x % 2 * 4;
}

#define LOAD(how)                                                                                                      \
    asm volatile(how " {%0, %1, %2, %3}, [%4];" : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p))

// A load with a hint of FETCH bytes, or without one for 0.
template <int FETCH> __device__ __forceinline__ uint4 load_with(const u32* p) {
    uint4 w;
#if defined(__CUDA_ARCH__)
    if constexpr (FETCH == 64) LOAD("ld.global.L2::64B.v4.u32");
    else if constexpr (FETCH == 128) LOAD("ld.global.L2::128B.v4.u32");
    else if constexpr (FETCH == 256) LOAD("ld.global.L2::256B.v4.u32");
    else LOAD("ld.global.v4.u32");
#else
    w = *reinterpret_cast<const uint4*>(p);
#endif
    return w;
}

template <int FETCH, int UNROLL>
__device__ __forceinline__ void reads(u32* out, const u32* in, u32 lines, u32 seed, u32 iterations) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x, pairs = gridDim.x * blockDim.x / 2;
    u32 i = seed + thread / 2, bits = 0;
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration, i += UNROLL * pairs) {
        uint4 w[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) w[u] = load_with<FETCH>(in + place(i + u * pairs, lines));
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) bits ^= w[u].x ^ w[u].y ^ w[u].z ^ w[u].w;
    }
    out[thread] = bits;
}

#define FETCH_GRANULARITY_READ(name, fetch, unroll, threads)                                                           \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, const u32* in, u32 lines, u32 seed, u32 iterations) {                                                \
        reads<fetch, unroll>(out, in, lines, seed, iterations);                                                             \
    }
