// transpose: inputs that are runs along the second fastest dimension of the walk, while the outputs are along the fastest. A
// block has a tile of SIDE × SIDE elements: TRANSPOSED inputs come along their own runs into shared memory, are read from it
// along the outputs', and meet the other tensors there. SIDE = LANES · UNROLL.
//
// Blocks go along the outputs' rows, GROUP rows of tiles together, column by column: with 1 neighbours write what lies side by side and read
// far apart, with more both lie together.
//
// Rows in shared memory are a word longer than their elements, so that columns lie in different banks.
// Words of the form: extents of the two dimensions; divisors of the tiles along the fastest dimension, of the groups along the second
// fastest, and of the other extents, slowest first, as divisor, magic number and shift; each set's strides.
// Its loop in SASS: all loads of the transposed inputs before the barrier, in vectors of LANES; after it the stores.
#include "same.h"

enum { SIDE = LANES * UNROLL, TURN = THREADS * LANES, TURNS = (SIDE * SIDE + TURN - 1) / TURN };
enum { DIVISORS_AT = FORM_AT + 2, STRIDES_AT = DIVISORS_AT + 3 * RANK };

__device__ __forceinline__ i64 stride(const Parameters& p, int set, int d) { return i64(p.at[STRIDES_AT + RANK * set + d]); }

// `rest` over a divisor, whose place the remainder takes.
__device__ __forceinline__ u32 divide_by(const Parameters& p, int which, u32* rest) {
    const u64 divisor = p.at[DIVISORS_AT + 3 * which], magic = p.at[DIVISORS_AT + 3 * which + 1];
    const u32 quotient = u32(u64(*rest) * u32(magic) >> u32(p.at[DIVISORS_AT + 3 * which + 2]));
    *rest -= quotient * u32(divisor);
    return quotient;
}

// Elements of a row in shared memory, with a word to spare.
template <typename T> struct Pitch { enum { value = SIDE + (sizeof(T) < 4 ? 4 / sizeof(T) : 1) }; };

// Where the tile stands, and the first elements of each set.
struct Tile {
    u32 rows, columns;  // inside the walk
    i64 offset[SETS];
    __device__ __forceinline__ static u32 inside(u64 extent, u64 first) {
        if (GROUP > 1 && first >= extent) return 0;
        return u32(extent - first < SIDE ? extent - first : u64(SIDE));
    }
};

__device__ __forceinline__ Tile find_tile(const Parameters& p, u32 block) {
    u32 at[RANK];
    u32 rest = block / GROUP;
    // The fastest dimension's tiles first.
    u32 slower = divide_by(p, 0, &rest);
    Tile tile;
    const u64 column = u64(rest) * SIDE;
    rest = slower;
    slower = divide_by(p, 1, &rest);
    const u64 row = (u64(rest) * GROUP + block % GROUP) * SIDE;
    tile.rows = Tile::inside(p.at[FORM_AT], row);
    tile.columns = Tile::inside(p.at[FORM_AT + 1], column);
#pragma unroll
    for (int d = RANK - 3; d >= 0; --d) {
        rest = slower;
        slower = divide_by(p, 2 + d, &rest);
        at[d] = rest;
    }
#pragma unroll
    for (int set = 0; set < SETS; ++set) {
        i64 offset = i64(row) * stride(p, set, RANK - 2) + i64(column) * stride(p, set, RANK - 1);
#pragma unroll
        for (int d = 0; d < RANK - 2; ++d) offset += i64(at[d]) * stride(p, set, d);
        tile.offset[set] = offset;
    }
    return tile;
}

// The thread's vector of one turn, along the rows that it reads.
struct Piece {
    u32 line, along;
    __device__ __forceinline__ explicit Piece(int turn) {
        const u32 v = threadIdx.x + turn * THREADS;
        line = v / (SIDE / LANES);
        along = v % (SIDE / LANES) * LANES;
    }
};

// Loads a tile of a transposed input: lines along the fastest dimension of the walk, each a run along the second fastest.
template <typename T, int SET> __device__ __forceinline__ void fetch(const Parameters& p, u64 start, const Tile& tile, T* shared) {
    Row<T, LANES, HINT & LOAD_NO_ALLOCATE> rows[TURNS];
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const Piece piece(turn);
        // Pieces outside of the walk read the tile's first one, so that loads depend on no branch.
        const bool inside = piece.line < tile.columns && piece.along < tile.rows;
        const i64 offset = i64(piece.line) * stride(p, SET, RANK - 1) + i64(piece.along);
        rows[turn].load(from + u64(inside ? offset : 0) * sizeof(T));
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        const Piece piece(turn);
        if (SIDE * SIDE % TURN != 0 && piece.line >= SIDE) continue;
#pragma unroll
        for (int i = 0; i < LANES; ++i)
            shared[piece.line * Pitch<T>::value + piece.along + i] = element_of<T>(rows[turn].word, i);
    }
}

// The vector of a piece in the order of the outputs.
template <typename T, int KIND, int SET>
__device__ __forceinline__ void gather(const Parameters& p, u64 start, const Tile& tile, const Piece& piece, const T* shared,
                                       Carrier<T> same, Carrier<T>* x) {
    const i64 offset = KIND == UNIFORM ? 0
                                       : tile.offset[SET] + i64(piece.line) * stride(p, SET, RANK - 2) +
                                             i64(piece.along) * stride(p, SET, RANK - 1);
    if constexpr (KIND == WALKED_VECTOR) {
        // It may be broadcast, and then should stay in the first level.
        Row<T, LANES, 0> row;
        row.load(start + u64(offset) * sizeof(T));
        row.take(x);
    } else {
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            if constexpr (KIND == TRANSPOSED) x[i] = to_carrier<T>(shared[(piece.along + i) * Pitch<T>::value + piece.line]);
            else if constexpr (KIND == UNIFORM) x[i] = same;
            else x[i] = load_one<T>(start + u64(offset + i * stride(p, SET, RANK - 1)) * sizeof(T));
        }
    }
}

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Piece& piece, const Carrier<T>* y) {
    const i64 offset =
        tile.offset[SET] + i64(piece.line) * stride(p, SET, RANK - 2) + i64(piece.along) * stride(p, SET, RANK - 1);
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    row.store(start + u64(offset) * sizeof(T));
}

// On a host the threads of a block go through the first half one after the other, then through the second.
#if defined(__CUDA_ARCH__)
#define HALF(which)
#else
#define HALF(which) if (half_of_block == which)
#endif

extern "C" __global__ void __launch_bounds__(THREADS) elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const Tile tile = find_tile(p, blockIdx.x);
    // The last group's rows may be fewer.
    if (GROUP > 1 && tile.rows == 0) return;
#define TRANSPOSE_SHARED(k) __shared__ in##k##_t shared##k[IN##k == TRANSPOSED ? SIDE * Pitch<in##k##_t>::value : 1];
    EACH_INPUT(TRANSPOSE_SHARED)
#undef TRANSPOSE_SHARED
    wait_for_previous();
    HALF(0) {
#define TRANSPOSE_FETCH(k)                                                                                             \
    if constexpr (IN##k == TRANSPOSED) fetch<in##k##_t, IN##k##_SET>(p, IN_START(p, 0, k), tile, shared##k);
        EACH_INPUT(TRANSPOSE_FETCH)
#undef TRANSPOSE_FETCH
        let_next_begin(EARLY);
    }
    __syncthreads();
    HALF(1) {
        const Same same = same_for_all(p, 0);
#pragma unroll
        for (int turn = 0; turn < TURNS; ++turn) {
            const Piece piece(turn);
            if (piece.line >= tile.rows || piece.along >= tile.columns) continue;
#define TRANSPOSE_TAKE(k)                                                                                              \
    in##k##_c x##k[LANES];                                                                                             \
    gather<in##k##_t, IN##k, IN##k##_SET>(p, IN_START(p, 0, k), tile, piece, shared##k, same.x##k, x##k);
#define TRANSPOSE_RESULT(k) out##k##_c y##k[LANES];
            EACH_INPUT(TRANSPOSE_TAKE)
            EACH_OUTPUT(TRANSPOSE_RESULT)
#undef TRANSPOSE_TAKE
#undef TRANSPOSE_RESULT
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                At at;
                BODY_CALL(s, at, i);
            }
#define TRANSPOSE_STORE(k) transpose_store<out##k##_t, OUT##k##_SET>(p, OUT_START(p, 0, k), tile, piece, y##k);
            EACH_OUTPUT(TRANSPOSE_STORE)
#undef TRANSPOSE_STORE
        }
        let_next_begin(LATE);
    }
}
