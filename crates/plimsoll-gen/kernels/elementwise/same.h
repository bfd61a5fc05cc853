// The value of tensors with a single element for all, read once per thread.
#pragma once
#include "access.h"

struct Same {
#define SINGLE_SAME(k) in##k##_c x##k;
    EACH_INPUT(SINGLE_SAME)
#undef SINGLE_SAME
};

__device__ __forceinline__ Same same_for_all(const Parameters& p, const Starts& starts) {
    Same same;
#define SINGLE_SAME(k)                                                                                                   \
    same.x##k = in##k##_c(0);                                                                                          \
    if constexpr (IN##k == UNIFORM) same.x##k = load_one<in##k##_t>(IN_START(p, starts, k));
    EACH_INPUT(SINGLE_SAME)
#undef SINGLE_SAME
    return same;
}
