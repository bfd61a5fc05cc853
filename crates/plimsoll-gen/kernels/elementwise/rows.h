// rows: tensors that are broadcast, pitched or strided, indexed by coordinates (indexed.h). A thread processes UNROLL vectors of
// LANES elements in row-major order, which may cross the ends of rows (Turn). With RARE_TURNS, few do, and for the others a thread
// computes once what depends on the row alone. LINEAR tensors need no coordinates. With LANES 1 this form supports any strides.
//
// STACKED: a thread's vectors are in the same columns of UNROLL rows, so inputs that are the same in all rows (SAME_ROWS) are loaded once,
// and what depends on them alone is computed once. Then an index of the launch counts elements of groups of UNROLL rows as if each group
// were one row; the rows that are left come last.
//
// Words of the form: number of elements, number of whole tiles; dimensions and strides.
// Its loop in SASS: all loads before the first store; two multiplications and a shift per 32-bit division.
#include "indexed.h"

template <typename T, int KIND, int SET>
__device__ __forceinline__ void rows_store(u64 start, Place place, const Spot& spot, const Carrier<T>* y) {
    const u64 to = start + (KIND == LINEAR ? place * u64(sizeof(T)) : in_bytes(spot.offset[SET], sizeof(T)));
    static_assert(LANES == 1 || KIND == LINEAR || KIND == INDEXED_VECTOR, "outputs are stored in vectors");
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    row.store(to);
}

// Computes and stores a vector.
#define ROWS_INPUT(k) IndexedInput<in##k##_t, IN##k, IN##k##_SET, IN##k##_SPACING>
#define ROWS_LOADED(k) , const ROWS_INPUT(k)& held##k
template <bool TURNS>
__device__ __forceinline__ void rows_vector(Turns<TURNS> turns, const Parameters& p, const Scalars& s, const Same& same, Place place,
                                            Spot spot EACH_INPUT(ROWS_LOADED)) {
#undef ROWS_LOADED
#define ROWS_TAKE(k)                                                                                                   \
    in##k##_c x##k[LANES];                                                                                             \
    held##k.take(turns, same.x##k, x##k);
#define ROWS_RESULT(k) out##k##_c y##k[LANES];
    EACH_INPUT(ROWS_TAKE)
    EACH_OUTPUT(ROWS_RESULT)
#undef ROWS_TAKE
#undef ROWS_RESULT
    Spot each = spot;
    BODY_BEGIN
#pragma unroll
    for (int i = 0; i < LANES; ++i) {
        At at;
        if (NEEDS_COORDINATES && i > 0) each.advance(p);
        each.tell(at, place + i);
        BODY_EACH(s, at, i);
    }
    BODY_END(s, LANES)
#define ROWS_STORE(k) rows_store<out##k##_t, OUT##k, OUT##k##_SET>(OUT_START(p, 0, k), place, spot, y##k);
    EACH_OUTPUT(ROWS_STORE)
#undef ROWS_STORE
}

// The place of index `index` of the launch's order, `n` in all.
__device__ __forceinline__ Place place_in_order(const Parameters& p, Place n, Place index) {
    if (!STACKED) return index;
    const Place columns = extent(p, RANK - 1), rows = quotient(p, n, RANK - 1);
    if (index >= rows / UNROLL * UNROLL * columns) return index;
    const Place first = index / UNROLL, group = quotient(p, first, RANK - 1);
    return (group * UNROLL + index % UNROLL) * columns + (first - group * columns);
}

// Where a thread's vectors begin, and their coordinates.
struct Spots {
    Place place[UNROLL];
    Spot spot[UNROLL];
    __device__ __forceinline__ Spots(const Parameters& p, Place base) {
        if constexpr (STACKED) {
            const Place columns = extent(p, RANK - 1), first = base / UNROLL + threadIdx.x * LANES;
            const Place group = quotient(p, first, RANK - 1);
            place[0] = group * UNROLL * columns + (first - group * columns);
            spot[0].find(p, place[0]);
#pragma unroll
            for (int u = 1; u < UNROLL; ++u) {
                place[u] = place[u - 1] + columns;
                spot[u] = spot[u - 1];
                spot[u].advance<RANK - 2>(p);
            }
        } else {
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) {
                place[u] = base + (threadIdx.x + u * THREADS) * LANES;
                if constexpr (COORDINATES) spot[u].find(p, place[u]);
            }
        }
    }
};

// Processes the thread's vectors of the tile that begins at element `base`. With WAITS it first waits for the previous kernel.
template <bool WAITS>
__device__ __forceinline__ void rows_tile(const Parameters& p, const Scalars& s, Same same, Place base) {
#define ROWS_HELD(k) ROWS_INPUT(k) held##k[UNROLL];
    EACH_INPUT(ROWS_HELD)
#undef ROWS_HELD
    const Spots spots(p, base);
    int left[UNROLL];
    u64 known = 1;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u)
#pragma unroll
        for (int set = 0; set < SETS; ++set) known |= spots.spot[u].offset[set];
    if constexpr (WAITS) {
        force_ready(known);
        wait_for_previous();
        same = same_for_all(p, 0);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#define ROWS_LOAD(k) if (u == 0 || !IN##k##_SAME_ROWS) held##k[u].load(p, IN_START(p, 0, k), spots.place[u], spots.spot[u]);
        EACH_INPUT(ROWS_LOAD)
#undef ROWS_LOAD
        if constexpr (!WHOLE_ROWS && SETS > 0) {
            const Turn turn(p, spots.spot[u]);
            left[u] = turn.left;
#define ROWS_LOAD(k) held##k[u].load_turning(p, IN_START(p, 0, k), spots.spot[u], turn);
            EACH_INPUT(ROWS_LOAD)
#undef ROWS_LOAD
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
#define ROWS_LOADED(k) , held##k[IN##k##_SAME_ROWS ? 0 : u]
#define ROWS_COMPUTE(turns) rows_vector(Turns<turns>(), p, s, same, spots.place[u], spots.spot[u] EACH_INPUT(ROWS_LOADED))
        if (RARE_TURNS && __builtin_expect(left[u] >= LANES, true)) ROWS_COMPUTE(false);
        else ROWS_COMPUTE(true);
#undef ROWS_COMPUTE
#undef ROWS_LOADED
    }
}

extern "C" __global__ void LAUNCH_BOUNDS elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const Place n = Place(p.at[FORM_AT]);
    const u32 whole = u32(p.at[FORM_AT + 1]);
    const Place base = blockIdx.x * Place(TILE);
    Same same = Same();
    if constexpr (!overlaps()) {
        wait_for_previous();
        same = same_for_all(p, 0);
    }
    if (blockIdx.x < whole) rows_tile<overlaps()>(p, s, same, base);
    if (blockIdx.x >= apart(whole)) {
        if constexpr (overlaps()) {
            wait_for_previous();
            same = same_for_all(p, 0);
        }
        const Share share = share_of_rest(whole);
#pragma unroll 1
        for (Place place = whole * Place(TILE) + share.first; place < n; place += share.step)
            indexed_one(p, s, same, place_in_order(p, n, place));
    }
    let_next_begin(LATE);
}
