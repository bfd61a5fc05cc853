// The bulk form of the stream kernels: a whole tile of every input is copied to shared memory. Part of kernel.cu, whose
// operations it uses; empty on targets without bulk copies.
//
// With KEEP inputs stay in L2 (elementwise/bulk.h explains why). The last tiles demote these lines again. A kernel doesn't
// know the cache size, so this covers more lines than an H200 keeps.
#pragma once

#include "bulk_copy.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
enum { MOST_KEPT = 32 << 20 };

template <Op OP, typename T, int BYTES, int UNROLL, int THREADS, bool KEEP>
__device__ __forceinline__ void bulk(T* out, const T* a, const T* b, const T* c, T s, u64 n) {
    constexpr int LANES = BYTES / sizeof(T), STEP = THREADS * LANES, TILE = STEP * UNROLL, INPUTS = inputs(OP);
    static_assert(INPUTS > 0 && reach(OP) == 0, "a tile needs at least one input and no halo");
    __shared__ alignas(128) T room[INPUTS * TILE];
    __shared__ alignas(8) u64 barrier;
    const u64 whole = n / TILE, tile = blockIdx.x, base = tile * TILE;
    const T* const from[] = {a, b, c};
    Fold<T> fold;
    if (tile < whole) {
        constexpr u64 BACK = (u64(MOST_KEPT) + sizeof(room) - 1) / sizeof(room);
        const bool keeps = KEEP && whole - tile > BACK;
        if (threadIdx.x == 0) {
            prepare_barrier(&barrier);
            expect_bytes(&barrier, sizeof(room));
#pragma unroll
            for (int i = 0; i < INPUTS; ++i) {
                T* const to = room + i * TILE;
                if constexpr (KEEP)
                    bulk_copy(to, u64(from[i] + base), TILE * sizeof(T), &barrier, eviction_policy(keeps));
                else bulk_copy(to, u64(from[i] + base), TILE * sizeof(T), &barrier);
            }
        }
        if (KEEP && !keeps && tile >= BACK) {
#pragma unroll
            for (int i = 0; i < INPUTS; ++i) demote(u64(from[i] + base - BACK * TILE), TILE * sizeof(T), THREADS);
        }
        __syncthreads();
        wait_for_bytes(&barrier);
        const T* const mine = room + threadIdx.x * LANES;
        const u64 first = base + threadIdx.x * LANES;
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            Vector<T, BYTES> x, y, z;
            x = load<PLAIN, BYTES>(mine + u * STEP);
            if constexpr (INPUTS > 1) y = load<PLAIN, BYTES>(mine + TILE + u * STEP);
            if constexpr (INPUTS > 2) z = load<PLAIN, BYTES>(mine + 2 * TILE + u * STEP);
            if constexpr (folds(OP)) fold.template take<OP, BYTES>(x, y);
            else map<OP, T, BYTES, PLAIN>(out, a, first + u * STEP, n, x, y, z, s);
        }
    } else if (tile == whole) {
        tail<OP, T, UNROLL * LANES, PLAIN, THREADS>(out, a, b, c, s, base, n, fold);
    }
    if constexpr (folds(OP)) store_fold<OP, T, THREADS>(out, fold);
}

#define STREAM_BULK(name, op, type, bytes, unroll, threads, keep)                                                      \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(type* out, const type* a, const type* b, const type* c, type s, u64 n) {                                  \
        bulk<op, type, bytes, unroll, threads, keep>(out, a, b, c, s, n);                                              \
    }
#else
#define STREAM_BULK(name, ...)
#endif
