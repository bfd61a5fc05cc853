// tensor: matrix products by a single instruction, dense and with A half zeros: mma.sync of a warp on its registers and, for
// sm_90a, wgmma of four warps on shared memory, in chains of accumulators, with in-kernel timing.
//
// Why the compiler keeps it: the instructions are volatile PTX and each uses the previous one's accumulator; every accumulator is
// stored.
// Its loop in SASS: CHAINS · STEPS of HMMA, DMMA, IMMA or QMMA (wgmma: STEPS of HGMMA, IGMMA or QGMMA), the loop's counter
// and branch; no local memory, no access to global memory.
//
// `in` holds rows of 32 bytes: 64 of A, then 128 of B by columns: 16 of 16 bits, 8 of tf32, 32 of 8 bits, 4 of f64. A
// warp multiplies A's first rows and B's first eight columns. The byte layout is the same for every type, except f64 in
// m16n8k16, which uses the four numbers of each row four times. Accumulators start at their chain's number. Sparse
// products are twice as deep: A's 32 bytes are its nonzeros, B's are used twice, and a word after B has the positions of
// A's nonzeros in their row: four bits for two of four numbers (tf32: one of two), the same everywhere.
#include "span.h"

#define ROW_WORDS 8
#define A_ROWS 64
#define B_ROWS 128
#define PLACES_AT ((A_ROWS + B_ROWS) * ROW_WORDS)

#define OF_LANE                                                                                                        \
    const u32 lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;                                             \
    const auto *a_row = in + group * ROW_WORDS, *b_row = a_row + A_ROWS * ROW_WORDS

// 16 × 8 by 32 bytes: four registers of A, two of B, four accumulators.
#define MMA(name, accumulator, kind, instruction)                                                                      \
    struct name {                                                                                                      \
        typedef accumulator T;                                                                                         \
        enum { ACCUMULATORS = 4 };                                                                                     \
        u32 a[4], b[2];                                                                                                \
        __device__ name(const u32* in) {                                                                               \
            OF_LANE;                                                                                                   \
            for (int r = 0; r < 4; ++r) a[r] = a_row[r % 2 * 8 * ROW_WORDS + r / 2 * 4 + place];                       \
            for (int r = 0; r < 2; ++r) b[r] = b_row[r * 4 + place];                                                   \
        }                                                                                                              \
        __device__ __forceinline__ void step(T (&d)[4]) const {                                                        \
            asm volatile("mma.sync.aligned." instruction                                                               \
                         " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                      \
                         : "+" kind(d[0]), "+" kind(d[1]), "+" kind(d[2]), "+" kind(d[3])                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                          \
        }                                                                                                              \
    };
MMA(mma_f16, float, "f", "m16n8k16.row.col.f32.f16.f16.f32")
MMA(mma_bf16, float, "f", "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA(mma_tf32, float, "f", "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA(mma_i8, int, "r", "m16n8k32.row.col.s32.s8.s8.s32")
#if __CUDA_ARCH__ >= 890
MMA(mma_f8, float, "f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
MMA(mma_f8e5m2, float, "f", "m16n8k32.row.col.f32.e5m2.e5m2.f32")
#endif

// The same with A half zeros: B is twice as deep. Older compilers need the instruction's older name.
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 5)
#define SPARSE "sp::ordered_metadata"
#else
#define SPARSE "sp"
#endif
#define MMA_SPARSE(name, accumulator, kind, instruction)                                                               \
    struct name {                                                                                                      \
        typedef accumulator T;                                                                                         \
        enum { ACCUMULATORS = 4 };                                                                                     \
        u32 a[4], b[4], places;                                                                                        \
        __device__ name(const u32* in) : places(in[PLACES_AT]) {                                                       \
            OF_LANE;                                                                                                   \
            for (int r = 0; r < 4; ++r) a[r] = a_row[r % 2 * 8 * ROW_WORDS + r / 2 * 4 + place];                       \
            for (int r = 0; r < 4; ++r) b[r] = b_row[r % 2 * 4 + place];                                               \
        }                                                                                                              \
        __device__ __forceinline__ void step(T (&d)[4]) const {                                                        \
            asm volatile("mma." SPARSE ".sync.aligned." instruction                                                    \
                         " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9,%10,%11}, {%0,%1,%2,%3}, %12, 0x0;"                    \
                         : "+" kind(d[0]), "+" kind(d[1]), "+" kind(d[2]), "+" kind(d[3])                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),     \
                           "r"(places));                                                                               \
        }                                                                                                              \
    };
MMA_SPARSE(mma_sp_f16, float, "f", "m16n8k32.row.col.f32.f16.f16.f32")
MMA_SPARSE(mma_sp_bf16, float, "f", "m16n8k32.row.col.f32.bf16.bf16.f32")
MMA_SPARSE(mma_sp_tf32, float, "f", "m16n8k16.row.col.f32.tf32.tf32.f32")
MMA_SPARSE(mma_sp_i8, int, "r", "m16n8k64.row.col.s32.s8.s8.s32")

__device__ __forceinline__ double double_at(const u32* row, u32 place) {
    return reinterpret_cast<const double*>(row)[place];
}

struct mma_f64_k4 {
    typedef double T;
    enum { ACCUMULATORS = 2 };
    double a, b;
    __device__ mma_f64_k4(const u32* in) {
        OF_LANE;
        a = double_at(a_row, place), b = double_at(b_row, place);
    }
    __device__ __forceinline__ void step(T (&d)[2]) const {
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
    }
};

#if __CUDA_ARCH__ >= 900
struct mma_f64_k16 {
    typedef double T;
    enum { ACCUMULATORS = 4 };
    double a[8], b[4];
    __device__ mma_f64_k16(const u32* in) {
        OF_LANE;
        for (int r = 0; r < 8; ++r) a[r] = double_at(a_row + r % 2 * 8 * ROW_WORDS, place);
        for (int r = 0; r < 4; ++r) b[r] = double_at(b_row, place);
    }
    __device__ __forceinline__ void step(T (&d)[4]) const {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7,%8,%9,%10,%11}, "
                     "{%12,%13,%14,%15}, {%0,%1,%2,%3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]),
                       "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
    }
};
#endif

// Accumulator i of chain c of this thread is stored at ((first + c) · ACCUMULATORS + i) · WIDE + its index in its group of
// WIDE threads.
template <int COUNT, int WIDE, typename T> __device__ __forceinline__ void store_chain(T* out, u64 chain, const T (&d)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) out[(chain * COUNT + i) * WIDE + threadIdx.x % WIDE] = d[i];
}

template <class OF, int CHAINS, int STEPS>
__device__ __forceinline__ void products(typename OF::T* out, const u32* in, u64* cycles, u32 iterations) {
    const OF of(in);
    typename OF::T d[CHAINS][OF::ACCUMULATORS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c)
        for (int i = 0; i < OF::ACCUMULATORS; ++i) d[c][i] = c;
    const u64 start = start_together();
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) of.step(d[c]);
    }
    const u64 end = u64(clock64());
    const u64 first = (u64(blockIdx.x) * blockDim.x + threadIdx.x) / 32 * CHAINS;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) store_chain<OF::ACCUMULATORS, 32>(out, first + c, d[c]);
    leave_span(cycles, start, end);
}

#define TENSOR_MMA(name, of, chains, steps)                                                                            \
    extern "C" __global__ void __launch_bounds__(512) name(of::T* out, const u32* in, u64* cycles, u32 iterations) {        \
        products<of, chains, steps>(out, in, cycles, iterations);                                                           \
    }
#include "wgmma.h"
