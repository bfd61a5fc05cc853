// digest: the same arithmetic on every SM, and a digest of all results of a block.
//
// Why the compiler keeps it: every result goes into the digest, which is stored; each repetition begins at a number that the
// compiler knows nothing about.
// Its loop in SASS: 128 FFMA, 64 DFMA, 48 MUFU, 64 IMAD or 8 HMMA, and for shared memory 23 STS and 23 LDS of 4 bytes.
#include "clocks.h"
#include "kinds.h"

// What is known of an SM: the digest of its first block (0: none ran), the blocks that ran, those with another digest, and the last
// such digest.
struct Seen {
    u32 digest, blocks, others, other;
};

__device__ __forceinline__ void report(Seen* seen, u32 slots, u32 digest) {
    const u32 id = multiprocessor();
    if (id >= slots) return;
    digest = digest ? digest : 1;
    u32 before;
    asm volatile("atom.global.cas.b32 %0, [%1], 0, %2;" : "=r"(before) : "l"(&seen[id].digest), "r"(digest) : "memory");
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(&seen[id].blocks) : "memory");
    if (before == 0 || before == digest) return;
    asm volatile("red.global.add.u32 [%0], 1;" ::"l"(&seen[id].others) : "memory");
    exchange(&seen[id].other, digest);
}

template <class KIND>
__device__ __forceinline__ void digests(Seen* seen, u32 slots, u32 seed, u32 iterations, u32 repeats) {
    __shared__ u32 of_warps[THREADS / WARP];
#pragma unroll 1
    for (u32 repeat = 0; repeat < repeats; ++repeat) {
        KIND kind(opaque(mixed(seed ^ threadIdx.x * 0x9e3779b1u)));
        u32 digest = threadIdx.x;
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) digest = kind.next(digest, iteration);
        const u32 of_warp = warp_xor(mixed(digest));
        if (threadIdx.x % WARP == 0) of_warps[threadIdx.x / WARP] = of_warp;
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 of_block = 0;
            for (u32 warp = 0; warp < THREADS / WARP; ++warp) of_block = folded(of_block, of_warps[warp]);
            report(seen, slots, of_block);
        }
        __syncthreads();
    }
}

#define DIGEST(name, kind)                                                                                             \
    extern "C" __global__ void __launch_bounds__(THREADS)                                                              \
        name(Seen* seen, u32 slots, u32 seed, u32 iterations, u32 repeats) {                                           \
        digests<kind>(seen, slots, seed, iterations, repeats);                                                         \
    }
