// Cooperation between blocks and between kernels, for the probes that need it: a grid barrier, prefetching into L2, dependent
// launches, and clusters. CUDA only.
#pragma once

#include "clocks.h"

// All blocks wait for each other. They must all be resident (a cooperative launch), and `barrier` must be zero before the first
// launch. It never needs a reset, because only the change of its top bit counts.
__device__ __forceinline__ void grid_barrier(u32* barrier) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 share = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        __threadfence();
        const u32 before = atomicAdd(barrier, share);
        u32 now;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(barrier) : "memory");
        } while (((before ^ now) & 0x80000000u) == 0);
    }
    __syncthreads();
}

// Prefetches the line of `p` into L2.
__device__ __forceinline__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Lets the next kernel of the stream start, and waits for the previous one: a dependent launch overlaps its start with the end of
// the previous kernel. They do nothing before compute capability 9.0.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void wait_for_dependency() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A time by both clocks. Kernels with in-kernel timing report four numbers per block to the host: cycles, nanoseconds, and two that
// depend on the kernel.
struct Moment {
    u64 cycles, nanoseconds;
};

__device__ __forceinline__ Moment moment() {
    const u64 now = nanoseconds();
    return {cycles(), now};
}

__device__ __forceinline__ void tell(u64* out, Moment begin, Moment end) {
    out[0] = end.cycles - begin.cycles;
    out[1] = end.nanoseconds - begin.nanoseconds;
}

#if __CUDA_ARCH__ >= 900
// All threads of a cluster wait for each other, and then see the others' earlier writes.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ u32 cluster_size() {
    u32 size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
#endif
