// What a kernel reads of the device while it runs. Built three times: without clocks, with CYCLES (VK_KHR_shader_clock of a
// subgroup), and with CYCLES and TIMER (of the device).
#ifdef CYCLES
#extension GL_ARB_shader_clock : require
#endif
#ifdef TIMER
#extension GL_EXT_shader_realtime_clock : require
#endif

// Nanoseconds in one step of the clock that `nanoseconds` counts, times 2^24: measured when the device is opened.
layout(constant_id = 15) const u32 STEP = 1 << 24;

u64 cycles() {
#ifdef CYCLES
    return clockARB();
#else
    return 0;
#endif
}

u64 timer() {
#ifdef TIMER
    return clockRealtimeEXT();
#else
    return 0;
#endif
}

// Steps from one reading to a later one; none where the clock ran backwards, as it may from one processor to another.
u64 since(u64 first, u64 last) { return last > first ? last - first : 0; }

// So many steps as nanoseconds: without overflow up to 2^40.
u64 nanoseconds(u64 steps) { return (steps >> 24) * STEP + ((steps & 0xffffff) * STEP >> 24); }
