// compression: z = a·x + y in single precision over compressible arrays, in a loop and in one shot, and a kernel that fills the
// arrays: only data that kernels write are compressed, when the L2 writes them back.
//
// Why the compiler keeps it: every element is stored.
// Its loop in SASS: `loop` two loads and one store of 16 bytes an iteration; `once` the same without a loop; `fill` one store of
// 16 bytes.
//
// `n` counts vectors of 16 bytes. Data are a function of kind, seed and the word's index, the same as on the host
// (`datum` in `kernels.rs`).
#include "device.h"

enum Kind { ZEROS, ONES, HALF, QUARTER, WEIGHTS, SPARSE, RANDOM };

// SplitMix64 (Steele, Lea, Flood 2014): its state after i + 1 steps from `seed`, finalised; the upper half.
__device__ __forceinline__ u32 random_word(u64 seed, u64 i) {
    u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return u32((z ^ (z >> 31)) >> 32);
}

// A weight as bf16: nearly normal, since it is the sum of four bytes, with a standard deviation of 0.02.
__device__ __forceinline__ u32 weight(u32 x) {
    const int sum = int(x & 255) + int(x >> 8 & 255) + int(x >> 16 & 255) + int(x >> 24) - 510;
    union {
        float number;
        u32 word;
    } bits;
    bits.number = float(sum) * 1.353e-4f;
    return bits.word >> 16;
}

__device__ __forceinline__ u32 datum(u32 kind, u64 seed, u64 i) {
    // Without the highest bit of the exponent: all numbers are finite, and so are twice their sums.
    const u32 x = random_word(seed, i) & 0xbfffffffu;
    switch (kind) {
    case ZEROS: return 0;
    case ONES: return 0x3f800000u;
    case HALF: return x & 0xffff0000u;
    case QUARTER: return x & 0xff000000u;
    case WEIGHTS: return weight(random_word(seed, 2 * i)) << 16 | weight(random_word(seed, 2 * i + 1));
    case SPARSE: return random_word(~seed, i) < 0x20000000u ? x : 0;
    default: return x;
    }
}

__device__ __forceinline__ void element(float* z, const float* x, const float* y, float a, u64 v) {
    Vector<float, 16> p = load<PLAIN, 16>(x + 4 * v);
    const Vector<float, 16> q = load<PLAIN, 16>(y + 4 * v);
    for (int k = 0; k < 4; ++k) p.lane[k] = fused(a, p.lane[k], q.lane[k]);
    store<PLAIN, 16>(z + 4 * v, p);
}

#define COMPRESSION_LOOP(name, threads)                                                                                \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(float* z, const float* x, const float* y, float a, u64 n) {                                               \
        const u64 stride = u64(gridDim.x) * threads;                                                                   \
        _Pragma("unroll 1") for (u64 v = u64(blockIdx.x) * threads + threadIdx.x; v < n; v += stride)                  \
            element(z, x, y, a, v);                                                                                    \
    }

#define COMPRESSION_ONCE(name, threads)                                                                                \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(float* z, const float* x, const float* y, float a, u64 n) {                                               \
        const u64 v = u64(blockIdx.x) * threads + threadIdx.x;                                                         \
        if (v < n) element(z, x, y, a, v);                                                                             \
    }

#define COMPRESSION_FILL(name, threads)                                                                                \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* out, u32 kind, u64 seed, u64 n) {                  \
        const u64 v = u64(blockIdx.x) * threads + threadIdx.x;                                                         \
        if (v >= n) return;                                                                                            \
        Vector<u32, 16> words;                                                                                         \
        for (int k = 0; k < 4; ++k) words.word[k] = datum(kind, seed, 4 * v + k);                                      \
        store<PLAIN, 16>(out + 4 * v, words);                                                                          \
    }
