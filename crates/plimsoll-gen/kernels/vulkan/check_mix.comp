// check_mix: is out[k * pitch + i] the exclusive or of `reads` inputs, and k + 1, for each of `writes` outputs? Counts words.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "wrong.glsl"

PARAMETERS(u64 out_; u64 in_; u64 pitch; u64 n; u32 reads; u32 writes; u64 result;)

void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) {
        u32 x = 0;
        for (u32 k = 0; k < reads; ++k) x ^= Word(in_ + 4 * (k * pitch + i)).x;
        for (u32 k = 0; k < writes; ++k)
            if (Word(out_ + 4 * (k * pitch + i)).x != (x ^ (k + 1))) wrong(i);
    }
    tell_wrong(result);
}
