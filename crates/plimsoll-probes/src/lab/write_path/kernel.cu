// write-path: the cost of stores to parts of a sector, of a load after a store to the same word, and of repeated reads of host
// memory.
//
// Why the compiler keeps it: stores write each word's index; a chain stores its last value; every reading thread stores the sum of
// its words.
// Its loop in SASS: `part` has no loop: UNROLL stores. A chain is UNROLL times one load, or a store and a load of the same word,
// each step depending on the one before. `again` is UNROLL loads of 16 bytes and their sum; only `chain_local` uses local memory,
// which it measures.
#include "walk.h"

// The steps of chains.
enum Step { LOAD_L1, LOAD_L2, STORE_LOAD_L1, STORE_LOAD_L2, STORE_LOAD_LOCAL };

// Store i to the first PART bytes of every 32-byte sector, ACCESS bytes each. A word's value is its index in the array, a byte's
// value the last eight bits of that.
template <int PART, int ACCESS> __device__ __forceinline__ void store_part(u32* out, u64 i) {
    constexpr u32 LANES = PART / ACCESS;
    const u64 word = i / LANES * 8 + (ACCESS < 4 ? 0 : i % LANES);
    if constexpr (ACCESS == 1) *reinterpret_cast<unsigned char*>(out + word) = (unsigned char)word;
    else out[word] = u32(word);
}

template <int PART, int ACCESS, int UNROLL> __device__ __forceinline__ void store_parts(u32* out, u64 sectors) {
    const u64 begin = u64(blockIdx.x) * blockDim.x * UNROLL, stores = sectors * (PART / ACCESS);
    if (begin + blockDim.x * UNROLL <= stores) {
#pragma unroll
        for (u32 u = 0; u < UNROLL; ++u) store_part<PART, ACCESS>(out, begin + u * blockDim.x + threadIdx.x);
    } else {
#pragma unroll 1
        for (u64 i = begin + threadIdx.x; i < stores; i += blockDim.x) store_part<PART, ACCESS>(out, i);
    }
}

#if defined(__CUDA_ARCH__)
// A step: returns the word loaded at `q`. q equals p, but the compiler doesn't know this; otherwise it would keep the stored value
// in a register.
template <int STEP> __device__ __forceinline__ u32 step(u32* p, const u32* q, u32 x) {
    if constexpr (STEP == STORE_LOAD_LOCAL) {
        const u64 to = __cvta_generic_to_local(p), from = __cvta_generic_to_local(q);
        asm volatile("st.local.u32 [%1], %2;\nld.local.u32 %0, [%3];" : "=r"(x) : "l"(to), "r"(x + 1), "l"(from) : "memory");
        return x;
    }
    if constexpr (STEP == STORE_LOAD_L1 || STEP == STORE_LOAD_L2)
        asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(x + 1) : "memory");
    else q += x;
    if constexpr (STEP == LOAD_L1 || STEP == STORE_LOAD_L1)
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(q) : "memory");
    else asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x) : "l"(q) : "memory");
    return x;
}

template <int STEP, int UNROLL>
__device__ __forceinline__ void chain(u32* out, u64* cycles, u32* words, u32 warm, u32 iterations) {
    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    u32 spilled[32];
    u32* p = words + thread;
    if constexpr (STEP == STORE_LOAD_LOCAL) p = spilled + iterations % 32;
    // Always p: launches have fewer than 2³¹ iterations.
    const u32* q = p + (iterations >> 31);
    *p = 0;
    u32 x = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration)
#pragma unroll
            for (u32 u = 0; u < UNROLL; ++u) x = step<STEP>(p, q, x);
    });
    out[thread] = x;
}
#endif

// Every block reads its own piece `passes` times.
template <bool PAST, int UNROLL>
__device__ __forceinline__ void again(u32* out, const uint4* in, u32 vectors, u32 passes) {
    const uint4* piece = in + u64(blockIdx.x) * vectors;
    u32 sum = 0;
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass)
#pragma unroll 1
        for (u32 i = threadIdx.x; i < vectors; i += UNROLL * blockDim.x) {
            uint4 x[UNROLL];
#pragma unroll
            for (u32 u = 0; u < UNROLL; ++u) {
                const uint4* p = piece + i + u * blockDim.x;
#if defined(__CUDA_ARCH__)
                if constexpr (PAST) asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                                                 : "=r"(x[u].x), "=r"(x[u].y), "=r"(x[u].z), "=r"(x[u].w) : "l"(p));
                else asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                                  : "=r"(x[u].x), "=r"(x[u].y), "=r"(x[u].z), "=r"(x[u].w) : "l"(p));
#else
                x[u] = *p;
#endif
            }
#pragma unroll
            for (u32 u = 0; u < UNROLL; ++u) sum += x[u].x + x[u].y + x[u].z + x[u].w;
        }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

#define WRITE_PART(name, part, access, unroll, threads)                                                                \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* out, u64 sectors) {                                \
        store_parts<part, access, unroll>(out, sectors);                                                               \
    }

#define WRITE_CHAIN(name, step, unroll, threads)                                                                       \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, u32* words, u32 warm, u32 iterations) {                                                 \
        chain<step, unroll>(out, cycles, words, warm, iterations);                                                          \
    }

#define READ_AGAIN(name, past, unroll, threads)                                                                        \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, const uint4* in, u32 vectors, u32 passes) {                                                     \
        again<past, unroll>(out, in, vectors, passes);                                                                 \
    }
