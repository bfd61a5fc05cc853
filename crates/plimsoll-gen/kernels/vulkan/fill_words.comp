// fill_words: words of one value: poison, or zeros for a result.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMETERS(u64 out_; u32 word; u64 n;)

void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) Word(out_ + 4 * i).x = word;
}
