// copy: the three copy kernels of the notes that the project grew from — one element per thread, a grid-stride loop, and the same
// loop over vectors — with indices of 32 and of 64 bits.
//
// Why the compiler keeps it: every element is stored.
// Its loop in SASS: one load and one store of 4 · WIDTH bytes (two of 16 for WIDTH 8 before compute capability 10.0),
// the index arithmetic as the compiler makes it, and one branch. The loop isn't unrolled, so that instructions per
// iteration can be counted: sm_80 9 (32 bits) and 14 (64 bits), sm_90 7 and 13.
//
// Elements are 4 bytes. The grid has fewer than 2³² threads; with 32-bit indices n + threads stays below 2³² too, or the
// loop's index would wrap. `vector` copies whole vectors in its loop and the last n mod WIDTH elements after it.
#include "device.h"

template <typename INDEX> __device__ __forceinline__ void naive(u32* out, const u32* in, INDEX n) {
    const INDEX i = INDEX(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i];
}

// Pointers without __restrict__, a 32-bit product as the stride and no launch bounds, as in the source whose instructions the notes
// counted.
template <typename INDEX, int WIDTH> __device__ __forceinline__ void vector(u32* out, const u32* in, INDEX n) {
    typedef typename Words<4 * WIDTH>::type Word;
    const INDEX first = blockIdx.x * blockDim.x + threadIdx.x;
    const INDEX vectors = n / WIDTH;
#pragma unroll 1
    for (INDEX i = first; i < vectors; i += blockDim.x * gridDim.x)
        store_words<PLAIN>(reinterpret_cast<Word*>(out) + i, load_words<PLAIN>(reinterpret_cast<const Word*>(in) + i));
    if (first < n % WIDTH) out[vectors * WIDTH + first] = in[vectors * WIDTH + first];
}

#define COPY_NAIVE(name, index)                                                                                        \
    extern "C" __global__ void name(u32* out, const u32* in, index n) { naive<index>(out, in, n); }

#define COPY_VECTOR(name, index, width)                                                                                \
    extern "C" __global__ void name(u32* out, const u32* in, index n) { vector<index, width>(out, in, n); }
