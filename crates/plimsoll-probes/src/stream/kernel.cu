// stream: the bandwidth of memory for each mix of reads and writes.
//
// Why the compiler keeps it: every result is stored. `read` stores one XOR of all words per warp, `dot` one sum per warp, so a
// skipped element changes the result; 4 bytes for every 32 · UNROLL · BYTES read.
// Its loop in SASS: UNROLL loads of BYTES per input, all before the first store, UNROLL stores of BYTES, with one
// address per array and immediate offsets; no local memory, no branch except the loop's. The one-shot form has the
// same instructions without a loop. The bulk form has one UBLKCP per input in place of the loads, by one thread, and
// loads from shared memory.
//
// A tile is THREADS · UNROLL consecutive vectors: consecutive threads have consecutive vectors. LOOP false: block k does
// tile k (grid = tiles). LOOP true: block k does tiles k, k + grid, … . The last, partial tile is done element by
// element, so n is arbitrary. Arrays are aligned to BYTES. Dynamic shared memory limits occupancy and isn't touched.
// The bulk form (compute capability 9.0 and later) copies one whole tile per block to shared memory, so that bytes in flight
// need no registers.
#include "device.h"

enum Op { INIT, READ, COPY, SCALE, ADD, TRIAD, SCHOENAUER, DOT, POINT3, POINT5 };

constexpr __device__ int inputs(Op op) {
    return op == INIT ? 0 : op == SCHOENAUER ? 3 : op == ADD || op == TRIAD || op == DOT ? 2 : 1;
}
constexpr __device__ int reach(Op op) { return op == POINT3 ? 1 : op == POINT5 ? 2 : 0; }
constexpr __device__ bool folds(Op op) { return op == READ || op == DOT; }

// One element of the kernels that map. `w` is the window around it in the first array, from −reach to +reach.
template <Op OP, typename T> __device__ __forceinline__ T value(const T* w, T b, T c, T s) {
    if constexpr (OP == INIT) return s;
    else if constexpr (OP == COPY) return w[0];
    else if constexpr (OP == SCALE) return s * w[0];
    else if constexpr (OP == ADD) return w[0] + b;
    else if constexpr (OP == TRIAD) return fused(s, b, w[0]);
    else if constexpr (OP == SCHOENAUER) return fused(b, c, w[0]);
    else if constexpr (OP == POINT3) return s * ((w[-1] + w[0]) + w[1]);
    else return s * ((((w[-2] + w[-1]) + w[0]) + w[1]) + w[2]);
}

// A thread's partial result in the kernels that fold.
template <typename T> struct Fold {
    T sum = 0;
    u32 bits = 0;
    template <Op OP, int BYTES> __device__ __forceinline__ void take(const Vector<T, BYTES>& a, const Vector<T, BYTES>& b) {
        if constexpr (OP == READ)
            for (int i = 0; i < BYTES / 4; ++i) bits ^= a.word[i];
        else
            for (int i = 0; i < BYTES / int(sizeof(T)); ++i) sum = fused(a.lane[i], b.lane[i], sum);
    }
};

// One vector at element e: arithmetic and store. Indices beyond the array's ends are clamped.
template <Op OP, typename T, int BYTES, int HINT>
__device__ __forceinline__ void map(T* out, const T* a, u64 e, u64 n, const Vector<T, BYTES>& x,
                                    const Vector<T, BYTES>& y, const Vector<T, BYTES>& z, T s) {
    constexpr int LANES = BYTES / sizeof(T), REACH = reach(OP);
    T window[LANES + 2 * REACH];
    for (int i = 0; i < LANES; ++i) window[REACH + i] = x.lane[i];
    for (int r = 1; r <= REACH; ++r) {
        window[REACH - r] = a[e >= u64(r) ? e - r : 0];
        const u64 right = e + LANES - 1 + r;
        window[REACH + LANES - 1 + r] = a[right < n ? right : n - 1];
    }
    Vector<T, BYTES> v;
    for (int i = 0; i < LANES; ++i) v.lane[i] = value<OP>(window + REACH + i, y.lane[i], z.lane[i], s);
    store<HINT>(out + e, v);
}

// A thread's vectors are STEP elements apart.
template <Op OP, typename T, int BYTES, int UNROLL, int HINT, int STEP>
__device__ __forceinline__ void vectors(T* out, const T* a, const T* b, const T* c, T s, u64 first, u64 n, Fold<T>& fold) {
    Vector<T, BYTES> x[UNROLL], y[UNROLL], z[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        if constexpr (inputs(OP) > 0) x[u] = load<HINT, BYTES>(a + first + u * STEP);
        if constexpr (inputs(OP) > 1) y[u] = load<HINT, BYTES>(b + first + u * STEP);
        if constexpr (inputs(OP) > 2) z[u] = load<HINT, BYTES>(c + first + u * STEP);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        if constexpr (folds(OP)) fold.template take<OP, BYTES>(x[u], y[u]);
        else map<OP, T, BYTES, HINT>(out, a, first + u * STEP, n, x[u], y[u], z[u], s);
    }
}

// The last elements, fewer than a tile, one by one.
template <Op OP, typename T, int ITERATIONS, int HINT, int THREADS>
__device__ __forceinline__ void tail(T* out, const T* a, const T* b, const T* c, T s, u64 first, u64 n, Fold<T>& fold) {
#pragma unroll 1
    for (int k = 0; k < ITERATIONS; ++k) {
        const u64 e = first + k * THREADS + threadIdx.x;
        if (e < n) vectors<OP, T, int(sizeof(T)), 1, HINT, 1>(out, a, b, c, s, e, n, fold);
    }
}

// Stores the result of a fold, one word or sum per warp.
template <Op OP, typename T, int THREADS> __device__ __forceinline__ void store_fold(T* out, const Fold<T>& fold) {
    const u64 slot = (u64(blockIdx.x) * THREADS + threadIdx.x) / WARP;
    const bool first = threadIdx.x % WARP == 0;
    if constexpr (OP == READ) {
        const u32 bits = warp_xor(fold.bits);
        if (first) reinterpret_cast<u32*>(out)[slot] = bits;
    } else {
        const T sum = warp_sum(fold.sum);
        if (first) out[slot] = sum;
    }
}

template <Op OP, typename T, int BYTES, int UNROLL, int HINT, bool LOOP, int THREADS>
__device__ __forceinline__ void stream(T* out, const T* a, const T* b, const T* c, T s, u64 n) {
    constexpr int LANES = BYTES / sizeof(T), STEP = THREADS * LANES, TILE = STEP * UNROLL;
    const u64 whole = n / TILE;
    u64 tile = blockIdx.x;
    Fold<T> fold;
    if constexpr (LOOP) {
#pragma unroll 1
        for (; tile < whole; tile += gridDim.x)
            vectors<OP, T, BYTES, UNROLL, HINT, STEP>(out, a, b, c, s, tile * TILE + threadIdx.x * LANES, n, fold);
        if (tile == whole) tail<OP, T, UNROLL * LANES, HINT, THREADS>(out, a, b, c, s, tile * TILE, n, fold);
    } else if (tile < whole) {
        vectors<OP, T, BYTES, UNROLL, HINT, STEP>(out, a, b, c, s, tile * TILE + threadIdx.x * LANES, n, fold);
    } else if (tile == whole) {
        tail<OP, T, UNROLL * LANES, HINT, THREADS>(out, a, b, c, s, tile * TILE, n, fold);
    }
    if constexpr (folds(OP)) store_fold<OP, T, THREADS>(out, fold);
}

#include "stream_bulk.h"

#define STREAM(name, op, type, bytes, unroll, hint, loop, threads)                                                     \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(type* out, const type* a, const type* b, const type* c, type s, u64 n) {                                  \
        stream<op, type, bytes, unroll, hint, loop, threads>(out, a, b, c, s, n);                                      \
    }
