// l2-reuse: a producer that updates a tile and a consumer that updates it again, in kernels of their own or, with a barrier of
// the grid between, in one.
//
// What keeps it: every word is updated. `l2_reuse_wrong` checks.
// Its loop in SASS: one load and one store of 16 bytes, past the first-level cache.
//
// The producer adds w + 1 to word w, the consumer 3 w + 7 to word w from the tile's end on, so that no multiprocessor meets in
// its own cache what it wrote. After r rounds a word that was 0 is r (4 w + 8): an update that was lost shows.
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

// result += how many words are not what so many rounds leave.
extern "C" __global__ void l2_reuse_wrong(u64* result, const u32* at, u32 rounds, u64 n) {
    u64 wrong = 0;
    for (u64 w = u64(blockIdx.x) * blockDim.x + threadIdx.x; w < n; w += u64(gridDim.x) * blockDim.x)
        wrong += at[w] != rounds * (4 * u32(w) + 8);
    wrong = warp_sum(wrong);
    if (threadIdx.x % WARP == 0) atomicAdd(result, wrong);
}
