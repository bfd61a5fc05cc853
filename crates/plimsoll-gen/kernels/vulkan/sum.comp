// sum: result += every element, or every a * b, in double precision; exact for small data. Built for f32, and with DOUBLE for f64.
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

void main() {
    if (BLOCK >= blocks) return;
    double sum = 0.0lf;
    EACH(i, n) sum += PRODUCT ? element(a, i) * element(b, i) : element(a, i);
    if (sum == 0.0lf) return;
    // Additions of doubles are no atomics that every device has.
    u64 before = Long(result).x;
    for (;;) {
        const u64 after = doubleBitsToUint64(uint64BitsToDouble(before) + sum);
        const u64 seen = atomicCompSwap(Long(result).x, before, after);
        if (seen == before) break;
        before = seen;
    }
}
