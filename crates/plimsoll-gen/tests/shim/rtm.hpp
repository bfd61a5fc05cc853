// Runs a step of the wave equation on awkward grids, and compares with plain loops in double precision.
#include "blocks.hpp"

inline Shape shape_of(u32 nx, u32 ny, u32 nz) {
    return Shape{nx, ny, nz, ((nx + 127) / 128 * 128 + RADIUS + 31) / 32 * 32, (ny + 31) / 32 * 32 + RADIUS};
}

inline double naive(const Shape& s, const Array<float>& p, u32 x, u32 y, u32 z, double* size) {
    auto now = [&](long long i, long long j, long long k) {
        const bool inside = i >= 0 && j >= 0 && k >= 0 && i < s.nx && j < s.ny && k < s.nz;
        return inside ? double(p.at[s.at(u32(i), u32(j), u32(k))]) : 0.0;
    };
    double sum = 3 * WEIGHT[0] * now(x, y, z);
    *size = std::fabs(sum);
    for (long long k = 1; k <= RADIUS; ++k)
        for (double value : {now(x - k, y, z), now(x + k, y, z), now(x, y - k, z), now(x, y + k, z), now(x, y, z - k),
                             now(x, y, z + k)})
            sum += WEIGHT[k] * value, *size += std::fabs(WEIGHT[k] * value);
    return sum;
}

using Step = void (*)(float*, const float*, const float*, u32, u32, u32, u32, u32, u32);
using Check = void (*)(const float*, const float*, const float*, const float*, u32, u32, u32, u32, u32, u64*);

inline int once(const char* name, Shape s, u32 depth, Index3 block, Step step, Check check) {
    const size_t n = size_t(s.plane()) * (s.nz + 2 * RADIUS);
    Array<float> field(n), before(n), p(n), courant(n);
    std::vector<char> cell(n, 0);
    for (u32 z = 0; z < s.nz; ++z)
        for (u32 y = 0; y < s.ny; ++y)
            for (u32 x = 0; x < s.nx; ++x) cell[s.at(x, y, z)] = 1;
    for (size_t i = 0; i < n; ++i) {
        field[i] = before[i] = cell[i] ? jitter(i, 1) : 0, p[i] = cell[i] ? jitter(i, 2) : 0;
        courant[i] = cell[i] ? 0.1f + 0.09f * jitter(i, 3) : 0;
    }
    const Index3 grid{(s.nx + block.x - 1) / block.x, (s.ny + block.y - 1) / block.y, (s.nz + depth - 1) / depth};
    launch_blocks(grid, block, step, field.at, p.at, courant.at, s.nx, s.ny, s.nz, s.pitch, s.rows, depth);
    for (size_t i = 0; i < n; ++i)
        if (!cell[i] && field[i] != 0) return wrong(name, i, n);
    for (u32 z = 0; z < s.nz; ++z)
        for (u32 y = 0; y < s.ny; ++y)
            for (u32 x = 0; x < s.nx; ++x) {
                const u32 i = s.at(x, y, z);
                double size;
                const double sum = naive(s, p, x, y, z, &size), right = 2.0 * p[i] - before[i] + courant[i] * sum;
                const double terms = 2 * std::fabs(double(p[i])) + std::fabs(double(before[i])) + courant[i] * size;
                if (!(std::fabs(field[i] - right) <= terms * 32 / 16777216)) return wrong(name, i, n);
            }
    u64 result[2] = {0, ~0ull};
    const Index3 rows{s.ny, s.nz, 1};
    auto judge = [&] {
        launch_each(rows, Index3{128, 1, 1}, check, field.at, before.at, p.at, courant.at, s.nx, s.ny, s.nz, s.pitch,
                    s.rows, result);
    };
    judge();
    if (result[0] != 0) return wrong("rtm_check", result[1], n);
    const u32 spoilt = s.at(s.nx / 2, s.ny / 2, s.nz / 2);
    field[spoilt] += 1e-3f;
    judge();
    return result[0] == 1 && result[1] == spoilt ? 0 : wrong("rtm_check of a wrong cell", spoilt, n);
}

inline int check(const char* name, u32 bx, u32 by, Step step, Check check) {
    int failed = 0;
    for (Shape s : {shape_of(1, 1, 1), shape_of(5, 3, 2), shape_of(33, 17, 9), shape_of(130, 9, 12)})
        for (u32 depth : {s.nz, 5u}) failed |= once(name, s, depth, Index3{bx, by, 1}, step, check);
    return failed;
}

// Checks that the initial bump is in the right place and at rest, and that the medium is stable.
inline int begins(void (*begin)(float*, float*, float*, u32, u32, u32, u32, u32, float)) {
    const Shape s = shape_of(40, 37, 36);
    const size_t n = size_t(s.plane()) * (s.nz + 2 * RADIUS);
    Array<float> field(n), p(n), courant(n);
    for (size_t i = 0; i < n; ++i) field[i] = p[i] = courant[i] = 0;
    launch_each(Index3{s.ny, s.nz, 1}, Index3{128, 1, 1}, begin, field.at, p.at, courant.at, s.nx, s.ny, s.nz, s.pitch,
                s.rows, 16.0f);
    for (size_t i = 0; i < n; ++i)
        if (field[i] != p[i] || p[i] < 0 || p[i] > 1 || !(courant[i] >= 0 && courant[i] < 0.2)) return wrong("rtm_begin", i, n);
    const u32 middle = s.at(20, 18, 18);
    return p[middle] == 1 && p[middle + 15] > 0 && p[middle + 16] == 0 ? 0 : wrong("rtm_begin", middle, n);
}
