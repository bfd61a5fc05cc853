// bulk: each input's part of a tile is loaded by one bulk copy into shared memory, so that data in flight need no registers.
// One thread issues all copies on one barrier; all threads wait, then process the tile in vectors of LANES elements in UNROLL
// iterations. LINEAR tensors are aligned to 16 bytes from element `head` on. For SHIFTED ones, which aren't, the copy includes
// the whole 16-byte units in which the tile begins and ends, and shared memory is read at the unaligned position. These units
// are inside the tensor, because the first and last elements belong to no tile. Threads load broadcast inputs (indexed.h; then
// there is no head) directly, before they wait for the copies: they come from the cache. Elements before and after the whole
// tiles are processed one by one.
//
// Bulk copies never allocate in L1. With the load hint, what they read stays in L2 (evict-last), though nobody reads it again.
// Probably these lines then replace earlier reads instead of results waiting to be written, so that results are written sooner;
// only the time was measured. On an H200 this gains 0.3 to 1.1 % of bandwidth from 256 MiB per tensor on. With the opposite,
// evict-first, copies took up to 2 % and triads 4 to 6 % longer.
//
// Without further measures, such lines would take 12 MiB of L2 away from later kernels: 16 copies of 32 to 40 MiB of cached
// data took 20 to 30 % longer, and only after some sixty of them all of L2 was available again. So the last `demoting` tiles
// are read without the hint, and each of their blocks demotes the lines of the tile `demoting` before its own. After such
// kernels, those copies took as long as usual.
//
// Threads store the results directly: with one bulk copy from shared memory, copies took an H200 at least 1 % longer and triads
// were no faster. Among direct stores, narrow ones were the fastest.
//
// Words of the form: number of elements, number of whole tiles, `demoting`; with PREFETCH the number of blocks that may have to
// wait; with HAS_HEAD the head; with SETS dimensions and strides.
// Its loop in SASS: per LINEAR input one load from shared memory; for SHIFTED inputs with elements smaller than a word, one
// load per word and one more; one store per output. Only unrolled with SETS. One bulk copy (UBLKCP) per copied input; with the
// load hint, a loop of demotions (CCTL.E.DML2). Other loads from global memory only for broadcast inputs. If launches overlap,
// at most 8 instructions from the wait to the first bulk copy.
#include "bulk_copy.h"
#include "shift.h"
#include "single.h"
#if SETS > 0
#include "indexed.h"
#endif

#if defined(__CUDA_ARCH__)
#define SHARED __shared__
#else
#define SHARED
#endif

// Whether an input is loaded by bulk copies.
constexpr __device__ bool is_copied(int kind) { return kind == LINEAR || kind == SHIFTED; }
// Bytes in shared memory of a tile with elements of `bytes` each.
constexpr __device__ u32 copied_bytes(int kind, u32 bytes) {
    return kind == LINEAR ? TILE * bytes : kind == SHIFTED ? TILE * bytes + 16 : 0;
}

// Loads LANES elements from shared memory, aligned to ALIGNED bytes.
template <typename T, int ALIGNED> __device__ __forceinline__ void take_shared(const char* from, Carrier<T>* x) {
    Row<T, LANES, 0> row;
    enum { BYTES = Row<T, LANES, 0>::BYTES, ACCESS = least(BYTES, least(ALIGNED, 16)) };
    if constexpr (ACCESS >= 4 || ACCESS == BYTES) {
#pragma unroll
        for (int b = 0; b < BYTES; b += ACCESS) load_shared<ACCESS>(from + b, row.word + b / 4);
    } else if constexpr (BYTES < 4) {
        row.word[0] = 0;
#pragma unroll
        for (int b = 0; b < BYTES; ++b) row.word[0] |= u32(reinterpret_cast<const u8*>(from)[b]) << 8 * b;
    } else {
        const u32 off = u32(reinterpret_cast<u64>(from)) & 3;
        const u32* words = reinterpret_cast<const u32*>(from - off);
#pragma unroll
        for (int w = 0; w < BYTES / 4; ++w) row.word[w] = funnel(words[w], words[w + 1], 8 * off);
    }
    row.take(x);
}

enum { EVICT_LAST = (HINT & LOAD_NO_ALLOCATE) != 0 };

// A tile: its first element, and the addresses of its inputs in shared memory.
struct Tile {
    u64 base;
#define BULK_TILE(k) u32* tile##k;
    EACH_INPUT(BULK_TILE)
#undef BULK_TILE
};

#define BULK_BYTES(k) copied_bytes(IN##k, sizeof(in##k##_t))
#define BULK_FROM(k) (IN_START(p, 0, k) + tile.base * IN_BYTES(k))
#define BULK_ALIGNED(k) (IN##k == SHIFTED ? BULK_FROM(k) & ~u64(15) : BULK_FROM(k))

#if defined(__CUDA_ARCH__)
// Waits for the previous kernel, issues the copies of the tile's inputs, and demotes the lines of an earlier tile.
__device__ __forceinline__ void issue_copies(const Parameters& p, const Tile& tile, u32 whole, u64* barrier) {
#define BULK_SUM(k) +BULK_BYTES(k)
#define BULK_COPY(k)                                                                                                   \
    if constexpr (is_copied(IN##k)) {                                                                                  \
        if constexpr (EVICT_LAST) bulk_copy(tile.tile##k, BULK_ALIGNED(k), BULK_BYTES(k), barrier, policy);            \
        else bulk_copy(tile.tile##k, BULK_ALIGNED(k), BULK_BYTES(k), barrier);                                         \
    }
#define BULK_DEMOTE(k)                                                                                                 \
    if constexpr (is_copied(IN##k))                                                                                    \
        demote(IN_START(p, 0, k) + (tile.base - u64(demoting) * TILE) * IN_BYTES(k), TILE * u32(sizeof(in##k##_t)), THREADS);
    const u32 demoting = EVICT_LAST ? u32(p.at[FORM_AT + 2]) : 0;
    const bool evict_last = EVICT_LAST && whole - blockIdx.x > demoting;
    const u64 policy = EVICT_LAST ? eviction_policy(evict_last) : 0;
    const auto prepare = [&] {
        prepare_barrier(barrier);
        expect_bytes(barrier, 0 EACH_INPUT(BULK_SUM));
        prefetch_tile(p, tile.base);
    };
    const auto copy = [&] { EACH_INPUT(BULK_COPY) };
    if constexpr (overlaps()) {
        let_next_begin(AT_START);
        // If this thread waited together with all others, the compiler would move the preparation after that wait; with a
        // separate wait, the preparation is done before.
        if (threadIdx.x == 0) {
            prepare();
            previous_has_ended();
            copy();
        }
        previous_has_ended();
        let_next_begin(EARLY);
    } else {
        if (threadIdx.x == 0) prepare();
        wait_for_previous();
        if (threadIdx.x == 0) copy();
    }
    if (EVICT_LAST && !evict_last && blockIdx.x >= demoting) {
        EACH_INPUT(BULK_DEMOTE)
    }
#undef BULK_SUM
#undef BULK_COPY
#undef BULK_DEMOTE
}
#else
// On a host, each thread has a separate copy of the tile.
__device__ __forceinline__ void issue_copies(const Parameters& p, const Tile& tile, u32, u64*) {
#define BULK_COPY(k)                                                                                                   \
    if constexpr (is_copied(IN##k))                                                                                    \
        __builtin_memcpy(tile.tile##k, reinterpret_cast<const void*>(BULK_ALIGNED(k)), BULK_BYTES(k));
    EACH_INPUT(BULK_COPY)
#undef BULK_COPY
}
#endif

// A thread's elements of inputs that aren't loaded by bulk copies: one for all, or those of every iteration.
struct Direct {
    Same same;
#if SETS > 0
#define BULK_INDEXED(k) IndexedInput<in##k##_t, is_copied(IN##k) ? UNIFORM : IN##k, IN##k##_SET, 1> held##k[UNROLL];
    EACH_INPUT(BULK_INDEXED)
#undef BULK_INDEXED
#endif

    __device__ __forceinline__ void load(const Parameters& p, u64 base) {
        same = same_for_all(p, 0);
#if SETS > 0
#define BULK_LOAD(k) held##k[u].load(p, IN_START(p, 0, k), place, spot);
#define BULK_LOAD_TURNING(k) held##k[u].load_turning(p, IN_START(p, 0, k), spot, turn);
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const Place place = Place(base) + (u * THREADS + threadIdx.x) * LANES;
            Spot spot;
            spot.find(p, place);
            EACH_INPUT(BULK_LOAD)
            if constexpr (!WHOLE_ROWS) {
                const Turn turn(p, spot);
                EACH_INPUT(BULK_LOAD_TURNING)
            }
        }
#undef BULK_LOAD
#undef BULK_LOAD_TURNING
#endif
    }
};

// The iterations over a tile whose inputs have arrived.
__device__ __forceinline__ void bulk_iterations(const Parameters& p, const Scalars& s, const Tile& tile, const Direct& direct) {
#define BULK_OUTPUT(k) const u64 to##k = OUT_START(p, 0, k) + tile.base * OUT_BYTES(k);
    EACH_OUTPUT(BULK_OUTPUT)
#undef BULK_OUTPUT
#if SETS > 0
#define BULK_DIRECT(k) direct.held##k[u].take(Turns<true>(), direct.same.x##k, x##k);
#pragma unroll
#else
#define BULK_DIRECT(k)                                                                                                 \
    for (int i = 0; i < LANES; ++i) x##k[i] = direct.same.x##k;
#pragma unroll 1
#endif
    for (u32 u = 0; u < UNROLL; ++u) {
        const u32 first = (u * THREADS + threadIdx.x) * LANES;
#define BULK_TAKE(k)                                                                                                   \
    in##k##_c x##k[LANES];                                                                                             \
    if constexpr (is_copied(IN##k)) {                                                                                  \
        const u32 shift = IN##k == SHIFTED ? u32(BULK_FROM(k)) & 15 : 0;                                               \
        const char* at = reinterpret_cast<const char*>(tile.tile##k) + shift + first * u32(sizeof(in##k##_t));         \
        take_shared<in##k##_t, IN##k == LINEAR ? 16 : int(sizeof(in##k##_t))>(at, x##k);                               \
    } else {                                                                                                           \
        BULK_DIRECT(k)                                                                                                 \
    }
#define BULK_RESULT(k) out##k##_c y##k[LANES];
        EACH_INPUT(BULK_TAKE)
        EACH_OUTPUT(BULK_RESULT)
#undef BULK_TAKE
#undef BULK_DIRECT
#undef BULK_RESULT
        BODY_BEGIN
#pragma unroll
        for (int i = 0; i < LANES; ++i) {
            At at;
            set_place(at, tile.base + first + i);
            BODY_EACH(s, at, i);
        }
        BODY_END(s, LANES)
#define BULK_STORE(k)                                                                                                  \
    Row<out##k##_t, LANES, HINT & STORE_STREAMING> row##k;                                                             \
    row##k.put(y##k);                                                                                                  \
    row##k.store(to##k + first * u32(OUT_BYTES(k)));
        EACH_OUTPUT(BULK_STORE)
#undef BULK_STORE
    }
}

__device__ __forceinline__ void bulk_tile(const Parameters& p, const Scalars& s, u64 base, u32 whole) {
#define BULK_SHARED(k) SHARED alignas(128) u32 tile##k[BULK_BYTES(k) > 0 ? BULK_BYTES(k) / 4 : 1];
#define BULK_PLACE(k) , tile##k
    SHARED alignas(8) u64 barrier;
    EACH_INPUT(BULK_SHARED)
    const Tile tile = {base EACH_INPUT(BULK_PLACE)};
#undef BULK_SHARED
#undef BULK_PLACE
    issue_copies(p, tile, whole, &barrier);
    // Load from the cache before waiting for the copies, which take longer.
    Direct direct;
    direct.load(p, base);
#if defined(__CUDA_ARCH__)
    __syncthreads();
    wait_for_bytes(&barrier);
#endif
    bulk_iterations(p, s, tile, direct);
}

// Computes the elements before and after the whole tiles.
__device__ __forceinline__ void bulk_rest(const Parameters& p, const Scalars& s, const Same& same, u64 head, u64 end, Share share) {
#if SETS > 0
#pragma unroll 1
    for (u64 place = end + share.first; place < p.at[FORM_AT]; place += share.step) indexed_one(p, s, same, Place(place));
#else
    flat_rest(p, s, same, head, end, p.at[FORM_AT], share);
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) elementwise(const __grid_constant__ Parameters p) {
    const Scalars s = scalars(p.at + SCALARS_AT);
    const u64 head = HAS_HEAD ? p.at[FORM_AT + 3 + PREFETCH] : 0;
    const u32 whole = u32(p.at[FORM_AT + 1]);
    if (blockIdx.x < whole) bulk_tile(p, s, blockIdx.x * u64(TILE) + head, whole);
    if (blockIdx.x >= apart(whole)) {
        wait_for_previous();
        bulk_rest(p, s, same_for_all(p, 0), head, u64(whole) * TILE + head, share_of_rest(whole));
    }
    let_next_begin(LATE);
}
