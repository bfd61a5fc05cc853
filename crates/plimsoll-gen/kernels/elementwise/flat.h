// flat: every tensor is contiguous. A block processes a tile of THREADS · UNROLL vectors of LANES elements. The blocks after
// the whole tiles process, element by element, the elements before the first aligned one and after the last whole tile. A
// tile's base has 64 bits and offsets inside the tile have 32, so that one kernel serves every n. LINEAR tensors are aligned
// from element `head` on, SHIFTED ones are not (shift.h); a shifted output is stored element by element.
//
// Words of the form: number of elements, number of whole tiles, head; with PREFETCH the number of blocks that may have to wait.
// Its loop in SASS: UNROLL · (LANES · bytes ÷ access) loads per tensor, all before the first store, and as many stores, with
// one address per tensor; no local memory and no 64-bit index arithmetic except the block's base. If launches overlap, at most 8
// instructions from the wait to the first load.
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
__device__ __forceinline__ void flat_tile(const Parameters& p, const Scalars& s, Same same, u32 starts, Place base, u32 thread) {
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
        same = same_for_all(p, 0);
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

#if BATCH
// Words of the form: number of sets; for each of BATCH_SETS its first block in the lower half and its number of elements in the
// upper half; then the addresses. A block's set is the last one whose first block isn't after it; empty sets have no block.
__device__ __forceinline__ u32 set_of(const Parameters& p, u32 block) {
    u32 low = 0, high = u32(p.at[FORM_AT]);
#pragma unroll 1
    while (high - low > 1) {
        const u32 middle = (low + high) / 2;
        if (u32(p.at[FORM_AT + 1 + middle]) <= block) low = middle;
        else high = middle;
    }
    return low;
}

__device__ __forceinline__ bool is_aligned(const Parameters& p, u32 starts) {
    u64 off = 0;
#define FLAT_OFF(k) off |= IN_START(p, starts, k) & (Row<in##k##_t, LANES, 0>::ACCESS - 1);
    EACH_INPUT(FLAT_OFF)
#undef FLAT_OFF
#define FLAT_OFF(k) off |= OUT_START(p, starts, k) & (Row<out##k##_t, LANES, 0>::ACCESS - 1);
    EACH_OUTPUT(FLAT_OFF)
#undef FLAT_OFF
    return off == 0;
}
#endif

extern "C" __global__ void LAUNCH_BOUNDS elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
#if BATCH
    const u32 set = set_of(p, blockIdx.x);
    const u64 entry = p.at[FORM_AT + 1 + set], n = entry >> 32, base = u64(blockIdx.x - u32(entry)) * TILE;
    const u32 starts = FORM_AT + 1 + BATCH_SETS + set * (INPUTS + OUTPUTS);
    const Same same = Same();
    wait_for_previous();
    const u32 is_whole = base + TILE <= n && is_aligned(p, starts);
    if (is_whole) flat_tile<false>(p, s, same, starts, base, threadIdx.x);
    if (!apart(is_whole)) {
#pragma unroll 1
        for (u64 e = base + threadIdx.x; e < n && e < base + TILE; e += THREADS) flat_one(p, s, same, starts, e);
    }
#else
    const u64 n = p.at[FORM_AT], head = HAS_HEAD ? p.at[FORM_AT + 2] : 0;
    const u32 whole = u32(p.at[FORM_AT + 1]);
    if (blockIdx.x < whole) prefetch_tile(p, blockIdx.x * u64(TILE) + head);
#if STRIDE_GRID
    wait_for_previous();
    const Same same = same_for_all(p, 0);
    Place tile = blockIdx.x;
#pragma unroll 1
    for (; tile < whole; tile += gridDim.x) flat_tile<false>(p, s, same, 0, tile * Place(TILE) + Place(head), threadIdx.x);
    if (tile == whole) {
        const Share all = {threadIdx.x, THREADS};
        flat_rest(p, s, same, head, u64(whole) * TILE + head, n, all);
    }
#else
    const u32 thread = apart(threadIdx.x);
    Same same = Same();
    if constexpr (!overlaps()) {
        wait_for_previous();
        same = same_for_all(p, 0);
    }
    if (blockIdx.x < whole) flat_tile<overlaps()>(p, s, same, 0, blockIdx.x * Place(TILE) + Place(head), thread);
    if (blockIdx.x >= apart(whole)) {
        if constexpr (overlaps()) {
            wait_for_previous();
            same = same_for_all(p, 0);
        }
        flat_rest(p, s, same, head, u64(whole) * TILE + head, n, share_of_rest(whole));
    }
#endif
#endif
    let_next_begin(LATE);
}
