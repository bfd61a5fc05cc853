// launch: the cost of starting a kernel. `empty` does nothing; `scale` moves n elements, so that time against bytes has a
// slope and an intercept; `rounds` repeats `scale` within one launch, with a grid barrier after each round.
//
// Why the compiler keeps it: `scale` stores every element; `empty` is a kernel of one EXIT, which the compiler can't remove.
// Its loop in SASS: `scale` one load and one store of 16 bytes, without a loop; dependent forms begin with ACQBULK and
// PREEXIT (compute capability 9.0 and later), the `_exit` forms with ACQBULK only.
//
// `scale` is out = s · in over vectors of four floats, and over the last n mod 4 elements one by one; the grid covers n.
#include "sync.h"

template <int THREADS> __device__ __forceinline__ void scale(float* out, const float* in, float s, u64 n, u64 block) {
    const u64 e = (block * THREADS + threadIdx.x) * 4;
    if (e + 4 <= n) {
        Vector<float, 16> v = load<PLAIN, 16>(in + e);
        for (int i = 0; i < 4; ++i) v.lane[i] = s * v.lane[i];
        store<PLAIN>(out + e, v);
    } else {
#pragma unroll 1
        for (u64 i = e; i < n; ++i) out[i] = s * in[i];
    }
}

#define LAUNCH_EMPTY(name, waits, signals, threads)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads) name() {                                                     \
        if constexpr (signals) launch_dependents();                                                                    \
        if constexpr (waits) wait_for_dependency();                                                                    \
    }

#define LAUNCH_SCALE(name, waits, signals, threads)                                                                    \
    extern "C" __global__ void __launch_bounds__(threads) name(float* out, const float* in, float s, u64 n) {          \
        if constexpr (signals) launch_dependents();                                                                    \
        if constexpr (waits) wait_for_dependency();                                                                    \
        scale<threads>(out, in, s, n, blockIdx.x);                                                                     \
    }

#define LAUNCH_ROUNDS(name, threads)                                                                                   \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(float* out, const float* in, float s, u64 n, u32 rounds, u32* barrier) {                                  \
        for (u32 round = 0; round < rounds; ++round) {                                                                 \
            for (u64 block = blockIdx.x; block * threads * 4 < n; block += gridDim.x)                                  \
                scale<threads>(out, in, s, n, block);                                                                  \
            grid_barrier(barrier);                                                                                     \
        }                                                                                                              \
    }
