// transpose: some inputs are contiguous along the second fastest dimension, while the outputs are contiguous along the fastest.
// A block processes a tile of ROWS × COLUMNS elements: TRANSPOSED inputs are loaded along their contiguous dimension into shared
// memory and read from there along the outputs' contiguous dimension, together with the other tensors. COLUMNS = LANES · UNROLL, unless rows
// are joined (joined_rows.h): what follows is about the others.
//
// A thread loads LANES lines of a transposed input together, in vectors of LINE elements, as the lines allow. It transposes these
// LINE × LANES elements in registers and stores them to shared memory as vectors in the order of the outputs. Gaps between the rows in
// shared memory let threads that store to the same column use different banks.
//
// Blocks are ordered along the outputs' rows: neighbouring blocks write adjacent data and read distant data. Processing several
// rows of tiles at a time, so that reads are closer together, was slower by up to 2 % on an H200.
//
// Words of the form: extents of the two dimensions; divisors of the tiles along the fastest and the second fastest dimension
// and of the other extents, slowest first, as divisor, magic number and shift; each set's strides. ROWS_FIT, COLUMNS_FIT: no tile extends
// beyond the tensors along that dimension. SHEAR: see sheared_tiles.h; 0 for other tiles. JOINED: see joined_rows.h; the columns of such tiles,
// 0 for others. FOLD_ROWS, FOLD_COLUMNS: if not 0, the
// tile's rows or columns are along two dimensions of the tensors, and the slower one continues the faster one without a gap, in the transposed inputs
// or in the outputs; so many elements are along the faster one. The stride of that side is then the slower one's; those of the faster ones
// follow after each set's strides, rows first.
// Its loop in SASS: before the barrier, all loads of the transposed inputs, and their stores to shared memory; after it, a load from
// shared memory and a store per vector.
#include "same.h"

#if JOINED
enum { COLUMNS = JOINED, TOGETHER = 1 };
#else
// Vectors in a row of a transposed input's tile, and lines of it that a thread loads together.
enum { COLUMNS = LANES * UNROLL, WIDTH = UNROLL + SHEAR / LANES, TOGETHER = LANES };
#endif
enum { DIVISORS_AT = FORM_AT + 2, STRIDES_AT = DIVISORS_AT + 3 * RANK, STRIDES = RANK + (FOLD_ROWS > 0) + (FOLD_COLUMNS > 0) };

__device__ __forceinline__ i64 stride(const Parameters& p, int set, int d) { return i64(p.at[STRIDES_AT + STRIDES * set + d]); }

#if INDEX_BITS == 32
// Extents and strides fit into 31 bits.
typedef u32 Extent;
typedef i32 Steps;
#else
typedef u64 Extent;
typedef i64 Steps;
#endif

// The distance of `count` steps along a dimension.
__device__ __forceinline__ i64 distance(const Parameters& p, int set, int d, Steps count) {
#if INDEX_BITS == 32 && defined(__CUDA_ARCH__)
    i64 product;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(count), "r"(u32(p.at[STRIDES_AT + STRIDES * set + d])));
    return product;
#else
    return i64(count) * stride(p, set, d);
#endif
}

// Elements along the faster dimension of a folded one, else 0.
constexpr __device__ int fold(int d) { return d == RANK - 2 ? FOLD_ROWS : d == RANK - 1 ? FOLD_COLUMNS : 0; }

// The distance of element `at` of a dimension of the tile from the tile's first one, times `factor`. `phase`: where in a fold that one is.
// `at` may be negative in sheared tiles.
template <int D> __device__ __forceinline__ i64 distance_in_tile(const Parameters& p, int set, u32 phase, i32 at, u32 factor) {
    enum { FOLD = fold(D), FASTER = RANK + (D == RANK - 1 && FOLD_ROWS > 0) };
    if constexpr (FOLD == 0) return distance(p, set, D, at * i32(factor));
    else {
        enum { BEFORE = (SHEAR + FOLD - 1) / FOLD };
        const u32 place = u32(at + BEFORE * FOLD) + phase;
        return distance(p, set, D, (i32(place / FOLD) - BEFORE) * i32(factor)) +
               distance(p, set, FASTER, (i32(place % FOLD) - i32(phase)) * i32(factor));
    }
}

// A tile's pieces: LINES lines of PER_LINE pieces. A thread has one per iteration. If that takes hardly more iterations (WHOLE), a thread's
// pieces are at the same place of lines that are STEP lines apart, or one after the other in every line, so that their addresses differ by
// constants, unless lines are along two dimensions; some threads may then have no piece. Neighbouring threads have neighbouring pieces of a
// line, or, in groups of GROUP lines, those at the same place of neighbouring lines.
template <int LINE_COUNT, int PER_LINE, int GROUP = 1> struct Pieces {
    enum { LINES = LINE_COUNT, GROUPS = (LINES + GROUP - 1) / GROUP, PER_GROUP = PER_LINE * GROUP, COUNT = GROUPS * PER_GROUP };
    enum { SPLIT = (PER_GROUP + THREADS - 1) / THREADS, GROUP_STEP = SPLIT > 1 ? 1 : THREADS / PER_GROUP };
    enum { STEP = GROUP_STEP * GROUP, BUSY = SPLIT > 1 ? THREADS : GROUP_STEP * PER_GROUP };
    enum { FEWEST = (COUNT + THREADS - 1) / THREADS, STEPS = SPLIT * ((GROUPS + GROUP_STEP - 1) / GROUP_STEP) };
    enum { WHOLE = 8 * STEPS <= 9 * FEWEST, ITERATIONS = WHOLE ? STEPS : FEWEST };
    __device__ __forceinline__ static u32 place(int iteration) { return threadIdx.x + iteration * THREADS; }
    // Of the first iteration; later ones add a constant.
    __device__ __forceinline__ static u32 first_line() {
        return (SPLIT > 1 ? 0 : threadIdx.x / PER_GROUP * GROUP) + threadIdx.x % GROUP;
    }
    constexpr __device__ static u32 lines_before(int iteration) {
        return (SPLIT > 1 ? iteration / SPLIT : iteration * GROUP_STEP) * GROUP;
    }
    __device__ __forceinline__ static u32 line(int iteration) {
        if (WHOLE) return first_line() + lines_before(iteration);
        return place(iteration) / PER_GROUP * GROUP + place(iteration) % GROUP;
    }
    __device__ __forceinline__ static u32 within(int iteration) {
        if (!WHOLE) return place(iteration) % PER_GROUP / GROUP;
        return (SPLIT > 1 ? threadIdx.x + iteration % SPLIT * THREADS : threadIdx.x % PER_GROUP) / GROUP;
    }
    // Whether the thread has a piece of the tile at all. Iterations that can't reach the end of the tile or of a line need no comparison, which
    // the compiler doesn't find out by itself.
    __device__ __forceinline__ static bool exists(int iteration) {
        const bool in_group = LINES % GROUP == 0 || line(iteration) < LINES;
        if (!WHOLE) return ((iteration + 1) * THREADS <= COUNT || place(iteration) < COUNT) && in_group;
        if (SPLIT > 1) return ((iteration % SPLIT + 1) * THREADS <= PER_GROUP || within(iteration) < PER_LINE) && in_group;
        return (BUSY == THREADS || threadIdx.x < u32(BUSY)) &&
               (lines_before(iteration) + STEP <= LINES || line(iteration) < LINES);
    }
    // The distance of the piece's line from the tile's first one, times `factor`.
    template <int D>
    __device__ __forceinline__ static i64 offset(const Parameters& p, int set, u32 phase, u32 factor, int iteration) {
        if (!WHOLE || fold(D) > 0) return distance_in_tile<D>(p, set, phase, i32(line(iteration)), factor);
        return distance(p, set, D, first_line() * factor) + distance(p, set, D, lines_before(iteration) * factor);
    }
};

__device__ __forceinline__ u32 smaller(u32 a, u32 b) { return a < b ? a : b; }

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

// Lines whose neighbouring threads read dense lines (dense_lines.h) from different banks: 4, or 2 with elements of 8 bytes.
constexpr __device__ int lines_at_once(int kind, int bytes) { return kind != DENSE ? 1 : bytes == 8 ? 2 : 4; }
#define TRANSPOSE_LINES(k) , lines_at_once(IN##k, IN_BYTES(k))
constexpr __device__ int most_lines(int a) { return a; }
template <typename... Others> constexpr __device__ int most_lines(int a, int b, Others... others) { return most_lines(a < b ? b : a, others...); }

// A thread's vectors in the order of the outputs.
#if JOINED
typedef Pieces<1, ROWS * COLUMNS / LANES> Ordered;
#else
typedef Pieces<ROWS, UNROLL, most_lines(1 EACH_INPUT(TRANSPOSE_LINES))> Ordered;
#endif
#undef TRANSPOSE_LINES

// The size of a tile, and the offset of its first element for each set of strides.
struct Tile {
    u32 rows, columns;              // inside the tensors
    u32 row_phase, column_phase;    // where in a fold the first one is
    Extent column;                  // the first one
    i64 offset[SETS];
    __device__ __forceinline__ static u32 inside(Extent extent, Extent first, u32 side) {
        return u32(extent - first < side ? extent - first : Extent(side));
    }
};

// Where in a fold of dimension D element `first` of the tensors is; tiles with whole folds all begin with one.
template <int D, int SIDE> __device__ __forceinline__ u32 phase_of(Extent first) {
    if constexpr (fold(D) == 0) return 0;
    else return SIDE % fold(D) == 0 ? 0 : u32(first % fold(D));
}

// The distance of element `first` of dimension D of the tensors.
template <int D> __device__ __forceinline__ i64 distance_of_tile(const Parameters& p, int set, Extent first, u32 phase) {
    if constexpr (fold(D) == 0) return distance(p, set, D, first);
    else return distance(p, set, D, first / fold(D)) + distance_in_tile<D>(p, set, 0, i32(phase), 1);
}

__device__ __forceinline__ Tile find_tile(const Parameters& p, u32 block) {
    u32 at[RANK];
    u32 rest = block;
    // The fastest dimension's tiles first.
    u32 slower = divide_by(p, 0, &rest);
    Tile tile;
    const Extent column = tile.column = Extent(rest) * COLUMNS;
    rest = slower;
    slower = divide_by(p, 1, &rest);
    const Extent row = Extent(rest) * ROWS;
    tile.rows = Tile::inside(Extent(p.at[FORM_AT]), row, ROWS);
    tile.columns = Tile::inside(Extent(p.at[FORM_AT + 1]), column, COLUMNS);
    tile.row_phase = phase_of<RANK - 2, ROWS>(row);
    tile.column_phase = phase_of<RANK - 1, COLUMNS>(column);
#pragma unroll
    for (int d = RANK - 3; d >= 0; --d) {
        rest = slower;
        slower = divide_by(p, 2 + d, &rest);
        at[d] = rest;
    }
#pragma unroll
    for (int set = 0; set < SETS; ++set) {
        i64 offset = distance_of_tile<RANK - 2>(p, set, row, tile.row_phase);
        offset += distance_of_tile<RANK - 1>(p, set, column, tile.column_phase);
#pragma unroll
        for (int d = 0; d < RANK - 2; ++d) offset += distance(p, set, d, at[d]);
        tile.offset[set] = offset;
    }
    return tile;
}

// The address of a line of a tensor, and the distance in bytes of a column from the tile's first one.
template <typename T, int SET>
__device__ __forceinline__ u64 line_at(const Parameters& p, u64 start, const Tile& tile, u32 line) {
    return start + u64(tile.offset[SET]) * sizeof(T) + distance_in_tile<RANK - 2>(p, SET, tile.row_phase, i32(line), sizeof(T));
}
template <typename T, int SET> __device__ __forceinline__ i64 distance_of_column(const Parameters& p, const Tile& tile, i32 column) {
    return distance_in_tile<RANK - 1>(p, SET, tile.column_phase, column, sizeof(T));
}

#include "dense_lines.h"
#include "passage.h"

// What shared memory holds of an input.
template <typename T, int KIND, int LINE> struct Held {
    typedef Packed<T> Item;
    enum { COUNT = KIND == TRANSPOSED ? int(Passage<sizeof(T), LINE>::HELD) : 1 };
};
template <typename T, int LINE> struct Held<T, DENSE, LINE> {
    typedef typename DenseLines<sizeof(T), LINE>::Quad Item;
    enum { COUNT = DenseLines<sizeof(T), LINE>::HELD / 16 };
};

#if SHEAR
#include "sheared_tiles.h"
#else
#include "lines.h"
#if JOINED
#include "joined_rows.h"
#else
#include "aligned_tiles.h"
#endif
#endif

// What a thread loads of a transposed input's tile, until it stores it to shared memory. Nothing of other inputs.
template <typename T, int KIND, int SET, int LINE> struct Fetched {
    enum { REGISTERS = 0 };
    __device__ __forceinline__ void load(const Parameters&, u64, const Tile&, const Reach&) {}
    __device__ __forceinline__ void store(const Tile&, void*) const {}
};
template <typename T, int SET, int LINE> struct Fetched<T, TRANSPOSED, SET, LINE> {
    typedef typename Passage<sizeof(T), LINE>::All All;
    typedef Row<T, LINE, HINT & LOAD_NO_ALLOCATE> Piece;
    Piece lines[All::ITERATIONS][TOGETHER];
    enum { REGISTERS = sizeof(lines) / 4 };
    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile, const Reach& reach) {
        fetch<T, SET, LINE>(p, start, tile, reach, lines);
    }
    __device__ __forceinline__ void store(const Tile&, Packed<T>* shared) const {
#pragma unroll
        for (int iteration = 0; iteration < All::ITERATIONS; ++iteration) store_piece<All, LINE>(lines[iteration], iteration, shared);
    }
};
template <typename T, int SET, int LINE> struct Fetched<T, DENSE, SET, LINE> {
    typedef DenseLines<sizeof(T), LINE> Lines;
    Row<T, LINE, HINT & LOAD_NO_ALLOCATE> vectors[Lines::ITERATIONS];
    enum { REGISTERS = sizeof(vectors) / 4 };
    __device__ __forceinline__ void load(const Parameters&, u64 start, const Tile& tile, const Reach&) {
        Lines::fetch(start + u64(tile.offset[SET]) * sizeof(T), tile.columns, vectors);
    }
    __device__ __forceinline__ void store(const Tile& tile, typename Lines::Quad* shared) const {
        Lines::store(tile.columns, vectors, shared);
    }
};

// Most registers in which a thread holds all inputs, so that all loads are in flight at once: with about 20 more for arithmetic, three blocks of
// 256 threads fit on an SM. On an H200, bf16 inputs in 57 registers took 173 µs, and 230 with one input after the other; others in 64 took
// 32.2 and 29.6 µs, bytes in 96 took 78.3 and 73.8.
enum { MOST_REGISTERS = 60 };

// Before this, all loads are issued. Otherwise ptxas 13.0 saves registers: it issues loads of the last inputs only after the first inputs have
// arrived and are stored.
__device__ __forceinline__ void issue_loads() {
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
}

// On a host, the threads of a block run the first half one after the other, then the second half.
#if defined(__CUDA_ARCH__)
#define HALF(which)
#else
#define HALF(which) if (half_of_block == which)
#endif

extern "C" __global__ void LAUNCH_BOUNDS elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const Tile tile = find_tile(p, blockIdx.x);
    const Reach reach = find_reach(p, tile);
#define TRANSPOSE_SHARED(k) \
    typedef Held<in##k##_t, IN##k, IN##k##_LINE> Held##k; \
    __shared__ Held##k::Item shared##k[Held##k::COUNT];
    EACH_INPUT(TRANSPOSE_SHARED)
#undef TRANSPOSE_SHARED
#define TRANSPOSE_GATHERED(k) Gathered<in##k##_t, IN##k, IN##k##_SET, IN##k##_LINE> gathered##k;
    EACH_INPUT(TRANSPOSE_GATHERED)
#undef TRANSPOSE_GATHERED
    wait_for_previous();
#define TRANSPOSE_LOAD(k) gathered##k.load(p, IN_START(p, 0, k), tile, reach);
    EACH_INPUT(TRANSPOSE_LOAD)
#undef TRANSPOSE_LOAD
    HALF(0) {
// Not with dense lines, where it wasn't measured.
#define TRANSPOSE_REGISTERS(k)                                                                                         \
    + int(Fetched<in##k##_t, IN##k, IN##k##_SET, IN##k##_LINE>::REGISTERS)                                             \
    + (IN##k == INDEXED_VECTOR ? int(sizeof(gathered##k)) / 4 : IN##k == DENSE ? MOST_REGISTERS : 0)
#define TRANSPOSE_FETCH(k)                                                                                             \
    Fetched<in##k##_t, IN##k, IN##k##_SET, IN##k##_LINE> fetched##k;                                                   \
    fetched##k.load(p, IN_START(p, 0, k), tile, reach);                                                                \
    if (!IN_FLIGHT) fetched##k.store(tile, shared##k);
#define TRANSPOSE_STORE(k) fetched##k.store(tile, shared##k);
        enum { IN_FLIGHT = 0 EACH_INPUT(TRANSPOSE_REGISTERS) <= MOST_REGISTERS };
        EACH_INPUT(TRANSPOSE_FETCH)
        if (IN_FLIGHT) {
            issue_loads();
            EACH_INPUT(TRANSPOSE_STORE)
        }
#undef TRANSPOSE_REGISTERS
#undef TRANSPOSE_FETCH
#undef TRANSPOSE_STORE
    }
    __syncthreads();
    HALF(1) {
        const Same same = same_for_all(p, 0);
#pragma unroll
        for (int iteration = 0; iteration < Ordered::ITERATIONS; ++iteration) {
            // Of a vector outside the tensors, a thread computes something too, so that the iterations overlap.
#define TRANSPOSE_TAKE(k)                                                                                              \
    in##k##_c x##k[LANES];                                                                                             \
    gathered##k.take(p, IN_START(p, 0, k), tile, reach, iteration, shared##k, same.x##k, x##k);
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
#define TRANSPOSE_STORE(k) \
    transpose_store<out##k##_t, OUT##k##_SET>(p, OUT_START(p, 0, k), tile, reach, iteration, y##k);
            EACH_OUTPUT(TRANSPOSE_STORE)
#undef TRANSPOSE_STORE
        }
#if SHEAR || JOINED
        // Elements outside whole vectors, one at a time.
        for (u32 e = threadIdx.x; e < reach.ends(); e += THREADS) {
            u32 line;
            i32 column;
            if (!reach.find_end(p, tile, e, &line, &column)) continue;
#define TRANSPOSE_TAKE(k) \
    in##k##_c x##k[1] = {gathered##k.take_one(p, IN_START(p, 0, k), tile, line, column, shared##k, same.x##k)};
#define TRANSPOSE_RESULT(k) out##k##_c y##k[1];
            EACH_INPUT(TRANSPOSE_TAKE)
            EACH_OUTPUT(TRANSPOSE_RESULT)
#undef TRANSPOSE_TAKE
#undef TRANSPOSE_RESULT
            constexpr int i = 0;
            At at;
            BODY_BEGIN
            BODY_EACH(s, at, i);
            BODY_END(s, 1)
#define TRANSPOSE_STORE(k) \
    store_one<out##k##_t>(line_at<out##k##_t, OUT##k##_SET>(p, OUT_START(p, 0, k), tile, line) + column * i32(sizeof(out##k##_t)), y##k[0]);
            EACH_OUTPUT(TRANSPOSE_STORE)
#undef TRANSPOSE_STORE
        }
#endif
        let_next_begin(LATE);
    }
}
