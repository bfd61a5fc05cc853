// Lets a host compiler compile a kernel's source: defines the CUDA keywords that it uses, in plain C++. `launch` runs the threads
// of a grid one after the other, so it only works for kernels whose threads don't wait for each other; others need `blocks.hpp`.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
using std::fma;
using std::fmaf;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static

struct Index3 {
    unsigned x = 1, y = 1, z = 1;
};
inline thread_local Index3 blockIdx, threadIdx, blockDim, gridDim;

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

template <typename To, typename From> To bits_of(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "");
    std::memcpy(&to, &from, sizeof to);
    return to;
}
// Only declared: kernels that need them use `blocks.hpp`, or are not run here.
void __syncthreads();
void __threadfence();

inline unsigned __float_as_uint(float x) { return bits_of<unsigned>(x); }
inline long long __double_as_longlong(double x) { return bits_of<long long>(x); }

template <typename T, typename U> T atomicAdd(T* at, U value) {
    const T before = *at;
    *at = before + T(value);
    return before;
}
template <typename T, typename U> T atomicMin(T* at, U value) {
    const T before = *at;
    if (T(value) < before) *at = T(value);
    return before;
}
template <typename T, typename U> T atomicXor(T* at, U value) {
    const T before = *at;
    *at = before ^ T(value);
    return before;
}

template <typename Kernel, typename... Arguments>
void launch(unsigned blocks, unsigned threads, Kernel kernel, Arguments... arguments) {
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(arguments...);
}

// An array of exactly n elements, so that the sanitizer detects any access beyond its end.
template <typename T> struct Array {
    const size_t n;
    T* const at;
    explicit Array(size_t n) : n(n), at(static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(32)))) {}
    Array(const Array&) = delete;
    ~Array() { ::operator delete(at, std::align_val_t(32)); }
    T& operator[](size_t i) { return at[i]; }
};

// Number of blocks for n elements. A warp is one thread here, so a fold outputs one value per thread.
inline unsigned blocks_for(size_t n, size_t tile) { return n == 0 ? 1 : unsigned((n + tile - 1) / tile); }

inline int wrong(const char* name, size_t i, size_t n) {
    std::printf("%s: element %zu of %zu is wrong\n", name, i, n);
    return 1;
}

template <typename T> bool equal(T x, T y) { return std::memcmp(&x, &y, sizeof x) == 0; }
