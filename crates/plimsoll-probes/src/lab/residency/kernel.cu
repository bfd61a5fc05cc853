// residency: additions to a histogram's bins, and a buffer that is updated repeatedly while other data stream through the
// cache: the gain from keeping bins or buffer in the L2. `total`, `count` and `others` check the results.
//
// Why the compiler keeps it: additions and updates change memory; checks add their counts to a result.
// Its loop in SASS: `histogram` a load of 16 bytes and four reductions; `sliding` two loads and two stores of 16 bytes.
//
// Datum x adds to bin x · bins / 2³². The same thread updates a vector of the buffer in every pass, so there are no races. Pass p
// streams the vectors from p · kept on.
#include "device.h"

#define EACH(i, n)                                                                                                     \
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x)

__device__ __forceinline__ u32 bin(u32 x, u32 bins) { return u32((u64(x) * bins) >> 32); }

// `n` counts vectors of four data.
__device__ __forceinline__ void histogram(u32* at, const u32* data, u32 bins, u64 n) {
#pragma unroll 1
    EACH(v, n) {
        const Vector<u32, 16> x = load<PLAIN, 16>(data + 4 * v);
#pragma unroll
        for (int k = 0; k < 4; ++k) atomicAdd(at + bin(x.word[k], bins), 1u);
    }
}

__device__ __forceinline__ void add_one(u32* at, Vector<u32, 16> x) {
    for (int k = 0; k < 4; ++k) ++x.word[k];
    store<PLAIN, 16>(at, x);
}

// `kept` and `passes` · `kept` vectors of four words.
__device__ __forceinline__ void sliding(u32* buffer, u32* stream, u64 kept, u32 passes) {
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass, stream += 4 * kept) {
#pragma unroll 1
        EACH(v, kept) {
            const Vector<u32, 16> x = load<PLAIN, 16>(buffer + 4 * v);
            const Vector<u32, 16> y = load<PLAIN, 16>(stream + 4 * v);
            add_one(buffer + 4 * v, x);
            add_one(stream + 4 * v, y);
        }
    }
}

#define RESIDENCY_HISTOGRAM(name, threads)                                                                             \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* at, const u32* data, u32 bins, u64 n) {            \
        histogram(at, data, bins, n);                                                                                  \
    }

#define RESIDENCY_SLIDING(name, threads)                                                                               \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* buffer, u32* stream, u64 kept, u32 passes) {       \
        sliding(buffer, stream, kept, passes);                                                                         \
    }

// result += every word.
extern "C" __global__ void residency_total(u64* result, const u32* at, u64 n) {
    u64 sum = 0;
    EACH(i, n) sum += at[i];
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) atomicAdd(result, sum);
}

// result += number of data in one bin.
extern "C" __global__ void residency_count(u64* result, const u32* data, u32 bins, u32 wanted, u64 n) {
    u64 sum = 0;
    EACH(i, n) sum += bin(data[i], bins) == wanted;
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) atomicAdd(result, sum);
}

// result += number of words that differ from `word`.
extern "C" __global__ void residency_others(u64* result, const u32* at, u32 word, u64 n) {
    u64 sum = 0;
    EACH(i, n) sum += at[i] != word;
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) atomicAdd(result, sum);
}
