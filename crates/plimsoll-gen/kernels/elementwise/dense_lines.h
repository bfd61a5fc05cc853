// Dense lines: the lines of a transposed input follow each other without gaps, and a tile has whole lines. So a tile of the input is one
// piece of memory, which is loaded in vectors of VECTOR elements whatever the lengths of the lines, and stored to shared memory in the same
// order. Threads read single elements from there.
//
// In shared memory, GROUP_BYTES are an odd number of 16-byte units apart, so that eight vectors of the outputs begin in different banks. With
// several lines at once (Ordered), a warp's reads then hardly share banks.
#pragma once

template <int BYTES, int VECTOR> struct DenseLines {
    enum { GROUP_COLUMNS = LANES * BYTES < 16 ? 16 / BYTES : LANES, GROUP_BYTES = GROUP_COLUMNS * ROWS * BYTES };
    enum { GAP = GROUP_BYTES / 16 % 2 == 0 ? 16 : 0, LINE_BYTES = ROWS * BYTES, VECTOR_BYTES = VECTOR * BYTES };
    enum { HELD = (COLUMNS + GROUP_COLUMNS - 1) / GROUP_COLUMNS * (GROUP_BYTES + GAP) };
    enum { ITERATIONS = (COLUMNS * LINE_BYTES + VECTOR_BYTES * THREADS - 1) / (VECTOR_BYTES * THREADS) };
    struct alignas(16) Quad { char byte[16]; };

    // Where a thread's vector of one iteration is in a tile.
    __device__ __forceinline__ static u32 place(int iteration) { return (threadIdx.x + iteration * THREADS) * VECTOR_BYTES; }
    __device__ __forceinline__ static u32 bytes(u32 columns) { return (COLUMNS_FIT ? u32(COLUMNS) : columns) * LINE_BYTES; }

    // Loads a thread's vectors of a tile of `columns` lines.
    template <typename Load> __device__ __forceinline__ static void fetch(u64 from, u32 columns, Load* held) {
#pragma unroll
        for (int iteration = 0; iteration < ITERATIONS; ++iteration)
            held[iteration].load(from + (place(iteration) < bytes(columns) ? place(iteration) : 0));
    }
    template <typename Load> __device__ __forceinline__ static void store(u32 columns, const Load* held, Quad* shared) {
#pragma unroll
        for (int iteration = 0; iteration < ITERATIONS; ++iteration) {
            const u32 at = place(iteration);
            store_shared<VECTOR_BYTES>(shared->byte + at + at / GROUP_BYTES * GAP, held[iteration].word, at < bytes(columns));
        }
    }

    // The thread's elements of one iteration in the order of the outputs; any ones for a piece outside the tile.
    template <typename T> __device__ __forceinline__ static void take(const Quad* shared, int iteration, Carrier<T>* x) {
        // Of a piece outside the tile, the nearest one inside. With a condition instead, the compiler writes the code after it twice.
        enum { LINES_FIT = ROWS % Ordered::STEP == 0 && Ordered::BUSY == THREADS && Ordered::WHOLE };
        const u32 row = LINES_FIT ? Ordered::line(iteration) : smaller(Ordered::line(iteration), ROWS - 1);
        const u32 within = Ordered::SPLIT > 1 ? smaller(Ordered::within(iteration), UNROLL - 1) : Ordered::within(iteration);
        const char* line = shared->byte + within * (LANES * LINE_BYTES) + within / (GROUP_COLUMNS / LANES) * GAP + row * BYTES;
#if !defined(__CUDA_ARCH__)
        // A host's compiler leaves out loads whose results aren't stored, and with them the check of their addresses.
        if (line + (LANES - 1) * LINE_BYTES + BYTES > shared->byte + HELD) __builtin_trap();
#endif
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            u32 word[2];
            load_shared<BYTES>(line + i * LINE_BYTES, word);
            x[i] = from_bits<T>(BYTES == 8 ? u64(word[1]) << 32 | word[0] : u64(word[0]));
        }
    }
};
