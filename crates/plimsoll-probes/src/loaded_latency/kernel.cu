// loaded-latency: one thread chases pointers through memory, alone on its SM, while all other SMs read, or read and write,
// and pause after every round.
//
// Why the compiler keeps it: the chaser stores where it ended; every word read goes into an XOR that is stored.
// Its loop in SASS: the chaser HOPS loads of 8 bytes, each the address of the next; a background UNROLL loads
// of 16 bytes, for COPY as many stores, one load of the stop flag, and the pause.
//
// Block 0 chases, in one thread, after LEAD untimed hops; the other blocks work until it is done, or for `limit` rounds
// (0: no limit). A round of a warp is 32 · UNROLL vectors; the warps of the grid pass over the array together and wrap around;
// its `vectors` are a power of two. Each block reports cycles, nanoseconds, its count (hops; rounds of all its warps) and its
// result (where it ended; the XOR). state[0] counts the blocks that have started, state[1] stops them; both must be zero
// before the launch, and so must `out`.
#include "chain.h"
#include "sync.h"

enum Background { READ, COPY };

// As variables these would be module data, which makes every launch of the module's kernels take longer.
enum { UNROLL = 8 };
enum : u64 { LEAD = 64 };

extern "C" __global__ void __launch_bounds__(256) loaded_chain(u64 base, u32 lines, u32 seed) {
    const Chain chain = {1, lines, lines, seed};
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < lines; i += u64(gridDim.x) * blockDim.x)
        *reinterpret_cast<u64*>(base + chain.at(i)) = base + chain.at(i + 1);
}

__device__ __forceinline__ void chaser(u64* out, u64 at, u64 hops, volatile u32* state) {
    while (state[0] != gridDim.x - 1) {
    }
    // Meanwhile the others fill the queues.
    at = chase<NEAREST_L2>(at, LEAD);
    const Moment begin = moment();
    at = chase<NEAREST_L2>(at, hops);
    const Moment end = moment();
    state[1] = 1;
    tell(out, begin, end);
    out[2] = hops;
    out[3] = at;
}

// Waits for `cycles` cycles.
__device__ __forceinline__ void pause(u32 cycles) {
    const u32 begin = clock();
    while (u32(clock()) - begin < cycles) {
    }
}

template <Background KIND>
__device__ __forceinline__ void generator(u64* out, uint4* to, const uint4* from, u64 vectors, u32 delay, u32 limit,
                                          u32* state) {
    const u32 lane = threadIdx.x % 32;
    const u64 warp = (u64(blockIdx.x - 1) * blockDim.x + threadIdx.x) / 32;
    const u64 step = u64(gridDim.x - 1) * blockDim.x * UNROLL;
    u64 at = (warp * 32 * UNROLL + lane) & (vectors - 1);
    u32 bits = 0, done = 0, stop;
    if (threadIdx.x == 0) atomicAdd(state, 1);
    // Staggers the warps so that their pauses don't coincide.
    if (delay > 0) pause(u32(warp * 2654435769u) % delay);
    const Moment begin = moment();
#pragma unroll 1
    do {
        Vector<u32, 16> v[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; ++i)
            v[i] = load<LOAD_NO_ALLOCATE, 16>(reinterpret_cast<const u32*>(from + at + 32 * i));
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(stop) : "l"(state + 1) : "memory");
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) {
            bits ^= v[i].word[0] ^ v[i].word[1] ^ v[i].word[2] ^ v[i].word[3];
            if constexpr (KIND == COPY) store<PLAIN>(reinterpret_cast<u32*>(to + at + 32 * i), v[i]);
        }
        at = (at + step) & (vectors - 1);
        ++done;
        if (delay > 0) pause(delay);
    } while (done != limit && stop == 0);
    const Moment end = moment();
    bits = warp_xor(bits);
    if (threadIdx.x == 0) tell(out, begin, end);
    if (lane == 0) {
        atomicAdd(out + 2, u64(done));
        atomicXor(out + 3, u64(bits));
    }
}

#define LOADED_CHASE(name, kind)                                                                                       \
    extern "C" __global__ void __launch_bounds__(512, 1)                                                                 \
        name(u64* out, u64 at, u64 hops, uint4* to, const uint4* from, u64 vectors, u32 delay, u32 limit,      \
             u32* state) {                                                                                             \
        if (blockIdx.x > 0) generator<kind>(out + 4 * blockIdx.x, to, from, vectors, delay, limit, state);             \
        else if (threadIdx.x == 0) chaser(out, at, hops, state);                                                       \
    }
