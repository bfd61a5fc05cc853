// How tiles of transposed inputs lie in shared memory, and how a thread stores what it loaded of one.
#pragma once
#if JOINED
// How an input with elements of BYTES, whose lines are loaded in vectors of LINE, lies in shared memory: in the outputs' order, without gaps.
template <int BYTES, int LINE> struct Passage {
    enum { PER_LINE = ROWS / LINE, HELD = ROWS * COLUMNS / LANES };
    // Neighbouring pieces of a line are stored APART bytes apart. If that is a multiple of several banks, a warp has pieces of as many lines, so
    // that its stores use different banks, but of at most 16, so that two threads or more read each line. joined.rs has the same numbers.
    enum { APART = LINE * COLUMNS * BYTES, BANK = 4, MOST_LINES = least(COLUMNS, 16) };
    constexpr __device__ static int lines(int count) {
        return 2 * count <= MOST_LINES && APART % (2 * BANK * count) == 0 ? lines(2 * count) : count;
    }
    typedef Pieces<COLUMNS, PER_LINE, lines(1)> All;
};

// Stores a piece of a line to shared memory, one element at a time.
template <typename All, int LINE, typename T, typename R>
__device__ __forceinline__ void store_piece(const R* lines, int iteration, Packed<T>* shared) {
    enum { BYTES = int(sizeof(T)), PER_WORD = BYTES < 4 ? 4 / BYTES : 1, WORDS_EACH = words_of(BYTES) };
    char* to = reinterpret_cast<char*>(shared) + (All::within(iteration) * u32(LINE * COLUMNS) + All::line(iteration)) * BYTES;
#pragma unroll
    for (int i = 0; i < LINE; ++i) {
        const u32* held = lines->word + i / PER_WORD * WORDS_EACH;
        const u32 first = held[0] >> i % PER_WORD * (8 * BYTES % 32), words[2] = {first, held[WORDS_EACH - 1]};
        store_shared<BYTES>(to + i * COLUMNS * BYTES, words, All::exists(iteration));
    }
}
#else
// The smallest power of two that is at least n, up to 32.
constexpr __device__ int covering(int n) { return n <= 1 ? 1 : n <= 2 ? 2 : n <= 4 ? 4 : n <= 8 ? 8 : n <= 16 ? 16 : 32; }

// How an input with elements of BYTES, whose lines are loaded in vectors of LINE, lies in shared memory.
template <int BYTES, int LINE> struct Passage {
    enum { PER_LINE = ROWS / LINE };
    typedef Pieces<WIDTH, PER_LINE> All;
    // Vectors that fill one bank, and those that fill all; of the latter, how many are in different columns.
    enum { VECTOR = least(LANES * BYTES, 16), BANK = VECTOR < 4 ? 4 / VECTOR : 1, BANKS = 128 / VECTOR };
    enum { COLUMNS_AT_ONCE = least(BANKS, 32) / least(covering(PER_LINE), BANKS) };
    // The rows of neighbouring pieces are an odd multiple of APART vectors apart, because GAP vectors follow LINE rows. A warp's stores then use
    // different banks if PER_LINE is a power of two, else up to three of them the same.
    enum { APART = COLUMNS_AT_ONCE > BANK ? COLUMNS_AT_ONCE : BANK, GAP = (APART - LINE * WIDTH) & (2 * APART - 1) };
    // Of sheared tiles, a vector after the last one is read too.
    enum { HELD = ROWS * WIDTH + PER_LINE * GAP + (SHEAR > 0) };
    // Index of the first vector of row `row` of the outputs.
    constexpr __device__ static u32 row_at(u32 row) { return row * WIDTH + row / LINE * GAP; }
    // The row of a thread's vector of one iteration in the order of the outputs.
    template <typename V> __device__ __forceinline__ static const V* row_of_piece(const V* shared, int iteration) {
        if (!Ordered::WHOLE || (GAP > 0 && Ordered::STEP % LINE != 0)) return shared + row_at(Ordered::line(iteration));
        // The latter is a constant.
        return shared + row_at(Ordered::first_line()) + row_at(Ordered::lines_before(iteration));
    }
    // This vector; any one for a piece outside the tile.
    template <typename V> __device__ __forceinline__ static V vector_of_piece(const V* shared, int iteration) {
        if (!Ordered::exists(iteration)) return shared[0];
        const V* vector = row_of_piece(shared + Ordered::within(iteration), iteration);
#if !defined(__CUDA_ARCH__)
        // A host's compiler leaves out loads whose results aren't stored, and with them the check of their addresses.
        if (vector - shared >= HELD) __builtin_trap();
#endif
        return *vector;
    }
};

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

// Stores a piece of LANES lines to shared memory, in the order of the outputs.
template <typename All, int LINE, typename T, typename R>
__device__ __forceinline__ void store_piece(const R* lines, int iteration, Packed<T>* shared) {
    if (!All::exists(iteration)) return;
    Packed<T>* row = shared + Passage<sizeof(T), LINE>::row_at(All::within(iteration) * LINE) + All::line(iteration);
#pragma unroll
    for (int i = 0; i < LINE; ++i) row[i * WIDTH] = turned<T>(lines, i);
}
#endif
