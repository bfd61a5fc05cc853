// Pieces of lines in tiles whose rows aren't sheared: which of them are inside the tensors, their addresses, and loads of transposed inputs.
#pragma once

// Which pieces of a thread are inside the tensors: those of the first `lines` lines, and the first `along` of each line. LINES_FIT and
// ALONG_FITS: these are all of the tile.
template <typename All, bool LINES_FIT, bool ALONG_FITS, int PER_LINE> struct Inside {
    // The same for all iterations of a thread.
    enum { ALWAYS = All::WHOLE && All::SPLIT == 1 && LINES_FIT && int(All::LINES) % int(All::STEP) == 0 };
    u32 lines, along;
    int left;  // lines from the first iteration's on; 0 for a thread without pieces
    __device__ __forceinline__ Inside(u32 lines_inside, u32 along_inside)
        : lines(LINES_FIT ? u32(All::LINES) : lines_inside), along(ALONG_FITS ? u32(PER_LINE) : along_inside) {
        const bool busy = int(All::BUSY) == THREADS || threadIdx.x < u32(All::BUSY);
        left = busy && (ALONG_FITS || All::within(0) < along) ? int(lines) - int(All::first_line()) : 0;
    }
    __device__ __forceinline__ bool holds(int iteration) const {
        if (ALWAYS && ALONG_FITS && int(All::BUSY) == THREADS) return true;
        if (ALWAYS) return left > 0;
        if (All::WHOLE && All::SPLIT == 1) return int(All::lines_before(iteration)) < left;
        return All::exists(iteration) && (LINES_FIT || All::line(iteration) < lines) &&
               (ALONG_FITS || All::within(iteration) < along);
    }
    // The line of a piece and its place within the line; of a piece outside the tensors, those of one inside.
    __device__ __forceinline__ u32 line(int iteration) const { return smaller(All::line(iteration), lines - 1); }
    __device__ __forceinline__ u32 within(int iteration) const { return smaller(All::within(iteration), along - 1); }
};

// Addresses of a thread's pieces of a tensor whose tile begins at `from`, lines along dimension D. Of a piece outside the tensors it is an
// address inside, so that loads need no branch. `Along(within)` returns the bytes between the start of a line and its piece `within`.
//
// Lines and places are limited before they are multiplied: of `inside ? product : 0` in 64 bits, ptxas 13.0 makes two instructions with
// opposite predicates, and lets the sum that follows read the 0 one cycle before it is written. (`cargo xtask sass` refuses such kernels.)
// Lines of a folded dimension have no constant distances.
template <typename All, typename Limits, int D> struct Places {
    enum { CLAMPS = All::WHOLE && All::SPLIT == 1 && fold(D) == 0 };
    u64 first;
    u32 last, phase;
    template <typename Along>
    __device__ __forceinline__ Places(const Parameters& p, int set, u32 phase_of_tile, u32 factor, u64 from, const Limits& inside, Along along)
        : phase(phase_of_tile) {
        // Without limits in `at`, a thread without pieces takes the line of one with pieces.
        const u32 most = Limits::ALWAYS ? u32(All::STEP) - 1 : inside.lines - 1;
        first = from;
        if (CLAMPS) first += along(inside.within(0)) + distance(p, set, D, smaller(All::first_line(), most) * factor);
        last = inside.left > 0 ? (inside.left - 1) * factor : 0;
#if defined(__CUDA_ARCH__)
        // Otherwise the compiler decides for every iteration again.
        asm("" : "+l"(first));
        if (!Limits::ALWAYS) asm("" : "+r"(last));
#endif
    }
    template <typename Along>
    __device__ __forceinline__ u64 at(const Parameters& p, int set, u32 factor, const Limits& inside, int iteration, Along along) const {
        if constexpr (CLAMPS) {
            const u32 before = All::lines_before(iteration) * factor;
            return first + distance(p, set, D, Limits::ALWAYS || before < last ? before : last);
        }
        return first + along(inside.within(iteration)) + distance_in_tile<D>(p, set, phase, i32(inside.line(iteration)), factor);
    }
};

// Loads a thread's pieces of a tile of a transposed input: one line per index of the fastest dimension, each contiguous along the second
// fastest.
template <typename T, int SET, int LINE, typename Reach, typename R>
__device__ __forceinline__ void fetch(const Parameters& p, u64 start, const Tile& tile, const Reach&, R (*lines)[TOGETHER]) {
    typedef Passage<sizeof(T), LINE> Way;
    typedef typename Way::All All;
    typedef Inside<All, COLUMNS_FIT, ROWS_FIT, Way::PER_LINE> Limits;
    const u64 from = start + u64(tile.offset[SET]) * sizeof(T);
    const Limits inside(tile.columns / TOGETHER, (tile.rows + LINE - 1) / LINE);
    const auto along = [](u32 within) { return within * u32(LINE * sizeof(T)); };
    const Places<All, Limits, RANK - 1> places(p, SET, tile.column_phase, TOGETHER * sizeof(T), from, inside, along);
#pragma unroll
    for (int iteration = 0; iteration < All::ITERATIONS; ++iteration) {
        if constexpr (FOLD_COLUMNS > 0) {
            const u64 piece = from + along(inside.within(iteration));
            const i32 first = i32(inside.line(iteration) * TOGETHER);
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j)
                lines[iteration][j].load(piece + distance_in_tile<RANK - 1>(p, SET, tile.column_phase, first + j, sizeof(T)));
        } else {
            const u64 piece = places.at(p, SET, TOGETHER * sizeof(T), inside, iteration, along);
#pragma unroll
            for (int j = 0; j < TOGETHER; ++j) lines[iteration][j].load(piece + distance(p, SET, RANK - 1, j * sizeof(T)));
        }
    }
}
