// Indexing by coordinates for tensors that are broadcast, pitched or strided. Coordinates come from divisions, done by
// multiplication and shift. The coordinates of a vector's first element determine the others: with WHOLE_ROWS they are in its row, else
// those behind the row's end are in the next one (Turn).
//
// Words from DIMENSIONS_AT on: for each dimension its extent, magic number and shift; for each set of strides the strides, then the
// change of an offset when a dimension advances and the next faster one returns to 0.
#pragma once
#include "same.h"
#include "shift.h"

#if INDEX_BITS == 32
typedef u32 Place;
typedef i32 Offset;
#else
typedef u64 Place;
typedef i64 Offset;
#endif

enum { STRIDES_AT = DIMENSIONS_AT + 3 * RANK, KEPT = SETS > 0 ? SETS : 1 };
enum { COORDINATES = SETS > 0 || NEEDS_COORDINATES };

__device__ __forceinline__ Place extent(const Parameters& p, int d) { return Place(p.at[DIMENSIONS_AT + 3 * d]); }
__device__ __forceinline__ Place stride(const Parameters& p, int set, int d) {
    return Place(p.at[STRIDES_AT + 2 * RANK * set + d]);
}
__device__ __forceinline__ Place step(const Parameters& p, int set, int d) {
    return Place(p.at[STRIDES_AT + 2 * RANK * set + RANK + d]);
}

// n divided by the extent of a dimension.
__device__ __forceinline__ Place quotient(const Parameters& p, Place n, int d) {
    const u64 magic = p.at[DIMENSIONS_AT + 3 * d + 1];
    const u32 shift = u32(p.at[DIMENSIONS_AT + 3 * d + 2]);
#if INDEX_BITS == 32
    return Place(u64(n) * u32(magic) >> shift);
#else
#if defined(__CUDA_ARCH__)
    const u64 upper = __umul64hi(n, magic);
#else
    const u64 upper = u64((unsigned __int128)n * magic >> 64);
#endif
    return extent(p, d) == 1 ? n : upper >> shift;
#endif
}

// An element's coordinates, and its offset from the first element for each set of strides. Intermediate offsets may wrap.
struct Spot {
    Place at[RANK > 0 ? RANK : 1];
    Place offset[KEPT];

    __device__ __forceinline__ void find(const Parameters& p, Place place) {
        Place rest = place;
#pragma unroll
        for (int d = RANK - 1; d > 0; --d) {
            const Place slower = quotient(p, rest, d);
            at[d] = rest - slower * extent(p, d);
            rest = slower;
        }
        at[0] = rest;
#pragma unroll
        for (int set = 0; set < SETS; ++set) {
            offset[set] = 0;
#pragma unroll
            for (int d = 0; d < RANK; ++d) offset[set] += at[d] * stride(p, set, d);
        }
    }
    // Advances by one along dimension FROM, to the next element or the same place of the next row.
    template <int FROM = RANK - 1> __device__ __forceinline__ void advance(const Parameters& p) {
        bool carries = true;
#pragma unroll
        for (int d = FROM; d >= 0; --d) {
            if (!carries) break;
            ++at[d];
#pragma unroll
            for (int set = 0; set < SETS; ++set) offset[set] += d == FROM ? stride(p, set, d) : step(p, set, d);
            carries = d > 0 && at[d] == extent(p, d);
            if (carries) at[d] = 0;
        }
    }
    template <typename A> __device__ __forceinline__ void tell(A& to, Place place) const {
#if NEEDS_PLACE
        to.place = i64(place);
#endif
#if NEEDS_COORDINATES
#pragma unroll
        for (int d = 0; d < RANK; ++d) to.coordinate[d] = i64(at[d]);
#endif
    }
};

// How a vector crosses the end of a row: the elements before it, and how far the offsets jump there. The plan ensures that rows have at
// least LANES elements.
struct Turn {
    int left;
    bool goes_on;  // the row holds the next vector too
    Place jump[KEPT];

    __device__ __forceinline__ Turn(const Parameters& p, const Spot& spot) {
        const Place rest = extent(p, RANK - 1) - spot.at[RANK - 1];
        left = rest < LANES ? int(rest) : LANES;
        goes_on = rest >= 2 * LANES;
#pragma unroll
        for (int set = 0; set < SETS; ++set) jump[set] = 0;
        bool carries = true;
#pragma unroll
        for (int d = RANK - 2; d >= 0; --d) {
            if (!carries) break;
#pragma unroll
            for (int set = 0; set < SETS; ++set) jump[set] += step(p, set, d);
            carries = spot.at[d] + 1 == extent(p, d);
        }
    }
};

// Whether a vector may cross the end of a row.
template <bool TURNS> struct Turns {};

// A signed number of elements as bytes.
__device__ __forceinline__ u64 in_bytes(Place offset, u64 bytes) { return u64(i64(Offset(offset))) * bytes; }

template <typename T, int KIND, int SET, int SPACING> struct IndexedInput {
    enum { VECTOR = KIND == LINEAR || KIND == INDEXED_VECTOR };
    enum { SHIFTS = KIND == INDEXED_SHIFTED || KIND == INDEXED_SHIFTED_OR_UNIT };
    // One element at a time, or one for all.
    enum { SINGLE = !VECTOR && !SHIFTS && KIND != UNIFORM && KIND != INDEXED_SPACED };
    enum { ONE = KIND == INDEXED_SPLAT && WHOLE_ROWS };
    // Broadcast inputs should stay in L1.
    Row<T, LANES, KIND == LINEAR ? HINT & LOAD_NO_ALLOCATE : 0> row;
    Row<T, 1, 0> single[LANES];
    // SPACED: the vectors that contain LANES elements, and the elements between them. The launch leaves out the last ones.
    Row<T, LANES, HINT & LOAD_NO_ALLOCATE> spaced[SPACING];
    // SHIFTED: the accesses that contain LANES elements, and at which of their bytes the elements begin. The launch leaves out the
    // last vector, whose last access ends beyond the tensor. SHIFTED_OR_UNIT: the same inside rows; near their ends single elements.
    ShiftedRow<T, SHIFTS ? LANES : 4> shifted;
    u32 shift;
    int left;
    __device__ __forceinline__ void load(const Parameters& p, u64 start, Place place, const Spot& spot) {
        if constexpr (KIND == LINEAR) row.load(start + place * u64(sizeof(T)));
        else if constexpr (KIND == INDEXED_VECTOR) row.load(start + in_bytes(spot.offset[SET], sizeof(T)));
        else if constexpr (KIND == INDEXED_SHIFTED) load_shifted(start + in_bytes(spot.offset[SET], sizeof(T)));
        else if constexpr (KIND == INDEXED_SPACED) {
#pragma unroll
            for (int j = 0; j < SPACING; ++j) spaced[j].load(start + in_bytes(spot.offset[SET] + j * LANES, sizeof(T)));
        }
        else if constexpr (ONE) single[0].load(start + in_bytes(spot.offset[SET], sizeof(T)));
        else if constexpr (SINGLE && WHOLE_ROWS) {
#pragma unroll
            for (int i = 0; i < LANES; ++i) single[i].load(start + in_bytes(spot.offset[SET] + i * distance(p), sizeof(T)));
        }
    }
    __device__ __forceinline__ void load_shifted(u64 from) {
        shift = u32(from) & (shifted.ACCESS - 1);
        shifted.load(from);
    }
    // The distance of a row's elements.
    __device__ __forceinline__ static Place distance(const Parameters& p) {
        return KIND == INDEXED_UNIT ? 1 : stride(p, SET, RANK - 1);
    }
    // The elements of a vector that crosses the end of a row.
    __device__ __forceinline__ void load_turning(const Parameters& p, u64 start, const Spot& spot, const Turn& turn) {
        left = turn.left;
        if constexpr (SINGLE || SHIFTS) {
            const u64 here = start + in_bytes(spot.offset[SET], sizeof(T));
            const u64 there = start + in_bytes(spot.offset[SET] + turn.jump[SET], sizeof(T));
            if constexpr (SHIFTS) {
                if (__builtin_expect(!turn.goes_on, false)) {
                    shift = 0;
                    shifted.gather(here, there, left);
                } else load_shifted(here);
            } else if constexpr (KIND == INDEXED_SPLAT) {
                single[0].load(here);
                if (left < LANES) single[1].load(there);
            } else {
#pragma unroll
                for (int i = 0; i < LANES; ++i) single[i].load((i < left ? here : there) + in_bytes(i * distance(p), sizeof(T)));
            }
        }
    }
    template <bool TURNS> __device__ __forceinline__ void take(Turns<TURNS>, Carrier<T> same, Carrier<T>* x) const {
        if constexpr (VECTOR) row.take(x);
        else if constexpr (SHIFTS) shifted.take(shift, x);
        else if constexpr (KIND == INDEXED_SPACED) {
            Carrier<T> all[SPACING][LANES];
#pragma unroll
            for (int j = 0; j < SPACING; ++j) spaced[j].take(all[j]);
#pragma unroll
            for (int i = 0; i < LANES; ++i) x[i] = all[i * SPACING / LANES][i * SPACING % LANES];
        }
        else {
            Carrier<T> of_row[2];
            if constexpr (KIND == INDEXED_SPLAT && !ONE) {
                single[0].take(of_row);
                single[1].take(of_row + 1);
            }
#pragma unroll
            for (int i = 0; i < LANES; ++i) {
                if constexpr (KIND == UNIFORM) x[i] = same;
                else if constexpr (KIND == INDEXED_SPLAT && !ONE) x[i] = !TURNS || i < left ? of_row[0] : of_row[1];
                else single[ONE ? 0 : i].take(x + i);
            }
        }
    }
};

// Computes one element.
__device__ __forceinline__ void indexed_one(const Parameters& p, const Scalars& s, const Same& same, Place place) {
    constexpr int i = 0;
    Spot spot;
    if constexpr (COORDINATES) spot.find(p, place);
    At at;
    spot.tell(at, place);
#define INDEXED_AT(side, k, bytes) (side##k == LINEAR ? place * bytes : in_bytes(spot.offset[side##k##_SET], bytes))
#define INDEXED_TAKE(k)                                                                                                   \
    in##k##_c x##k[1] = {same.x##k};                                                                                   \
    if constexpr (IN##k != UNIFORM)                                                                                    \
        x##k[0] = load_one<in##k##_t>(IN_START(p, 0, k) + INDEXED_AT(IN, k, IN_BYTES(k)));
#define INDEXED_RESULT(k) out##k##_c y##k[1];
    EACH_INPUT(INDEXED_TAKE)
    EACH_OUTPUT(INDEXED_RESULT)
#undef INDEXED_TAKE
#undef INDEXED_RESULT
    BODY_BEGIN
    BODY_EACH(s, at, i);
    BODY_END(s, 1)
#define INDEXED_STORE(k) store_one<out##k##_t>(OUT_START(p, 0, k) + INDEXED_AT(OUT, k, OUT_BYTES(k)), y##k[0]);
    EACH_OUTPUT(INDEXED_STORE)
#undef INDEXED_STORE
#undef INDEXED_AT
}
