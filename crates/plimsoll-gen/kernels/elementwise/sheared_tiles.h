// Tiles of outputs whose rows don't begin at whole sectors. Each row of a tile begins up to SHEAR − 1 elements before the tile's first
// column, where the address of the first output is a multiple of SHEAR elements, up to 64 bytes. So blocks write whole sectors, except for the
// first and last ones of a row of the tensor. All outputs and all inputs with vectors have rows at the same distances from aligned vectors.
//
// A tile of a transposed input is SHEAR columns wider in shared memory. A vector of an output is shifted out of aligned accesses there.
// Elements before the first and behind the last whole vector of a row of the tensor are processed one at a time.
#pragma once
#include "shift.h"

// Where a vector lies in its tile.
struct Spot {
    i32 column;  // of its first element, from the tile's first one
    bool whole;  // all elements are in the tensors
};

// Which columns and lines of a tile are inside the tensors, and where its rows begin.
struct Reach {
    u32 lines;  // inside the tensors
    u32 phase, step;
    i32 first, last;  // columns inside the tensors, from the tile's first one; at most SHEAR before and COLUMNS behind it
    u32 vectors;      // columns at which a vector inside the tensors may begin, from the first one

    // Elements by which a line begins earlier.
    __device__ __forceinline__ u32 ahead(const Parameters& p, const Tile& tile, u32 line) const {
        if (FOLD_ROWS == 0) return phase + line * step & (SHEAR - 1);
        return phase + u32(distance_in_tile<RANK - 2>(p, OUT0_SET, tile.row_phase, i32(line), 1)) & (SHEAR - 1);
    }
    __device__ __forceinline__ Spot spot(const Parameters& p, const Tile& tile, int iteration) const {
        // SHEAR lines further, a line begins at the same column.
        const bool repeats = Ordered::WHOLE && FOLD_ROWS == 0;
        const u32 line = repeats ? Ordered::first_line() + Ordered::lines_before(iteration) % SHEAR : Ordered::line(iteration);
        Spot spot;
        spot.column = i32(Ordered::within(iteration) * LANES) - i32(ahead(p, tile, line));
        const bool exists = Ordered::exists(iteration) && (ROWS_FIT || Ordered::line(iteration) < lines);
        spot.whole = exists && u32(spot.column - first) < vectors;
        return spot;
    }
    // Of a vector in no line of the tensors, a line inside.
    __device__ __forceinline__ u32 line_inside(int iteration) const { return smaller(Ordered::line(iteration), lines - 1); }
    // How many elements may be outside whole vectors, where rows of the tensors begin or end: 2 · LANES of each line.
    __device__ __forceinline__ u32 ends() const { return LANES > 1 && (first == 0 || last < COLUMNS) ? lines * (2 * LANES) : 0; }
    // The line and the column of the e-th of them; false if the line has no such element.
    __device__ __forceinline__ bool find_end(const Parameters& p, const Tile& tile, u32 e, u32* line, i32* column) const {
        *line = e / (2 * LANES);
        const u32 which = e % (2 * LANES);
        const i32 before = i32(ahead(p, tile, *line)), k = i32(which % LANES);
        if (which < LANES) {
            *column = k;
            return first == 0 && before % LANES > 0 && k < LANES - before % LANES;
        }
        *column = last - k;
        return last < COLUMNS && k < (last + 1 + before) % LANES && last + before >= 0 && last + before < COLUMNS;
    }
    // A column, or the next one inside the tensors.
    __device__ __forceinline__ i32 inside(i32 column) const { return column > last ? last : column < first ? first : column; }
};

__device__ __forceinline__ Reach find_reach(const Parameters& p, const Tile& tile) {
    Reach reach;
    reach.lines = tile.rows;
    reach.phase = u32(OUT_START(p, 0, 0) / sizeof(out0_t) + u64(tile.offset[OUT0_SET]));
    reach.step = u32(stride(p, OUT0_SET, RANK - 2));
    const i64 left = i64(p.at[FORM_AT + 1]) - i64(tile.column);
    reach.first = tile.column < SHEAR ? -i32(tile.column) : -SHEAR;
    reach.last = i32(left <= COLUMNS ? left - 1 : COLUMNS);
    const i32 vectors = reach.last - reach.first + 2 - LANES;
    reach.vectors = vectors > 0 ? vectors : 0;
    return reach;
}

// The address of a vector of a tensor that is contiguous along the outputs' rows.
template <typename T, int SET>
__device__ __forceinline__ u64 vector_at(const Parameters& p, u64 start, const Tile& tile, int iteration, i32 column) {
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T) + i64(column * i32(sizeof(T)));
    return from + Ordered::offset<RANK - 2>(p, SET, tile.row_phase, sizeof(T), iteration);
}

// Loads a thread's pieces of a tile of a transposed input: one line per index of the fastest dimension, each contiguous along the second
// fastest. Columns outside the tensor are replaced by one inside.
template <typename T, int SET, int LINE, typename R>
__device__ __forceinline__ void fetch(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, R (*lines)[LANES]) {
    typedef Passage<sizeof(T), LINE> Way;
    typedef typename Way::All All;
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
    const u32 pieces = ROWS_FIT ? Way::PER_LINE : (tile.rows + LINE - 1) / LINE;
#pragma unroll
    for (int iteration = 0; iteration < All::ITERATIONS; ++iteration) {
        const u64 piece = from + smaller(All::within(iteration), pieces - 1) * u32(LINE * sizeof(T));
        const i32 column = reach.inside(i32(All::line(iteration) * LANES) - SHEAR), left = reach.last - column;
        const u64 first = piece + distance_of_column<T, SET>(p, tile, column);
        lines[iteration][0].load(first);
#pragma unroll
        for (int j = 1; j < LANES; ++j) {
            const i32 behind = j < left ? j : left;
            if (FOLD_COLUMNS > 0) lines[iteration][j].load(piece + distance_of_column<T, SET>(p, tile, column + behind));
            else lines[iteration][j].load(first + distance(p, SET, RANK - 1, behind * i32(sizeof(T))));
        }
    }
}

// An input in the order of the outputs. Vectors that come from memory are loaded before the barrier, all at once.
template <typename T, int KIND, int SET, int LINE> struct Gathered {
    enum { BYTES = LANES * int(sizeof(T)), WORDS_EACH = words_of(sizeof(T)) };
    static_assert(BYTES <= 16 || LANES == 1, "a vector is one access");
    Row<T, LANES, 0> rows[Ordered::ITERATIONS];

    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile, const Reach& reach) {
        if constexpr (KIND == INDEXED_VECTOR) {
#pragma unroll
            for (int iteration = 0; iteration < Ordered::ITERATIONS; ++iteration) {
                const Spot spot = reach.spot(p, tile, iteration);
                for (u32& word : rows[iteration].word) word = 0;
                if (spot.whole) rows[iteration].load(vector_at<T, SET>(p, start, tile, iteration, spot.column));
            }
        }
    }

    // One element.
    __device__ __forceinline__ static Carrier<T> take_one(const Parameters& p, u64 start, const Tile& tile, u32 line, i32 column,
                                                          const Packed<T>* shared, Carrier<T> same) {
        if constexpr (KIND == UNIFORM) return same;
        else if constexpr (KIND == TRANSPOSED) {
            Carrier<T> x;
            take_from(shared + Passage<sizeof(T), LINE>::row_at(line), u32(column + SHEAR), &x, 1);
            return x;
        } else {
            const u64 first = line_at<T, SET>(p, start, tile, line);
            return load_one<T>(first + distance_of_column<T, SET>(p, tile, column));
        }
    }
    // Elements of a line of a transposed input, one at a time.
    __device__ __forceinline__ static void take_from(const Packed<T>* row, u32 at, Carrier<T>* x, int count) {
        typedef typename Unit<sizeof(T)>::type Element;
        const Element* from = reinterpret_cast<const Element*>(row) + at * WORDS_EACH;
#pragma unroll
        for (int i = 0; i < count; ++i) {
            Row<T, 1, 0> one;
#pragma unroll
            for (int w = 0; w < WORDS_EACH; ++w) one.word[w] = from[i * WORDS_EACH + w];
            one.take(x + i);
        }
    }

    // The elements of a vector of a transposed input.
    __device__ __forceinline__ static void take_shared(const Packed<T>* shared, const Spot& spot, int iteration, Carrier<T>* x) {
        typedef Passage<sizeof(T), LINE> Way;
        const bool exists = Ordered::exists(iteration);
        const u32 at = exists ? u32(spot.column + SHEAR) : 0;
        const Packed<T>* row = exists ? Way::row_of_piece(shared, iteration) : shared;
#if !defined(__CUDA_ARCH__)
        if (row - shared + at / LANES >= Way::HELD) __builtin_trap();
#endif
        if constexpr (LANES == 1 || BYTES < 4) {
            take_from(row, at, x, LANES);
        } else {
            // The vector after the last one of a row is there too, but no element of it is used.
            const Packed<T>* from = row + at / LANES;
            ShiftedRow<T, LANES> two;
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                const Packed<T> vector = from[v];
#pragma unroll
                for (int w = 0; w < Packed<T>::UNITS; ++w) two.word[v * Packed<T>::UNITS + w] = vector.unit[w];
            }
            two.take(at % LANES * sizeof(T), x);
        }
    }

    __device__ __forceinline__ void take(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                         const Packed<T>* shared, Carrier<T> same, Carrier<T>* x) {
        const Spot spot = reach.spot(p, tile, iteration);
        if constexpr (KIND == TRANSPOSED) take_shared(shared, spot, iteration, x);
        else if constexpr (KIND == INDEXED_VECTOR) rows[iteration].take(x);
        else {
            const u64 line = line_at<T, SET>(p, start, tile, reach.line_inside(iteration));
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if (KIND == UNIFORM) x[i] = same;
                else if (KIND == INDEXED_SPLAT && i > 0) x[i] = x[0];
                else x[i] = load_one<T>(line + distance_of_column<T, SET>(p, tile, reach.inside(spot.column + i)));
            }
        }
    }
};

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                                const Carrier<T>* y) {
    const Spot spot = reach.spot(p, tile, iteration);
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    row.store(vector_at<T, SET>(p, start, tile, iteration, spot.column), spot.whole);
}
