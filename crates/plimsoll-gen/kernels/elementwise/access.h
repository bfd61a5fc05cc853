// Memory access of elementwise kernels: loads and stores with hints, the elements of a tensor that a thread holds, and the waits of
// dependent launches. The forms add the addressing.
//
// Loads are plain loads from global memory, never through the read-only path: an input may be written in place, and a dependent
// launch begins while its inputs are still being written. On a host they are ordinary accesses.
#pragma once
#include "types.h"

// How a kernel addresses a tensor's elements.
enum Kind { UNUSED, LINEAR, SHIFTED, UNIFORM, INDEXED_VECTOR, INDEXED_SHIFTED, INDEXED_SHIFTED_OR_UNIT, INDEXED_UNIT, INDEXED_SPLAT, INDEXED_SPACED, INDEXED_ANY, TRANSPOSED, DENSE };
// When the next kernel may begin; AT_EXIT needs no instruction.
enum Release { ORDINARY, EARLY, LATE, AT_EXIT, AT_START, AT_TAIL };

// Whether blocks become resident while the previous kernel still runs, and so have time to prepare. This uses the kernel's own
// mode, assuming that all kernels of a chain have the same one. If blocks only start after the previous kernel has ended, the
// preparation costs time: copies of 1 MiB take an H200 1.69 µs instead of 1.68. (A function, because a variable would become
// data of the module.)
constexpr __device__ bool overlaps() { return DEPENDENT != ORDINARY && DEPENDENT != AT_EXIT; }

struct Parameters {
    u64 at[WORDS];
};

// BLOCKS_AT_ONCE blocks must fit on an SM at once, so the compiler may use the registers of fewer. Left to itself it often stays at 32 registers:
// it computes with the first inputs before it loads the others, and a thread waits for memory several times, one after the other.
#if BLOCKS_AT_ONCE
#define LAUNCH_BOUNDS __launch_bounds__(THREADS, BLOCKS_AT_ONCE)
#else
#define LAUNCH_BOUNDS __launch_bounds__(THREADS)
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// True for blocks that may still be resident together with the last one: at most as many as all SMs hold.
__device__ __forceinline__ bool is_among_last() {
    constexpr u32 BY_THREADS = 2048 / THREADS, RESIDENT = BY_THREADS < 32 ? BY_THREADS : 32;
    u32 multiprocessors;
    asm("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
    return gridDim.x - blockIdx.x <= multiprocessors * RESIDENT;
}
#endif

// AT_TAIL is EARLY for the last blocks only, and AT_START is also signalled by the last blocks only. The next kernel may begin
// when every block has signalled or ended (PTX ISA, griddepcontrol), and signals slow down the start of blocks: an H200 starts
// 1.66 blocks per nanosecond, but only 0.83 blocks that signal.
__device__ __forceinline__ void let_next_begin(Release when) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr bool ALL = DEPENDENT == EARLY || DEPENDENT == LATE;
    if (when != (DEPENDENT == AT_TAIL ? EARLY : DEPENDENT)) return;
    if (ALL || is_among_last()) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Code after this sees everything that the previous kernel has written, and everything that that kernel has waited for.
__device__ __forceinline__ void previous_has_ended() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if constexpr (DEPENDENT != ORDINARY) asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Must precede the first access to global memory; prefetches don't count. The next kernel waits for this one, and so for
// everything that this one has waited for. But a kernel that may begin AT_START must not access anything before its own wait;
// with other modes, it may access what earlier kernels wrote. EARLY signals right after the wait: the compiler moves
// computations with loaded data up to their loads, so a signal after the loads would be delayed until the data arrive.
__device__ __forceinline__ void wait_for_previous() {
    let_next_begin(AT_START);
    previous_has_ended();
    let_next_begin(EARLY);
}

// Forces the compiler to compute `address` before the wait that follows; otherwise it computes it after the wait,
// which delays the first loads. The dependency is an exit of the thread for address 0, which no tensor has. The compiler
// doesn't know about this exit, so don't use this before a barrier.
__device__ __forceinline__ void force_ready(u64 address) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("{.reg .pred nowhere;\n"
                 "setp.eq.u64 nowhere, %0, 0;\n"
                 "@nowhere exit;}" ::"l"(address) : "memory");
#endif
}

// Prefetches `bytes` from an address on into L2, in units of 16 bytes: from the unit that contains the first byte, and not
// beyond the last byte.
__device__ __forceinline__ void prefetch_bytes(u64 from, u32 bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from & ~u64(15)), "r"(bytes & ~15u));
#endif
}

// Returns x in a way that is opaque to the compiler. A remainder whose condition uses this is placed after the whole tiles in
// the code; if its condition used x itself, it was placed before them, and the jump over it cost a launch 0.01 µs on an H200. A
// thread index passed through this is read at the start, together with the block index.
__device__ __forceinline__ u32 apart(u32 x) {
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// A thread's share of the elements outside whole tiles: `first` and every `step`-th element after it.
struct Share {
    u32 first, step;
};

// The blocks after those of the whole tiles share these elements, one per thread. A single block would do its loads, operations and
// stores one after the other, which takes longer than a whole small launch.
__device__ __forceinline__ Share share_of_rest(u32 whole) {
    const Share share = {(blockIdx.x - whole) * THREADS + threadIdx.x, (gridDim.x - whole) * THREADS};
    return share;
}

// Loads BYTES (1 to 32, a power of two) from an address aligned to BYTES, into the low bits of `word`.
template <int HINTS, int BYTES> __device__ __forceinline__ void load_bytes(u64 from, u32* word) {
#if defined(__CUDA_ARCH__)
#define LOAD_AS(bytes, type, ...)                                                                                      \
    if constexpr (BYTES == bytes && (HINTS & LOAD_NO_ALLOCATE))                                                        \
        asm volatile("ld.global.L1::no_allocate." type : __VA_ARGS__ : "l"(from));                                     \
    else if constexpr (BYTES == bytes)                                                                                 \
        asm volatile("ld.global." type : __VA_ARGS__ : "l"(from));
    if constexpr (BYTES <= 2) {
        u16 half;
        LOAD_AS(1, "u8 %0, [%1];", "=h"(half))
        LOAD_AS(2, "u16 %0, [%1];", "=h"(half))
        word[0] = half;
    }
    LOAD_AS(4, "u32 %0, [%1];", "=r"(word[0]))
    LOAD_AS(8, "v2.u32 {%0, %1}, [%2];", "=r"(word[0]), "=r"(word[1]))
    LOAD_AS(16, "v4.u32 {%0, %1, %2, %3}, [%4];", "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3]))
#if __CUDA_ARCH__ >= 1000
    LOAD_AS(32, "v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];", "=r"(word[0]), "=r"(word[1]), "=r"(word[2]),
            "=r"(word[3]), "=r"(word[4]), "=r"(word[5]), "=r"(word[6]), "=r"(word[7]))
#endif
#undef LOAD_AS
#else
    // A device stops at such an address.
    if (from % BYTES != 0) __builtin_trap();
    word[0] = 0;
    __builtin_memcpy(word, reinterpret_cast<const void*>(from), BYTES);
#endif
}

// Stores BYTES if `stores`, without a branch.
template <int HINTS, int BYTES> __device__ __forceinline__ void store_bytes(u64 to, const u32* word, bool stores = true) {
#if defined(__CUDA_ARCH__)
// `last` is the place of the condition, which follows the address and the words.
#define STORE_AS(bytes, type, last, ...)                                                                               \
    if constexpr (BYTES == bytes && (HINTS & STORE_STREAMING))                                                         \
        asm volatile("{.reg .pred stores;\nsetp.ne.u32 stores, " last ", 0;\n@stores st.global.cs." type "}" ::"l"(to),  \
                     __VA_ARGS__, "r"(u32(stores)) : "memory");                                                        \
    else if constexpr (BYTES == bytes)                                                                                 \
        asm volatile("{.reg .pred stores;\nsetp.ne.u32 stores, " last ", 0;\n@stores st.global." type "}" ::"l"(to),     \
                     __VA_ARGS__, "r"(u32(stores)) : "memory");
    STORE_AS(1, "u8 [%0], %1;", "%2", "h"(u16(word[0])))
    STORE_AS(2, "u16 [%0], %1;", "%2", "h"(u16(word[0])))
    STORE_AS(4, "u32 [%0], %1;", "%2", "r"(word[0]))
    STORE_AS(8, "v2.u32 [%0], {%1, %2};", "%3", "r"(word[0]), "r"(word[1]))
    STORE_AS(16, "v4.u32 [%0], {%1, %2, %3, %4};", "%5", "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]))
#if __CUDA_ARCH__ >= 1000
    STORE_AS(32, "v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};", "%9", "r"(word[0]), "r"(word[1]), "r"(word[2]),
             "r"(word[3]), "r"(word[4]), "r"(word[5]), "r"(word[6]), "r"(word[7]))
#endif
#undef STORE_AS
#else
    if (stores && to % BYTES != 0) __builtin_trap();
    if (stores) __builtin_memcpy(reinterpret_cast<void*>(to), word, BYTES);
#endif
}

// Loads BYTES (1 to 16, a power of two) from shared memory, aligned to BYTES, into the low bits of `word`.
template <int BYTES> __device__ __forceinline__ void load_shared(const char* from, u32* word) {
#if !defined(__CUDA_ARCH__)
    word[0] = 0;
    __builtin_memcpy(word, from, BYTES);
#else
    if constexpr (BYTES == 1) word[0] = *reinterpret_cast<const u8*>(from);
    else if constexpr (BYTES == 2) word[0] = *reinterpret_cast<const u16*>(from);
    else if constexpr (BYTES == 4) word[0] = *reinterpret_cast<const u32*>(from);
    else if constexpr (BYTES == 8) {
        const uint2 w = *reinterpret_cast<const uint2*>(from);
        word[0] = w.x, word[1] = w.y;
    } else {
        const uint4 w = *reinterpret_cast<const uint4*>(from);
        word[0] = w.x, word[1] = w.y, word[2] = w.z, word[3] = w.w;
    }
#endif
}

// Stores BYTES (1 to 16, a power of two) to shared memory, aligned to BYTES, if `stores`, without a branch.
template <int BYTES> __device__ __forceinline__ void store_shared(char* to, const u32* word, bool stores) {
#if !defined(__CUDA_ARCH__)
    if (stores) __builtin_memcpy(to, word, BYTES);
#else
    const u32 at = u32(__cvta_generic_to_shared(to));
// `last` is the place of the condition, which follows the address and the words.
#define STORE_SHARED_AS(bytes, type, last, ...)                                                                        \
    if constexpr (BYTES == bytes)                                                                                      \
        asm volatile("{.reg .pred stores;\nsetp.ne.u32 stores, " last ", 0;\n@stores st.shared." type "}" ::"r"(at),     \
                     __VA_ARGS__, "r"(u32(stores)) : "memory");
    STORE_SHARED_AS(1, "u8 [%0], %1;", "%2", "h"(u16(word[0])))
    STORE_SHARED_AS(2, "u16 [%0], %1;", "%2", "h"(u16(word[0])))
    STORE_SHARED_AS(4, "u32 [%0], %1;", "%2", "r"(word[0]))
    STORE_SHARED_AS(8, "v2.u32 [%0], {%1, %2};", "%3", "r"(word[0]), "r"(word[1]))
    STORE_SHARED_AS(16, "v4.u32 [%0], {%1, %2, %3, %4};", "%5", "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3]))
#undef STORE_SHARED_AS
#endif
}

constexpr __device__ int least(int a, int b) { return a < b ? a : b; }
// Number of words for this many bytes.
constexpr __device__ int words_of(int bytes) { return (bytes + 3) / 4; }

// N consecutive elements, aligned to their total size or to the widest access.
template <typename T, int N, int HINTS> struct Row {
    // Accesses of a row share sectors, which should stay in L1 until the last access.
    enum { BYTES = N * int(sizeof(T)), ACCESS = least(BYTES, WIDEST) };
    enum { LOADS = BYTES > ACCESS ? HINTS & ~LOAD_NO_ALLOCATE : HINTS };
    u32 word[words_of(BYTES)];

    __device__ __forceinline__ void load(u64 from) {
#pragma unroll
        for (int b = 0; b < BYTES; b += ACCESS) load_bytes<LOADS, ACCESS>(from + b, word + b / 4);
    }
    __device__ __forceinline__ void store(u64 to, bool stores = true) const {
#pragma unroll
        for (int b = 0; b < BYTES; b += ACCESS) store_bytes<HINTS, ACCESS>(to + b, word + b / 4, stores);
    }
    __device__ __forceinline__ void take(Carrier<T>* x) const {
        if constexpr (BYTES % 4 == 0) unpack<T, N>(word, x);
        else
            for (int i = 0; i < N; ++i) x[i] = from_bits<T>(word[0] >> 8 * sizeof(T) * i);
    }
    __device__ __forceinline__ void put(const Carrier<T>* x) {
        if constexpr (BYTES % 4 == 0) pack<T, N>(x, word);
        else {
            word[0] = 0;
            for (int i = 0; i < N; ++i) word[0] |= u32(to_bits<T>(x[i])) << 8 * sizeof(T) * i;
        }
    }
};

// Loads or stores one element.
template <typename T> __device__ __forceinline__ Carrier<T> load_one(u64 from) {
    Row<T, 1, 0> row;
    row.load(from);
    Carrier<T> x;
    row.take(&x);
    return x;
}
template <typename T> __device__ __forceinline__ void store_one(u64 to, Carrier<T> x) {
    Row<T, 1, 0> row;
    row.put(&x);
    row.store(to);
}

// Sizes of elements and starts of tensors, by tensor index.
#define IN_BYTES(k) u64(sizeof(in##k##_t))
#define OUT_BYTES(k) u64(sizeof(out##k##_t))
#if BATCH
// The set of a block; its record in the table, which batch.h describes, ends with the addresses. An output in place has its input's.
enum { ADDRESSES_AT = 3, RECORD = (ADDRESSES_AT + ADDRESSES + 1) / 2 * 2 };
struct Starts {
    u64 word[RECORD];
};
#define IN_START(p, starts, k) starts.word[ADDRESSES_AT + k]
#define OUT_START(p, starts, k) starts.word[ADDRESSES_AT + OUT##k##_ADDRESS]
#else
// The first of the words that are addresses.
typedef u32 Starts;
#define IN_START(p, starts, k) p.at[starts + k]
#define OUT_START(p, starts, k) p.at[starts + INPUTS + k]
#endif

// Sets an element's index, for expressions that use it.
template <typename A> __device__ __forceinline__ void set_place(A& at, u64 place) {
#if NEEDS_PLACE
    at.place = i64(place);
#endif
#if NEEDS_COORDINATES
    at.coordinate[0] = i64(place);
#endif
}
