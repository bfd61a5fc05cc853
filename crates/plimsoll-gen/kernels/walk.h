// Walks of a block's warps over pieces of an array, again and again, and the cycles that they take.
//
// The array is one piece of `slice` bytes per block, one behind the other. Warp w visits chunks w, w + warps, … of its
// block's piece, counted on past the end: after each whole pass the block goes on in the piece `shift` further on, so that
// with shift 0 every line is one multiprocessor's own, and with shift 1 all of them come to it in turn. `slice` is a
// multiple of the chunk. `step` and `hop` are what an iteration adds to a warp's place: warps · chunk modulo slice, and
// warps · chunk / slice · shift modulo the pieces. CUDA only.
#pragma once

#include "clocks.h"

struct Walk {
    u32 slice, step, hop, shift;
    u32 offset, piece;

    // To this warp's first chunk.
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
        // Twice, because hop and shift may each go round.
        if (piece >= gridDim.x) piece -= gridDim.x;
        if (piece >= gridDim.x) piece -= gridDim.x;
    }

    // Bytes from the array's beginning.
    __device__ __forceinline__ u64 place() const { return u64(piece) * slice + offset; }
};

template <int BYTES> __device__ __forceinline__ u32 folded(const Vector<u32, BYTES>& v) {
    u32 bits = 0;
    for (int i = 0; i < BYTES / 4; ++i) bits ^= v.word[i];
    return bits;
}

// Does `body` for `warm` iterations untimed and for `iterations` iterations timed, by the same code; the block's cycles in cycles[block].
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
