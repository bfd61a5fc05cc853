// copy: one element per thread, a grid-stride loop, and the same loop over vectors, with indices of 32 and of 64 bits (NARROW).
//
// Why the compiler keeps it: every element is stored. The grid has fewer than 2^32 threads; with 32-bit indices n + threads stays below 2^32 too.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Elements per vector; 0 is one element per thread without a loop.
layout(constant_id = 1) const u32 WIDTH = 1;

#ifdef NARROW
#define INDEX u32
#else
#define INDEX u64
#endif

PARAMETERS(u64 out_; u64 in_; INDEX n;)

void main() {
    if (BLOCK >= blocks) return;
    const INDEX first = INDEX(BLOCK) * THREADS + THREAD;
    if (WIDTH == 0) {
        if (first < n) Word(out_ + 4 * u64(first)).x = Word(in_ + 4 * u64(first)).x;
        return;
    }
    const INDEX vectors = n / WIDTH;
    [[dont_unroll]] for (INDEX i = first; i < vectors; i += blocks * THREADS) {
        const u64 place = 4 * WIDTH * u64(i);
        if (WIDTH == 8) {
            // No vector is longer than 16 bytes.
            const uvec4 low = Word4(in_ + place).x, high = Word4(in_ + place + 16).x;
            Word4(out_ + place).x = low;
            Word4(out_ + place + 16).x = high;
        } else if (WIDTH == 4) Word4(out_ + place).x = Word4(in_ + place).x;
        else if (WIDTH == 2) Word2(out_ + place).x = Word2(in_ + place).x;
        else Word(out_ + place).x = Word(in_ + place).x;
    }
    const u64 last = 4 * (u64(vectors) * WIDTH + first);
    if (first < n % WIDTH) Word(out_ + last).x = Word(in_ + last).x;
}
