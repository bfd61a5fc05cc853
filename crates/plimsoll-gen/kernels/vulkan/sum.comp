// sum: result += every element, or every a * b, in double precision; exact for small data. Built for f32, and with DOUBLE for f64.
//
// Each block adds its sum to the result once. Additions of doubles are no atomics that every device has, and of threads that try again
// until nobody else was faster n take n * n tries: those of a whole GPU would hold it for seconds.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#extension GL_EXT_shader_atomic_int64 : require

layout(constant_id = 1) const bool PRODUCT = false;

PARAMETERS(u64 a; u64 b; u64 n; u64 result;)

#ifdef DOUBLE
layout(buffer_reference, std430, buffer_reference_align = 8) buffer Double { double x; };
double element(u64 array, u64 i) { return Double(array + 8 * i).x; }
#else
double element(u64 array, u64 i) { return double(Float(array + 4 * i).x); }
#endif

shared double sums[gl_WorkGroupSize.x];

void main() {
    if (BLOCK >= blocks) return;
    double sum = 0.0lf;
    EACH(i, n) sum += PRODUCT ? element(a, i) * element(b, i) : element(a, i);
    sums[THREAD] = sum;
    // The upper half is added to the lower; of an odd number the one in the middle stays.
    u32 rest = THREADS;
    while (rest > 1) {
        const u32 lower = (rest + 1) / 2;
        barrier();
        if (THREAD < rest / 2) sums[THREAD] += sums[THREAD + lower];
        rest = lower;
    }
    if (THREAD != 0 || sums[0] == 0.0lf) return;
    u64 before = Long(result).x;
    for (;;) {
        const u64 after = doubleBitsToUint64(uint64BitsToDouble(before) + sums[0]);
        const u64 seen = atomicCompSwap(Long(result).x, before, after);
        if (seen == before) break;
        before = seen;
    }
}
