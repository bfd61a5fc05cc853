// Runs a step of the anisotropic wave equation on awkward grids, and compares it with plain sums in double precision.
#include "blocks.hpp"

struct Grid {
    u32 nx, ny, nz, pitch, rows;
    size_t floats() const { return size_t(pitch) * rows * (nz + 2 * RADIUS + 1); }
    u32 at(u32 x, u32 y, u32 z) const { return (z + RADIUS + 1) * pitch * rows + y * pitch + x; }
};

inline Grid grid_of(u32 nx, u32 ny, u32 nz) {
    return Grid{nx, ny, nz, ((nx + 31) / 32 * 32 + RADIUS + 31) / 32 * 32, (ny + 47) / 48 * 48 + RADIUS};
}

using Step = void (*)(float*, float*, const float*, const float*, const float*, const u32*, const u32*, u32, u32, u32, u32, u32);
using Check = void (*)(const float*, const float*, const float*, const float*, const float*, const float*, const float*,
                       const u32*, const u32*, u32, u32, u32, u32, u32, u64*);

struct Fields {
    Grid g;
    Array<float> p_field, q_field, p, q, v, p_before, q_before;
    Array<u32> thomsen, axis;
    std::vector<char> cell;
    explicit Fields(Grid g, bool upright)
        : g(g), p_field(g.floats()), q_field(g.floats()), p(g.floats()), q(g.floats()), v(g.floats()),
          p_before(g.floats()), q_before(g.floats()), thomsen(g.floats()), axis(g.floats()), cell(g.floats(), 0) {
        for (size_t i = 0; i < g.floats(); ++i) {
            p_field[i] = q_field[i] = p[i] = q[i] = v[i] = 0;
            thomsen[i] = axis[i] = 0;
        }
        for (u32 z = 0; z < g.nz; ++z)
            for (u32 y = 0; y < g.ny; ++y)
                for (u32 x = 0; x < g.nx; ++x) {
                    const u32 i = g.at(x, y, z);
                    cell[i] = 1;
                    p_field[i] = jitter(i, 1), q_field[i] = jitter(i, 2), p[i] = jitter(i, 3), q[i] = jitter(i, 4);
                    v[i] = 0.04f + 0.01f * jitter(i, 5);
                    thomsen[i] = (0x3000u + i % 4096) | (0x1000u + i % 8191) << 16;
                    axis[i] = upright ? 0 : (i * 7919u % 0x9000u - 0x4800u & 0xffffu) | (i * 104729u % 0x9000u - 0x4800u) << 16;
                }
        for (size_t i = 0; i < g.floats(); ++i) p_before[i] = p_field[i], q_before[i] = q_field[i];
    }
    void step(Step step, u32 tx, u32 ty) {
        const Index3 grid{(g.nx + tx - 1) / tx, (g.ny + ty - 1) / ty, 1};
        launch_blocks(grid, Index3{tx * ty, 1, 1}, step, p_field.at, q_field.at, p.at, q.at, v.at, thomsen.at, axis.at, g.nx,
                      g.ny, g.nz, g.pitch, g.rows);
    }
    u64 wrongs(Check check) {
        u64 result[2] = {0, ~0ull};
        launch_each(Index3{g.ny, g.nz, 1}, Index3{128, 1, 1}, check, p_field.at, q_field.at, p_before.at, q_before.at, p.at,
                    q.at, v.at, thomsen.at, axis.at, g.nx, g.ny, g.nz, g.pitch, g.rows, result);
        return result[0];
    }
};

inline int check_grid(const char* name, Grid g, bool upright, u32 tx, u32 ty, Step step, Check check) {
    Fields f(g, upright);
    f.step(step, tx, ty);
    for (size_t i = 0; i < g.floats(); ++i)
        if (!f.cell[i] && (f.p_field[i] != 0 || f.q_field[i] != 0)) return wrong(name, i, g.floats());
    if (f.wrongs(check) != 0) return wrong(name, 0, g.floats());
    // A vertical axis: mixed derivatives don't contribute.
    for (u32 z = 0; upright && z < g.nz; ++z)
        for (u32 y = 0; y < g.ny; ++y)
            for (u32 x = 0; x < g.nx; ++x) {
                const u32 i = g.at(x, y, z);
                auto line = [&](const Array<float>& u, long long stride) {
                    double sum = second_weight(0) * u.at[i];
                    for (int k = 1; k <= RADIUS; ++k)
                        sum += second_weight(k) * (double(u.at[i + k * stride]) + u.at[i - k * stride]);
                    return sum;
                };
                const long long up = (long long)g.pitch * g.rows;
                const double p2 = line(f.p, 1) + line(f.p, g.pitch), q2 = line(f.q, 1) + line(f.q, g.pitch);
                const double p1 = line(f.p, up), q1 = line(f.q, up);
                const double e = (f.thomsen[i] & 0xffff) / 65536.0, d = (f.thomsen[i] >> 16) / 65536.0, s = (e - d) / 0.75;
                const double right_p = 2.0 * f.p[i] - f.p_before[i] + f.v[i] * ((1 + 2 * e) * p2 + q1 + s * (p1 - q1));
                const double right_q = 2.0 * f.q[i] - f.q_before[i] + f.v[i] * ((1 + 2 * d) * p2 + q1 - s * (p2 - q2));
                if (!(std::fabs(f.p_field[i] - right_p) < 1e-5 && std::fabs(f.q_field[i] - right_q) < 1e-5))
                    return wrong(name, i, 0);
            }
    const u32 spoilt = g.at(g.nx / 2, g.ny / 2, g.nz / 2);
    f.q_field[spoilt] += 1e-2f;
    return f.wrongs(check) == 1 ? 0 : wrong("tti_check of a wrong cell", spoilt, g.floats());
}

// Without loads, a step negates the previous field.
inline int negates(const char* name, u32 tx, u32 ty, Step step) {
    Fields f(grid_of(33, 13, 20), false);
    f.step(step, tx, ty);
    for (size_t i = 0; i < f.g.floats(); ++i)
        if (f.p_field[i] != -f.p_before[i] || f.q_field[i] != -f.q_before[i]) return wrong(name, i, f.g.floats());
    return 0;
}

inline int check(const char* name, u32 tx, u32 ty, Step step, Check check) {
    int failed = 0;
    for (Grid g : {grid_of(1, 1, 1), grid_of(5, 3, 2), grid_of(33, 13, 20)})
        for (bool upright : {true, false}) failed |= check_grid(name, g, upright, tx, ty, step, check);
    return failed;
}
