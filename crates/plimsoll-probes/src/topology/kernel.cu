// topology: the distance of each SM from lines of L2. One thread repeatedly adds 0 to a line: each operand is the last
// return value, which is 0. Atomics execute at the line's home, so a copy in a nearer partition can't answer.
//
// Why the compiler keeps it: the sum of the return values is stored, and atomics can't be removed.
// Its loop in SASS: 8 ATOMG of 4 bytes, each adding the register that the previous one wrote; no local memory.
#include "clocks.h"

// Adds `x` to the word at `line` and returns its previous value.
__device__ __forceinline__ u32 added(u64 line, u32 x) {
    u32 before;
    asm volatile("atom.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(line), "r"(x) : "memory");
    return before;
}

// Adds 0 `times` times (a multiple of 8) to each of `count` lines at `base` + offset, after one untimed addition each.
// All lines hold 0.
__device__ __forceinline__ void reach(Timed* out, u64 base, const u64* lines, u32 count, u32 times) {
    u64 spent = 0, passed = 0;
    u32 sum = 0;
    for (u32 i = 0; i < count; ++i) {
        const u64 line = base + lines[i];
        u32 zero = added(line, 0);
        const u64 begin = nanoseconds(), first = cycles() + zero;
#pragma unroll 1
        for (u32 t = 0; t < times; t += 8) {
#pragma unroll
            for (int u = 0; u < 8; ++u) zero = added(line, zero);
        }
        const u64 last = cycles(), end = nanoseconds() + zero;
        spent += last - first;
        passed += end - begin;
        sum += zero + 1;
    }
    out->cycles = spent;
    out->nanoseconds = passed;
    out->end = sum;
    out->multiprocessor = multiprocessor();
}

#define TOPOLOGY(name)                                                                                                 \
    extern "C" __global__ void __launch_bounds__(32)                                                                   \
        name(Timed* out, u32* ticket, u32 iteration, u32 wanted, u64 base, const u64* lines, u32 count, u32 times) {        \
        if (takes_turn(ticket, iteration, wanted) && threadIdx.x == 0) reach(out, base, lines, count, times);               \
    }
