// gemm: turns random bits into numbers of one format, in place: sign and fraction stay, the exponent becomes one of four, so that
// every number is from 1/8 to 2 in magnitude and sums of products neither overflow nor vanish.
//
// Why the compiler keeps it: every word is stored.
// Its loop in SASS: one load and one store of a word of 32 or 64 bits, and the logic between them.
//
// A word holds two numbers of 16 bits. `kept` are the bits of sign and fraction that stay, `bias` is the exponent of 1.
#include "device.h"

template <typename W, int FRACTION, u64 KEPT, u64 BIAS> __device__ __forceinline__ W tamed(W bits) {
    return W((bits & W(KEPT)) | (W(BIAS) - ((bits >> FRACTION) & W(3))) << FRACTION);
}

template <typename W, int NUMBERS, int FRACTION, u64 KEPT, u64 BIAS>
__device__ __forceinline__ void tame(W* words, u64 n) {
    constexpr int BITS = int(sizeof(W)) * 8 / NUMBERS;
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x) {
        const W word = words[i];
        W out = 0;
#pragma unroll
        for (int number = 0; number < NUMBERS; ++number) {
            const W one = W(word >> (number * BITS)) & W(~W(0)) >> (int(sizeof(W)) * 8 - BITS);
            out |= tamed<W, FRACTION, KEPT, BIAS>(one) << (number * BITS);
        }
        words[i] = out;
    }
}

#define GEMM_TAME(name, word, numbers, fraction, kept, bias)                                                           \
    extern "C" __global__ void __launch_bounds__(256) name(word* words, u64 n) {                                       \
        tame<word, numbers, fraction, kept, bias>(words, n);                                                           \
    }
