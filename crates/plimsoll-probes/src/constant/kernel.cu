// constant: how long a load from constant memory takes over the footprint that it follows, and how many loads a
// SM does per cycle when the lanes of a warp read one address or several.
//
// Why the compiler keeps it: the place where a chase ended is stored; every thread stores the sum of all that it read.
// Its loop in SASS: 32 loads of 4 bytes from the module's constant bank, each at the place that the one before gave; or 8
// loads of 8 bytes at immediate offsets from one place, their sums, the place's arithmetic and one branch.
//
// Constant memory holds one table of 64-byte lines, 64 KiB: the most that a module may have. Word w of a line leads to the
// next line of the chain over the first `lines_of(w)` lines, so one table has a chain for every footprint.
#include "walk.h"

#define LINE_WORDS 16
#define LINES 1024

// Lines of the chain that word w belongs to; all are even, so that an odd number of hops never ends where it began.
__host__ __device__ constexpr u32 lines_of(u32 w) { return w % 2 == 0 ? 8u << w / 2 : 12u << w / 2; }

// Lines from one element of a chain to the next. It shares no factor with the chain's 2^i or 3 · 2^i lines, so every line is
// visited once before the first comes again.
__host__ __device__ constexpr u32 step_of(u32 w) {
    u32 step = lines_of(w) * 5 / 8;
    while (step % 2 == 0 || step % 3 == 0) ++step;
    return step;
}

struct Table {
    u32 word[LINES * LINE_WORDS];

    // Each word is the place of its successor, bytes from the table's beginning. The last word follows the chain of all lines.
    __host__ __device__ constexpr Table() : word() {
        for (u32 w = 0; w < LINE_WORDS; ++w) {
            const u32 of = w < LINE_WORDS - 1 ? w : LINE_WORDS - 2;
            for (u32 line = 0; line < LINES; ++line)
                word[line * LINE_WORDS + w] = ((line + step_of(of)) % lines_of(of) * LINE_WORDS + w) * 4;
        }
    }
};

__constant__ Table table;

template <typename T> __device__ __forceinline__ T at(u32 place) {
    return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(table.word) + place);
}

// One hop, `warm` hops untimed and `hops` timed, both multiples of HOPS, from a place in the table. The first place depends on the
// thread's number, which is 0, so that the loads are those of a thread and not those that a warp does once for all of its lanes.
#define CONSTANT_CHASE(name, unroll)                                                                                   \
    extern "C" __global__ void __launch_bounds__(32) name(Timed* out, u32 begin, u64 warm, u64 hops) {                 \
        if (threadIdx.x != 0) return;                                                                                  \
        u32 lane;                                                                                                      \
        asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));                                                            \
        u32 p = at<u32>(begin + lane);                                                                                 \
        u64 first = 0, since = 0;                                                                                      \
        _Pragma("unroll 1") for (u32 phase = 0; phase < 2; ++phase) {                                                  \
            since = nanoseconds();                                                                                     \
            first = cycles();                                                                                          \
            const u64 count = phase == 0 ? warm : hops;                                                                \
            _Pragma("unroll 1") for (u64 h = 0; h < count; h += unroll) {                                              \
                _Pragma("unroll") for (u32 u = 0; u < unroll; ++u) p = at<u32>(p);                                     \
            }                                                                                                          \
        }                                                                                                              \
        const u64 last = cycles(), end = nanoseconds();                                                                \
        out->cycles = last - first;                                                                                    \
        out->nanoseconds = end - since;                                                                                \
        out->end = p;                                                                                                  \
        out->multiprocessor = multiprocessor();                                                                        \
    }

// Every warp reads the first `lines` lines, again and again. Lane l begins at line l modulo `addresses` and goes on by
// `addresses` lines, so as many lines are read by a warp at once. `warm` and `iterations` count lines of a lane.
#define CONSTANT_READ(name, threads)                                                                                   \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u64* out, u64* cycles, u32 lines, u32 addresses, u32 warm, u32 iterations) {                                   \
        u64 sum = 0;                                                                                                   \
        timed(cycles, warm, iterations, [&](u32 iterations) {                                                                    \
            u32 line = threadIdx.x % WARP % addresses;                                                                 \
            _Pragma("unroll 1") for (u32 iteration = 0; iteration < iterations; ++iteration) {                                             \
                _Pragma("unroll") for (u32 w = 0; w < LINE_WORDS; w += 2) sum += at<u64>((line * LINE_WORDS + w) * 4); \
                line += addresses;                                                                                     \
                if (line >= lines) line -= lines;                                                                      \
            }                                                                                                          \
        });                                                                                                            \
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;                                                              \
    }
