// Pushes particles with both kernels, and compares with pushes in double precision. Warp-wide matrix operations are emulated by
// single threads, with the matrix layouts of the PTX ISA (7.x, 'Matrix Fragments for mma.m16n8k16').
#include "blocks.hpp"

static pthread_barrier_t warp_barriers[WARPS];
static float exchanged[WARPS][LANES];
static u32 fragments[WARPS][LANES][6];

inline void together() { pthread_barrier_wait(&warp_barriers[threadIdx.x / LANES]); }

float of_four(float x, u32 from) {
    auto& of_warp = exchanged[threadIdx.x / LANES];
    of_warp[threadIdx.x % LANES] = x;
    together();
    const float found = of_warp[threadIdx.x % LANES / 4 * 4 + from];
    together();
    return found;
}

u32 halves(float low, float high) { return u32(bits_of<uint16_t>(_Float16(low))) | u32(bits_of<uint16_t>(_Float16(high))) << 16; }

inline float half_of(u32 word, u32 which) { return float(bits_of<_Float16>(uint16_t(which ? word >> 16 : word & 0xffff))); }

void multiply(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    auto& of_warp = fragments[threadIdx.x / LANES];
    const u32 lane = threadIdx.x % LANES, group = lane / 4, place = lane % 4, own[6] = {a0, a1, a2, a3, b0, b1};
    std::memcpy(of_warp[lane], own, sizeof own);
    together();
    for (u32 r = 0; r < 4; ++r) {
        const u32 row = group + r / 2 * 8, column = 2 * place + r % 2;
        double sum = d[r];
        for (u32 k = 0; k < 16; ++k) {
            const u32 a = of_warp[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], b = of_warp[column * 4 + k % 8 / 2][4 + k / 8];
            sum += double(half_of(a, k % 2)) * half_of(b, k % 2);
        }
        d[r] = float(sum);
    }
    together();
}

// One particle push in double precision.
inline void exact(double (&x)[3], double (&v)[3], const float* corners, double h) {
    double t[3] = {0, 0, 0}, size = 0, turned[3];
    for (int k = 0; k < 3; ++k) x[k] = 1 - std::fabs(1 - std::fabs(x[k] + h * v[k]));
    for (int c = 0; c < 8; ++c)
        for (int k = 0; k < 3; ++k)
            t[k] += (c & 1 ? x[0] : 1 - x[0]) * (c & 2 ? x[1] : 1 - x[1]) * (c & 4 ? x[2] : 1 - x[2]) * corners[3 * c + k];
    for (int k = 0; k < 3; ++k) size += t[k] * t[k];
    for (int k = 0; k < 3; ++k) turned[k] = v[k] + v[(k + 1) % 3] * t[(k + 2) % 3] - v[(k + 2) % 3] * t[(k + 1) % 3];
    for (int k = 0; k < 3; ++k)
        v[k] += 2 / (1 + size) * (turned[(k + 1) % 3] * t[(k + 2) % 3] - turned[(k + 2) % 3] * t[(k + 1) % 3]);
}

using Push = void (*)(float*, const float*, const float*, u64, u32, u32, float);

inline int check(const char* name, double within, Push push, void (*begin)(float*, float*, u64, u64, float, u32)) {
    for (auto& barrier : warp_barriers) pthread_barrier_init(&barrier, nullptr, LANES);
    for (u32 per_cell : {1u, 7u, 16u, 33u})
        for (u32 cells : {1u, 4u, 6u})
            for (u32 pushes : {1u, 5u}) {
                const u32 blocks = (cells + WARPS - 1) / WARPS;
                const u64 n = u64(cells) * per_cell;
                Array<float> at(6 * n), out(6 * n + 1), corners(blocks * WARPS * 24);
                for (size_t i = 0; i < out.n; ++i) out[i] = -7;
                launch_each(Index3{unsigned(n + corners.n) / 256 + 1, 1, 1}, Index3{256, 1, 1}, begin, at.at, corners.at, n,
                            u64(corners.n), 0.3f, 11u);
                launch_blocks(Index3{blocks, 1, 1}, Index3{WARPS * LANES, 1, 1}, push, out.at, at.at, corners.at, n, per_cell,
                              pushes, 0.01f);
                for (u64 i = 0; i < n; ++i) {
                    double x[3], v[3];
                    for (int k = 0; k < 3; ++k) x[k] = at[i + k * n], v[k] = at[i + (k + 3) * n];
                    if (!(x[0] >= 0 && x[0] < 1 && std::fabs(v[2]) <= 1)) return wrong("pic_begin", i, n);
                    for (u32 k = 0; k < pushes; ++k) exact(x, v, &corners[i / per_cell * 24], 0.01f);
                    for (int k = 0; k < 3; ++k)
                        if (!(std::fabs(out[i + k * n] - x[k]) < within && std::fabs(out[i + (k + 3) * n] - v[k]) < within))
                            return wrong(name, i, n);
                }
                if (out[6 * n] != -7) return wrong(name, n, n);
            }
    return 0;
}
