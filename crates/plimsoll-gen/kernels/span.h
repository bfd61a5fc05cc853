// Measures how long a block works, in cycles of its SM, from its first warp's start to its last warp's end. CUDA only.
#pragma once

#include "device.h"

// Synchronizes the block's warps; returns the start time of the calling warp.
__device__ __forceinline__ u64 start_together() {
    __syncthreads();
    return u64(clock64());
}

// Stores the block's cycles in cycles[block]: the latest end minus the earliest start.
__device__ __forceinline__ void leave_span(u64* cycles, u64 start, u64 end) {
    __shared__ u64 first, last;
    if (threadIdx.x == 0) {
        first = start;
        last = end;
    }
    __syncthreads();
    if (threadIdx.x % WARP == 0) {
        atomicMin(&first, start);
        atomicMax(&last, end);
    }
    __syncthreads();
    if (threadIdx.x == 0) cycles[blockIdx.x] = last - first;
}
