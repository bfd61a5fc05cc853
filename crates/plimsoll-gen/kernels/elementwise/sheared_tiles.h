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
    u32 line;     // of a vector in no line of the tensors, that of one inside
    i32 column;   // of its first element, from the tile's first one
    bool exists;  // in a line of the tensors
    bool whole;   // all elements are in the tensors
};

// Which columns and lines of a tile are inside the tensors, and where its rows begin.
struct Reach {
    u32 lines, phase, step;
    i32 first, last;  // columns inside the tensors, from the tile's first one; at most SHEAR before and COLUMNS behind it

    __device__ __forceinline__ Spot spot(int iteration) const {
        const u32 place = Ordered::line(iteration);
        Spot spot;
        spot.exists = Ordered::exists(iteration) && (ROWS_FIT || place < lines);
        spot.line = place < lines ? place : lines - 1;
        spot.column = i32(Ordered::within(iteration) * LANES) - i32(phase + spot.line * step & (SHEAR - 1));
        spot.whole = spot.exists && spot.column >= first && spot.column + (LANES - 1) <= last;
        return spot;
    }
    // Whether rows of the tensors begin or end in this tile, with less than a whole vector.
    __device__ __forceinline__ bool has_ends() const { return LANES > 1 && (first == 0 || last < COLUMNS); }
    // The column of element `which` of the 2 · LANES that a line may have outside whole vectors; false if it has no such element here.
    __device__ __forceinline__ bool find_at_ends(u32 line, u32 which, i32* column) const {
        const i32 ahead = i32(phase + line * step & (SHEAR - 1)), k = i32(which % LANES);
        if (which < LANES) {
            *column = k;
            return first == 0 && ahead % LANES > 0 && k < LANES - ahead % LANES;
        }
        *column = last - k;
        return last < COLUMNS && k < (last + 1 + ahead) % LANES && last + ahead >= 0 && last + ahead < COLUMNS;
    }
    // A column, or the next one inside the tensors; and its offset in bytes.
    __device__ __forceinline__ i32 inside(i32 column) const { return column > last ? last : column < first ? first : column; }
    template <int BYTES> __device__ __forceinline__ i32 bytes_inside(i32 column) const {
        const i32 bytes = column * BYTES, least = first * BYTES, most = last * BYTES, low = bytes < most ? bytes : most;
        return low > least ? low : least;
    }
};

__device__ __forceinline__ Reach find_reach(const Parameters& p, const Tile& tile) {
    Reach reach;
    reach.lines = tile.rows;
    reach.phase = u32(OUT_START(p, 0, 0) / sizeof(out0_t) + u64(tile.offset[OUT0_SET]));
    reach.step = u32(stride(p, OUT0_SET, RANK - 2));
    const i64 left = i64(p.at[FORM_AT + 1]) - i64(tile.column);
    reach.first = tile.column < SHEAR ? -i32(tile.column) : -SHEAR;
    reach.last = i32(left <= COLUMNS ? left - 1 : COLUMNS);
    return reach;
}

// The distance in bytes of a column, or of the next one inside the tensors, from the tile's first one.
template <typename T, int SET>
__device__ __forceinline__ i64 distance_inside(const Parameters& p, const Tile& tile, const Reach& reach, i32 column) {
    if constexpr (FOLD_COLUMNS > 0)
        return distance_in_tile<RANK - 1>(p, SET, tile.column_phase, reach.inside(column), sizeof(T));
    else return distance(p, SET, RANK - 1, reach.template bytes_inside<sizeof(T)>(column));
}

// The address of a line of a tensor whose tile begins at `from`, and that of an element of a line that is contiguous.
template <typename T, int SET> __device__ __forceinline__ u64 line_at(const Parameters& p, u64 from, u32 line) {
    return from + distance(p, SET, RANK - 2, line * u32(sizeof(T)));
}
template <typename T, int SET> __device__ __forceinline__ u64 address(const Parameters& p, u64 from, u32 line, i32 column) {
    return line_at<T, SET>(p, from, line) + i64(column * i32(sizeof(T)));
}

// Loads a tile of a transposed input: one line per index of the fastest dimension, each contiguous along the second fastest. Columns
// outside the tensor are replaced by one inside.
template <typename T, int SET, int LINE>
__device__ __forceinline__ void fetch(const Parameters& p, u64 start, const Tile& tile, Packed<T>* shared) {
    typedef Passage<sizeof(T), LINE> Way;
    typedef typename Way::All All;
    const Reach reach = find_reach(p, tile);
    Row<T, LINE, HINT & LOAD_NO_ALLOCATE> lines[All::ITERATIONS][LANES];
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
    const u32 pieces = (tile.rows + LINE - 1) / LINE;
#pragma unroll
    for (int iteration = 0; iteration < All::ITERATIONS; ++iteration) {
        const u32 within = All::within(iteration) < pieces ? All::within(iteration) : pieces - 1;
        const i32 column = i32(All::line(iteration) * LANES) - SHEAR;
#pragma unroll
        for (int j = 0; j < LANES; ++j) {
            const u64 line = from + distance_inside<T, SET>(p, tile, reach, column + j);
            lines[iteration][j].load(line + within * u32(LINE * sizeof(T)));
        }
    }
#pragma unroll
    for (int iteration = 0; iteration < All::ITERATIONS; ++iteration) {
        store_turned<All, LINE>(lines[iteration], iteration, shared);
    }
}

// An input in the order of the outputs. Vectors that come from memory are loaded before the barrier, all at once.
template <typename T, int KIND, int SET, int LINE> struct Gathered {
    enum { BYTES = LANES * int(sizeof(T)), WORDS_EACH = words_of(sizeof(T)) };
    static_assert(BYTES <= 16 || LANES == 1, "a vector is one access");
    Row<T, LANES, 0> rows[Ordered::ITERATIONS];

    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile, const Reach& reach) {
        if constexpr (KIND != INDEXED_VECTOR) return;
        const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
#pragma unroll
        for (int iteration = 0; iteration < Ordered::ITERATIONS; ++iteration) {
            const Spot spot = reach.spot(iteration);
            for (u32& word : rows[iteration].word) word = 0;
            if (spot.whole) rows[iteration].load(address<T, SET>(p, from, spot.line, spot.column));
        }
    }

    // One element.
    __device__ __forceinline__ static Carrier<T> take_one(const Parameters& p, u64 start, const Tile& tile, u32 line, i32 column,
                                                          const Packed<T>* shared, Carrier<T> same) {
        if constexpr (KIND == UNIFORM) return same;
        else if constexpr (KIND == TRANSPOSED) {
            Carrier<T> x;
            take_from(shared, line, u32(column + SHEAR), &x, 1);
            return x;
        } else {
            const u64 first = line_at<T, SET>(p, start + u64(tile.offset[SET]) * sizeof(T), line);
            return load_one<T>(first + distance_in_tile<RANK - 1>(p, SET, tile.column_phase, column, sizeof(T)));
        }
    }
    // Elements of a line of a transposed input, one at a time.
    __device__ __forceinline__ static void take_from(const Packed<T>* shared, u32 line, u32 ahead, Carrier<T>* x, int count) {
        typedef typename Unit<sizeof(T)>::type Element;
        const Element* from = reinterpret_cast<const Element*>(shared + Passage<sizeof(T), LINE>::row_at(line)) + ahead * WORDS_EACH;
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
        const u32 ahead = Ordered::exists(iteration) ? u32(spot.column + SHEAR) : 0;
        const u32 row = Passage<sizeof(T), LINE>::row_at(spot.line);
#if !defined(__CUDA_ARCH__)
        if (row + ahead / LANES >= u32(Passage<sizeof(T), LINE>::HELD)) __builtin_trap();
#endif
        if constexpr (LANES == 1 || BYTES < 4) {
            take_from(shared, spot.line, ahead, x, LANES);
        } else {
            // The vector after the last one of a row is there too, but no element of it is used.
            const Packed<T>* from = shared + row + ahead / LANES;
            ShiftedRow<T, LANES> two;
#pragma unroll
            for (int v = 0; v < 2; ++v) {
                const Packed<T> vector = from[v];
#pragma unroll
                for (int w = 0; w < Packed<T>::UNITS; ++w) two.word[v * Packed<T>::UNITS + w] = vector.unit[w];
            }
            two.take(ahead % LANES * sizeof(T), x);
        }
    }

    __device__ __forceinline__ void take(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                         const Packed<T>* shared, Carrier<T> same, Carrier<T>* x) {
        const Spot spot = reach.spot(iteration);
        if constexpr (KIND == TRANSPOSED) take_shared(shared, spot, iteration, x);
        else if constexpr (KIND == INDEXED_VECTOR) rows[iteration].take(x);
        else {
            const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if (KIND == UNIFORM) x[i] = same;
                else if (KIND == INDEXED_SPLAT && i > 0) x[i] = x[0];
                else x[i] = load_one<T>(line_at<T, SET>(p, from, spot.line) + distance_inside<T, SET>(p, tile, reach, spot.column + i));
            }
        }
    }
};

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                                const Carrier<T>* y) {
    const Spot spot = reach.spot(iteration);
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    row.store(address<T, SET>(p, start + u64(tile.offset[SET]) * sizeof(T), spot.line, spot.column), spot.whole);
}

template <typename T, int SET>
__device__ __forceinline__ void store_one_at(const Parameters& p, u64 start, const Tile& tile, u32 line, i32 column, Carrier<T> y) {
    store_one<T>(address<T, SET>(p, start + u64(tile.offset[SET]) * sizeof(T), line, column), y);
}
