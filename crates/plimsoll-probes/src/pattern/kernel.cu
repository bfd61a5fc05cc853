// pattern: fills memory with words that each depend on their index, and reads them back.
//
// Why the compiler keeps it: the fill stores every word; the check counts the words that differ.
// Its loop in SASS: 4 loads of 8 bytes, 4 times the arithmetic of a word, comparisons and one branch.
#include "device.h"

// The word for an index: SplitMix64 (Steele, Lea and Flood, 2014), in which every bit depends on every bit of the index.
__device__ __forceinline__ u64 word_of(u64 seed, u64 i) {
    u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#define EACH(i, n)                                                                                                     \
    _Pragma("unroll 4") for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n;                                \
                             i += u64(gridDim.x) * blockDim.x)

// Every word of `out`, with the bits of `flip` inverted.
#define PATTERN_FILL(name, threads)                                                                                    \
    extern "C" __global__ void __launch_bounds__(threads) name(u64* out, u64 seed, u64 flip, u64 n) {                  \
        EACH(i, n) out[i] = word_of(seed, i) ^ flip;                                                                   \
    }

// result[0] counts the wrong words, result[1] is the index of the first one (initially all ones), result[2] has the bits that
// were ever wrong.
#define PATTERN_CHECK(name, threads)                                                                                   \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(const u64* in, u64* result, u64 seed, u64 flip, u64 n) {                                                  \
        EACH(i, n) {                                                                                                   \
            const u64 wrong = in[i] ^ word_of(seed, i) ^ flip;                                                         \
            if (wrong != 0) {                                                                                          \
                atomicAdd(result, 1ull);                                                                               \
                atomicMin(result + 1, i);                                                                              \
                atomicOr(result + 2, wrong);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }
