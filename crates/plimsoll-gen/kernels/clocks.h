// Device state that a kernel reads while it runs: cycles of its SM, the device's timer, and the number of its SM. CUDA only.
#pragma once

#include "device.h"

// Cycles of this SM. Volatile accesses before the read have been issued, and those after it have not. The read doesn't wait for the
// last of them to complete, an error of one access among all that are timed.
__device__ __forceinline__ u64 cycles() {
    u64 t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}

// Nanoseconds of the device's timer, which moves in steps (32 ns on compute capability 9.0, 1 µs before).
__device__ __forceinline__ u64 nanoseconds() {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}

// The number of the SM that this block runs on.
__device__ __forceinline__ u32 multiprocessor() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// The output of a timed launch: its duration by both clocks, the end of its chain, and its SM. A launch that must run on a certain
// SM is a grid of candidates: the first block there takes `ticket`, and the others output nothing.
struct Timed {
    u64 cycles, nanoseconds, end, multiprocessor;
};

#if defined(__CUDA_ARCH__)
// Atomically replaces the word at `p` and returns the old one. The compiler's atomicExch (NVRTC 13.0) adds a variable to the
// module, and every launch from a module with data takes longer.
__device__ __forceinline__ u32 exchange(u32* p, u32 word) {
    u32 before;
    asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(word) : "memory");
    return before;
}

// Whether this block does the work: it is the first block of the launch on SM `wanted`. All threads must call this. `ticket`
// contains the number of the previous launch, so `launch` must differ from it.
__device__ __forceinline__ bool takes_turn(u32* ticket, u32 launch, u32 wanted) {
    __shared__ u32 mine;
    if (multiprocessor() != wanted) return false;
    if (threadIdx.x == 0) mine = exchange(ticket, launch) != launch;
    __syncthreads();
    return mine != 0;
}
#endif
