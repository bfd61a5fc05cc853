// l2: the bandwidth of L2: reads, writes and copies that bypass L1, of lines private to one SM
// (`shift` 0) or visited by all SMs in turn (`shift` 1).
//
// Why the compiler keeps it: every thread stores the XOR of all that it read; writes leave in each word its place; copies
// leave the input.
// Its loop in SASS: UNROLL loads of 16 bytes marked STRONG.GPU (which L1 can't serve), their exclusive or, or
// UNROLL stores of 16 bytes; the place's arithmetic and one branch; no local memory.
//
// One block per SM traverses pieces.
#include "walk.h"

__device__ __forceinline__ Vector<u32, 16> load_past_l1(const u32* p) {
    Vector<u32, 16> v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3]) : "l"(p));
    return v;
}

enum Kind { READ, WRITE, COPY };

template <Kind KIND, int UNROLL>
__device__ __forceinline__ void walk_pieces(u32* out, const u32* in, Walk walk, u32 iterations) {
    constexpr u32 CHUNK = WARP * 16 * UNROLL;
    const u32 lane = threadIdx.x % WARP * 16;
    u32 bits = 0;
    walk.begin(CHUNK);
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        const u64 first = (walk.place() + lane) / 4;
        Vector<u32, 16> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if constexpr (KIND == WRITE)
                for (int i = 0; i < 4; ++i) v[u].word[i] = u32(first) + u * WARP * 4 + i;
            else
                v[u] = load_past_l1(in + first + u * WARP * 4);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            if constexpr (KIND == READ) bits ^= folded(v[u]);
            else store<PLAIN, 16>(out + first + u * WARP * 4, v[u]);
        }
        walk.next();
    }
    if constexpr (KIND == READ) out[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

#define L2_WALK(name, kind, unroll, threads)                                                                           \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, const u32* in, u32 slice, u32 step, u32 hop, u32 shift, u32 iterations) {                            \
        walk_pieces<kind, unroll>(out, in, Walk{slice, step, hop, shift, 0, 0}, iterations);                                \
    }
