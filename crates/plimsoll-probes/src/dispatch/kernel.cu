// dispatch: blocks and threads that the device starts per clock.
//
// Why the compiler keeps it: `empty` is one EXIT per thread, which no compiler may remove. `marked` also stores one word per block,
// to show that every block ran; it is for checking, its time counts the store.
// `waiting` blocks of programmatic launches wait for the previous kernel; `signalling` ones first signal that the next may begin
// (compute capability 9.0 and later; on older devices they equal `empty`).
// Its loop in SASS: none. Before EXIT, `empty` only sets the stack pointer; `waiting` adds ACQBULK, and `signalling` also
// PREEXIT.
#include "sync.h"

#define DISPATCH_EMPTY(name, threads)                                                                                  \
    extern "C" __global__ void __launch_bounds__(threads) name() {}

#define DISPATCH_PROGRAMMATIC(name, signals, threads)                                                                  \
    extern "C" __global__ void __launch_bounds__(threads) name() {                                                     \
        if constexpr (signals) launch_dependents();                                                                    \
        wait_for_dependency();                                                                                         \
    }

#define DISPATCH_MARKED(name, threads)                                                                                 \
    extern "C" __global__ void __launch_bounds__(threads) name(u32* out) {                                             \
        if (threadIdx.x == threads - 1) out[blockIdx.x] = blockIdx.x;                                                  \
    }
