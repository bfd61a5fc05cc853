// Matrix products of a warp group (64 × 128 by 32 bytes, or sparse by 64 bytes, half of them in A) for sm_90a: B, and mostly
// A, in shared memory. Part of `kernel.cu`.
#pragma once

#include "span.h"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

#define EIGHT(kind, d, i)                                                                                              \
    "+" kind(d[i]), "+" kind(d[i + 1]), "+" kind(d[i + 2]), "+" kind(d[i + 3]), "+" kind(d[i + 4]), "+" kind(d[i + 5]), \
        "+" kind(d[i + 6]), "+" kind(d[i + 7])
#define ALL_64(kind, d)                                                                                                \
    EIGHT(kind, d, 0), EIGHT(kind, d, 8), EIGHT(kind, d, 16), EIGHT(kind, d, 24), EIGHT(kind, d, 32),                  \
        EIGHT(kind, d, 40), EIGHT(kind, d, 48), EIGHT(kind, d, 56)
#define NAMES_64                                                                                                       \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,"  \
    "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57," \
    "%58,%59,%60,%61,%62,%63}"

// `scales`: the operands after `p`: signs, and for 16-bit types the transpose flags, all off.
#define WGMMA(name, accumulator, kind, instruction, scales)                                                            \
    struct name {                                                                                                      \
        typedef accumulator T;                                                                                         \
        enum : u32 { B_WORDS = ROW_WORDS };                                                                            \
        static __device__ __forceinline__ void step(T (&d)[64], const u32 (&)[4], u64 a, u64 b, u32) {                 \
            asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned." instruction " " NAMES_64  \
                         ", %64, %65, p" scales ";}" : ALL_64(kind, d) : "l"(a), "l"(b));                              \
        }                                                                                                              \
    };
WGMMA(wgmma_f16, float, "f", "m64n128k16.f32.f16.f16", ", 1, 1, 0, 0")
WGMMA(wgmma_bf16, float, "f", "m64n128k16.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA(wgmma_tf32, float, "f", "m64n128k8.f32.tf32.tf32", ", 1, 1")
WGMMA(wgmma_f8, float, "f", "m64n128k32.f32.e4m3.e4m3", ", 1, 1")
WGMMA(wgmma_f8e5m2, float, "f", "m64n128k32.f32.e5m2.e5m2", ", 1, 1")
WGMMA(wgmma_i8, int, "r", "m64n128k32.s32.s8.s8", "")

// A half zeros: see `MMA_SPARSE`.
#define WGMMA_SPARSE(name, accumulator, kind, instruction, scales)                                                     \
    struct name {                                                                                                      \
        typedef accumulator T;                                                                                         \
        enum : u32 { B_WORDS = 2 * ROW_WORDS };                                                                        \
        static __device__ __forceinline__ void step(T (&d)[64], const u32 (&)[4], u64 a, u64 b, u32 places) {          \
            asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sp.sync.aligned." instruction            \
                         " " NAMES_64 ", %64, %65, %66, 0, p" scales ";}"                                              \
                         : ALL_64(kind, d) : "l"(a), "l"(b), "r"(places));                                             \
        }                                                                                                              \
    };
WGMMA_SPARSE(wgmma_sp_f16, float, "f", "m64n128k32.f32.f16.f16", ", 1, 1, 0, 0")
WGMMA_SPARSE(wgmma_sp_bf16, float, "f", "m64n128k32.f32.bf16.bf16", ", 1, 1, 0, 0")
WGMMA_SPARSE(wgmma_sp_tf32, float, "f", "m64n128k16.f32.tf32.tf32", ", 1, 1")
WGMMA_SPARSE(wgmma_sp_f8, float, "f", "m64n128k64.f32.e4m3.e4m3", ", 1, 1")
WGMMA_SPARSE(wgmma_sp_i8, int, "r", "m64n128k64.s32.s8.s8", "")

// A in registers.
struct wgmma_f16_registers {
    typedef float T;
    enum : u32 { B_WORDS = ROW_WORDS };
    static __device__ __forceinline__ void step(T (&d)[64], const u32 (&a)[4], u64, u64 b, u32) {
        asm volatile("{.reg .pred p; setp.eq.u32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 " NAMES_64
                     ", {%64,%65,%66,%67}, %68, p, 1, 1, 0;}"
                     : ALL_64("f", d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
    }
};

// Bytes between blocks of 8 rows × 16 bytes along a row; down the columns blocks are 8 rows apart (PTX ISA, 'Matrix descriptor
// format'; no swizzle).
#define LEADING 128

__device__ __forceinline__ u64 descriptor(const void* shared, u32 row_words) {
    const u64 address = __cvta_generic_to_shared(shared);
    return (address & 0x3ffff) >> 4 | u64(LEADING >> 4) << 16 | u64(32 * row_words >> 4) << 32;
}

// Lays out `count` rows of `words` words each, which repeat the input's rows.
__device__ __forceinline__ void lay(u32* tile, const u32* rows, u32 count, u32 words) {
#pragma unroll 1
    for (u32 i = threadIdx.x; i < count * words; i += blockDim.x) {
        const u32 row = i / words, word = i % words;
        tile[row / 8 * (8 * words) + word / 4 * (LEADING / 4) + row % 8 * 4 + word % 4] = rows[row * ROW_WORDS + word % ROW_WORDS];
    }
}

template <class OF, int STEPS>
__device__ __forceinline__ void group_products(typename OF::T* out, const u32* in, u64* cycles, u32 iterations) {
    __shared__ alignas(1024) u32 a_rows[A_ROWS * ROW_WORDS], b_rows[B_ROWS * OF::B_WORDS];
    lay(a_rows, in, A_ROWS, ROW_WORDS);
    lay(b_rows, in + A_ROWS * ROW_WORDS, B_ROWS, OF::B_WORDS);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    u32 a[4];
    for (int r = 0; r < 4; ++r) a[r] = in[(warp * 16 + lane / 4 + r % 2 * 8) * ROW_WORDS + r / 2 * 4 + lane % 4];
    typename OF::T d[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) d[i] = 0;
    // The matrix units read shared memory through the async proxy, so the stores need a proxy fence.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    const u64 a_tile = descriptor(a_rows, ROW_WORDS), b_tile = descriptor(b_rows, OF::B_WORDS);
    const u32 places = in[PLACES_AT];
    const u64 start = start_together();
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int step = 0; step < STEPS; ++step) OF::step(d, a, a_tile, b_tile, places);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    const u64 end = u64(clock64());
    store_chain<64, 128>(out, (u64(blockIdx.x) * blockDim.x + threadIdx.x) / 128, d);
    leave_span(cycles, start, end);
}

#define TENSOR_WGMMA(name, of, steps)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256) name(of::T* out, const u32* in, u64* cycles, u32 iterations) {        \
        group_products<of, steps>(out, in, cycles, iterations);                                                             \
    }
#endif
