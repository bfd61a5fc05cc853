// uniformity: the figures of each SM, each region and each page of the memory by itself. `read` is one SM reading alone,
// `chase` its latency, `region` the whole device reading a part of the memory.
//
// Why the compiler keeps it: one XOR per warp is stored; where the chase ended is stored.
// Its loop in SASS: `read` and `region` 8 loads of 16 bytes; `chase` 32 loads of 8 bytes, each from the address that the
// previous one read.
#include "chain.h"
#include "clocks.h"

// The XOR of the vectors of 16 bytes from index `first` on, `stride` apart, below n.
template <int UNROLL> __device__ __forceinline__ u32 folded(const uint4* in, u64 first, u64 stride, u64 n) {
    u32 fold = 0;
    u64 v = first;
#pragma unroll 1
    for (; v + (UNROLL - 1) * stride < n; v += UNROLL * stride) {
        uint4 x[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) x[u] = load_words<LOAD_NO_ALLOCATE>(in + v + u * stride);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) fold ^= x[u].x ^ x[u].y ^ x[u].z ^ x[u].w;
    }
#pragma unroll 1
    for (; v < n; v += stride) {
        const uint4 x = load_words<LOAD_NO_ALLOCATE>(in + v);
        fold ^= x.x ^ x.y ^ x.z ^ x.w;
    }
    return warp_xor(fold);
}

template <int THREADS>
__device__ __forceinline__ void alone(Timed* out, u32* bits, const uint4* in, u64 n) {
    __syncthreads();
    const u64 begin = nanoseconds(), first = cycles();
    const u32 fold = folded<8>(in, threadIdx.x, THREADS, n);
    if (threadIdx.x % WARP == 0) bits[threadIdx.x / WARP] = fold;
    __syncthreads();
    if (threadIdx.x != 0) return;
    out->cycles = cycles() - first;
    out->nanoseconds = nanoseconds() - begin;
    out->end = n;
    out->multiprocessor = multiprocessor();
}

__device__ __forceinline__ void hops_alone(Timed* out, u64* cursor, u64 hops) {
    const u64 begin = nanoseconds(), first = cycles();
    const u64 p = chase<NEAREST_L2>(*cursor, hops);
    const u64 last = cycles(), end = nanoseconds();
    *cursor = p;
    out->cycles = last - first;
    out->nanoseconds = end - begin;
    out->end = p;
    out->multiprocessor = multiprocessor();
}

#define UNIFORMITY_READ(name, threads)                                                                                 \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(Timed* out, u32* ticket, u32 iteration, u32 wanted, u32* bits, const uint4* in, u64 n) {                       \
        if (takes_turn(ticket, iteration, wanted)) alone<threads>(out, bits, in, n);                                        \
    }

#define UNIFORMITY_CHASE(name)                                                                                         \
    extern "C" __global__ void __launch_bounds__(32)                                                                   \
        name(Timed* out, u32* ticket, u32 iteration, u32 wanted, u64* cursor, u64 hops) {                                   \
        if (takes_turn(ticket, iteration, wanted) && threadIdx.x == 0) hops_alone(out, cursor, hops);                       \
    }

#define UNIFORMITY_REGION(name, threads)                                                                               \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* bits, const uint4* in, u64 n) {                    \
        const u64 first = u64(blockIdx.x) * threads + threadIdx.x;                                                     \
        const u32 fold = folded<8>(in, first, u64(gridDim.x) * threads, n);                                            \
        if (threadIdx.x % WARP == 0) bits[first / WARP] = fold;                                                        \
    }
