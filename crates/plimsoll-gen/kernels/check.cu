// check: fills buffers before a measurement and checks them afterwards. Nothing is measured here. It is compiled separately,
// processes one element per step and has independent formulas, so that it shares no fault with the kernels that it checks.
//
// Why the compiler keeps it: fills store every element; checks count the wrong elements and store the first one's index.
// Its loop in SASS: not relevant.
//
// Grids may have any size. Data are a function of the seed and the element's index, the same on the host
// (`plimsoll_gen::pattern`): `BITS` any 32 bits; `UNIT` 1 ≤ x < 2 with every bit of the fraction random, so no sum or
// product of a few overflows; `SMALL` whole numbers 1…4, whose sums of products are exact. result[0] counts the wrong
// elements and must initially be 0; result[1] is the index of the first one and must initially be all ones.
#include "device.h"

enum Data { BITS, UNIT, SMALL };

// SplitMix64 (Steele, Lea, Flood 2014): its state after i + 1 steps from `seed`, finalised.
__device__ __forceinline__ u64 random_bits(u64 seed, u64 i) {
    u64 z = seed + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

template <Data DATA, typename T> __device__ __forceinline__ T datum(u64 seed, u64 i) {
    const u64 bits = random_bits(seed, i);
    if constexpr (DATA == BITS) return T(u32(bits >> 32));
    else if constexpr (DATA == SMALL) return T(1 + (bits >> 62));
    else if constexpr (sizeof(T) == 4) return T(1) + T(bits >> 41) * T(1.0 / (1 << 23));
    else return T(1) + T(bits >> 12) * T(1.0 / (1ull << 52));
}

#define EACH(i, n)                                                                                                     \
    for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x)

#define CHECK_FILL(name, data, type)                                                                                   \
    extern "C" __global__ void name(type* out, u64 seed, u64 n) {                                                      \
        EACH(i, n) out[i] = datum<data, type>(seed, i);                                                                \
    }

// Fills an array with one word: poison that no correct result contains, or zeros.
extern "C" __global__ void fill_words(u32* out, u32 word, u64 n) { EACH(i, n) out[i] = word; }

__device__ __forceinline__ void wrong(u64* result, u64 i) {
    atomicAdd(result, 1ull);
    atomicMin(result + 1, i);
}

__device__ __forceinline__ bool same(u32 x, u32 y) { return x == y; }
__device__ __forceinline__ bool same(float x, float y) { return __float_as_uint(x) == __float_as_uint(y); }
__device__ __forceinline__ bool same(double x, double y) {
    return __double_as_longlong(x) == __double_as_longlong(y);
}

// Checks that out[i] equals `expression` bit for bit. It may use the arrays a, b, c, the scalar s, i and n.
#define CHECK_MAP(name, type, expression)                                                                              \
    extern "C" __global__ void name(const type* out, const type* a, const type* b, const type* c, type s, u64 n,       \
                                    u64* result) {                                                                     \
        EACH(i, n) if (!same(out[i], type(expression))) wrong(result, i);                                              \
    }

// The element at i + d, or the nearest existing one.
template <typename T> __device__ __forceinline__ T around(const T* a, u64 i, long long d, u64 n) {
    const long long at = (long long)i + d;
    return a[at < 0 ? 0 : u64(at) < n ? u64(at) : n - 1];
}
#define AT(d) around(a, i, d, n)

// Checks for each of `writes` outputs that out[k · pitch + i] is the exclusive or of `reads` inputs and k + 1. Counts words.
extern "C" __global__ void check_mix(const u32* out, const u32* in, u64 pitch, u64 n, u32 reads, u32 writes,
                                     u64* result) {
    EACH(i, n) {
        u32 x = 0;
        for (u32 k = 0; k < reads; ++k) x ^= in[k * pitch + i];
        for (u32 k = 0; k < writes; ++k)
            if (out[k * pitch + i] != (x ^ (k + 1))) wrong(result, i);
    }
}

// result ^= every word.
extern "C" __global__ void fold_words(const u32* in, u64 n, u32* result) {
    u32 bits = 0;
    EACH(i, n) bits ^= in[i];
    bits = warp_xor(bits);
    if (threadIdx.x % WARP == 0) atomicXor(result, bits);
}

// result += every element, in double precision; exact for `SMALL` data.
#define CHECK_SUM(name, type, expression)                                                                              \
    extern "C" __global__ void name(const type* a, const type* b, u64 n, double* result) {                             \
        double sum = 0;                                                                                                \
        EACH(i, n) sum += expression;                                                                                  \
        sum = warp_sum(sum);                                                                                           \
        if (threadIdx.x % WARP == 0) atomicAdd(result, sum);                                                           \
    }
