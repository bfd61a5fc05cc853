// transpose: some inputs are contiguous along the second fastest dimension, while the outputs are contiguous along the fastest.
// A block processes a tile of ROWS × COLUMNS elements: TRANSPOSED inputs are loaded along their contiguous dimension into shared
// memory and read from there along the outputs' contiguous dimension, together with the other tensors. COLUMNS = LANES · UNROLL.
//
// An input whose lines have vectors of LANES elements is loaded in squares of LANES × LANES: a thread transposes one in registers and
// stores it to shared memory as vectors in the order of the outputs, so that all accesses to both memories are whole vectors. Others
// are loaded in shorter vectors, whose elements are stored one by one. The vectors of a row are permuted by an exclusive or that depends on
// the row, so that threads that store elements of one column, and threads that load vectors of a row, use all banks.
//
// Blocks are ordered along the outputs' rows: neighbouring blocks write adjacent data and read distant data. Processing several
// rows of tiles at a time, so that reads are closer together, was slower by up to 2 % on an H200.
//
// Words of the form: extents of the two dimensions; divisors of the tiles along the fastest and the second fastest dimension
// and of the other extents, slowest first, as divisor, magic number and shift; each set's strides.
// Its loop in SASS: before the barrier, all loads of the transposed inputs, and their stores to shared memory; after it, a load from
// shared memory and a store per vector.
#include "same.h"

enum { COLUMNS = LANES * UNROLL, VECTORS = ROWS * UNROLL, READS = (VECTORS + THREADS - 1) / THREADS };
enum { DIVISORS_AT = FORM_AT + 2, STRIDES_AT = DIVISORS_AT + 3 * RANK };

__device__ __forceinline__ i64 stride(const Parameters& p, int set, int d) { return i64(p.at[STRIDES_AT + RANK * set + d]); }

// The distance of `count` steps along a dimension inside a tile. With 32 bits, strides fit into them: one instruction.
__device__ __forceinline__ i64 distance(const Parameters& p, int set, int d, u32 count) {
#if INDEX_BITS == 32
    return i64(i32(count)) * i64(i32(p.at[STRIDES_AT + RANK * set + d]));
#else
    return i64(count) * stride(p, set, d);
#endif
}

// Place and line of a thread's piece of one iteration, if lines have PER_LINE pieces. If a block's threads are whole lines, only the line
// changes from iteration to iteration.
template <int PER_LINE> struct Position {
    u32 piece, line, along;
    __device__ __forceinline__ explicit Position(int iteration) : piece(threadIdx.x + iteration * THREADS) {
        constexpr bool WHOLE = THREADS % PER_LINE == 0;
        line = WHOLE ? threadIdx.x / PER_LINE + iteration * (THREADS / PER_LINE) : piece / PER_LINE;
        along = (WHOLE ? threadIdx.x : piece) % PER_LINE;
    }
};

// Divides `rest` by a divisor: returns the quotient and replaces `rest` by the remainder.
__device__ __forceinline__ u32 divide_by(const Parameters& p, int which, u32* rest) {
    const u64 divisor = p.at[DIVISORS_AT + 3 * which], magic = p.at[DIVISORS_AT + 3 * which + 1];
    const u32 quotient = u32(u64(*rest) * u32(magic) >> u32(p.at[DIVISORS_AT + 3 * which + 2]));
    *rest -= quotient * u32(divisor);
    return quotient;
}

template <int BYTES> struct Unit { typedef u32 type; };
template <> struct Unit<1> { typedef u8 type; };
template <> struct Unit<2> { typedef u16 type; };

// LANES elements in their memory type.
template <typename T> struct alignas(least(LANES * int(sizeof(T)), 16)) Packed {
    enum { BYTES = LANES * int(sizeof(T)), UNITS = words_of(BYTES) };
    typename Unit<BYTES>::type unit[UNITS];
};

// The smallest power of two that is at least n, up to 32.
constexpr __device__ int covering(int n) { return n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32; }

// How an input whose lines are loaded in vectors of LINE elements lies in shared memory.
template <int LINE> struct Passage {
    enum { SQUARES = LINE == LANES && LANES > 1, PER_LINE = ROWS / LINE, PIECES = PER_LINE * (SQUARES ? UNROLL : COLUMNS) };
    enum { ITERATIONS = (PIECES + THREADS - 1) / THREADS };
    // Columns of which a warp stores elements at once; they fill this many vectors of a row.
    enum { BESIDE = 32 / covering(PER_LINE), SPREAD = SQUARES || BESIDE <= LANES ? 1 : BESIDE / LANES };
    // Index of vector `along` of row `row` of the outputs.
    __device__ __forceinline__ static u32 vector_at(u32 row, u32 along) {
        return row * UNROLL + (along ^ (row / LINE * SPREAD & (UNROLL - 1)));
    }
};

// The size of a tile, and the offset of its first element for each set of strides.
struct Tile {
    u32 rows, columns;  // inside the tensors
    i64 offset[SETS];
    __device__ __forceinline__ static u32 inside(u64 extent, u64 first, u32 side) {
        return u32(extent - first < side ? extent - first : u64(side));
    }
};

__device__ __forceinline__ Tile find_tile(const Parameters& p, u32 block) {
    u32 at[RANK];
    u32 rest = block;
    // The fastest dimension's tiles first.
    u32 slower = divide_by(p, 0, &rest);
    Tile tile;
    const u64 column = u64(rest) * COLUMNS;
    rest = slower;
    slower = divide_by(p, 1, &rest);
    const u64 row = u64(rest) * ROWS;
    tile.rows = Tile::inside(p.at[FORM_AT], row, ROWS);
    tile.columns = Tile::inside(p.at[FORM_AT + 1], column, COLUMNS);
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

// Element `i` of each row, as one vector.
template <typename T, typename R> __device__ __forceinline__ Packed<T> turned(const R* rows, int i) {
    enum { BITS = 8 * int(sizeof(T)), PER_WORD = BITS < 32 ? 32 / BITS : 1, WORDS_EACH = BITS < 32 ? 1 : BITS / 32 };
    u32 word[Packed<T>::UNITS] = {};
#pragma unroll
    for (int j = 0; j < LANES; ++j)
#pragma unroll
        for (int w = 0; w < WORDS_EACH; ++w) {
            const u32 held = rows[j].word[i / PER_WORD * WORDS_EACH + w];
            if constexpr (BITS >= 32) word[j * WORDS_EACH + w] = held;
            else word[j / PER_WORD] |= (held >> i % PER_WORD * BITS & ((1u << BITS % 32) - 1)) << j % PER_WORD * BITS;
        }
    Packed<T> vector;
#pragma unroll
    for (int w = 0; w < Packed<T>::UNITS; ++w) vector.unit[w] = word[w];
    return vector;
}

// Loads a tile of a transposed input: one line per index of the fastest dimension, each contiguous along the second fastest.
template <typename T, int SET, int LINE>
__device__ __forceinline__ void fetch(const Parameters& p, u64 start, const Tile& tile, Packed<T>* shared) {
    typedef Passage<LINE> Way;
    enum { LINES = Way::SQUARES ? LANES : 1 };
    Row<T, LINE, HINT & LOAD_NO_ALLOCATE> lines[Way::ITERATIONS][LINES];
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
#pragma unroll
    for (int iteration = 0; iteration < Way::ITERATIONS; ++iteration) {
        const Position<Way::PER_LINE> at(iteration);
        const u32 line = at.line * LINES, along = at.along * LINE;
        // Pieces outside the tensors read the tile's first one instead, so that loads need no branch.
        const bool inside = line < tile.columns && along < tile.rows;
        const i64 offset = inside ? distance(p, SET, RANK - 1, line) + i64(along) : 0;
#pragma unroll
        for (int j = 0; j < LINES; ++j)
            lines[iteration][j].load(from + u64(offset + distance(p, SET, RANK - 1, j)) * sizeof(T));
    }
#pragma unroll
    for (int iteration = 0; iteration < Way::ITERATIONS; ++iteration) {
        const Position<Way::PER_LINE> at(iteration);
        if (Way::PIECES % THREADS != 0 && at.piece >= Way::PIECES) continue;
        const u32 line = at.line, along = at.along * LINE;
#pragma unroll
        for (int i = 0; i < LINE; ++i) {
            if constexpr (Way::SQUARES) shared[Way::vector_at(along + i, line)] = turned<T>(lines[iteration], i);
            else {
                const u32 element = Way::vector_at(along + i, line / LANES) * LANES + line % LANES;
                reinterpret_cast<T*>(shared)[element] = element_of<T>(lines[iteration][0].word, i);
            }
        }
    }
}

// The position of the thread's vector of one iteration, in the order of the outputs.
struct Piece {
    u32 line, vector, along;
    __device__ __forceinline__ explicit Piece(int iteration) {
        const Position<UNROLL> at(iteration);
        line = at.line;
        vector = at.along;
        along = vector * LANES;
    }
};

// A thread's vectors of an input in the order of the outputs. Those that come from memory are loaded before the barrier, all at once.
template <typename T, int KIND, int SET, int LINE> struct Gathered {
    // Broadcast inputs should stay in L1.
    Row<T, LANES, 0> rows[READS];

    __device__ __forceinline__ static i64 offset(const Parameters& p, const Tile& tile, const Piece& piece) {
        return tile.offset[SET] + distance(p, SET, RANK - 2, piece.line) + distance(p, SET, RANK - 1, piece.along);
    }

    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile) {
        if constexpr (KIND == INDEXED_VECTOR) {
#pragma unroll
            for (int iteration = 0; iteration < READS; ++iteration) {
                const Piece piece(iteration);
                // Vectors outside the tensors are those of the tile's first element, so that loads need no branch.
                const bool inside = piece.line < tile.rows && piece.along < tile.columns;
                rows[iteration].load(start + u64(inside ? offset(p, tile, piece) : tile.offset[SET]) * sizeof(T));
            }
        }
    }

    __device__ __forceinline__ void take(const Parameters& p, u64 start, const Tile& tile, const Piece& piece, int iteration,
                                         const Packed<T>* shared, Carrier<T> same, Carrier<T>* x) {
        if constexpr (KIND == TRANSPOSED) {
            const Packed<T> vector = shared[Passage<LINE>::vector_at(piece.line, piece.vector)];
#pragma unroll
            for (int w = 0; w < Packed<T>::UNITS; ++w) rows[iteration].word[w] = vector.unit[w];
        }
        if constexpr (KIND == TRANSPOSED || KIND == INDEXED_VECTOR) rows[iteration].take(x);
        else {
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if constexpr (KIND == UNIFORM) x[i] = same;
                else x[i] = load_one<T>(start + u64(offset(p, tile, piece) + distance(p, SET, RANK - 1, i)) * sizeof(T));
            }
        }
    }
};

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Piece& piece,
                                                const Carrier<T>* y) {
    // Outputs are contiguous along their rows.
    const i64 offset = tile.offset[SET] + distance(p, SET, RANK - 2, piece.line) + i64(piece.along);
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    row.store(start + u64(offset) * sizeof(T));
}

// On a host, the threads of a block run the first half one after the other, then the second half.
#if defined(__CUDA_ARCH__)
#define HALF(which)
#else
#define HALF(which) if (half_of_block == which)
#endif

extern "C" __global__ void __launch_bounds__(THREADS) elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const Tile tile = find_tile(p, blockIdx.x);
#define TRANSPOSE_SHARED(k) __shared__ Packed<in##k##_t> shared##k[IN##k == TRANSPOSED ? VECTORS : 1];
    EACH_INPUT(TRANSPOSE_SHARED)
#undef TRANSPOSE_SHARED
#define TRANSPOSE_GATHERED(k) Gathered<in##k##_t, IN##k, IN##k##_SET, IN##k##_LINE> gathered##k;
    EACH_INPUT(TRANSPOSE_GATHERED)
#undef TRANSPOSE_GATHERED
    wait_for_previous();
#define TRANSPOSE_LOAD(k) gathered##k.load(p, IN_START(p, 0, k), tile);
    EACH_INPUT(TRANSPOSE_LOAD)
#undef TRANSPOSE_LOAD
    HALF(0) {
#define TRANSPOSE_FETCH(k)                                                                                             \
    if constexpr (IN##k == TRANSPOSED) fetch<in##k##_t, IN##k##_SET, IN##k##_LINE>(p, IN_START(p, 0, k), tile, shared##k);
        EACH_INPUT(TRANSPOSE_FETCH)
#undef TRANSPOSE_FETCH
    }
    __syncthreads();
    HALF(1) {
        const Same same = same_for_all(p, 0);
#pragma unroll
        for (int iteration = 0; iteration < READS; ++iteration) {
            const Piece piece(iteration);
            if (piece.line >= tile.rows || piece.along >= tile.columns) continue;
#define TRANSPOSE_TAKE(k)                                                                                              \
    in##k##_c x##k[LANES];                                                                                             \
    gathered##k.take(p, IN_START(p, 0, k), tile, piece, iteration, shared##k, same.x##k, x##k);
#define TRANSPOSE_RESULT(k) out##k##_c y##k[LANES];
            EACH_INPUT(TRANSPOSE_TAKE)
            EACH_OUTPUT(TRANSPOSE_RESULT)
#undef TRANSPOSE_TAKE
#undef TRANSPOSE_RESULT
            BODY_BEGIN
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                At at;
                BODY_EACH(s, at, i);
            }
            BODY_END(s, LANES)
#define TRANSPOSE_STORE(k) transpose_store<out##k##_t, OUT##k##_SET>(p, OUT_START(p, 0, k), tile, piece, y##k);
            EACH_OUTPUT(TRANSPOSE_STORE)
#undef TRANSPOSE_STORE
        }
        let_next_begin(LATE);
    }
}
