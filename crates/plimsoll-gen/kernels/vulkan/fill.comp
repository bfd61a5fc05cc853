// fill: data of a seed, as `check.cu` has them: any bits, 1 <= x < 2, or 1, 2, 3, 4. Built for words and f32, and with DOUBLE.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "random.glsl"

// 0: bits; 1: unit; 2: small.
layout(constant_id = 1) const u32 DATA = 0;

PARAMETERS(u64 out_; u64 seed; u64 n;)

void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) {
        const u64 bits = random_bits(seed, i);
#ifdef DOUBLE
        // Both are exact: the exponent of 1 with 52 random bits, or a small number.
        const u64 unit = 0x3ff0000000000000ul | bits >> 12;
        Long(out_ + 8 * i).x = DATA == 1 ? unit : doubleBitsToUint64(double(1 + u32(bits >> 62)));
#else
        const u32 unit = 0x3f800000u | u32(bits >> 41);
        const u32 small = floatBitsToUint(float(1 + u32(bits >> 62)));
        Word(out_ + 4 * i).x = DATA == 0 ? u32(bits >> 32) : DATA == 1 ? unit : small;
#endif
    }
}
