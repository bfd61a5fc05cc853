// l1: what one SM loads from and stores to its L1, and loads from and adds to its shared
// memory, in its own footprint, by the width of an access.
//
// Why the compiler keeps it: every thread stores the XOR of all that it loaded; stores leave in each word its place; the
// counters that were added to are stored.
// Its loop in SASS: UNROLL loads (or stores, or atomics) of BYTES with immediate offsets from one address, the XOR
// of their words, the place's arithmetic and one branch; no local memory. Behind the loop of stores stands one fence.
//
// One block per SM traverses its own piece (shift 0). The first pass is untimed, since a launch finds the
// L1 empty. Shared memory is loaded from the block's piece first, so the same words come back.
#include "walk.h"

extern __shared__ uint4 shared_words[];

template <int BYTES, int UNROLL>
__device__ __forceinline__ void load_walk(u32* out, u64* cycles, const u32* in, bool pieces, Walk walk, u32 warm, u32 iterations) {
    constexpr u32 CHUNK = WARP * BYTES * UNROLL;
    const u32 lane = threadIdx.x % WARP * BYTES;
    u32 bits = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        walk.begin(CHUNK);
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            const u32* p = in + ((pieces ? walk.place() : u64(walk.offset)) + lane) / 4;
            Vector<u32, BYTES> v[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) v[u] = load<PLAIN, BYTES>(p + u * WARP * (BYTES / 4));
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) bits ^= folded(v[u]);
            walk.next();
        }
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

template <int BYTES, int UNROLL>
__device__ __forceinline__ void store_walk(u32* out, u64* cycles, Walk walk, u32 warm, u32 iterations) {
    constexpr u32 CHUNK = WARP * BYTES * UNROLL;
    const u32 lane = threadIdx.x % WARP * BYTES;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        walk.begin(CHUNK);
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            const u64 first = (walk.place() + lane) / 4;
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                Vector<u32, BYTES> v;
                for (int i = 0; i < BYTES / 4; ++i) v.word[i] = u32(first) + u * WARP * (BYTES / 4) + i;
                store<PLAIN, BYTES>(out + first + u * WARP * (BYTES / 4), v);
            }
            walk.next();
        }
        // A store that was issued may still be in flight: the timed section ends when all have arrived.
        __threadfence();
    });
}

// `added` is 1: a number that the compiler knows would change the instruction.
template <int UNROLL>
__device__ __forceinline__ void atomic_walk(u32* out, u64* cycles, u32 added, Walk walk, u32 warm, u32 iterations) {
    constexpr u32 CHUNK = WARP * 4 * UNROLL;
    u32* counters = reinterpret_cast<u32*>(shared_words);
    for (u32 i = threadIdx.x; i < walk.slice / 4; i += blockDim.x) counters[i] = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        walk.begin(CHUNK);
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            u32* p = counters + walk.offset / 4 + threadIdx.x % WARP;
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) atomicAdd(p + u * WARP, added);
            walk.next();
        }
    });
    for (u32 i = threadIdx.x; i < walk.slice / 4; i += blockDim.x) out[u64(blockIdx.x) * (walk.slice / 4) + i] = counters[i];
}

#define L1_LOAD(name, bytes, unroll, threads)                                                                          \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const u32* in, u32 slice, u32 step, u32 warm, u32 iterations) {                         \
        load_walk<bytes, unroll>(out, cycles, in, true, Walk{slice, step, 0, 0, 0, 0}, warm, iterations);                   \
    }

#define L1_STORE(name, bytes, unroll, threads)                                                                         \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, u32 slice, u32 step, u32 warm, u32 iterations) {                                        \
        store_walk<bytes, unroll>(out, cycles, Walk{slice, step, 0, 0, 0, 0}, warm, iterations);                            \
    }

#define L1_SHARED(name, bytes, unroll, threads)                                                                        \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const u32* in, u32 slice, u32 step, u32 warm, u32 iterations) {                         \
        u32* words = reinterpret_cast<u32*>(shared_words);                                                             \
        for (u32 i = threadIdx.x; i < slice / 4; i += threads) words[i] = in[u64(blockIdx.x) * (slice / 4) + i];       \
        load_walk<bytes, unroll>(out, cycles, words, false, Walk{slice, step, 0, 0, 0, 0}, warm, iterations);               \
    }

#define L1_SHARED_ATOMIC(name, unroll, threads)                                                                        \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, u32 added, u32 slice, u32 step, u32 warm, u32 iterations) {                             \
        atomic_walk<unroll>(out, cycles, added, Walk{slice, step, 0, 0, 0, 0}, warm, iterations);                           \
    }
