// gather: reads, writes and atomic additions of 4 to 128 bytes at random places.
//
// Why the compiler keeps it: every thread stores the XOR of all that it read; writes leave in each word its place; additions
// change memory.
// Its loop in SASS: UNROLL loads (stores, atomics), each preceded by its own hash and product, all loads before
// the first exclusive or; no local memory.
//
// An access is LANES threads side by side with BYTES each, aligned to its size. Access i of a launch is at line
// hash(i + seed) · lines / 2³² of 128 bytes, in the part of it that the hash's lowest bits say; i counts accesses through
// all groups of LANES threads. The kernels that read use no PTX.
#include "device.h"

// lowbias32 (Wellons, 'Prospecting for Hash Functions', 2018).
__device__ __forceinline__ u32 hash(u32 x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// Words from the array's beginning to the access i, for this thread of the group.
template <int BYTES, int LANES> __device__ __forceinline__ u64 place(u32 i, u32 lines) {
    constexpr u32 SIZE = BYTES * LANES;
    const u32 x = hash(i);
    const u32 line = u32((u64(x) * lines) >> 32), part = x & (128 / SIZE - 1);
    return u64(line) * 32 + (part * SIZE + threadIdx.x % LANES * BYTES) / 4;
}

template <int LANES, int UNROLL, typename Access>
__device__ __forceinline__ void accesses(u32 seed, u32 iterations, Access access) {
    const u32 groups = gridDim.x * blockDim.x / LANES;
    u32 i = seed + (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        access(i, groups);
        i += UNROLL * groups;
    }
}

template <int BYTES, int LANES, int UNROLL>
__device__ __forceinline__ void reads(u32* out, const u32* in, u32 lines, u32 seed, u32 iterations) {
    u32 bits = 0;
    accesses<LANES, UNROLL>(seed, iterations, [&](u32 i, u32 groups) {
        Vector<u32, BYTES> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) v[u] = load<PLAIN, BYTES>(in + place<BYTES, LANES>(i + u * groups, lines));
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            for (int k = 0; k < BYTES / 4; ++k) bits ^= v[u].word[k];
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

template <int BYTES, int LANES, int UNROLL>
__device__ __forceinline__ void writes(u32* at, u32 lines, u32 seed, u32 iterations) {
    accesses<LANES, UNROLL>(seed, iterations, [&](u32 i, u32 groups) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const u64 first = place<BYTES, LANES>(i + u * groups, lines);
            Vector<u32, BYTES> v;
            for (int k = 0; k < BYTES / 4; ++k) v.word[k] = u32(first) + k;
            store<PLAIN, BYTES>(at + first, v);
        }
    });
}

template <typename T, int UNROLL>
__device__ __forceinline__ void additions(u32* at, u32 lines, u32 seed, u32 iterations) {
    accesses<1, UNROLL>(seed, iterations, [&](u32 i, u32 groups) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u)
            atomicAdd(reinterpret_cast<T*>(at + place<sizeof(T), 1>(i + u * groups, lines)), T(1));
    });
}

#define GATHER_READ(name, bytes, lanes, unroll, threads)                                                               \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, const u32* in, u32 lines, u32 seed, u32 iterations) {                                                \
        reads<bytes, lanes, unroll>(out, in, lines, seed, iterations);                                                      \
    }

#define GATHER_WRITE(name, bytes, lanes, unroll, threads)                                                              \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* at, u32 lines, u32 seed, u32 iterations) {              \
        writes<bytes, lanes, unroll>(at, lines, seed, iterations);                                                          \
    }

#define GATHER_ADD(name, type, unroll, threads)                                                                        \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* at, u32 lines, u32 seed, u32 iterations) {              \
        additions<type, unroll>(at, lines, seed, iterations);                                                               \
    }
