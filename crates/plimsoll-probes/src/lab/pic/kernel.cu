// pic: a magnetic field, interpolated from the eight corners of a cell, rotates the velocities of particles (Boris): with fused
// multiply-adds of one thread per particle, and as matrix products for blocks of 16 particles.
//
// Why the compiler keeps it: places and velocities of all particles are stored.
// Its loop in SASS: one push of a particle: FFMA of 24 fields by 8 weights and of two cross products; or for 16 particles by a warp
// four HMMA.16816.F32, with F2FP that rounds their inputs and SHFL that exchanges results.
//
// A push: the particle moves, reflected at the walls of its cell; t is the field there, in units in which |t| is the tangent of
// half the angle; v' = v + v × t, v becomes v + v' × 2t / (1 + t²) (Birdsall and Langdon 1991, section 4-4).
// Blocks: a row of A has for each corner c the weight w_c times the direction of v in x, y and z, then w_c itself, 32 in all, B
// the corners' fields so that three columns are v × t and three are t. Directions are of half precision, magnitudes
// (of v, of the largest t in the cell) of single.
//
// A warp processes a cell. Particles of a cell are contiguous: `at` holds x, y, z, then the velocity, in arrays of `count`.
#include "device.h"

// Variables would be part of the module and make every launch take longer.
enum { CORNERS = 8, LANES = 32, WARPS = 4 };

struct Particle {
    float x[3], v[3];
};

__device__ __forceinline__ Particle particle(const float* at, u64 i, u64 count) {
    return {{at[i], at[i + count], at[i + 2 * count]}, {at[i + 3 * count], at[i + 4 * count], at[i + 5 * count]}};
}

__device__ __forceinline__ void move(Particle& p, float h) {
#pragma unroll
    for (int k = 0; k < 3; ++k) p.x[k] = 1.0f - fabsf(1.0f - fabsf(fused(h, p.v[k], p.x[k])));
}

struct Three {
    float x, y, z;
};

// a + scale · (v × t)
__device__ __forceinline__ Three add_cross(const float (&a)[3], float scale, Three v, Three t) {
    return {fused(scale, fused(v.y, t.z, -(v.z * t.y)), a[0]), fused(scale, fused(v.z, t.x, -(v.x * t.z)), a[1]),
            fused(scale, fused(v.x, t.y, -(v.y * t.x)), a[2])};
}

__device__ __forceinline__ float square(Three t) { return fused(t.x, t.x, fused(t.y, t.y, t.z * t.z)); }

// `field` has x, y, z of each corner; bits 0, 1, 2 of corner c select the far side in x, y, z.
__device__ __forceinline__ void push(Particle& p, const float (&field)[3 * CORNERS]) {
    const float x[2] = {1.0f - p.x[0], p.x[0]}, y[2] = {1.0f - p.x[1], p.x[1]}, z[2] = {1.0f - p.x[2], p.x[2]};
    Three t = {0, 0, 0};
#pragma unroll
    for (int c = 0; c < CORNERS; ++c) {
        const float w = x[c & 1] * (y[c >> 1 & 1] * z[c >> 2]);
        t = {fused(w, field[3 * c], t.x), fused(w, field[3 * c + 1], t.y), fused(w, field[3 * c + 2], t.z)};
    }
    const Three turned = add_cross(p.v, 1.0f, {p.v[0], p.v[1], p.v[2]}, t);
    const Three end = add_cross(p.v, 2.0f / (1.0f + square(t)), turned, t);
    p.v[0] = end.x, p.v[1] = end.y, p.v[2] = end.z;
}

__device__ __forceinline__ void by_threads(float* out, const float* at, const float* corners, u64 count, u32 per_cell, u32 pushes,
                                           float h) {
    const u32 cell = blockIdx.x * WARPS + threadIdx.x / LANES;
    float field[3 * CORNERS];
#pragma unroll
    for (int k = 0; k < 3 * CORNERS; ++k) field[k] = corners[cell * 3 * CORNERS + k];
    for (u32 place = threadIdx.x % LANES; place < per_cell; place += LANES) {
        const u64 i = u64(cell) * per_cell + place;
        if (i >= count) return;
        Particle p = particle(at, i, count);
#pragma unroll 1
        for (u32 k = 0; k < pushes; ++k) move(p, h), push(p, field);
#pragma unroll
        for (int k = 0; k < 3; ++k) out[i + k * count] = p.x[k], out[i + (k + 3) * count] = p.v[k];
    }
}

#if defined(__CUDA_ARCH__)
// Two numbers in half precision, the first in the lower half.
__device__ __forceinline__ u32 halves(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The value of x in thread `from` of the same four.
__device__ __forceinline__ float of_four(float x, u32 from) { return __shfl_sync(~0u, x, from, 4); }
#else
__device__ u32 halves(float low, float high);
__device__ void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1);
__device__ float of_four(float x, u32 from);
#endif

// Entry of B for component i of the direction (3: the weight alone) at a corner with field b, in column j.
__device__ __forceinline__ float entry(int i, u32 j, const float (&b)[3]) {
    if (j >= 3) return i == 3 ? (j == 3 ? b[0] : j == 4 ? b[1] : j == 5 ? b[2] : 0.0f) : 0.0f;
    if (i == 3 || u32(i) == j) return 0.0f;
    const u32 k = 3 - u32(i) - j;
    const float of = k == 0 ? b[0] : k == 1 ? b[1] : b[2];
    return (j + 3 - u32(i)) % 3 == 2 ? of : -of;
}

// A thread's part of B (for its pair of corners and its column), and the field's largest magnitude in the cell.
struct Share {
    u32 b[4];
    float size;
};

__device__ __forceinline__ Share share(const float* corners, u32 pair, u32 column) {
    float size = 1e-30f;
    for (int c = 0; c < CORNERS; ++c)
        size = fmaxf(size, square({corners[3 * c], corners[3 * c + 1], corners[3 * c + 2]}));
    Share s;
    s.size = sqrtf(size);
    float low[3], high[3];
#pragma unroll
    for (int k = 0; k < 3; ++k)
        low[k] = corners[6 * pair + k] / s.size, high[k] = corners[6 * pair + 3 + k] / s.size;
#pragma unroll
    for (int i = 0; i < 4; ++i) s.b[i] = halves(entry(i, column, low), entry(i, column, high));
    return s;
}

// Weights of a thread's pair of corners, which differ only in x.
struct Pair {
    float low, high;
    __device__ __forceinline__ Pair(const Particle& p, u32 pair) {
        const float rest = (pair & 1 ? p.x[1] : 1.0f - p.x[1]) * (pair >> 1 ? p.x[2] : 1.0f - p.x[2]);
        low = rest * (1.0f - p.x[0]), high = rest * p.x[0];
    }
    __device__ __forceinline__ u32 times(float v) const { return halves(low * v, high * v); }
};

__device__ __forceinline__ void product(float (&d)[4], const Pair& a, const Pair& b, Three v, Three u, const Share& s) {
    d[0] = d[1] = d[2] = d[3] = 0.0f;
    multiply(d, a.times(v.x), b.times(u.x), a.times(v.y), b.times(u.y), s.b[0], s.b[1]);
    multiply(d, a.times(v.z), b.times(u.z), a.times(1.0f), b.times(1.0f), s.b[2], s.b[3]);
}
#include "pic_blocks.h"

// The way is by_threads or by_blocks.
#define PIC_PUSH(name, way)                                                                                            \
    extern "C" __global__ void __launch_bounds__(WARPS * LANES)                                                        \
        name(float* out, const float* at, const float* corners, u64 count, u32 per_cell, u32 pushes, float h) {        \
        way(out, at, corners, count, per_cell, pushes, h);                                                             \
    }

#define PIC_BEGIN(name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                                                  \
        name(float* at, float* corners, u64 count, u64 fields, float size, u32 seed) {                                 \
        begin(at, corners, count, fields, size, seed);                                                                 \
    }
