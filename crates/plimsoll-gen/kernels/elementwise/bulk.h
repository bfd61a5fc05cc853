// bulk: every input's part of a tile comes as one copy into shared memory, so that what is in flight needs no registers. One
// thread asks for all of them on one barrier; all wait, then go over the tile in vectors of LANES elements, UNROLL turns.
// LINEAR tensors alone, aligned to 16 bytes; the elements behind the last whole tile are done one by one.
//
// These copies leave nothing in the first-level cache anyway. With a hint for loads, what they read stays in the second level (evict-last),
// though nobody reads it again. Probably it then takes turns with what was read before it, and not with results that wait to be written, so that
// those leave sooner; what is measured is time. An H200 has 0.3 to 1.1 % more bandwidth by it from 256 MiB per tensor on. With the opposite,
// evict-first, copies took up to 2 % and triads 4 to 6 % longer (records/h200/2026-11-23-contest/sweeps/1-release).
//
// Left like that, such lines would keep 12 MiB of the cache from the kernels behind this one: 16 copies of 32 to 40 MiB of cached data took 20 to
// 30 % longer, and after some sixty of them the cache was whole again. So the last given_back tiles are read without the hint, and each of their
// blocks demotes the lines of the tile given_back before its own. Behind kernels that do so those copies took as long as ever (records/h200/
// 2026-11-23-kept/sweeps, by kernels like this one in a program of their own).
//
// Results leave by threads' stores: as one bulk copy from shared memory, copies took an H200 at least 1 % longer and triads no less, and of stores
// narrow ones were the fastest (records/h200/2026-11-23-contest/sweeps/6-stores).
//
// Words of the form: elements, whole tiles, given_back; with PREFETCH the blocks that may have to wait.
// Its loop in SASS: one load per input from shared memory and one store per output; not unrolled. One bulk copy (UBLKCP) per
// input, and no other load from global memory in the block of a whole tile, with the hint for loads a loop of demotions (CCTL.E.DML2);
// where launches overlap, at most 8 instructions from the wait to the first of them.
#include "bulk_copy.h"
#include "single.h"

// LANES elements at an element of a tile in shared memory. Without barriers a tile stays where it is.
template <typename T> __device__ __forceinline__ void take_shared(const u32* tile, u64 from, u32 element, Carrier<T>* x) {
    Row<T, LANES, 0> row;
#if defined(__CUDA_ARCH__)
    enum { BYTES = Row<T, LANES, 0>::BYTES };
    const char* at = reinterpret_cast<const char*>(tile) + element * u32(sizeof(T));
    if constexpr (BYTES == 1) row.word[0] = *reinterpret_cast<const u8*>(at);
    else if constexpr (BYTES == 2) row.word[0] = *reinterpret_cast<const u16*>(at);
    else if constexpr (BYTES == 4) row.word[0] = *reinterpret_cast<const u32*>(at);
    else if constexpr (BYTES == 8) {
        const uint2 w = *reinterpret_cast<const uint2*>(at);
        row.word[0] = w.x, row.word[1] = w.y;
    } else {
#pragma unroll
        for (int b = 0; b < BYTES; b += 16) {
            const uint4 w = *reinterpret_cast<const uint4*>(at + b);
            row.word[b / 4] = w.x, row.word[b / 4 + 1] = w.y, row.word[b / 4 + 2] = w.z, row.word[b / 4 + 3] = w.w;
        }
    }
#else
    row.load(from + u64(element) * sizeof(T));
#endif
    row.take(x);
}

enum { KEEPS = (HINT & LOAD_NO_ALLOCATE) != 0 };

__device__ __forceinline__ void bulk_tile(const Parameters& p, const Scalars& s, u64 base, u32 whole) {
#if defined(__CUDA_ARCH__)
#define BULK_SHARED(k)                                                                                                 \
    __shared__ alignas(128) u32 tile##k[IN##k == LINEAR ? TILE * sizeof(in##k##_t) / 4 : 1];
    __shared__ alignas(8) u64 barrier;
#define BULK_BYTES(k) +(IN##k == LINEAR ? TILE * u32(sizeof(in##k##_t)) : 0)
#define BULK_COPY(k)                                                                                                   \
    if constexpr (IN##k == LINEAR) {                                                                                   \
        const u64 from = IN_START(p, 0, k) + base * IN_BYTES(k);                                                       \
        if constexpr (KEEPS) bulk_copy(tile##k, from, TILE * u32(sizeof(in##k##_t)), &barrier, policy);                \
        else bulk_copy(tile##k, from, TILE * u32(sizeof(in##k##_t)), &barrier);                                        \
    }
#define BULK_GIVE_BACK(k)                                                                                              \
    if constexpr (IN##k == LINEAR)                                                                                     \
        give_back(IN_START(p, 0, k) + (base - u64(given_back) * TILE) * IN_BYTES(k), TILE * u32(sizeof(in##k##_t)), THREADS);
#else
#define BULK_SHARED(k) const u32* const tile##k = nullptr;
#endif
    EACH_INPUT(BULK_SHARED)
#undef BULK_SHARED
#if defined(__CUDA_ARCH__)
    const u32 given_back = KEEPS ? u32(p.at[FORM_AT + 2]) : 0;
    const bool keeps = KEEPS && whole - blockIdx.x > given_back;
    const u64 policy = KEEPS ? eviction_policy(keeps) : 0;
    const auto prepare = [&] {
        prepare_barrier(&barrier);
        expect_bytes(&barrier, 0 EACH_INPUT(BULK_BYTES));
        ask_for_tile(p, base);
    };
    const auto copy = [&] { EACH_INPUT(BULK_COPY) };
    if constexpr (overlaps()) {
        let_next_begin(AT_START);
        // Behind a wait of all, the compiler has the one thread compute only then what it asks for; behind one of its own it is ready.
        if (threadIdx.x == 0) {
            prepare();
            previous_has_ended();
            copy();
        }
        previous_has_ended();
        let_next_begin(EARLY);
    } else {
        if (threadIdx.x == 0) prepare();
        wait_for_previous();
        if (threadIdx.x == 0) copy();
    }
    if (KEEPS && !keeps && blockIdx.x >= given_back) {
        EACH_INPUT(BULK_GIVE_BACK)
    }
#undef BULK_BYTES
#undef BULK_COPY
#undef BULK_GIVE_BACK
    const Same same = same_for_all(p, 0);
    __syncthreads();
    wait_for_bytes(&barrier);
#else
    const Same same = same_for_all(p, 0);
#endif
#define BULK_OUTPUT(k) const u64 to##k = OUT_START(p, 0, k) + base * OUT_BYTES(k);
    EACH_OUTPUT(BULK_OUTPUT)
#undef BULK_OUTPUT
#pragma unroll 1
    for (u32 u = 0; u < UNROLL; ++u) {
        const u32 first = (u * THREADS + threadIdx.x) * LANES;
#define BULK_TAKE(k)                                                                                                   \
    in##k##_c x##k[LANES];                                                                                             \
    if constexpr (IN##k == LINEAR) take_shared<in##k##_t>(tile##k, IN_START(p, 0, k) + base * IN_BYTES(k), first, x##k); \
    else                                                                                                               \
        for (int i = 0; i < LANES; ++i) x##k[i] = same.x##k;
#define BULK_RESULT(k) out##k##_c y##k[LANES];
        EACH_INPUT(BULK_TAKE)
        EACH_OUTPUT(BULK_RESULT)
#undef BULK_TAKE
#undef BULK_RESULT
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            At at;
            set_place(at, base + first + i);
            BODY_CALL(s, at, i);
        }
#define BULK_STORE(k)                                                                                                  \
    Row<out##k##_t, LANES, HINT & STORE_STREAMING> row##k;                                                             \
    row##k.put(y##k);                                                                                                  \
    row##k.store(to##k + first * u32(OUT_BYTES(k)));
        EACH_OUTPUT(BULK_STORE)
#undef BULK_STORE
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const u32 whole = u32(p.at[FORM_AT + 1]);
    if (blockIdx.x < whole) bulk_tile(p, s, blockIdx.x * u64(TILE), whole);
    if (blockIdx.x >= apart(whole)) {
        wait_for_previous();
        flat_rest(p, s, same_for_all(p, 0), 0, u64(whole) * TILE, p.at[FORM_AT]);
    }
    let_next_begin(LATE);
}
