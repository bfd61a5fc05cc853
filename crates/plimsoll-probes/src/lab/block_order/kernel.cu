// block-order: memory traffic by the order of the blocks, if blocks share the data that they read.
//
// Why the compiler keeps it: every warp stores the exclusive or of everything it read.
// Its loop in SASS: UNROLL loads of 16 bytes from each of two panels, at immediate offsets from two addresses, the exclusive or
// of their words and one branch; no local memory.
//
// Matrices a and b are `rows` and `columns` panels of `vectors` vectors, like the tile rows and tile columns of a matrix product.
// Block n reads one whole panel of each: those of its tile, computed from n and the order. The only PTX is the hint of the loads.
#include "device.h"

struct Tile {
    u32 row, column;
};

// `group` rows of tiles at a time, column after column: 1 is row by row, `rows` is column by column. Group 0 goes along the
// diagonals: blocks that follow each other share neither panel.
__device__ __forceinline__ Tile tile(u32 n, u32 rows, u32 columns, u32 group) {
    if (group == 0) return {n % rows, (n % rows + n / rows) % columns};
    const u32 inside = n % (group * columns), first = n / (group * columns) * group;
    const u32 height = rows - first < group ? rows - first : group;
    return {first + inside % height, inside / height};
}

__device__ __forceinline__ u32 folded(const Vector<u32, 16>& v) { return v.word[0] ^ v.word[1] ^ v.word[2] ^ v.word[3]; }

template <int UNROLL, int THREADS>
__device__ __forceinline__ void product(u32* out, const u32* a, const u32* b, u32 rows, u32 columns, u32 group, u32 vectors) {
    const Tile at = tile(blockIdx.x, rows, columns, group);
    const u32* x = a + (u64(at.row) * vectors + threadIdx.x) * 4;
    const u32* y = b + (u64(at.column) * vectors + threadIdx.x) * 4;
    u32 bits = 0;
#pragma unroll 1
    for (u32 i = 0; i < vectors; i += UNROLL * THREADS) {
        Vector<u32, 16> v[2 * UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            v[2 * u] = load<LOAD_NO_ALLOCATE, 16>(x + u * THREADS * 4);
            v[2 * u + 1] = load<LOAD_NO_ALLOCATE, 16>(y + u * THREADS * 4);
        }
#pragma unroll
        for (int u = 0; u < 2 * UNROLL; ++u) bits ^= folded(v[u]);
        x += UNROLL * THREADS * 4;
        y += UNROLL * THREADS * 4;
    }
    bits = warp_xor(bits);
    const u64 warp = (u64(at.row) * columns + at.column) * (THREADS / WARP) + threadIdx.x / WARP;
    if (threadIdx.x % WARP == 0) out[warp] = bits;
}

#define BLOCK_ORDER(name, unroll, threads)                                                                             \
    extern "C" __global__ void __launch_bounds__(threads)                                                              \
        name(u32* out, const u32* a, const u32* b, u32 rows, u32 columns, u32 group, u32 vectors) {                    \
        product<unroll, threads>(out, a, b, rows, columns, group, vectors);                                            \
    }
