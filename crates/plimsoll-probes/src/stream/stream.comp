// stream: the bandwidth of memory for each mix of reads and writes, in single precision.
//
// Why the compiler keeps it: every result is stored. `read` stores one exclusive or of all words for every 32 threads, `dot` one sum.
// A tile is THREADS * UNROLL vectors in a row: consecutive threads have consecutive vectors. LOOP false: block k does tile k. LOOP true:
// block k does tiles k, k + grid, … . The last, partial tile is done element by element; so any n will do. Arrays are aligned to vectors.
#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// As `plimsoll_gen::kernel::stream::Op::ALL` numbers them.
#define INIT 0
#define READ 1
#define COPY 2
#define SCALE 3
#define ADD 4
#define TRIAD 5
#define SCHOENAUER 6
#define DOT 7
#define POINT3 8
#define POINT5 9
layout(constant_id = 1) const u32 OP = COPY;
// Floats of a vector: 1, 2 or 4.
layout(constant_id = 2) const u32 WIDTH = 4;
layout(constant_id = 3) const u32 UNROLL = 1;
layout(constant_id = 4) const bool LOOP = false;

#define MOST 8
// Threads whose folds are one: a warp of CUDA's.
#define TOGETHER 32

PARAMETERS(u64 out_; u64 a; u64 b; u64 c; float s; u64 n;)

const bool FOLDS = OP == READ || OP == DOT;
const bool STENCIL = OP == POINT3 || OP == POINT5;

shared u32 folded[gl_WorkGroupSize.x];

vec4 load(u64 array, u64 e) {
    const u64 place = array + 4 * e;
    if (WIDTH == 4) return Float4(place).x;
    if (WIDTH == 2) return vec4(Float2(place).x, 0.0, 0.0);
    return vec4(Float(place).x, 0.0, 0.0, 0.0);
}

void store(u64 e, vec4 v) {
    const u64 place = out_ + 4 * e;
    if (WIDTH == 4) Float4(place).x = v;
    else if (WIDTH == 2) Float2(place).x = v.xy;
    else Float(place).x = v.x;
}

// The element `d` places from e, or the nearest that there is.
float around(u64 e, int d) {
    const int64_t place = int64_t(e) + d;
    return Float(a + 4 * (place < 0 ? 0ul : u64(place) < n ? u64(place) : n - 1)).x;
}

float point(u64 e) {
    precise float sum;
    if (OP == POINT3) sum = (around(e, -1) + around(e, 0)) + around(e, 1);
    else sum = (((around(e, -2) + around(e, -1)) + around(e, 0)) + around(e, 1)) + around(e, 2);
    precise float result = s * sum;
    return result;
}

// Lanes beyond WIDTH are computed and dropped.
vec4 value(u64 e, vec4 x, vec4 y, vec4 z) {
    precise vec4 result;
    if (OP == INIT) result = vec4(s);
    else if (OP == COPY) result = x;
    else if (OP == SCALE) result = s * x;
    else if (OP == ADD) result = x + y;
    else if (OP == TRIAD) result = fma(vec4(s), y, x);
    else if (OP == SCHOENAUER) result = fma(y, z, x);
    else {
        result = vec4(0.0);
        for (u32 lane = 0; lane < WIDTH; ++lane) result[lane] = point(e + lane);
    }
    return result;
}

float one(u64 e, float x, float y, float z) {
    precise float result;
    if (OP == INIT) result = s;
    else if (OP == COPY) result = x;
    else if (OP == SCALE) result = s * x;
    else if (OP == ADD) result = x + y;
    else if (OP == TRIAD) result = fma(s, y, x);
    else if (OP == SCHOENAUER) result = fma(y, z, x);
    else result = point(e);
    return result;
}

// What a thread has gathered of the kernels that fold.
u32 bits = 0;
float total = 0.0;

void take(vec4 x, vec4 y) {
    for (u32 lane = 0; lane < WIDTH; ++lane) {
        if (OP == READ) bits ^= floatBitsToUint(x[lane]);
        else total = fma(x[lane], y[lane], total);
    }
}

// UNROLL vectors from element `first` on, all loaded before the first is stored.
void vectors(u64 first) {
    vec4 x[MOST], y[MOST], z[MOST];
    const u32 pitch = THREADS * WIDTH;
    for (u32 u = 0; u < UNROLL; ++u) {
        if (OP != INIT && !STENCIL) x[u] = load(a, first + u * pitch);
        if (OP == ADD || OP == TRIAD || OP == DOT || OP == SCHOENAUER) y[u] = load(b, first + u * pitch);
        if (OP == SCHOENAUER) z[u] = load(c, first + u * pitch);
    }
    for (u32 u = 0; u < UNROLL; ++u) {
        if (FOLDS) take(x[u], y[u]);
        else store(first + u * pitch, value(first + u * pitch, x[u], y[u], z[u]));
    }
}

// The last elements, fewer than a tile, one by one.
void tail(u64 first) {
    [[dont_unroll]] for (u32 k = 0; k < UNROLL * WIDTH; ++k) {
        const u64 e = first + k * THREADS + THREAD;
        if (e >= n) return;
        float x = 0.0, y = 0.0, z = 0.0;
        if (OP != INIT && !STENCIL) x = Float(a + 4 * e).x;
        if (OP == ADD || OP == TRIAD || OP == DOT || OP == SCHOENAUER) y = Float(b + 4 * e).x;
        if (OP == SCHOENAUER) z = Float(c + 4 * e).x;
        if (OP == READ) bits ^= floatBitsToUint(x);
        else if (OP == DOT) total = fma(x, y, total);
        else Float(out_ + 4 * e).x = one(e, x, y, z);
    }
}

// One word or sum for every 32 threads, in their order.
void leave() {
    folded[THREAD] = OP == READ ? bits : floatBitsToUint(total);
    for (u32 d = TOGETHER / 2; d > 0; d /= 2) {
        barrier();
        if (THREAD % TOGETHER < d && THREAD + d < THREADS) {
            const u32 other = folded[THREAD + d];
            folded[THREAD] = OP == READ ? folded[THREAD] ^ other
                                        : floatBitsToUint(uintBitsToFloat(folded[THREAD]) + uintBitsToFloat(other));
        }
    }
    if (THREAD % TOGETHER == 0) Word(out_ + 4 * (IN_GRID / TOGETHER)).x = folded[THREAD];
}

void main() {
    if (BLOCK >= blocks) return;
    const u64 tiles = u64(THREADS) * UNROLL * WIDTH;
    const u64 whole = n / tiles;
    u64 tile = BLOCK;
    if (LOOP) {
        [[dont_unroll]] for (; tile < whole; tile += blocks) vectors(tile * tiles + THREAD * WIDTH);
        if (tile == whole) tail(tile * tiles);
    } else if (tile < whole) {
        vectors(tile * tiles + THREAD * WIDTH);
    } else if (tile == whole) {
        tail(tile * tiles);
    }
    if (FOLDS) leave();
}
