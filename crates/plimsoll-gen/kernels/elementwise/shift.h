// N consecutive elements at any address aligned to an element: loads aligned accesses, and shifts the bytes into place.
// Reads up to one access beyond either end, so callers must stay away from the ends of the memory; from its beginning only if that isn't
// aligned to an access. Not for accesses of less than a word.
#pragma once
#include "access.h"

__device__ __forceinline__ u32 funnel(u32 low, u32 high, u32 bits) {
#if defined(__CUDA_ARCH__)
    return __funnelshift_r(low, high, bits);
#else
    return u32((u64(high) << 32 | low) >> (bits & 31));
#endif
}

template <typename T, int N> struct ShiftedRow {
    enum { BYTES = N * int(sizeof(T)), ACCESS = least(BYTES, least(WIDEST, 16)), COUNT = words_of(BYTES) };
    u32 word[COUNT + words_of(ACCESS)];

    __device__ __forceinline__ void load(u64 from) {
        const u64 aligned = from & ~u64(ACCESS - 1);
#pragma unroll
        for (int b = 0; b < BYTES + ACCESS; b += ACCESS) load_bytes<PLAIN, ACCESS>(aligned + b, word + b / 4);
    }
    // Loads elements one at a time, to be taken without a shift: the first `before` from `here` on, the others as if `there` had the first.
    __device__ __forceinline__ void gather(u64 here, u64 there, int before) {
        enum { SIZE = sizeof(T) };
        u32 each[N][words_of(SIZE)];
#pragma unroll
        for (int i = 0; i < N; ++i) load_bytes<PLAIN, SIZE>((i < before ? here : there) + i * SIZE, each[i]);
#pragma unroll
        for (int w = 0; w < COUNT + words_of(ACCESS); ++w) word[w] = 0;
#pragma unroll
        for (int i = 0; i < N; ++i)
#pragma unroll
            for (int w = 0; w < words_of(SIZE); ++w) word[i * SIZE / 4 + w] |= each[i][w] << i * SIZE % 4 * 8;
    }
    // Moves the bytes from offset `shift` on to the start.
    __device__ __forceinline__ void take(u32 shift, Carrier<T>* x) const {
        u32 moved[COUNT + words_of(ACCESS)];
#pragma unroll
        for (int w = 0; w < COUNT + words_of(ACCESS); ++w) moved[w] = word[w];
        if constexpr (ACCESS >= 16) move_by<2>(shift & 8, moved);
        if constexpr (ACCESS >= 8) move_by<1>(shift & 4, moved);
#pragma unroll
        for (int w = 0; w < COUNT; ++w) moved[w] = funnel(moved[w], moved[w + 1], 8 * (shift & 3));
        unpack<T, N>(moved, x);
    }
    template <int STEP> __device__ __forceinline__ static void move_by(bool moves, u32* moved) {
#pragma unroll
        for (int w = 0; w + STEP < COUNT + words_of(ACCESS); ++w) moved[w] = moves ? moved[w + STEP] : moved[w];
    }
};
