// SplitMix64 (Steele, Lea, Flood 2014): its state after i + 1 steps from `seed`, finalised.
u64 random_bits(u64 seed, u64 i) {
    u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ul;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
    return z ^ (z >> 31);
}
