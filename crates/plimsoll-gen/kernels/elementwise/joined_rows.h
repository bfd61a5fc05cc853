// Tiles of whole rows of the outputs that follow each other without gaps: a tile is one piece of the outputs' memory. It is written in aligned
// vectors that cross the ends of rows, whatever the rows' length. Inputs that are contiguous along the rows are read in the same way.
#pragma once

// How many elements of a tile are inside the tensors.
struct Reach {
    u32 elements;
    // Whether a thread's vector is inside.
    __device__ __forceinline__ bool holds(int iteration) const {
        return Ordered::exists(iteration) && (ROWS_FIT || Ordered::within(iteration) < elements / LANES);
    }
    // How many elements are behind the last whole vector, and the line and the column of the e-th of them.
    __device__ __forceinline__ u32 ends() const { return ROWS_FIT ? 0 : elements % LANES; }
    __device__ __forceinline__ bool find_end(const Parameters&, const Tile&, u32 e, u32* line, i32* column) const {
        const u32 at = elements / LANES * LANES + e;
        *line = at / COLUMNS;
        *column = i32(at % COLUMNS);
        return true;
    }
};
__device__ __forceinline__ Reach find_reach(const Parameters&, const Tile& tile) { return {tile.rows * COLUMNS}; }

// An input in the order of the outputs. Vectors that come from memory are loaded before the barrier, all at once.
template <typename T, int KIND, int SET, int LINE> struct Gathered {
    // Broadcast inputs should stay in L1.
    Row<T, LANES, 0> rows[Ordered::ITERATIONS];

    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile, const Reach& reach) {
        if constexpr (KIND == INDEXED_VECTOR) {
            const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
#pragma unroll
            for (int iteration = 0; iteration < Ordered::ITERATIONS; ++iteration) {
                for (u32& word : rows[iteration].word) word = 0;
                if (reach.holds(iteration)) rows[iteration].load(from + Ordered::within(iteration) * u32(LANES * sizeof(T)));
            }
        }
    }

    // One element.
    __device__ __forceinline__ static Carrier<T> take_one(const Parameters& p, u64 start, const Tile& tile, u32 line, i32 column,
                                                          const Packed<T>* shared, Carrier<T> same) {
        if constexpr (KIND == UNIFORM) return same;
        else if constexpr (KIND == TRANSPOSED) {
            u32 word[2];
            load_shared<sizeof(T)>(reinterpret_cast<const char*>(shared) + (line * COLUMNS + column) * sizeof(T), word);
            return from_bits<T>(sizeof(T) == 8 ? u64(word[1]) << 32 | word[0] : u64(word[0]));
        } else return load_one<T>(line_at<T, SET>(p, start, tile, line) + distance_of_column<T, SET>(p, tile, column));
    }

    __device__ __forceinline__ void take(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                         const Packed<T>* shared, Carrier<T> same, Carrier<T>* x) {
        if constexpr (KIND == TRANSPOSED) {
            const Packed<T> held = shared[Ordered::exists(iteration) ? Ordered::within(iteration) : 0];
#pragma unroll
            for (int w = 0; w < Packed<T>::UNITS; ++w) rows[iteration].word[w] = held.unit[w];
        }
        if constexpr (KIND == TRANSPOSED || KIND == INDEXED_VECTOR) rows[iteration].take(x);
        else {
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                // Or the last one inside.
                const u32 at = smaller(Ordered::within(iteration) * LANES + i, reach.elements - 1);
                x[i] = take_one(p, start, tile, at / COLUMNS, i32(at % COLUMNS), shared, same);
            }
        }
    }
};

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Reach& reach, int iteration,
                                                const Carrier<T>* y) {
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
    row.store(from + Ordered::within(iteration) * u32(LANES * sizeof(T)), reach.holds(iteration));
}
