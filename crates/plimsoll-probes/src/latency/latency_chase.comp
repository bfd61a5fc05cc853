// latency_chase: how long one dependent load takes. One thread follows a chain; each load's address is the last one's result.
//
// Why the compiler keeps it: where the chase ended is stored, and is where the next launch begins. `warm` hops untimed, `hops` timed, both
// multiples of HOPS, from where `cursor` says. Cycles and nanoseconds are 0 where the device has no such clock; so is the
// multiprocessor, which Vulkan doesn't tell.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "clocks.glsl"

// Loads of the whole device's memory, which first caches can't hold: a request, as all of Vulkan's cache control is.
layout(constant_id = 1) const bool PAST_L1 = false;
layout(buffer_reference, std430, buffer_reference_align = 8) coherent volatile buffer Shared { u64 x; };

PARAMETERS(u64 out_; u64 cursor; u64 warm; u64 hops;)

#define HOPS 32

u64 chase(u64 p, u64 count) {
    [[dont_unroll]] for (u64 h = 0; h < count; h += HOPS) {
        [[unroll]] for (int u = 0; u < HOPS; ++u) {
            if (PAST_L1) p = Shared(p).x;
            else p = Long(p).x;
        }
    }
    return p;
}

void main() {
    if (BLOCK != 0 || THREAD != 0) return;
    u64 p = chase(Long(cursor).x, warm);
    const u64 begin = timer();
    const u64 first = cycles();
    p = chase(p, hops);
    const u64 last = cycles();
    const u64 end = timer();
    Long(cursor).x = p;
    Long(out_).x = since(first, last);
    Long(out_ + 8).x = nanoseconds(since(begin, end));
    Long(out_ + 16).x = p;
    Long(out_ + 24).x = 0;
}
