// latency: how long one dependent load takes. One thread follows a chain that visits every line of its footprint once, in
// random order; each load's address is the last one's result.
//
// Why the compiler keeps it: where the chase ended is stored, and is where the next launch begins.
// Its loop in SASS: 32 loads of 8 bytes, each of the register that the one before wrote, a counter and one branch.
#include "chain.h"
#include "clocks.h"

// Writes the address of its successor into each of the chain's elements.
__device__ __forceinline__ void build(u64 base, Chain chain, u64 n) {
    const u64 stride = u64(gridDim.x) * blockDim.x;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
        *reinterpret_cast<u64*>(base + chain.at(i)) = base + chain.at(i + 1);
}

// `warm` hops untimed, `hops` timed, both multiples of HOPS, from where `cursor` says.
template <int NEAREST> __device__ __forceinline__ void timed(Timed* out, u64* cursor, u64 warm, u64 hops) {
    u64 p = chase<NEAREST>(*cursor, warm);
    const u64 begin = nanoseconds(), first = cycles();
    p = chase<NEAREST>(p, hops);
    const u64 last = cycles(), end = nanoseconds();
    *cursor = p;
    out->cycles = last - first;
    out->nanoseconds = end - begin;
    out->end = p;
    out->multiprocessor = multiprocessor();
}

#define LATENCY_BUILD(name)                                                                                            \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        name(u64 base, u32 pages, u32 visits, u32 pitch, u32 seed, u64 n) {                                            \
        build(base, Chain{pages, visits, pitch, seed}, n);                                                             \
    }

#define LATENCY_CHASE(name, nearest)                                                                                   \
    extern "C" __global__ void __launch_bounds__(32) name(Timed* out, u64* cursor, u64 warm, u64 hops) {               \
        if (threadIdx.x == 0) timed<nearest>(out, cursor, warm, hops);                                                 \
    }
