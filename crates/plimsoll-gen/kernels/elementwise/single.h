// Processes single elements of contiguous tensors: those before and after the whole tiles.
#pragma once
#include "same.h"

// Computes one element.
__device__ __forceinline__ void flat_one(const Parameters& p, const Scalars& s, const Same& same, const Starts& starts, u64 element) {
    constexpr int i = 0;
    At at;
    set_place(at, element);
#define SINGLE_TAKE(k)                                                                                                   \
    in##k##_c x##k[1] = {same.x##k};                                                                                   \
    if constexpr (IN##k == LINEAR || IN##k == SHIFTED)                                                                 \
        x##k[0] = load_one<in##k##_t>(IN_START(p, starts, k) + element * IN_BYTES(k));
#define SINGLE_RESULT(k) out##k##_c y##k[1];
    EACH_INPUT(SINGLE_TAKE)
    EACH_OUTPUT(SINGLE_RESULT)
#undef SINGLE_TAKE
#undef SINGLE_RESULT
    BODY_BEGIN
    BODY_EACH(s, at, i);
    BODY_END(s, 1)
#define SINGLE_STORE(k) store_one<out##k##_t>(OUT_START(p, starts, k) + element * OUT_BYTES(k), y##k[0]);
    EACH_OUTPUT(SINGLE_STORE)
#undef SINGLE_STORE
}

// Before the wait: prefetches the block's tile, which begins at element `base`, into L2, if the block may be in the first wave.
// Later blocks have nothing to wait for.
__device__ __forceinline__ void prefetch_tile(const Parameters& p, u64 base) {
#if PREFETCH
    if (threadIdx.x == 0 && blockIdx.x < u32(p.at[FORM_AT + 3])) {
#define SINGLE_PREFETCH(k)                                                                                               \
    if constexpr (IN##k == LINEAR && TILE * sizeof(in##k##_t) >= 16)                                                   \
        prefetch_bytes(IN_START(p, 0, k) + base * IN_BYTES(k), TILE * u32(sizeof(in##k##_t)));
        EACH_INPUT(SINGLE_PREFETCH)
#undef SINGLE_PREFETCH
    }
#endif
}

// Computes the elements outside whole tiles: the first `head` elements, and those from `end` to n.
__device__ __forceinline__ void flat_rest(const Parameters& p, const Scalars& s, const Same& same, u64 head, u64 end, u64 n,
                                          Share share) {
    const u32 rest = u32(n - end + head);
#pragma unroll 1
    for (u32 e = share.first; e < rest; e += share.step) flat_one(p, s, same, Starts(), e < head ? e : end - head + e);
}
