// Tiles whose vectors of LANES elements are aligned in all tensors that are contiguous along the outputs' rows.
#pragma once

// Which of a thread's vectors in the order of the outputs are inside the tensors.
typedef Inside<Ordered, ROWS_FIT, COLUMNS_FIT, UNROLL> Reach;
__device__ __forceinline__ Reach find_reach(const Parameters&, const Tile& tile) { return Reach(tile.rows, tile.columns / LANES); }

// An input in the order of the outputs. Vectors that come from memory are loaded before the barrier, all at once.
template <typename T, int KIND, int SET, int LINE> struct Gathered {
    // Broadcast inputs should stay in L1.
    Row<T, LANES, 0> rows[Ordered::ITERATIONS];

    __device__ __forceinline__ void load(const Parameters& p, u64 start, const Tile& tile,
                                         const Reach& inside) {
        if constexpr (KIND == INDEXED_VECTOR) {
            const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
            const auto along = [](u32 within) { return within * u32(LANES * sizeof(T)); };
            const Places<Ordered, Reach, RANK - 2> places(p, SET, tile.row_phase, sizeof(T), from, inside, along);
#pragma unroll
            for (int iteration = 0; iteration < Ordered::ITERATIONS; ++iteration)
                rows[iteration].load(places.at(p, SET, sizeof(T), inside, iteration, along));
        }
    }

    __device__ __forceinline__ void take(const Parameters& p, u64 start, const Tile& tile, const Reach& inside,
                                         int iteration, const typename Held<T, KIND, LINE>::Item* shared, Carrier<T> same, Carrier<T>* x) {
        if constexpr (KIND == DENSE) {
            DenseLines<sizeof(T), LINE>::template take<T>(shared, iteration, x);
            return;
        }
        if constexpr (KIND == TRANSPOSED) {
            const Packed<T> held = Passage<sizeof(T), LINE>::vector_of_piece(shared, iteration);
#pragma unroll
            for (int w = 0; w < Packed<T>::UNITS; ++w) rows[iteration].word[w] = held.unit[w];
        }
        if constexpr (KIND == TRANSPOSED || KIND == INDEXED_VECTOR) rows[iteration].take(x);
        else {
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if constexpr (KIND == UNIFORM) x[i] = same;
                else {
                    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
                    const auto along = [&](u32 within) {
                        return distance_in_tile<RANK - 1>(p, SET, tile.column_phase, i32(within * LANES) + i, sizeof(T));
                    };
                    const Places<Ordered, Reach, RANK - 2> places(p, SET, tile.row_phase, sizeof(T), from, inside, along);
                    x[i] = load_one<T>(places.at(p, SET, sizeof(T), inside, iteration, along));
                }
            }
        }
    }
};

template <typename T, int SET>
__device__ __forceinline__ void transpose_store(const Parameters& p, u64 start, const Tile& tile, const Reach& inside,
                                                int iteration, const Carrier<T>* y) {
    Row<T, LANES, HINT & STORE_STREAMING> row;
    row.put(y);
    // Outputs are contiguous along their rows.
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T) + Ordered::within(iteration) * u32(LANES * sizeof(T));
    row.store(from + Ordered::offset<RANK - 2>(p, SET, tile.row_phase, sizeof(T), iteration), inside.holds(iteration));
}
