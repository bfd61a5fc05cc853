// tti: one time step of a pseudo-acoustic wave in a tilted transversely isotropic medium, 16th order in space, with one block per
// SM, three ways to copy the next plane into shared memory, and a version without copies.
//
// Why the compiler keeps it: both new fields are stored in every cell.
// Its loop in SASS: one plane of a tile: the copies of a plane (LDG.128 and STS.128; LDGSTS.128; UBLKCP by row and a wait for
// their barrier), first derivatives into shared memory, a barrier, the rest from shared memory, two STG.
//
// Equations of Fletcher, Du and Fowler 2009 (Geophysics 74, WCA179), with alpha 1: with n the axis of symmetry, H1 = (n·∇)² and
// H2 = Δ − H1, in units of the grid and the step,
//   p" = vx² H2 p + vz² H1 q + vs² H1 (p − q),   q" = vn² H2 p + vz² H1 q − vs² H2 (p − q),
//   vx² = vz² (1 + 2ε), vn² = vz² (1 + 2δ), vs² = vz² (ε − δ) / 0.75.
// Second derivatives across axes are first derivatives of first ones.
//
// Shared memory is a ring of SLOTS planes of both fields with their halo, one more than a derivative in z needs, then first
// derivatives in y (TY rows) and in z (all except the corners). Fields have rows of `pitch` floats and planes of `rows` rows as in
// rtm, and RADIUS + 1 planes of zeros before and after them.
#include "device.h"

constexpr int RADIUS = 8, SLOTS = 2 * RADIUS + 2;

// Weights of order 2 RADIUS on a line (Fornberg 1988, Mathematics of Computation 51): ±(M!)² / ((M − k)! (M + k)!) is M over
// M + 1 times M − 1 over M + 2 … in k factors; the first derivative has that over k, the second twice that over k².
__device__ constexpr double share(int k) {
    double product = k % 2 ? 1 : -1;
    for (int j = 1; j <= k; ++j) product *= double(RADIUS + 1 - j) / (RADIUS + j);
    return product;
}
__device__ constexpr double first_weight(int k) { return share(k) / k; }
__device__ constexpr double second_weight(int k) {
    if (k > 0) return 2 * share(k) / (double(k) * k);
    double sum = 0;
    for (int j = 1; j <= RADIUS; ++j) sum -= 2.0 / (double(j) * j);
    return sum;
}
template <int K> struct Weight {
    static constexpr float FIRST = float(first_weight(K)), SECOND = float(second_weight(K));
};

struct Medium {
    float v, epsilon, delta, n[3];
};

// ε and δ in halves of a word, in 2⁻¹⁶; the axis' x and y in halves of another, in 2⁻¹⁵.
__device__ __forceinline__ Medium medium(float v, u32 thomsen, u32 axis) {
    const float x = float(int(axis << 16) >> 16) * (1.0f / 32768), y = float(int(axis) >> 16) * (1.0f / 32768);
    const float rest = 1.0f - (x * x + y * y);
    return {v, float(thomsen & 0xffff) * (1.0f / 65536), float(thomsen >> 16) * (1.0f / 65536),
            {x, y, rest > 0.0f ? sqrtf(rest) : 0.0f}};
}

// Second derivatives of a field at one cell.
struct Derivatives {
    float xx, yy, zz, xy, yz, xz;
    __device__ __forceinline__ float laplacian() const { return xx + yy + zz; }
    __device__ __forceinline__ float along(const float (&n)[3]) const {
        const float pure = fused(n[0] * n[0], xx, fused(n[1] * n[1], yy, n[2] * n[2] * zz));
        const float mixed = fused(n[0] * n[1], xy, fused(n[1] * n[2], yz, n[0] * n[2] * xz));
        return fused(2.0f, mixed, pure);
    }
};

struct Two {
    float p, q;
};

// The new values of both fields.
__device__ __forceinline__ Two advanced(const Medium& m, Two now, Two old, const Derivatives& p, const Derivatives& q) {
    const float p1 = p.along(m.n), q1 = q.along(m.n), p2 = p.laplacian() - p1, q2 = q.laplacian() - q1;
    const float shear = (m.epsilon - m.delta) * (1.0f / 0.75f);
    const float for_p = fused(fused(2.0f, m.epsilon, 1.0f), p2, fused(shear, p1 - q1, q1));
    const float for_q = fused(fused(2.0f, m.delta, 1.0f), p2, fused(-shear, p2 - q2, q1));
    return Two{fused(m.v, for_p, fused(2.0f, now.p, -old.p)), fused(m.v, for_q, fused(2.0f, now.q, -old.q))};
}

#include "tti_block.h"

#define TTI_STEP(name, loads, tx, ty)                                                                                  \
    extern "C" __global__ void __launch_bounds__(tx * ty, 1)                                                           \
        name(float* p_field, float* q_field, const float* p, const float* q, const float* v, const u32* thomsen,       \
             const u32* axis, u32 nx, u32 ny, u32 nz, u32 pitch, u32 rows) {                                           \
        Block<loads, tx, ty>::step({p_field, q_field, p, q, v, thomsen, axis, nx, ny, nz, pitch, rows});           \
    }

#include "tti_check.h"

#define ROWS_OF_CELLS(x) for (u32 x = threadIdx.x; x < nx; x += 128)

// A round bump at rest in the middle of both fields, (1 − r²/R²)⁴; the speed varies by 1 % from cell to cell, the axis tilts by up
// to 37° in x and 17° in y across the model. A block per row, a plane of blocks per plane.
#define TTI_BEGIN(name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        name(float* p_field, float* q_field, float* p, float* q, float* v, u32* thomsen, u32* axis, u32 nx, u32 ny,    \
             u32 nz, u32 pitch, u32 rows, float radius) {                                                              \
        const u32 y = blockIdx.x, z = blockIdx.y;                                                                      \
        ROWS_OF_CELLS(x) {                                                                                             \
            const u32 at = (z + RADIUS + 1) * pitch * rows + y * pitch + x;                                            \
            const float dx = float(x) - float(nx / 2), dy = float(y) - float(ny / 2), dz = float(z) - float(nz / 2);   \
            const float left = 1.0f - (dx * dx + dy * dy + dz * dz) / (radius * radius);                               \
            p[at] = p_field[at] = q[at] = q_field[at] = left > 0.0f ? left * left * left * left : 0.0f;                \
            v[at] = 0.04f + 4e-8f * float((at * 2654435761u) >> 16 & 0x3fffu);                                         \
            thomsen[at] = (z < nz / 2 ? 0x4000u : 0x3000u) | (z < nz / 2 ? 0x2000u : 0x1000u) << 16;                   \
            const int tilt_x = int(39322 * u64(x) / nx) - 19661, tilt_y = int(19661 * u64(y) / ny) - 9830;             \
            axis[at] = u32(tilt_x) & 0xffffu | u32(tilt_y) << 16;                                                      \
        }                                                                                                              \
    }

// Counts cells of the new fields that are off by more than 64 roundings of all their terms, and finds the first of them.
#define TTI_CHECK(name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        name(const float* p_after, const float* q_after, const float* p_before, const float* q_before, const float* p, \
             const float* q, const float* v, const u32* thomsen, const u32* axis, u32 nx, u32 ny, u32 nz, u32 pitch,   \
             u32 rows, u64* result) {                                                                                  \
        ROWS_OF_CELLS(x) {                                                                                             \
            const u32 at = (blockIdx.y + RADIUS + 1) * pitch * rows + blockIdx.x * pitch + x;                          \
            if (right_step(p_after[at], q_after[at], p_before[at], q_before[at], p + at, q + at,                       \
                           medium(v[at], thomsen[at], axis[at]), pitch, rows))                                         \
                continue;                                                                                              \
            atomicAdd(result, u64(1));                                                                                 \
            atomicMin(result + 1, u64(at));                                                                            \
        }                                                                                                              \
    }
