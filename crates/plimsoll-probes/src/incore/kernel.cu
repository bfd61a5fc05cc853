// incore: latency and throughput of single instructions: CHAINS independent chains of one instruction per thread, by the
// SM's own clock.
//
// Why the compiler keeps it: every link of a chain takes the one before as operand, in inline PTX that no compiler may drop or
// double; every chain's end is stored. Constants are in registers, because the compiler doesn't know that threadIdx.y is 0.
// Its loop in SASS: CHAINS · LINKS of the instruction that the kernel names (MUFU.RCP and the like within a division or
// root), the loop's counter and branch; no local memory, no access to memory.
//
// A link is a struct: its type, two constants and the instruction. `INCORE_REFERENCE` runs one chain after the other,
// link by link, for the check.
#include "span.h"

template <typename T, u32 BITS> struct Constant;
template <u32 BITS> struct Constant<u32, BITS> {
    static __device__ u32 plus(u32 i) { return BITS + i; }
};
template <u32 BITS> struct Constant<float, BITS> {
    static __device__ float plus(u32 i) { return __uint_as_float(BITS) + float(i); }
};
template <u32 BITS> struct Constant<double, BITS> {
    static __device__ double plus(u32 i) { return double(__uint_as_float(BITS)) + double(i); }
};

#define LINK(name, type, kind, a_bits, b_bits, ...)                                                                    \
    struct name {                                                                                                      \
        typedef type T;                                                                                                \
        static __device__ T a(u32 zero) { return Constant<T, a_bits>::plus(zero); }                                    \
        static __device__ T b(u32 zero) { return Constant<T, b_bits>::plus(zero); }                                    \
        static __device__ __forceinline__ T next(T x, T a, T b) {                                                      \
            asm volatile(__VA_ARGS__ : "+" kind(x) : kind(a), kind(b));                                                \
            return x;                                                                                                  \
        }                                                                                                              \
    };
// 1 + 2⁻²², near enough to 1 that long products stay finite; 2⁻²⁰; 1.5.
#define NEAR_1 0x3f800002
#define SMALL 0x35800000
#define ONE_AND_A_HALF 0x3fc00000
// A multiply-add takes the same register twice: with three, all may lie in one bank, which then takes two cycles to read.
#define F32(name, ...) LINK(name, float, "f", NEAR_1, SMALL, __VA_ARGS__)
#define F64(name, ...) LINK(name, double, "d", NEAR_1, SMALL, __VA_ARGS__)
F32(fma_f32, "fma.rn.f32 %0, %0, %1, %1;")
F32(add_f32, "add.rn.f32 %0, %0, %2;")
F32(mul_f32, "mul.rn.f32 %0, %0, %1;")
LINK(div_f32, float, "f", ONE_AND_A_HALF, SMALL, "div.rn.f32 %0, %1, %0;")
F32(sqrt_f32, "sqrt.rn.f32 %0, %0;")
// The minus is part of the instruction: without it the assembler knows that a reciprocal's reciprocal is the number.
F32(rcp_f32, "{.reg .f32 t; neg.f32 t, %0; rcp.approx.ftz.f32 %0, t;}")
F32(rsqrt_f32, "rsqrt.approx.ftz.f32 %0, %0;")
F32(ex2_f32, "{.reg .f32 t; neg.f32 t, %0; ex2.approx.ftz.f32 %0, t;}")
F32(lg2_f32, "{.reg .f32 t; abs.f32 t, %0; lg2.approx.ftz.f32 %0, t;}")
F32(sin_f32, "sin.approx.ftz.f32 %0, %0;")
F32(tanh_f32, "tanh.approx.f32 %0, %0;")
F64(fma_f64, "fma.rn.f64 %0, %0, %1, %1;")
F64(add_f64, "add.rn.f64 %0, %0, %2;")
F64(mul_f64, "mul.rn.f64 %0, %0, %1;")
LINK(div_f64, double, "d", ONE_AND_A_HALF, SMALL, "div.rn.f64 %0, %1, %0;")
F64(sqrt_f64, "sqrt.rn.f64 %0, %0;")
F64(rcp_f64, "rcp.rn.f64 %0, %0;")
F64(rsqrt_f64, "rsqrt.approx.f64 %0, %0;")

// In double precision these are functions of the compiler's library, not instructions.
#define FUNCTION(name, of_x)                                                                                           \
    struct name {                                                                                                      \
        typedef double T;                                                                                              \
        static __device__ T a(u32 zero) { return zero; }                                                               \
        static __device__ T b(u32 zero) { return zero; }                                                               \
        static __device__ __forceinline__ T next(T x, T, T) { return of_x; }                                           \
    };
FUNCTION(ex2_f64, exp2(-x))
FUNCTION(lg2_f64, log2(fabs(x)))
FUNCTION(sin_f64, sin(x))
FUNCTION(tanh_f64, tanh(x))

// Pairs of 16 bits: a half (or -1), and 1.
#define HALVES(name, half, one, ...) LINK(name, u32, "r", half, one, __VA_ARGS__)
HALVES(fma_f16x2, 0x38003800, 0x3c003c00, "fma.rn.f16x2 %0, %0, %1, %1;")
HALVES(add_f16x2, 0x38003800, 0x3c003c00, "add.rn.f16x2 %0, %0, %2;")
HALVES(mul_f16x2, 0xbc00bc00, 0x3c003c00, "mul.rn.f16x2 %0, %0, %1;")
HALVES(fma_bf16x2, 0x3f003f00, 0x3f803f80, "fma.rn.bf16x2 %0, %0, %1, %1;")
// One number of 16 bits: the lower half of a register, and the result in both.
#define HALF(name, half, one, instruction)                                                                             \
    HALVES(name, half, one, "{.reg .b16 x, a, rest; mov.b32 {x, rest}, %0; mov.b32 {a, rest}, %1; "                    \
                            instruction " x, x, a, a; mov.b32 %0, {x, x};}")
HALF(fma_f16, 0x3800, 0x3c00, "fma.rn.f16")
HALF(fma_bf16, 0x3f00, 0x3f80, "fma.rn.bf16")
#if __CUDA_ARCH__ >= 900
HALVES(add_bf16x2, 0x3f003f00, 0x3f803f80, "add.rn.bf16x2 %0, %0, %2;")
HALVES(mul_bf16x2, 0xbf80bf80, 0x3f803f80, "mul.rn.bf16x2 %0, %0, %1;")
#endif

#define WORD(name, ...) LINK(name, u32, "r", 0x9e3779b1, 0x7feb352d, __VA_ARGS__)
WORD(imad_i32, "mad.lo.u32 %0, %0, %1, %2;")
WORD(iadd3_i32, "{.reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2;}")
WORD(shf_i32, "shf.l.wrap.b32 %0, %0, %1, %2;")
WORD(lop3_i32, "lop3.b32 %0, %0, %1, %2, 0x6a;")
WORD(popc_i32, "popc.b32 %0, %0;")
WORD(shfl_b32, "shfl.sync.bfly.b32 %0, %0, 1, 31, -1;")
// There and back: two instructions a link.
WORD(cvt_i32_f32, "{.reg .f32 t; cvt.rn.f32.s32 t, %0; cvt.rzi.s32.f32 %0, t;}")
F32(cvt_f32_f64, "{.reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t;}")
F32(cvt_f32_f16, "{.reg .b16 t; cvt.rn.f16.f32 t, %0; cvt.f32.f16 %0, t;}")

// The start of chain `c` of a thread: different in every lane and chain.
template <class OF> __device__ __forceinline__ typename OF::T begins(u32 c) {
    const u32 i = threadIdx.x % WARP + WARP * c;
    if constexpr (sizeof(typename OF::T) == 4 && typename OF::T(0.5) == typename OF::T(0)) return 0x3c003c00 + i * 0x00010001;
    else return typename OF::T(1) + typename OF::T(i) / typename OF::T(512);
}

template <class OF, int CHAINS, int LINKS>
__device__ __forceinline__ void chains(typename OF::T* out, u64* cycles, u32 iterations) {
    typename OF::T x[CHAINS];
    const auto a = OF::a(threadIdx.y), b = OF::b(threadIdx.y);
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) x[c] = begins<OF>(c);
    const u64 start = start_together();
#pragma unroll 1
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
#pragma unroll
        for (int link = 0; link < LINKS; ++link)
#pragma unroll
            for (int c = 0; c < CHAINS; ++c) x[c] = OF::next(x[c], a, b);
    }
    const u64 end = u64(clock64());
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) out[(u64(blockIdx.x) * blockDim.x + threadIdx.x) * CHAINS + c] = x[c];
    leave_span(cycles, start, end);
}

#define INCORE(name, of, count, links)                                                                                 \
    extern "C" __global__ void __launch_bounds__(1024) name(of::T* out, u64* cycles, u32 iterations) {                      \
        chains<of, count, links>(out, cycles, iterations);                                                                  \
    }

#define INCORE_REFERENCE(name, of)                                                                                     \
    extern "C" __global__ void __launch_bounds__(1024) name(of::T* out, u32 count, u32 links) {                        \
        const auto a = of::a(threadIdx.y), b = of::b(threadIdx.y);                                                     \
        for (u32 c = 0; c < count; ++c) {                                                                              \
            of::T x = begins<of>(c);                                                                                   \
            _Pragma("unroll 1") for (u32 link = 0; link < links; ++link) x = of::next(x, a, b);                        \
            out[(u64(blockIdx.x) * blockDim.x + threadIdx.x) * count + c] = x;                                         \
        }                                                                                                              \
    }
