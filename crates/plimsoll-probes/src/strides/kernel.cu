// strides: the cost of a warp's address pattern in the load/store unit, on data in L1 or in shared memory.
//
// Why the compiler keeps it: every thread stores the XOR of everything it loaded.
// Its loop in SASS: UNROLL loads of BYTES with immediate offsets from one address, the XOR of their words, the address
// arithmetic and one branch; no local memory.
//
// Lane l reads at l % width · BYTES + l / width · pitch: `width` 1 is a stride of `pitch` bytes, a larger one the rows of a
// block of threads over a pitched array. The UNROLL loads are APART bytes from each other, and every second iteration reads the
// next UNROLL. These are multiples of a line, so all loads have the same pattern of banks and sectors. All warps read the same
// addresses.
#include "walk.h"

extern __shared__ uint4 shared_words[];

// As a variable this would be module data, which makes every launch of the module's kernels take longer.
enum : u32 { APART = 128 };

template <int BYTES, int UNROLL>
__device__ __forceinline__ void strided(u32* out, u64* cycles, const u32* in, u32 width, u32 pitch, u32 span, u32 warm,
                                        u32 iterations) {
    const u32 lane = threadIdx.x % WARP;
    const u32 mine = lane % width * BYTES + lane / width * pitch;
    u32 bits = 0;
    timed(cycles, warm, iterations, [&](u32 iterations) {
        u32 at = 0;
#pragma unroll 1
        for (u32 iteration = 0; iteration < iterations; ++iteration) {
            const u32* p = in + (mine + at) / 4;
            Vector<u32, BYTES> v[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) v[u] = load<PLAIN, BYTES>(p + u * (APART / 4));
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) bits ^= folded(v[u]);
            at += UNROLL * APART;
            if (at >= span) at = 0;
        }
    });
    out[blockIdx.x * blockDim.x + threadIdx.x] = bits;
}

#define STRIDES_CACHE(name, bytes, unroll, threads)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const u32* in, u32 n, u32 width, u32 pitch, u32 span, u32 warm, u32 iterations) {       \
        strided<bytes, unroll>(out, cycles, in, width, pitch, span, warm, iterations);                                      \
    }

// Copies n words of the input to shared memory.
#define STRIDES_SHARED(name, bytes, unroll, threads)                                                                   \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, u64* cycles, const u32* in, u32 n, u32 width, u32 pitch, u32 span, u32 warm, u32 iterations) {       \
        u32* words = reinterpret_cast<u32*>(shared_words);                                                             \
        for (u32 i = threadIdx.x; i < n; i += threads) words[i] = in[i];                                               \
        strided<bytes, unroll>(out, cycles, words, width, pitch, span, warm, iterations);                                   \
    }
