// The tile of a block of a flat kernel: THREADS · UNROLL vectors of LANES elements of contiguous tensors. A tile's base has 64 bits and
// offsets inside the tile have 32. LINEAR tensors are aligned, SHIFTED ones are not (shift.h); a shifted output is stored element by
// element.
//
// In SASS: UNROLL · (LANES · bytes ÷ access) loads per tensor, all before the first store, and as many stores, with one address per
// tensor; no local memory and no 64-bit index arithmetic except the block's base.
#pragma once
#include "shift.h"
#include "single.h"

#if INDEX_BITS == 32
typedef u32 Place;
#else
typedef u64 Place;
#endif

template <typename T, int KIND> struct FlatInput {
    enum { SHIFTS = KIND == SHIFTED && LANES * int(sizeof(T)) >= 4, SINGLE = KIND == SHIFTED && !SHIFTS };
    struct None {};
    Row<T, LANES, HINT & LOAD_NO_ALLOCATE> row;
    ShiftedRow<T, SHIFTS ? LANES : 4> shifted;
    __device__ __forceinline__ void load(u64 from) {
        if constexpr (KIND == LINEAR) row.load(from);
        if constexpr (SHIFTS) shifted.load(from);
        if constexpr (SINGLE) {
            row.word[0] = 0;
            for (int i = 0; i < LANES; ++i) {
                u32 bits;
                load_bytes<PLAIN, int(sizeof(T))>(from + i * sizeof(T), &bits);
                row.word[0] |= bits << 8 * sizeof(T) * i;
            }
        }
    }
    __device__ __forceinline__ void take(u64 start, Carrier<T> same, Carrier<T>* x) {
        if constexpr (KIND == LINEAR || SINGLE) row.take(x);
        else if constexpr (SHIFTS) shifted.take(u32(start) & (ShiftedRow<T, LANES>::ACCESS - 1), x);
        else
            for (int i = 0; i < LANES; ++i) x[i] = same;
    }
};

template <typename T, int KIND> __device__ __forceinline__ void flat_store(u64 to, const Carrier<T>* y) {
    if constexpr (KIND == LINEAR) {
        Row<T, LANES, HINT & STORE_STREAMING> row;
        row.put(y);
        row.store(to);
    } else {
        for (int i = 0; i < LANES; ++i) store_one<T>(to + i * sizeof(T), y[i]);
    }
}

// Processes the thread's vectors of the tile that begins at element `base`. With WAITS it first waits for the previous kernel.
template <bool WAITS>
__device__ __forceinline__ void flat_tile(const Parameters& p, const Scalars& s, Same same, const Starts& starts, Place base,
                                          u32 thread) {
    // One address per tensor; the distances between a thread's vectors are constant.
    constexpr u64 STEP = THREADS * LANES;
    const u32 first = thread * LANES;
#define FLAT_INPUT(k)                                                                                                  \
    FlatInput<in##k##_t, IN##k> held##k[UNROLL];                                                                       \
    const u64 from##k = IN_START(p, starts, k) + base * IN_BYTES(k) + first * u32(IN_BYTES(k));
#define FLAT_OUTPUT(k) const u64 to##k = OUT_START(p, starts, k) + base * OUT_BYTES(k) + first * u32(OUT_BYTES(k));
    EACH_INPUT(FLAT_INPUT)
    EACH_OUTPUT(FLAT_OUTPUT)
#undef FLAT_INPUT
#undef FLAT_OUTPUT
    if constexpr (WAITS) {
        // Only the last address: the others share all but one addition with it.
        u64 last = to0;
#define FLAT_LAST(k) if constexpr (IN##k == LINEAR || IN##k == SHIFTED) last = from##k;
        EACH_INPUT(FLAT_LAST)
#undef FLAT_LAST
        force_ready(last);
        wait_for_previous();
        same = same_for_all(p, starts);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#define FLAT_LOAD(k) held##k[u].load(from##k + u * STEP * IN_BYTES(k));
        EACH_INPUT(FLAT_LOAD)
#undef FLAT_LOAD
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#define FLAT_TAKE(k)                                                                                                   \
    in##k##_c x##k[LANES];                                                                                             \
    held##k[u].take(from##k, same.x##k, x##k);
#define FLAT_RESULT(k) out##k##_c y##k[LANES];
        EACH_INPUT(FLAT_TAKE)
        EACH_OUTPUT(FLAT_RESULT)
#undef FLAT_TAKE
#undef FLAT_RESULT
        BODY_BEGIN
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            At at;
            set_place(at, u64(base) + first + u * STEP + i);
            BODY_EACH(s, at, i);
        }
        BODY_END(s, LANES)
#define FLAT_STORE(k) flat_store<out##k##_t, OUT##k>(to##k + u * STEP * OUT_BYTES(k), y##k);
        EACH_OUTPUT(FLAT_STORE)
#undef FLAT_STORE
    }
}
