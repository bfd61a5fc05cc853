// cluster: shared memory of other blocks of a cluster: how long a load takes, and how many bytes move per cycle.
//
// Why the compiler keeps it: accesses are volatile assembly; loads are volatile in PTX too, or the assembler would move them out of
// the loop. The chase stores where it ended; the other kernels store a sum of what they read or of what their partner stored.
// Its loop in SASS: the chase eight loads of a word, each the next one's address (LD or LDS); `read` and `write` four
// loads or stores of 16 bytes; `add` four reductions; `bulk` UBLKCP and a wait for its barrier.
//
// Every rank has its own chain step and adds its own number, and what `write` stores changes from round to round: results show
// whose memory was used and which round was the last.
//
// Compute capability 9.0 and later. A block's partner is rank ^ distance, so that every block sends and receives; clusters
// have a power of two of blocks. A round moves 32 KiB per block. Each block reports cycles, nanoseconds, its round count and its
// sum. Dynamic shared memory isn't touched: it keeps other blocks off the SM.
#include "sync.h"

enum Access { READ, READ_OWN, WRITE, ADD, BULK };

#if __CUDA_ARCH__ >= 900
// Enumerators, because variables would be part of the module and make every launch slower.
enum : u32 { SOURCE_WORDS = 2048, WORDS = 8192, STAGES = 4, STAGE_BYTES = SOURCE_WORDS * 4, CHAIN_STEP = 4097 };
enum : u32 { THREADS = 512, UNROLL = WORDS / (4 * THREADS) };

__device__ __forceinline__ u32 address(const void* shared) { return u32(__cvta_generic_to_shared(shared)); }

// The same place in the shared memory of another block.
__device__ __forceinline__ u32 of_rank(u32 own, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
    return there;
}

__device__ __forceinline__ u32 datum(u32 rank, u32 i) { return (rank * WORDS + i + 1) * 2654435761u; }

template <bool OWN> __device__ __forceinline__ u32 next(u32 at) {
    u32 to;
    if constexpr (OWN) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to) : "r"(at) : "memory");
    else asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(to) : "r"(at) : "memory");
    return to;
}

template <Access KIND> __device__ __forceinline__ u32 iteration(u32 at, u32 value) {
    u32 x = 0, y = 0, z = 0, w = 0;
    if constexpr (KIND == READ)
        asm volatile("ld.volatile.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at));
    else if constexpr (KIND == READ_OWN)
        asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "r"(at));
    else if constexpr (KIND == WRITE)
        asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at), "r"(value) : "memory");
    else asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
    return x + y + z + w;
}

__device__ __forceinline__ void wait_for(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra ENOUGH;\nbra AGAIN;\nENOUGH:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// One thread sends the source to its partner again and again and receives as much, with STAGES pieces in flight.
__device__ __forceinline__ void bulk(u32 source, u32 data, u32 barriers, u32 partner, u32 rounds) {
    for (u32 round = 0; round < rounds; ++round) {
        for (u32 stage = 0; stage < STAGES; ++stage) {
            const u32 barrier = barriers + 8 * stage;
            if (round > 0) wait_for(barrier, (round - 1) & 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(STAGE_BYTES) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
                         "r"(of_rank(data + stage * STAGE_BYTES, partner)), "r"(source), "r"(STAGE_BYTES),
                         "r"(of_rank(barrier, partner)) : "memory");
        }
    }
    for (u32 stage = 0; stage < STAGES; ++stage) wait_for(barriers + 8 * stage, (rounds - 1) & 1);
}
#endif

#define CLUSTER_CHASE(name, own)                                                                                       \
    extern "C" __global__ void __launch_bounds__(32) name(u64* out, u32 distance, u32 hops) {                          \
        __shared__ alignas(128) u32 words[WORDS];                                                                      \
        const u32 base = own ? address(words) : of_rank(address(words), cluster_rank());                               \
        const u32 step = CHAIN_STEP + 2 * cluster_rank();                                                              \
        for (u32 i = threadIdx.x; i < WORDS; i += 32) words[i] = base + (i + step) % WORDS * 4;                        \
        cluster_barrier();                                                                                             \
        if (cluster_rank() == 0 && threadIdx.x == 0) {                                                                 \
            const u32 first = own ? base : of_rank(address(words), distance);                                          \
            u32 at = first;                                                                                            \
            const Moment begin = moment();                                                                             \
            _Pragma("unroll 8") for (u32 hop = 0; hop < hops; ++hop) at = next<own>(at);                               \
            const Moment end = moment();                                                                               \
            tell(out, begin, end);                                                                                     \
            out[2] = hops;                                                                                             \
            out[3] = at - first;                                                                                       \
        }                                                                                                              \
        cluster_barrier();                                                                                             \
    }

#define CLUSTER_MOVE(name, kind)                                                                                       \
    extern "C" __global__ void __launch_bounds__(THREADS) name(u64* out, u32 distance, u32 rounds) {                   \
        __shared__ alignas(128) u32 source[SOURCE_WORDS];                                                              \
        __shared__ alignas(128) u32 words[WORDS];                                                                      \
        __shared__ u64 barriers[STAGES];                                                                               \
        __shared__ u32 total;                                                                                          \
        const u32 rank = cluster_rank(), partner = rank ^ distance;                                                    \
        const bool reads = kind == READ || kind == READ_OWN;                                                           \
        for (u32 i = threadIdx.x; i < SOURCE_WORDS; i += THREADS) source[i] = datum(rank, i);                          \
        for (u32 i = threadIdx.x; i < WORDS; i += THREADS) words[i] = reads ? datum(rank, i) : 0;                      \
        if (threadIdx.x == 0) {                                                                                        \
            total = 0;                                                                                                 \
            for (u32 stage = 0; stage < STAGES; ++stage)                                                               \
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(barriers + stage)) : "memory");    \
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");                                         \
        }                                                                                                              \
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");                                                   \
        cluster_barrier();                                                                                             \
        const u32 own = address(words);                                                                                \
        const u32 at = (kind == READ_OWN ? own : of_rank(own, partner)) + (kind == ADD ? 4 : 16) * threadIdx.x;        \
        u32 sum = 0;                                                                                                   \
        const Moment begin = moment();                                                                                 \
        if constexpr (kind == BULK) {                                                                                  \
            if (threadIdx.x == 0) bulk(address(source), own, address(barriers), partner, rounds);                      \
        } else {                                                                                                       \
            _Pragma("unroll 1") for (u32 round = 0; round < rounds; ++round)                                           \
                _Pragma("unroll") for (u32 i = 0; i < UNROLL; ++i)                                                     \
                    sum += iteration<kind>(at + 16 * THREADS * i, kind == ADD ? rank + 1 : datum(rank, threadIdx.x) + round); \
        }                                                                                                              \
        __syncthreads();                                                                                               \
        const Moment end = moment();                                                                                   \
        cluster_barrier();                                                                                             \
        if (!reads)                                                                                                    \
            for (u32 i = threadIdx.x; i < WORDS; i += THREADS) sum += words[i];                                        \
        atomicAdd(&total, sum);                                                                                        \
        __syncthreads();                                                                                               \
        if (threadIdx.x == 0) {                                                                                        \
            tell(out + 4 * blockIdx.x, begin, end);                                                                    \
            out[4 * blockIdx.x + 2] = rounds;                                                                          \
            out[4 * blockIdx.x + 3] = total;                                                                           \
        }                                                                                                              \
    }
