// The block version of the push in kernel.cu, and the initial state.
#pragma once

// Columns of the product for the row of this thread's particle, 0 for its first and 2 for its second.
template <int ROW> __device__ __forceinline__ Three crossed(const float (&d)[4]) {
    return {of_four(d[ROW], 0), of_four(d[ROW + 1], 0), of_four(d[ROW], 1)};
}
template <int ROW> __device__ __forceinline__ Three gathered(const float (&d)[4]) {
    return {of_four(d[ROW + 1], 1), of_four(d[ROW], 2), of_four(d[ROW + 1], 2)};
}

// A particle with the magnitude of its velocity and its inverse.
struct Directed {
    Particle p;
    float size, inverse;
    __device__ __forceinline__ Directed(const Particle& p) : p(p) {
        size = sqrtf(square({p.v[0], p.v[1], p.v[2]})) + 1e-30f;
        inverse = 1.0f / size;
    }
    __device__ __forceinline__ Three direction() const { return over({p.v[0], p.v[1], p.v[2]}); }
    // The velocity plus a multiple of a cross product of directions.
    __device__ __forceinline__ Three more(float by, Three cross) const {
        const float scale = by * size;
        return {fused(scale, cross.x, p.v[0]), fused(scale, cross.y, p.v[1]), fused(scale, cross.z, p.v[2])};
    }
    __device__ __forceinline__ Three over(Three v) const { return {v.x * inverse, v.y * inverse, v.z * inverse}; }
    __device__ __forceinline__ void take(Three v) { p.v[0] = v.x, p.v[1] = v.y, p.v[2] = v.z; }
};

// Pushes both particles of four threads. All four do the same work except for the corners that they weight.
__device__ __forceinline__ void push_both(Directed& one, Directed& two, u32 pair, const Share& s) {
    const Pair a(one.p, pair), b(two.p, pair);
    float d[4];
    product(d, a, b, one.direction(), two.direction(), s);
    const Three first = one.more(s.size, crossed<0>(d)), second = two.more(s.size, crossed<2>(d));
    const float square_of = s.size * s.size;
    const float far = 2.0f * s.size / (1.0f + square_of * square(gathered<0>(d)));
    const float near = 2.0f * s.size / (1.0f + square_of * square(gathered<2>(d)));
    product(d, a, b, one.over(first), two.over(second), s);
    one.take(one.more(far, crossed<0>(d))), two.take(two.more(near, crossed<2>(d)));
}

// Each thread of the four stores a part of a particle.
__device__ __forceinline__ void keep(float* out, const Particle& p, u64 i, u64 count, u32 part) {
    if (part < 3) {
        out[i + part * count] = part == 0 ? p.x[0] : part == 1 ? p.x[1] : p.x[2];
        out[i + (part + 3) * count] = part == 0 ? p.v[0] : part == 1 ? p.v[1] : p.v[2];
    }
}

__device__ __forceinline__ void by_blocks(float* out, const float* at, const float* corners, u64 count, u32 per_cell, u32 pushes,
                                          float h) {
    const u32 cell = blockIdx.x * WARPS + threadIdx.x / LANES, group = threadIdx.x % LANES / 4, pair = threadIdx.x % 4;
    const Share s = share(corners + u64(cell) * 3 * CORNERS, pair, group);
    for (u32 first = 0; first < per_cell; first += 16) {
        // Missing particles are replaced by the last one, so that all threads take part in the products.
        const u64 begin = u64(cell) * per_cell + first, end = u64(cell) * per_cell + per_cell;
        const u64 i = begin + group, j = begin + group + 8, last = (end < count ? end : count) - 1;
        if (begin >= count) return;
        Directed one(particle(at, i < last ? i : last, count)), two(particle(at, j < last ? j : last, count));
#pragma unroll 1
        for (u32 k = 0; k < pushes; ++k) {
            move(one.p, h), move(two.p, h);
            push_both(one, two, pair, s);
        }
        if (i <= last) keep(out, one.p, i, count, pair);
        if (j <= last) keep(out, two.p, j, count, pair);
    }
}

// A pseudo-random number from 0 to 1 for a place.
__device__ __forceinline__ float noise(u64 place, u32 seed) {
    u32 x = u32(place) * 0x9e3779b9u ^ u32(place >> 32) ^ seed * 0x85ebca6bu;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return float((x ^ (x >> 16)) >> 8) * (1.0f / 16777216.0f);
}

// Initial state: places anywhere in the cell, velocities between -1 and 1, fields of each corner between -size and size along every
// axis.
__device__ __forceinline__ void begin(float* at, float* corners, u64 count, u64 fields, float size, u32 seed) {
    const u64 i = u64(blockIdx.x) * 256 + threadIdx.x;
    if (i < count)
        for (u32 k = 0; k < 6; ++k) {
            const float x = noise(i, seed + k);
            at[i + k * count] = k < 3 ? x : 2.0f * x - 1.0f;
        }
    if (i < fields) corners[i] = size * (2.0f * noise(i, seed + 6) - 1.0f);
}
