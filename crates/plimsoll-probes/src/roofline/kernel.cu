// roofline: a given number of fused multiply-adds per word read, nothing written: from memory-bound to compute-bound.
//
// Why the compiler keeps it: every word read goes into an accumulator, by a multiply-add or by XOR; the XOR of all accumulators'
// bits is stored, one word per warp.
// Its loop in SASS: VECTORS loads of 16 bytes and FMA multiply-adds for one word in PER; from 32 on an inner loop of half of
// them, at most 64, for each accumulator, its counter and its branch. No local memory. The compiler must not know the inner
// loop's iteration count: fully unrolled, 128 multiply-adds for each of eight pairs were scheduled with one accumulator
// lagging. Its last 62 were issued in a row to one of the two pipes between which pairs alternate, 10 % slower.
//
// A word is 4 bytes (f32, two f16, two bf16) or 8 (f64). A thread reads words in vectors of 16 bytes, VECTORS at once,
// and has an accumulator for each of their words, which it never resets: acc = x·a + acc, then acc = acc·a + b.
// Where PER is above 1, the other words are XORed. `in` holds iterations · VECTORS vectors for each thread of the
// grid. The first block stores its cycles and nanoseconds. Accumulators tend to b / (1 − a) and stay finite.
// `ROOFLINE_REFERENCE` computes one accumulator after the other, for the check.
#include "clocks.h"

struct F32 {
    typedef float W;
    static __device__ __forceinline__ W word(u32 x) { return __uint_as_float(x); }
    static __device__ __forceinline__ W factor(u32) { return 0.75f; }
    static __device__ __forceinline__ W fused(W x, W y, W a) { return fmaf(x, a, y); }
    static __device__ __forceinline__ W again(W x, W a) { return fmaf(x, a, 0.4f); }
    static __device__ __forceinline__ u32 bits(W x) { return __float_as_uint(x); }
};

struct F64 {
    typedef double W;
    static __device__ __forceinline__ W factor(u32) { return 0.75; }
    static __device__ __forceinline__ W fused(W x, W y, W a) { return fma(x, a, y); }
    static __device__ __forceinline__ W again(W x, W a) { return fma(x, a, 0.4); }
    static __device__ __forceinline__ u32 bits(W x) {
        const u64 all = __double_as_longlong(x);
        return u32(all) ^ u32(all >> 32);
    }
};

// Pairs: any bits become two numbers from 0 to 2. Factor and addend are both 0.75. The constant is in a register (the
// compiler doesn't know that threadIdx.y is 0), because the form with an immediate runs in one pipe only, half as fast.
#define PAIRS(name, type, three_quarters)                                                                              \
    struct name {                                                                                                      \
        typedef u32 W;                                                                                                 \
        static __device__ __forceinline__ W word(u32 x) { return x & 0x3fff3fff; }                                     \
        static __device__ __forceinline__ W factor(u32 zero) { return three_quarters + zero; }                         \
        static __device__ __forceinline__ W fused(W x, W y, W a) {                                                     \
            asm("fma.rn." type " %0, %1, %2, %0;" : "+r"(y) : "r"(x), "r"(a));                                         \
            return y;                                                                                                  \
        }                                                                                                              \
        static __device__ __forceinline__ W again(W x, W a) {                                                          \
            asm("fma.rn." type " %0, %0, %1, %1;" : "+r"(x) : "r"(a));                                                 \
            return x;                                                                                                  \
        }                                                                                                              \
        static __device__ __forceinline__ u32 bits(W x) { return x; }                                                  \
    };
PAIRS(F16x2, "f16x2", 0x3a003a00)
PAIRS(BF16x2, "bf16x2", 0x3f403f40)

// Word `s` of the vectors held.
template <class OF> __device__ __forceinline__ typename OF::W taken(const uint4* x, int s) {
    const u32* words = reinterpret_cast<const u32*>(x);
    if constexpr (sizeof(typename OF::W) == 8) return __hiloint2double(words[2 * s + 1], words[2 * s]);
    else return OF::word(words[s]);
}

// Stores the XOR of all lanes' bits, one word per warp.
__device__ __forceinline__ void store_bits(u32* out, u32 bits) {
    bits = warp_xor(bits);
    if (threadIdx.x % WARP == 0) out[(u64(blockIdx.x) * blockDim.x + threadIdx.x) / WARP] = bits;
}

// Multiply-adds for each accumulator in one iteration of the inner loop: half of all, at most 64; 0 (no inner loop) below 32.
template <int FMA> constexpr int INNER = FMA < 32 ? 0 : FMA < 128 ? FMA / 2 : 64;

template <class OF, int FMA, int PER, int VECTORS>
__device__ __forceinline__ void roofline(u32* out, const uint4* in, u64* clock, u32 iterations) {
    typedef typename OF::W W;
    const u64 first = cycles(), begin = nanoseconds();
    constexpr int WORDS = VECTORS * 16 / sizeof(W), LOOPED = INNER<FMA> > 0 ? FMA / INNER<FMA> - 1 : 0;
    const u64 threads = u64(gridDim.x) * blockDim.x;
    const uint4* next = in + u64(blockIdx.x) * blockDim.x + threadIdx.x;
    const W a = OF::factor(threadIdx.y);
    W acc[WORDS];
    u32 joined = 0;
#pragma unroll
    for (int s = 0; s < WORDS; ++s) acc[s] = W(0);
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration, next += VECTORS * threads) {
        uint4 x[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) x[v] = next[v * threads];
#pragma unroll
        for (int s = 0; s < WORDS; ++s) {
            if (s % PER == 0) acc[s] = OF::fused(taken<OF>(x, s), acc[s], a);
            else joined ^= OF::bits(taken<OF>(x, s));
        }
        if constexpr (LOOPED > 0) {
#pragma unroll 1
            for (u32 loop = 0; loop < LOOPED + threadIdx.y; ++loop) {
#pragma unroll
                for (int i = 0; i < INNER<FMA>; ++i)
#pragma unroll
                    for (int s = 0; s < WORDS; ++s) acc[s] = OF::again(acc[s], a);
            }
        }
#pragma unroll
        for (int i = 1; i < FMA - LOOPED * INNER<FMA>; ++i)
#pragma unroll
            for (int s = 0; s < WORDS; ++s) acc[s] = OF::again(acc[s], a);
    }
#pragma unroll
    for (int s = 0; s < WORDS; s += PER) joined ^= OF::bits(acc[s]);
    store_bits(out, joined);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        clock[0] = cycles() - first;
        clock[1] = nanoseconds() - begin;
    }
}

#define ROOFLINE(name, of, fma, per, vectors)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) name(u32* out, const uint4* in, u64* clock, u32 iterations) {         \
        roofline<of, fma, per, vectors>(out, in, clock, iterations);                                                        \
    }

#define ROOFLINE_REFERENCE(name, of)                                                                                   \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        name(u32* out, const uint4* in, u32 iterations, u32 fma, u32 per, u32 vectors) {                                    \
        const u64 threads = u64(gridDim.x) * blockDim.x, thread = u64(blockIdx.x) * blockDim.x + threadIdx.x;          \
        constexpr u32 in_vector = 16 / sizeof(of::W);                                                                  \
        const of::W a = of::factor(threadIdx.y);                                                                       \
        u32 joined = 0;                                                                                                \
        _Pragma("unroll 1") for (u32 s = 0; s < vectors * in_vector; ++s) {                                            \
            of::W acc = 0;                                                                                             \
            _Pragma("unroll 1") for (u32 iteration = 0; iteration < iterations; ++iteration) {                         \
                const uint4 vector = in[(u64(iteration) * vectors + s / in_vector) * threads + thread];                     \
                const of::W x = taken<of>(&vector, s % in_vector);                                                     \
                if (s % per == 0) acc = of::fused(x, acc, a);                                                          \
                else joined ^= of::bits(x);                                                                            \
                _Pragma("unroll 1") for (u32 i = 1; s % per == 0 && i < fma; ++i) acc = of::again(acc, a);             \
            }                                                                                                          \
            joined ^= of::bits(acc);                                                                                   \
        }                                                                                                              \
        store_bits(out, joined);                                                                                       \
    }
