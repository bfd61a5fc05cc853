// Repeated traversals of pieces of an array by a block's warps, with the cycles that they take.
//
// The array consists of one piece of `slice` bytes per block, one after the other. Warp w visits chunks w, w + warps, … of its
// block's piece, counted on past the end: after each whole pass the block continues in the piece `shift` further on. With shift 0
// every line is used by one SM only; with shift 1 all SMs use each line in turn. `slice` is a multiple of the chunk. `step` and
// `hop` are what an iteration adds to a warp's position: warps · chunk modulo slice, and warps · chunk / slice · shift modulo the
// number of pieces. CUDA only.
#pragma once

#include "clocks.h"

struct Walk {
    u32 slice, step, hop, shift;
    u32 offset, piece;

    // Moves to this warp's first chunk.
    __device__ __forceinline__ void begin(u32 chunk) {
        const u32 at = threadIdx.x / WARP * chunk;
        offset = at % slice;
        piece = (blockIdx.x + at / slice * shift) % gridDim.x;
    }

    __device__ __forceinline__ void next() {
        offset += step;
        piece += hop;
        if (offset >= slice) {
            offset -= slice;
            piece += shift;
        }
        // Twice, because hop and shift may each wrap around.
        if (piece >= gridDim.x) piece -= gridDim.x;
        if (piece >= gridDim.x) piece -= gridDim.x;
    }

    // Byte offset from the array's beginning.
    __device__ __forceinline__ u64 place() const { return u64(piece) * slice + offset; }
};

template <int BYTES> __device__ __forceinline__ u32 folded(const Vector<u32, BYTES>& v) {
    u32 bits = 0;
    for (int i = 0; i < BYTES / 4; ++i) bits ^= v.word[i];
    return bits;
}

// Runs `body` for `warm` iterations untimed and then for `iterations` iterations timed, with the same code. Stores the block's
// cycles in out[block].
template <typename Body> __device__ __forceinline__ void timed(u64* out, u32 warm, u32 iterations, Body body) {
    u64 first = 0;
#pragma unroll 1
    for (u32 phase = 0; phase < 2; ++phase) {
        __syncthreads();
        first = cycles();
        body(phase == 0 ? warm : iterations);
    }
    __syncthreads();
    const u64 last = cycles();
    if (threadIdx.x == 0) out[blockIdx.x] = last - first;
}
