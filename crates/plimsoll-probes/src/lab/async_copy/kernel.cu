// async-copy: ways from global to shared memory: through registers, by asynchronous copies of 4 to 16 bytes, or by bulk copies
// of a whole tile; with one tile or several in flight.
//
// Why the compiler keeps it: every thread stores the exclusive or of what it read of all tiles in shared memory.
// Its loop in SASS: per tile TILE / (BYTES · THREADS) LDG and as many STS, or so many LDGSTS, or one UBLKCP by one thread; then
// TILE / (16 · THREADS) LDS of 16 bytes, two barriers of the block and one branch; no local memory.
//
// One block on each SM reads `around` bytes that all share, tile after tile. Block b starts at b · `slice` bytes; the timed tiles
// continue after the last untimed one. A block that reads less than `around` bytes finds none of them in its L1. Shared memory has
// room for `stages` tiles: while one is read, all others are in flight; through registers there is only one. A thread reads what
// another warp brought. Bulk copies need compute capability 9.0.
#include "bulk_copy.h"
#include "walk.h"

enum Way { REGISTERS, ASYNC_L1, ASYNC_PAST, BULK };

#if defined(__CUDA_ARCH__)
// A variable would be part of the module and make every launch take longer.
enum : u32 { MOST_STAGES = 4 };

extern __shared__ uint4 room[];

__device__ __forceinline__ u32 address(const void* shared) { return u32(__cvta_generic_to_shared(shared)); }

// Waits until no more than `ahead` groups of this thread's copies are in flight. The instruction needs a constant, and for a
// switch the compiler would emit a jump table.
__device__ __forceinline__ void wait_for_group(u32 ahead) {
    asm volatile("{\n.reg .pred is;\n"
                 "setp.eq.u32 is, %0, 0;\n@is cp.async.wait_group 0;\nsetp.eq.u32 is, %0, 1;\n@is cp.async.wait_group 1;\n"
                 "setp.eq.u32 is, %0, 2;\n@is cp.async.wait_group 2;\nsetp.eq.u32 is, %0, 3;\n@is cp.async.wait_group 3;\n}"
                 ::"r"(ahead) : "memory");
}

__device__ __forceinline__ void wait_for_bulk(u32 barrier, u32 parity) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity) : "memory");
#endif
}

// Copies a tile from `from` into shared memory at `to`; bulk copies signal `barrier`.
template <int WAY, int BYTES, int TILE, int THREADS>
__device__ __forceinline__ void fetch(u32 to, const unsigned char* from, u32 barrier) {
    constexpr int COPIES = WAY == BULK ? 1 : TILE / (BYTES * THREADS);
    const u32 mine = threadIdx.x * BYTES;
    if constexpr (WAY == REGISTERS) {
        Vector<u32, 16> v[COPIES];
#pragma unroll
        for (int u = 0; u < COPIES; ++u)
            v[u] = load<PLAIN, 16>(reinterpret_cast<const u32*>(from + u * BYTES * THREADS + mine));
        // Otherwise the assembler issues only four loads before it stores.
        __syncwarp();
#pragma unroll
        for (int u = 0; u < COPIES; ++u)
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + u * BYTES * THREADS + mine), "r"(v[u].word[0]),
                         "r"(v[u].word[1]), "r"(v[u].word[2]), "r"(v[u].word[3]) : "memory");
    } else if constexpr (WAY == BULK) {
#if __CUDA_ARCH__ >= 900
        if (threadIdx.x != 0) return;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(TILE) : "memory");
        asm volatile("cp.async.bulk." BULK_TO ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                     "l"(from), "r"(TILE), "r"(barrier) : "memory");
#endif
    } else {
#pragma unroll
        for (int u = 0; u < COPIES; ++u) {
            const u32 at = u * BYTES * THREADS + mine;
            if constexpr (WAY == ASYNC_PAST)
                asm volatile("cp.async.cg.shared.global [%0], [%1], %2;" ::"r"(to + at), "l"(from + at), "n"(BYTES) : "memory");
            else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to + at), "l"(from + at), "n"(BYTES) : "memory");
        }
    }
}

// The exclusive or of this thread's share of a tile, which another warp brought.
template <int TILE, int THREADS> __device__ __forceinline__ u32 consumed(u32 at) {
    u32 bits = 0;
#pragma unroll
    for (int u = 0; u < TILE / (16 * THREADS); ++u) {
        u32 x, y, z, w;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                     : "r"(at + u * 16 * THREADS + (threadIdx.x ^ WARP) * 16) : "memory");
        bits ^= x ^ y ^ z ^ w;
    }
    return bits;
}

template <int WAY, int BYTES, int TILE, int THREADS>
__device__ __forceinline__ void tiles(u32* out, u64* cycles, const unsigned char* in, u32 slice, u32 around, u32 stages,
                                      u32 warm, u32 iterations) {
    __shared__ alignas(8) u64 barriers[MOST_STAGES];
    const u32 first = address(room), barrier = address(barriers);
#if __CUDA_ARCH__ >= 900
    if constexpr (WAY == BULK) {
        if (threadIdx.x == 0) {
            for (u32 stage = 0; stage < MOST_STAGES; ++stage)
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier + 8 * stage) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
    }
#endif
    u32 bits = 0, parities = 0, offset = u32(u64(blockIdx.x) * slice % around);
    timed(cycles, warm, iterations, [&](u32 iterations) {
        u32 into = 0, from = 0;
        const auto bring = [&] {
            fetch<WAY, BYTES, TILE, THREADS>(first + into * TILE, in + offset, barrier + 8 * into);
            offset = offset + TILE < around ? offset + TILE : 0;
            into = into + 1 < stages ? into + 1 : 0;
        };
        const auto group = [] {
            if constexpr (WAY == ASYNC_L1 || WAY == ASYNC_PAST) asm volatile("cp.async.commit_group;" ::: "memory");
        };
        if constexpr (WAY != REGISTERS) {
#pragma unroll 1
            for (u32 ahead = 1; ahead < stages; ++ahead) {
                if (ahead <= iterations) bring();
                group();
            }
        }
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            if (WAY == REGISTERS || iteration + stages - 1 < iterations) bring();
            group();
            if constexpr (WAY == ASYNC_L1 || WAY == ASYNC_PAST) wait_for_group(stages - 1);
            if constexpr (WAY == BULK) {
                wait_for_bulk(barrier + 8 * from, parities >> from & 1);
                parities ^= 1u << from;
            } else __syncthreads();
            bits ^= consumed<TILE, THREADS>(first + from * TILE);
            from = from + 1 < stages ? from + 1 : 0;
            __syncthreads();
        }
    });
    out[blockIdx.x * THREADS + threadIdx.x] = bits;
}
#endif

#define ASYNC_COPY(name, way, bytes, tile, threads)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const unsigned char* in, u32 slice, u32 around, u32 stages, u32 warm,             \
             u32 iterations) {                                                                                              \
        tiles<way, bytes, tile, threads>(out, cycles, in, slice, around, stages, warm, iterations);                         \
    }
