// mix: bandwidth for READS arrays read and WRITES arrays written, 0 to 4 each, by how many consecutive vectors a thread reads
// before it writes: the cost of switching memory between reading and writing. `phased` is a copy for which the whole device
// switches at once.
//
// Why the compiler keeps it: each output is the XOR of all inputs' words and of the output's number; without outputs, one XOR per
// warp is stored.
// Its loop in SASS: READS · BURST loads of 16 bytes, then WRITES · BURST stores of 16 bytes; no local memory. `phased`:
// one prefetch per line, a barrier, loads and stores of 16 bytes, a barrier.
//
// Array k begins at `in` (or `out`) + k · pitch; pitch and n count vectors of 16 bytes. The grid may be of any size.
#include "sync.h"

__device__ __forceinline__ void mix_in(uint4& x, const uint4& y) {
    x.x ^= y.x;
    x.y ^= y.y;
    x.z ^= y.z;
    x.w ^= y.w;
}

__device__ __forceinline__ uint4 number(u32 k) {
    uint4 x;
    x.x = x.y = x.z = x.w = k;
    return x;
}

template <int READS, int WRITES, int BURST, int STEP>
__device__ __forceinline__ void burst(uint4* out, const uint4* in, u64 pitch, u64 v, uint4& fold) {
    uint4 x[BURST];
#pragma unroll
    for (int u = 0; u < BURST; ++u) x[u] = number(0);
#pragma unroll
    for (int k = 0; k < READS; ++k)
#pragma unroll
        for (int u = 0; u < BURST; ++u) mix_in(x[u], in[k * pitch + v + u * STEP]);
    if constexpr (WRITES == 0)
        for (int u = 0; u < BURST; ++u) mix_in(fold, x[u]);
#pragma unroll
    for (int k = 0; k < WRITES; ++k)
#pragma unroll
        for (int u = 0; u < BURST; ++u) {
            uint4 y = number(k + 1);
            mix_in(y, x[u]);
            out[k * pitch + v + u * STEP] = y;
        }
}

template <int READS, int WRITES, int BURST, int THREADS>
__device__ __forceinline__ void mix(uint4* out, const uint4* in, u64 pitch, u64 n) {
    constexpr int TILE = THREADS * BURST;
    const u64 whole = n / TILE;
    u64 tile = blockIdx.x;
    uint4 fold = number(0);
#pragma unroll 1
    for (; tile < whole; tile += gridDim.x)
        burst<READS, WRITES, BURST, THREADS>(out, in, pitch, tile * TILE + threadIdx.x, fold);
    if (tile == whole) {
#pragma unroll 1
        for (u64 v = tile * TILE + threadIdx.x; v < n; v += THREADS) burst<READS, WRITES, 1, 1>(out, in, pitch, v, fold);
    }
    if constexpr (WRITES == 0) {
        const u32 bits = warp_xor(fold.x ^ fold.y ^ fold.z ^ fold.w);
        const u64 slot = (u64(blockIdx.x) * THREADS + threadIdx.x) / WARP;
        if (threadIdx.x % WARP == 0) reinterpret_cast<u32*>(out)[slot] = bits;
    }
}

// Reads `chunk` vectors into L2, then copies them from there, all blocks together.
template <int THREADS>
__device__ __forceinline__ void phased(uint4* out, const uint4* in, u64 chunk, u64 n, u32* barrier) {
    constexpr int LINE = 128 / sizeof(uint4);
    const u64 first = u64(blockIdx.x) * THREADS + threadIdx.x, stride = u64(gridDim.x) * THREADS;
    for (u64 begin = 0; begin < n; begin += chunk) {
        const u64 end = begin + chunk < n ? begin + chunk : n;
#pragma unroll 1
        for (u64 v = begin + first * LINE; v < end; v += stride * LINE) prefetch(in + v);
        grid_barrier(barrier);
#pragma unroll 4
        for (u64 v = begin + first; v < end; v += stride) out[v] = in[v];
        grid_barrier(barrier);
    }
}

#define MIX(name, reads, writes, burst, threads)                                                                       \
    extern "C" __global__ void __launch_bounds__(threads) name(uint4* out, const uint4* in, u64 pitch, u64 n) {        \
        mix<reads, writes, burst, threads>(out, in, pitch, n);                                                         \
    }

#define MIX_PHASED(name, threads)                                                                                      \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(uint4* out, const uint4* in, u64 chunk, u64 n, u32* barrier) {                                            \
        phased<threads>(out, in, chunk, n, barrier);                                                                   \
    }
