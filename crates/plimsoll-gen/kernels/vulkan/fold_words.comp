// fold_words: result ^= every word.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMETERS(u64 in_; u64 n; u64 result;)

void main() {
    if (BLOCK >= blocks) return;
    u32 bits = 0;
    EACH(i, n) bits ^= Word(in_ + 4 * i).x;
    if (bits != 0) atomicXor(Word(result).x, bits);
}
