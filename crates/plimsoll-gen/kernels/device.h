// Code that differs between devices, for the probes' kernels: loads and stores of words of 4 to 32 bytes, and sums over a warp.
// Everything else is in the subset that CUDA and HIP share. Outside CUDA, hints are ignored and a warp is one thread, which also
// lets a host compiler run the kernels thread by thread.
#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__CUDA_ARCH__)
#define WARP 32
#else
#define WARP 1
#endif

// Hints, as bits: loads that don't allocate in L1; stores that are evicted first from L2.
enum Hint { PLAIN = 0, LOAD_NO_ALLOCATE = 1, STORE_STREAMING = 2 };

struct alignas(32) Words32 {
    uint4 low, high;
};

template <int BYTES> struct Words;
template <> struct Words<4> { typedef u32 type; };
template <> struct Words<8> { typedef uint2 type; };
template <> struct Words<16> { typedef uint4 type; };
template <> struct Words<32> { typedef Words32 type; };

// The elements of one access.
template <typename T, int BYTES> union Vector {
    typename Words<BYTES>::type words;
    T lane[BYTES / sizeof(T)];
    u32 word[BYTES / 4];
    __device__ Vector() {}
};

template <int HINT> __device__ __forceinline__ u32 load_words(const u32* p) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & LOAD_NO_ALLOCATE) {
        u32 w;
        asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(w) : "l"(p));
        return w;
    }
#endif
    return *p;
}

template <int HINT> __device__ __forceinline__ uint2 load_words(const uint2* p) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & LOAD_NO_ALLOCATE) {
        uint2 w;
        asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(w.x), "=r"(w.y) : "l"(p));
        return w;
    }
#endif
    return *p;
}

template <int HINT> __device__ __forceinline__ uint4 load_words(const uint4* p) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & LOAD_NO_ALLOCATE) {
        uint4 w;
        asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
            : "=r"(w.x), "=r"(w.y), "=r"(w.z), "=r"(w.w) : "l"(p));
        return w;
    }
#endif
    return *p;
}

// One access of 32 bytes from compute capability 10.0 on, two of 16 before.
template <int HINT> __device__ __forceinline__ Words32 load_words(const Words32* p) {
    Words32 w;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define LOAD_32(how, keep)                                                                                             \
    asm keep(how " {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"                                                            \
             : "=r"(w.low.x), "=r"(w.low.y), "=r"(w.low.z), "=r"(w.low.w), "=r"(w.high.x), "=r"(w.high.y),             \
               "=r"(w.high.z), "=r"(w.high.w) : "l"(p) : "memory")
    if constexpr (HINT & LOAD_NO_ALLOCATE) LOAD_32("ld.global.nc.L1::no_allocate.v8.b32", volatile);
    else LOAD_32("ld.global.v8.b32", volatile);
#else
    w.low = load_words<HINT>(&p->low);
    w.high = load_words<HINT>(&p->high);
#endif
    return w;
}

template <int HINT> __device__ __forceinline__ void store_words(u32* p, u32 w) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & STORE_STREAMING) return __stcs(p, w);
#endif
    *p = w;
}

template <int HINT> __device__ __forceinline__ void store_words(uint2* p, uint2 w) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & STORE_STREAMING) return __stcs(p, w);
#endif
    *p = w;
}

template <int HINT> __device__ __forceinline__ void store_words(uint4* p, uint4 w) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT & STORE_STREAMING) return __stcs(p, w);
#endif
    *p = w;
}

template <int HINT> __device__ __forceinline__ void store_words(Words32* p, Words32 w) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define STORE_32(how)                                                                                                  \
    asm volatile(how " [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(p), "r"(w.low.x), "r"(w.low.y), "r"(w.low.z),    \
                 "r"(w.low.w), "r"(w.high.x), "r"(w.high.y), "r"(w.high.z), "r"(w.high.w) : "memory")
    if constexpr (HINT & STORE_STREAMING) STORE_32("st.global.cs.v8.b32");
    else STORE_32("st.global.v8.b32");
#else
    store_words<HINT>(&p->low, w.low);
    store_words<HINT>(&p->high, w.high);
#endif
}

// Loads BYTES from `p`, which is aligned to BYTES.
template <int HINT, int BYTES, typename T> __device__ __forceinline__ Vector<T, BYTES> load(const T* p) {
    Vector<T, BYTES> v;
    v.words = load_words<HINT>(reinterpret_cast<const typename Words<BYTES>::type*>(p));
    return v;
}

// Ordinary stores of several words are written in PTX, because the compiler would split some of them in two.
template <int HINT, int BYTES, typename T> __device__ __forceinline__ void store(T* p, Vector<T, BYTES> v) {
#if defined(__CUDA_ARCH__)
    if constexpr (HINT == PLAIN && BYTES == 16) {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]),
                     "r"(v.word[3]) : "memory");
        return;
    } else if constexpr (HINT == PLAIN && BYTES == 8) {
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.word[0]), "r"(v.word[1]) : "memory");
        return;
    }
#endif
    store_words<HINT>(reinterpret_cast<typename Words<BYTES>::type*>(p), v.words);
}

// Exclusive or over the lanes of a warp, in lane 0; any order gives the same bits.
__device__ __forceinline__ u32 warp_xor(u32 x) {
#if defined(__CUDA_ARCH__)
    for (int d = WARP / 2; d > 0; d /= 2) x ^= __shfl_down_sync(~0u, x, d);
#endif
    return x;
}

// Sum over the lanes of a warp, in lane 0.
template <typename T> __device__ __forceinline__ T warp_sum(T x) {
#if defined(__CUDA_ARCH__)
    for (int d = WARP / 2; d > 0; d /= 2) x += __shfl_down_sync(~0u, x, d);
#endif
    return x;
}

// a · b + c, rounded once.
__device__ __forceinline__ float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double fused(double a, double b, double c) { return fma(a, b, c); }
