// footprint: bandwidth of read, copy and triad over private data of every block, repeated within one launch, so that data that fit
// in a cache of the SM or of the device come from there.
//
// Why the compiler keeps it: copy and triad store every element; read stores one XOR per warp, which is that of its data
// when the number of passes is odd.
// Its loop in SASS: UNROLL loads of 16 bytes per array (and as many stores), the places as 32-bit counters that wrap at the
// piece's end; no local memory.
//
// A block's piece is `rounds` times as many vectors of 16 bytes as it has threads, of each array: round r of block b is the
// b · apart + r · step-th such group. `steps` is rounds · passes.
#include "device.h"

__device__ __forceinline__ uint4 apply(uint4 a, uint4 b, float s) {
    Vector<float, 16> x, y;
    x.words = a;
    y.words = b;
    for (int i = 0; i < 4; ++i) x.lane[i] = fused(s, y.lane[i], x.lane[i]);
    return x.words;
}

// So many steps at once from round `r` on, which begins at vector r · stride: INPUTS arrays in, OUTPUTS out.
template <int INPUTS, int OUTPUTS, int UNROLL>
__device__ __forceinline__ u32 advance(uint4* out, const uint4* a, const uint4* b, float s, u32 stride,
                                       u32 rounds, u32 r, uint4& fold) {
    uint4 x[UNROLL], y[UNROLL];
    u32 at[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        at[u] = r * stride;
        r = r + 1 == rounds ? 0 : r + 1;
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) x[u] = a[at[u]];
    if constexpr (INPUTS == 2)
        for (int u = 0; u < UNROLL; ++u) y[u] = b[at[u]];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        if constexpr (INPUTS == 2) x[u] = apply(x[u], y[u], s);
        if constexpr (OUTPUTS == 1) {
            out[at[u]] = x[u];
        } else {
            fold.x ^= x[u].x;
            fold.y ^= x[u].y;
            fold.z ^= x[u].z;
            fold.w ^= x[u].w;
        }
    }
    return r;
}

template <int INPUTS, int OUTPUTS, int THREADS, int UNROLL>
__device__ __forceinline__ void walk(uint4* out, const uint4* a, const uint4* b, float s, u32 apart, u32 step, u32 rounds,
                                     u64 steps) {
    const u64 mine = u64(blockIdx.x) * apart * THREADS + threadIdx.x;
    const u32 stride = step * THREADS;
    uint4* to = out + (OUTPUTS ? mine : 0);
    a += mine;
    b += mine;
    uint4 fold;
    fold.x = fold.y = fold.z = fold.w = 0;
    u32 r = 0;
    u64 left = steps;
#pragma unroll 1
    for (; left >= UNROLL; left -= UNROLL)
        r = advance<INPUTS, OUTPUTS, UNROLL>(to, a, b, s, stride, rounds, r, fold);
#pragma unroll 1
    for (; left > 0; --left) r = advance<INPUTS, OUTPUTS, 1>(to, a, b, s, stride, rounds, r, fold);
    if constexpr (OUTPUTS == 0) {
        const u32 bits = warp_xor(fold.x ^ fold.y ^ fold.z ^ fold.w);
        const u64 slot = (u64(blockIdx.x) * THREADS + threadIdx.x) / WARP;
        if (threadIdx.x % WARP == 0) reinterpret_cast<u32*>(out)[slot] = bits;
    }
}

#define FOOTPRINT(name, inputs, outputs, threads, unroll)                                                              \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(uint4* out, const uint4* a, const uint4* b, float s, u32 apart, u32 step, u32 rounds, u64 steps) {        \
        walk<inputs, outputs, threads, unroll>(out, a, b, s, apart, step, rounds, steps);                              \
    }
