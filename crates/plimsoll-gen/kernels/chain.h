// Chains for pointer chases. All threads build a chain in parallel: the address of every element follows from its number, so
// no thread waits for another. Only the loads need CUDA; the rest is plain C++.
#pragma once

#include "device.h"

// Bits that depend on all bits of x (the finaliser of Prospecting for Hash Functions, C. Wellons, 2018: lowbias32).
__device__ __forceinline__ u32 scattered(u32 x) {
    x ^= x >> 16;
    x *= 0x7feb352d;
    x ^= x >> 15;
    x *= 0x846ca68b;
    return x ^ x >> 16;
}

// The image of i under a random permutation of 0…n-1: a Feistel network of four rounds over the next power of four, repeated
// until the result is below n (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
__device__ __forceinline__ u32 permuted(u32 i, u32 n, u32 seed) {
    u32 half = 1;
    while (half < 16 && (u64(1) << 2 * half) < n) ++half;
    const u32 mask = (1u << half) - 1;
    do {
        u32 left = i >> half, right = i & mask;
        for (u32 round = 0; round < 4; ++round) {
            const u32 next = left ^ (scattered(right + seed + round * 0x9e3779b9u) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

// Bytes of a cache line.
#define LINE 128

// A chain over `pages` pages of `pitch` lines in random order, `visits` lines of each in random order before the next
// page: all lines, or one anywhere in the page.
struct Chain {
    u32 pages, visits, pitch, seed;

    // Byte offset of element i from the chain's base; i wraps around.
    __device__ u64 at(u64 i) const {
        const u64 wrapped = i % (u64(pages) * visits);
        const u32 page = permuted(u32(wrapped / visits), pages, seed);
        const u32 key = scattered(page + seed + 1);
        const u32 line = visits == 1 && pitch > 1 ? key % pitch : permuted(u32(wrapped % visits), visits, key);
        return (u64(page) * pitch + line) * LINE;
    }
};

// The nearest cache in which a load may find its line: L1, or L2 (bypassing L1).
enum Nearest { NEAREST_L1 = 1, NEAREST_L2 = 2 };

// Loads the next element's address from the element at address p.
template <int NEAREST> __device__ __forceinline__ u64 hop(u64 p) {
    u64 next;
    if constexpr (NEAREST == NEAREST_L1) asm volatile("ld.global.u64 %0, [%1];" : "=l"(next) : "l"(p) : "memory");
    else asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(next) : "l"(p) : "memory");
    return next;
}

// Hops in one iteration of a chase's loop. The loop counter is updated while the loads are in flight, so it takes no time.
#define HOPS 32

// Follows a chain for `hops` hops, a multiple of HOPS.
template <int NEAREST> __device__ __forceinline__ u64 chase(u64 p, u64 hops) {
#pragma unroll 1
    for (u64 h = 0; h < hops; h += HOPS) {
#pragma unroll
        for (int u = 0; u < HOPS; ++u) p = hop<NEAREST>(p);
    }
    return p;
}
