// rows: tensors that are broadcast, pitched or strided, indexed by coordinates (indexed.h). A thread processes UNROLL vectors of
// LANES elements in row-major order, which may cross the ends of rows (Turn). With RARE_TURNS, few do, and for the others a thread
// computes once what depends on the row alone. LINEAR tensors need no coordinates. With LANES 1 this form supports any strides.
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

// Processes the thread's vectors of the tile that begins at element `base`. With WAITS it first waits for the previous kernel.
template <bool WAITS>
__device__ __forceinline__ void rows_tile(const Parameters& p, const Scalars& s, Same same, Place base) {
#define ROWS_HELD(k) ROWS_INPUT(k) held##k[UNROLL];
    EACH_INPUT(ROWS_HELD)
#undef ROWS_HELD
    Spot spots[UNROLL];
    int left[UNROLL];
    u64 known = 1;
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const Place place = base + (threadIdx.x + u * THREADS) * LANES;
        if constexpr (COORDINATES) spots[u].find(p, place);
#pragma unroll
        for (int set = 0; set < SETS; ++set) known |= spots[u].offset[set];
    }
    if constexpr (WAITS) {
        force_ready(known);
        wait_for_previous();
        same = same_for_all(p, 0);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const Place place = base + (threadIdx.x + u * THREADS) * LANES;
#define ROWS_LOAD(k) held##k[u].load(p, IN_START(p, 0, k), place, spots[u]);
        EACH_INPUT(ROWS_LOAD)
#undef ROWS_LOAD
        if constexpr (!WHOLE_ROWS && SETS > 0) {
            const Turn turn(p, spots[u]);
            left[u] = turn.left;
#define ROWS_LOAD(k) held##k[u].load_turning(p, IN_START(p, 0, k), spots[u], turn);
            EACH_INPUT(ROWS_LOAD)
#undef ROWS_LOAD
        }
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const Place place = base + (threadIdx.x + u * THREADS) * LANES;
#define ROWS_LOADED(k) , held##k[u]
#define ROWS_COMPUTE(turns) rows_vector(Turns<turns>(), p, s, same, place, spots[u] EACH_INPUT(ROWS_LOADED))
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
        for (Place place = whole * Place(TILE) + share.first; place < n; place += share.step) indexed_one(p, s, same, place);
    }
    let_next_begin(LATE);
}
