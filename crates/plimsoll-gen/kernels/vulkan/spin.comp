// spin: keeps its blocks busy for a time by the device's timer; by the cycles of the shader's clock where there is no timer; by
// counted iterations where there is neither. The first thread of all leaves the cycles and the nanoseconds that it saw.
//
// Why the compiler keeps it: the store that depends on the sums (never taken: they stay finite) and the two counts.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "clocks.glsl"

PARAMETERS(u64 out_; u64 length;)

// Iterations after which a clock that stands still is given up.
#define MOST (1 << 24)

// Iterations are long. Mesa's llvmpipe ends all loops of a kernel after 65,535 iterations together, which are to last 100 ms.
layout(constant_id = 1) const bool LONG = false;

u64 now(u32 iteration) {
#if defined(TIMER)
    return timer();
#elif defined(CYCLES)
    return cycles();
#else
    return u64(iteration);
#endif
}

void main() {
    if (BLOCK >= blocks) return;
    // Precise, since 64 steps by constants could be joined to one.
    precise float a = float(THREAD);
    const float b = 0.999, c = 0.5;
    const u64 begin = now(0);
    const u64 first = cycles();
    u64 steps = 0;
    for (u32 iteration = 1; nanoseconds(steps) < length && iteration < MOST; ++iteration) {
        [[unroll]] for (int i = 0; i < 64; ++i) a = a * b + c;
        if (LONG) {
            [[unroll]] for (int i = 0; i < 4096; ++i) a = a * b + c;
        }
        steps = since(begin, now(iteration));
    }
    const u64 last = cycles();
    if (a > 1e30) Long(out_).x = 0;
    if (BLOCK == 0 && THREAD == 0) {
        Long(out_).x = since(first, last);
        Long(out_ + 8).x = nanoseconds(steps);
    }
}
