// l2-reuse: a producer that updates a tile and a consumer that updates it again, in separate kernels or in one, with a grid barrier
// between them.
//
// Why the compiler keeps it: every word is updated. `l2_reuse_wrong` checks.
// Its loop in SASS: one load and one store of 16 bytes, bypassing the L1.
//
// The producer adds w + 1 to word w. The consumer adds 3 w + 7, starting at the tile's end, so that no SM finds its own writes in
// its L1. After r rounds a word that was 0 is r (4 w + 8), so a lost update shows.
#include "sync.h"

template <bool CONSUMER> __device__ __forceinline__ void update(u32* at, u64 n) {
#pragma unroll 1
    for (u64 v = u64(blockIdx.x) * blockDim.x + threadIdx.x; v < n; v += u64(gridDim.x) * blockDim.x) {
        const u64 u = CONSUMER ? n - 1 - v : v;
        Vector<u32, 16> x;
        x.words = __ldcg(reinterpret_cast<const uint4*>(at) + u);
        for (int k = 0; k < 4; ++k) {
            const u32 w = u32(4 * u) + k;
            x.word[k] += CONSUMER ? 3 * w + 7 : w + 1;
        }
        store<PLAIN, 16>(at + 4 * u, x);
    }
}

#define L2_REUSE_STEP(name, consumer, threads)                                                                         \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* at, u64 n) { update<consumer>(at, n); }

#define L2_REUSE_BOTH(name, threads)                                                                                   \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* at, u64 n, u32 rounds, u32* barrier) {             \
        _Pragma("unroll 1") for (u32 round = 0; round < rounds; ++round) {                                             \
            update<false>(at, n);                                                                                      \
            grid_barrier(barrier);                                                                                     \
            update<true>(at, n);                                                                                       \
            grid_barrier(barrier);                                                                                     \
        }                                                                                                              \
    }

// result += number of words that are wrong after `rounds` rounds.
extern "C" __global__ void l2_reuse_wrong(u64* result, const u32* at, u32 rounds, u64 n) {
    u64 wrong = 0;
    for (u64 w = u64(blockIdx.x) * blockDim.x + threadIdx.x; w < n; w += u64(gridDim.x) * blockDim.x)
        wrong += at[w] != rounds * (4 * u32(w) + 8);
    wrong = warp_sum(wrong);
    if (threadIdx.x % WARP == 0) atomicAdd(result, wrong);
}
