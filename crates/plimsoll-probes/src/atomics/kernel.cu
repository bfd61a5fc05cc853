// atomics: latency and throughput of atomic additions in shared and in global memory, to one address and to distinct ones,
// with the old value wanted (`atom`) or not (`red`).
//
// Why the compiler keeps it: the sums stay in memory and are checked; `atom` stores the XOR of the old values.
// Its loop in SASS: UNROLL atomics, or where the device has none of this type in shared memory, UNROLL loops of a load and
// a compare-and-swap; in the latency kernels each address is made of the old value before it.
//
// Thread t of the launch (of the block, in shared memory) adds to word t · apart of a type; `apart` 0 is one address for
// all. `one` is 1 and `mask` 0: numbers that the compiler knows would let it add up a whole warp first, or see that no
// address changes.
#include "walk.h"

extern __shared__ uint4 shared_words[];

enum Space { GLOBAL, SHARED };

struct U32 {
    typedef u32 Word;
    static __device__ Word number(u32 one) { return one; }
    template <Space SPACE> static __device__ Word add(Word* p, Word x) { return atomicAdd(p, x); }
};

struct U64 {
    typedef u64 Word;
    static __device__ Word number(u32 one) { return one; }
    template <Space SPACE> static __device__ Word add(Word* p, Word x) { return atomicAdd(p, x); }
};

struct F32 {
    typedef float Word;
    static __device__ Word number(u32 one) { return float(one); }
    template <Space SPACE> static __device__ Word add(Word* p, Word x) { return atomicAdd(p, x); }
};

// Two halves in a word.
struct F16X2 {
    typedef u32 Word;
    static __device__ Word number(u32 one) { return one * 0x3c003c00u; }
    template <Space SPACE> static __device__ Word add(Word* p, Word x) {
        Word old;
        if constexpr (SPACE == SHARED)
            asm volatile("atom.shared.add.noftz.f16x2 %0, [%1], %2;"
                         : "=r"(old) : "r"(u32(__cvta_generic_to_shared(p))), "r"(x) : "memory");
        else
            asm volatile("atom.global.add.noftz.f16x2 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(x) : "memory");
        return old;
    }
};

__device__ __forceinline__ u32 bits_of(u32 x) { return x; }
__device__ __forceinline__ u32 bits_of(u64 x) { return u32(x); }
__device__ __forceinline__ u32 bits_of(float x) { return __float_as_uint(x); }

// The words that a block adds to: its `n` words in shared memory, cleared, or the given words in global memory.
template <typename T, Space SPACE>
__device__ __forceinline__ typename T::Word* words(typename T::Word* at, u32 n) {
    if constexpr (SPACE == GLOBAL) return at;
    auto* mine = reinterpret_cast<typename T::Word*>(shared_words);
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) mine[i] = 0;
    __syncthreads();
    return mine;
}

template <typename T, Space SPACE>
__device__ __forceinline__ void keep(typename T::Word* at, u32 n) {
    if constexpr (SPACE == SHARED) {
        __syncthreads();
        auto* mine = reinterpret_cast<typename T::Word*>(shared_words);
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) at[u64(blockIdx.x) * n + i] = mine[i];
    }
}

template <typename T, Space SPACE, bool WANTED, int UNROLL>
__device__ __forceinline__ void rate(u32* out, u64* cycles, typename T::Word* at, u32 n, u32 apart, u32 one, u32 warm,
                                     u32 iterations) {
    const u32 thread = threadIdx.x + (SPACE == GLOBAL ? blockIdx.x * blockDim.x : 0);
    auto* p = words<T, SPACE>(at, n) + u64(thread) * apart;
    const auto x = T::number(one);
    u32 bits = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration)
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                const auto old = T::template add<SPACE>(p, x);
                if constexpr (WANTED) bits ^= bits_of(old);
            }
        // `red` returns nothing, so wait until it has completed.
        if constexpr (SPACE == GLOBAL) __threadfence();
    });
    keep<T, SPACE>(at, n);
    if constexpr (WANTED) out[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

template <typename T, Space SPACE>
__device__ __forceinline__ void chain(u64* cycles, typename T::Word* at, u32 mask, u32 one, u32 warm, u32 iterations) {
    auto* p = words<T, SPACE>(at, 1);
    const auto x = T::number(one);
    u32 next = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        if (threadIdx.x > 0) return;
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration)
#pragma unroll
            for (int u = 0; u < 8; ++u) next = bits_of(T::template add<SPACE>(p + next, x)) & mask;
        // Waits for the last addition.
        if (next != 0) *p = x;
    });
    keep<T, SPACE>(at, 1);
}

#define ATOMICS_RATE(name, type, space, wanted, unroll, threads)                                                       \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, type::Word* at, u32 n, u32 apart, u32 one, u32 warm, u32 iterations) {                  \
        rate<type, space, wanted, unroll>(out, cycles, at, n, apart, one, warm, iterations);                                \
    }

#define ATOMICS_CHAIN(name, type, space)                                                                               \
    extern "C" __global__ void __launch_bounds__(32)                                                                   \
        name(u64* cycles, type::Word* at, u32 mask, u32 one, u32 warm, u32 iterations) {                                    \
        chain<type, space>(cycles, at, mask, one, warm, iterations);                                                        \
    }
