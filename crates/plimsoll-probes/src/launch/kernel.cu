// launch: what starting a kernel costs. `empty` does nothing; `scale` moves n elements, so that time against bytes has a
// slope and an intercept; `rounds` does both many times within one launch, with a barrier of the grid between.
//
// What keeps it: `scale` stores every element; `empty` is a kernel of one EXIT, which no compiler may remove.
// Its loop in SASS: `scale` one load and one store of 16 bytes, no loop of its own; dependent forms begin with ACQBULK
// and PREEXIT (compute capability 9.0 and later), those that are in place early with ACQBULK alone.
//
// `scale` is out = s · in over vectors of four floats, and the last n mod 4 elements by themselves; the grid covers n.
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
