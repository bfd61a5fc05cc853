// The kinds of arithmetic of the digests, and what they share.
#pragma once

#include "device.h"

#define THREADS 512

// Hides a number from the compiler.
__device__ __forceinline__ u32 opaque(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

// The finalizer of MurmurHash3 (Appleby): a bijection in which every bit depends on every bit.
__device__ __forceinline__ u32 mixed(u32 x) {
    x = (x ^ x >> 16) * 0x85ebca6bu;
    x = (x ^ x >> 13) * 0xc2b2ae35u;
    return x ^ x >> 16;
}

// Takes a word into a digest. For every word this is a bijection of the digest, so a difference is never forgotten.
__device__ __forceinline__ u32 folded(u32 digest, u32 word) {
    const u32 x = digest ^ word;
    return (x << 7 | x >> 25) * 0x9e3779b1u;
}

// Each kind of arithmetic is a struct: the start of a thread from its random word, and one loop iteration, which folds its results
// into the digest.

// x := 1 + s·x − 1.9·x², which stays in [−1, 1.001]. Rounding can make two numbers one again, so every x goes into the digest.
template <typename T> struct quadratic {
    T x, s;
    __device__ quadratic(u32 word) : x(T(word >> 8) / T(16777216)), s(T(word % 64) / T(2048)) {}
    __device__ __forceinline__ T step() { return x = fused(fused(x, T(-1.9), s), x, T(1)); }
};

struct fma_f32 : quadratic<float> {
    __device__ fma_f32(u32 word) : quadratic(word) {}
    __device__ __forceinline__ u32 next(u32 digest, u32) {
        u32 all = 0;
#pragma unroll
        for (int link = 0; link < 64; ++link) all ^= __float_as_uint(step());
        return folded(digest, all);
    }
};

struct fma_f64 : quadratic<double> {
    __device__ fma_f64(u32 word) : quadratic(word) {}
    __device__ __forceinline__ u32 next(u32 digest, u32) {
        u32 low = 0, high = 0;
#pragma unroll
        for (int link = 0; link < 32; ++link) {
            const double x = step();
            low ^= u32(__double2loint(x));
            high ^= u32(__double2hiint(x));
        }
        return folded(folded(digest, low), high);
    }
};

// Instructions of the special-function unit, on numbers from 1 to 2. Their last bits aren't specified, but fixed for each architecture.
#define SPECIAL(instruction)                                                                                           \
    {                                                                                                                  \
        float y;                                                                                                       \
        asm(instruction ".approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(__uint_as_float(0x3f800000u | state >> 9)));         \
        state = folded(state, __float_as_uint(y));                                                                     \
    }
struct special {
    u32 state;
    __device__ special(u32 word) : state(word) {}
    __device__ __forceinline__ u32 next(u32 digest, u32) {
#pragma unroll
        for (int step = 0; step < 8; ++step) {
            SPECIAL("rcp") SPECIAL("rsqrt") SPECIAL("ex2") SPECIAL("lg2") SPECIAL("sin") SPECIAL("cos")
        }
        return folded(digest, state);
    }
};

struct integer {
    u32 x;
    __device__ integer(u32 word) : x(word) {}
    __device__ __forceinline__ u32 next(u32 digest, u32) {
#pragma unroll
        for (int link = 0; link < 64; ++link) x = (x ^ x >> 15) * 0x2c1b3c6du + 0x297a2d39u;
        return folded(digest, x);
    }
};

// Two numbers of bf16 from half to one, of any sign: sums of 128 products are exact in single precision, in any order.
__device__ __forceinline__ u32 two_bf16(u32 word) { return (word & 0x807f807fu) | 0x3f003f00u; }

struct matrix {
    u32 state[6];
    __device__ matrix(u32 word) {
        for (int i = 0; i < 6; ++i) state[i] = mixed(word + i);
    }
    __device__ __forceinline__ u32 next(u32 digest, u32) {
        float d[4] = {0, 0, 0, 0};
        u32 a[4];
        for (int i = 0; i < 4; ++i) a[i] = two_bf16(state[i]);
#pragma unroll
        for (int step = 0; step < 8; ++step) {
            asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(two_bf16(state[4])), "r"(two_bf16(state[5])));
            for (int i = 4; i < 6; ++i) state[i] = state[i] * 1664525u + 1013904223u;
        }
        for (int i = 0; i < 4; ++i) {
            digest = folded(digest, __float_as_uint(d[i]));
            state[i] = folded(state[i], __float_as_uint(d[i]));
        }
        return digest;
    }
};

// Words of shared memory, and of registers, per thread.
#define SHARED_WORDS 23

// The pattern of a number: zeros, a checkerboard, the address, random bits; odd numbers have the complement of the even ones.
struct pattern {
    u32 flip, address, random;
    __device__ __forceinline__ pattern(u32 number) {
        const u32 kind = number / 2 % 4;
        flip = (kind == 1 ? 0x55555555u : 0u) ^ (number % 2 ? ~0u : 0u);
        address = kind == 2 ? ~0u : 0u;
        random = kind == 3 ? ~0u : 0u;
    }
    __device__ __forceinline__ u32 at(u32 place, u32 word) const {
        return flip ^ (place & address) ^ (mixed(word ^ place) & random);
    }
};

struct shared {
    u32 word;
    __device__ shared(u32 word) : word(word) {}
    __device__ __forceinline__ u32 next(u32 digest, u32 iteration) {
        __shared__ u32 words[SHARED_WORDS * THREADS];
        u32 kept[SHARED_WORDS];
        const pattern stored(iteration), held(iteration + 1);
#pragma unroll
        for (u32 i = 0; i < SHARED_WORDS; ++i) {
            const u32 address = i * THREADS + threadIdx.x;
            words[address] = stored.at(address, word);
            kept[i] = opaque(held.at(address, word));
        }
        __syncthreads();
        const u32 other = THREADS - 1 - threadIdx.x;
#pragma unroll
        for (u32 i = 0; i < SHARED_WORDS; ++i) digest = folded(folded(digest, words[i * THREADS + other]), opaque(kept[i]));
        __syncthreads();
        return digest;
    }
};
