// sync: the cost of barriers of a warp, a block, a part of a block, a cluster and the whole grid.
//
// Why the compiler keeps it: every barrier is volatile assembly, or atomics that others wait for; each block stores its counts.
// Its loop in SASS: UNROLL barriers, the counter and the branch; `checked` forms store, load and compare in between.
//
// Each block reports cycles, nanoseconds, the barriers that its first thread passed and, in checked forms, how often its
// threads found the mark that another thread of the same barrier had stored: a barrier that lets a thread through early
// misses some. `marks` has a zeroed word per thread; `barrier` is a zeroed word.
#include "sync.h"

enum Meeting { WARP_MEETING, BLOCK_MEETING, HALF_MEETING, CLUSTER_MEETING, GRID_MEETING };

constexpr __device__ int unroll(Meeting kind) { return kind == CLUSTER_MEETING || kind == GRID_MEETING ? 1 : 8; }

template <Meeting KIND, int THREADS, int HALF> __device__ __forceinline__ void meet(u32* barrier) {
    if constexpr (KIND == WARP_MEETING) asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    else if constexpr (KIND == BLOCK_MEETING) asm volatile("bar.sync 0;" ::: "memory");
    else if constexpr (KIND == HALF_MEETING) asm volatile("bar.sync %0, %1;" ::"n"(1 + HALF), "n"(THREADS / 2) : "memory");
    else if constexpr (KIND == GRID_MEETING) grid_barrier(barrier);
#if __CUDA_ARCH__ >= 900
    else cluster_barrier();
#endif
}

// The number of threads in one barrier, and the index of the first one.
template <Meeting KIND, int THREADS> __device__ __forceinline__ void group(u32& size, u32& first) {
    size = KIND == WARP_MEETING ? 32 : KIND == HALF_MEETING ? THREADS / 2 : THREADS;
    first = blockIdx.x * THREADS + threadIdx.x / size * size;
    if constexpr (KIND == GRID_MEETING) {
        size = gridDim.x * THREADS;
        first = 0;
    }
#if __CUDA_ARCH__ >= 900
    if constexpr (KIND == CLUSTER_MEETING) {
        size = cluster_size() * THREADS;
        first = (blockIdx.x - cluster_rank()) * THREADS;
    }
#endif
}

template <Meeting KIND, int THREADS, bool CHECKED, int HALF>
__device__ __forceinline__ void rounds(u64* out, volatile u32* marks, u32 count, u32* barrier) {
    u32 size, first, right = 0;
    group<KIND, THREADS>(size, first);
    const u32 own = blockIdx.x * THREADS + threadIdx.x;
    const u32 other = first + (own - first + size / 2) % size;
    // If the compiler can see that a warp is converged it removes the wait: adding zeros that it doesn't know prevents that.
    if constexpr (KIND == WARP_MEETING && !CHECKED) count += marks[own];
    meet<KIND, THREADS, HALF>(barrier);
    const Moment begin = moment();
    u32 met = 0;
#pragma unroll 1
    while (met < count) {
        if constexpr (CHECKED) {
            marks[own] = met + 1;
            if constexpr (KIND == GRID_MEETING) __threadfence();
            meet<KIND, THREADS, HALF>(barrier);
            right += marks[other] == met + 1;
            meet<KIND, THREADS, HALF>(barrier);
            ++met;
        } else {
#pragma unroll
            for (int i = 0; i < unroll(KIND); ++i) meet<KIND, THREADS, HALF>(barrier);
            met += unroll(KIND);
        }
    }
    const Moment end = moment();
    if (threadIdx.x == 0) {
        tell(out + 4 * blockIdx.x, begin, end);
        out[4 * blockIdx.x + 2] = met;
    }
    if constexpr (CHECKED) atomicAdd(out + 4 * blockIdx.x + 3, u64(right));
}

#define SYNC_ROUNDS(name, kind, threads, checked)                                                                      \
    extern "C" __global__ void __launch_bounds__(threads) name(u64* out, u32* marks, u32 count, u32* barrier) {        \
        if constexpr (kind == HALF_MEETING) {                                                                          \
            if (threadIdx.x < threads / 2) rounds<kind, threads, checked, 0>(out, marks, count, barrier);              \
            else rounds<kind, threads, checked, 1>(out, marks, count, barrier);                                        \
        } else {                                                                                                       \
            rounds<kind, threads, checked, 0>(out, marks, count, barrier);                                             \
        }                                                                                                              \
    }

// Does nothing, between two events.
extern "C" __global__ void sync_empty() {}
