// What a kernel reads of the device while it runs: cycles of its multiprocessor, the device's timer, and which
// multiprocessor it is on. CUDA only.
#pragma once

#include "device.h"

// Cycles of this multiprocessor. Volatile accesses before it have been issued and those after it haven't; whether the last
// of them has arrived isn't waited for, which is one access in all that are timed.
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

// The multiprocessor that this block is on.
__device__ __forceinline__ u32 multiprocessor() {
    u32 id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

// What a timed launch leaves: its length by both clocks, where it ended, and its multiprocessor. A launch that must run on
// one multiprocessor is a grid of candidates, of which the first block there takes `ticket`; nothing is left by the others.
struct Timed {
    u64 cycles, nanoseconds, end, multiprocessor;
};

#if defined(__CUDA_ARCH__)
// What lay at `p`, which gets `word` instead. The compiler's atomicExch (NVRTC 13.0) puts a variable of its own into the module,
// and every launch of a module that holds data takes longer.
__device__ __forceinline__ u32 exchange(u32* p, u32 word) {
    u32 before;
    asm volatile("atom.global.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(word) : "memory");
    return before;
}

// Whether this block is the one to work: the first of the launch on multiprocessor `wanted`. All threads must ask. `ticket`
// holds the iteration of the launch before, so `iteration` must differ from that one's.
__device__ __forceinline__ bool takes_turn(u32* ticket, u32 iteration, u32 wanted) {
    __shared__ u32 mine;
    if (multiprocessor() != wanted) return false;
    if (threadIdx.x == 0) mine = exchange(ticket, iteration) != iteration;
    __syncthreads();
    return mine != 0;
}
#endif
