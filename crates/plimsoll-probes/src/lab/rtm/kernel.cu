// rtm: one time step of the acoustic wave equation in three dimensions, 8th order in space, 2nd in time.
//
// Why the compiler keeps it: every cell of the new field is stored.
// Its loop in SASS: one plane of a block: the column's cell four planes ahead, the old field and the medium (LDG), the block's
// halo, two barriers, 24 neighbours from registers and shared memory, one STG.
//
// Fields are rows of `pitch` floats, planes of `rows` rows. The gap after one row is also the gap before the next, the spare rows
// after one plane are also those before the next, and there are RADIUS planes at both ends: all zero, the edge of the model.
// `courant` is (v · dt / h)². The new field replaces the old one; another step with the same arguments goes back in time, since
// the scheme is symmetric in time.
#include "device.h"

constexpr int RADIUS = 4;
// Central differences for the second derivative, 8th order (Fornberg 1988, Mathematics of Computation 51, table 1).
constexpr double WEIGHT[RADIUS + 1] = {-205.0 / 72, 8.0 / 5, -1.0 / 5, 8.0 / 315, -1.0 / 560};

// Cells in x, y and z, and the layout of rows and planes.
struct Shape {
    u32 nx, ny, nz, pitch, rows;
    __device__ __forceinline__ u32 plane() const { return pitch * rows; }
    __device__ __forceinline__ u32 at(u32 x, u32 y, u32 z) const { return (z + RADIUS) * plane() + y * pitch + x; }
};

// Sums go in pairs from the centre outwards, in x, y, z: blocks of any shape give the same bits.
template <int BX, int BY>
__device__ __forceinline__ void step(float* field, const float* p, const float* courant, Shape s, u32 depth) {
    __shared__ float tile[BY + 2 * RADIUS][BX + 2 * RADIUS];
    const u32 tx = threadIdx.x, ty = threadIdx.y, plane = s.plane();
    const u32 x = blockIdx.x * BX + tx, y = blockIdx.y * BY + ty;
    const u32 first = blockIdx.z * depth, last = s.nz - first < depth ? s.nz : first + depth;
    const bool inside = x < s.nx && y < s.ny;
    u32 at = s.at(x, y, first);
    float column[2 * RADIUS + 1];
#pragma unroll
    for (int k = 1; k <= 2 * RADIUS; ++k) column[k] = p[at + (k - 1) * plane - RADIUS * plane];
#pragma unroll 1
    for (u32 z = first; z < last; ++z, at += plane) {
#pragma unroll
        for (int k = 0; k < 2 * RADIUS; ++k) column[k] = column[k + 1];
        column[2 * RADIUS] = p[at + RADIUS * plane];
        const float old = field[at], factor = courant[at];
        float west = 0, east = 0, north = 0, south = 0;
        if (tx < RADIUS) west = p[at - RADIUS];
        if (tx >= BX - RADIUS) east = p[at + RADIUS];
        if (ty < RADIUS) north = p[at - RADIUS * s.pitch];
        if (ty >= BY - RADIUS) south = p[at + RADIUS * s.pitch];
        __syncthreads();
        tile[ty + RADIUS][tx + RADIUS] = column[RADIUS];
        if (tx < RADIUS) tile[ty + RADIUS][tx] = west;
        if (tx >= BX - RADIUS) tile[ty + RADIUS][tx + 2 * RADIUS] = east;
        if (ty < RADIUS) tile[ty][tx + RADIUS] = north;
        if (ty >= BY - RADIUS) tile[ty + 2 * RADIUS][tx + RADIUS] = south;
        __syncthreads();
        float sum = float(3 * WEIGHT[0]) * column[RADIUS];
#pragma unroll
        for (int k = 1; k <= RADIUS; ++k) {
            const float in_x = tile[ty + RADIUS][tx + RADIUS - k] + tile[ty + RADIUS][tx + RADIUS + k];
            const float in_y = tile[ty + RADIUS - k][tx + RADIUS] + tile[ty + RADIUS + k][tx + RADIUS];
            const float in_z = column[RADIUS - k] + column[RADIUS + k];
            sum = fused(float(WEIGHT[k]), (in_x + in_y) + in_z, sum);
        }
        if (inside) field[at] = fused(factor, sum, fused(2.0f, column[RADIUS], -old));
    }
}

#define SHAPE u32 nx, u32 ny, u32 nz, u32 pitch, u32 rows
#define RTM_STEP(name, bx, by)                                                                                         \
    extern "C" __global__ void __launch_bounds__(bx * by)                                                              \
        name(float* field, const float* p, const float* courant, SHAPE, u32 depth) {                                   \
        step<bx, by>(field, p, courant, Shape{nx, ny, nz, pitch, rows}, depth);                                        \
    }

// A pseudo-random number from 0 to 1 for a cell.
__device__ __forceinline__ float noise(u32 cell) {
    cell = (cell ^ 61u ^ (cell >> 16)) * 9u;
    cell = (cell ^ (cell >> 4)) * 0x27d4eb2du;
    return float((cell ^ (cell >> 15)) >> 8) * (1.0f / 16777216.0f);
}

// A round bump at rest in the middle, (1 − r²/R²)⁴, in a medium of three layers whose speed varies by 1 % from cell to cell.
// One thread per cell of a row; a block per row, a plane of rows per plane of the grid.
#define RTM_BEGIN(name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128)                                                                  \
        name(float* field, float* p, float* courant, SHAPE, float radius) {                                            \
        const Shape s{nx, ny, nz, pitch, rows};                                                                        \
        const u32 y = blockIdx.x, z = blockIdx.y;                                                                      \
        for (u32 x = threadIdx.x; x < nx; x += 128) {                                                                  \
            const float dx = float(x) - float(nx / 2), dy = float(y) - float(ny / 2), dz = float(z) - float(nz / 2);   \
            const float left = 1.0f - (dx * dx + dy * dy + dz * dz) / (radius * radius);                               \
            const u32 at = s.at(x, y, z);                                                                              \
            const float speed = (3 * z < nz ? 0.26f : 3 * z < 2 * nz ? 0.33f : 0.40f) * (0.99f + 0.02f * noise(at));   \
            p[at] = field[at] = left > 0.0f ? left * left * left * left : 0.0f;                                        \
            courant[at] = speed * speed;                                                                               \
        }                                                                                                              \
    }

// Counts cells of `after` that differ from a step from `before` and `p`, computed in double precision without shared memory, by
// more than 32 roundings of the largest term: the count in result[0], the first such cell in result[1].
#define RTM_CHECK(name)                                                                                                \
    extern "C" __global__ void __launch_bounds__(128) name(const float* after, const float* before, const float* p,    \
                                                           const float* courant, SHAPE, u64* result) {                 \
        const Shape s{nx, ny, nz, pitch, rows};                                                                        \
        for (u32 x = threadIdx.x; x < nx; x += 128) {                                                                  \
            const u32 at = s.at(x, blockIdx.x, blockIdx.y);                                                            \
            const u32 strides[3] = {1, pitch, s.plane()};                                                              \
            double sum = 3 * WEIGHT[0] * p[at], size = fabs(sum);                                                      \
            for (int axis = 0; axis < 3; ++axis)                                                                       \
                for (int k = 1; k <= RADIUS; ++k) {                                                                    \
                    const double low = p[at - k * strides[axis]], high = p[at + k * strides[axis]];                    \
                    sum += WEIGHT[k] * (low + high);                                                                   \
                    size += fabs(WEIGHT[k]) * (fabs(low) + fabs(high));                                                \
                }                                                                                                      \
            const double right = 2.0 * p[at] - before[at] + courant[at] * sum;                                         \
            const double terms = 2.0 * fabs(double(p[at])) + fabs(double(before[at])) + courant[at] * size;            \
            if (fabs(after[at] - right) <= terms * (32.0 / 16777216.0) + 1e-42) continue;                              \
            atomicAdd(result, u64(1));                                                                                 \
            atomicMin(result + 1, u64(at));                                                                            \
        }                                                                                                              \
    }
