// latency_build: writes the address of its successor into each of a chain's elements. Where chains lead is `chain.h`'s to say.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

PARAMETERS(u64 base; u32 pages; u32 visits; u32 pitch; u32 seed; u64 n;)

#define LINE 128

// Bits that depend on all bits of x (lowbias32 of Prospecting for Hash Functions, C. Wellons, 2018).
u32 scattered(u32 x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

// The place of i in a random order of 0…n-1: a Feistel network of four rounds over the next power of four, taken again until it
// falls below n (Black and Rogaway, Ciphers with Arbitrary Finite Domains, 2002).
u32 permuted(u32 i, u32 n, u32 key) {
    // Bits of a half: the least of which two count n elements, and at least one.
    const u32 half_bits = n < 3 ? 1 : (u32(findMSB(n - 1)) + 2) / 2;
    const u32 mask = (1u << half_bits) - 1;
    do {
        u32 left = i >> half_bits, right = i & mask;
        for (u32 round = 0; round < 4; ++round) {
            const u32 next = left ^ (scattered(right + key + round * 0x9e3779b9u) & mask);
            left = right;
            right = next;
        }
        i = left << half_bits | right;
    } while (i >= n);
    return i;
}

// Bytes from the chain's base to its element number i, which counts around.
u64 place(u64 i) {
    const u64 around = i % (u64(pages) * visits);
    const u32 page = permuted(u32(around / visits), pages, seed);
    const u32 key = scattered(page + seed + 1);
    const u32 line = visits == 1 && pitch > 1 ? key % pitch : permuted(u32(around % visits), visits, key);
    return (u64(page) * pitch + line) * LINE;
}

void main() {
    if (BLOCK >= blocks) return;
    EACH(i, n) Long(base + place(i)).x = base + place(i + 1);
}
