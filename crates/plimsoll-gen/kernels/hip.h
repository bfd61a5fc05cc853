// Declarations of the language features that CUDA has built in and that HIP has in a header. They suffice to check that kernels
// without PTX also compile as HIP, on a machine with only clang. `cargo xtask test hip` prepends this file to the sources; no
// kernel includes it, and a build for AMD devices would use ROCm's headers.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

struct alignas(8) uint2 {
    unsigned int x, y;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};
__device__ uint2 make_uint2(unsigned int x, unsigned int y);
__device__ uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w);

struct Index3 {
    unsigned int x, y, z;
};
extern __device__ const Index3 threadIdx, blockIdx, blockDim, gridDim;

__device__ void __syncthreads();
__device__ void __threadfence();
__device__ long long clock();
__device__ long long clock64();

__device__ float fmaf(float a, float b, float c);
__device__ double fma(double a, double b, double c);
__device__ float sqrtf(float x);
__device__ double sqrt(double x);
__device__ double exp2(double x);
__device__ double log2(double x);
__device__ float fabsf(float x);
__device__ double fabs(double x);
__device__ float fmaxf(float a, float b);
__device__ double sin(double x);
__device__ double tanh(double x);

__device__ unsigned int __float_as_uint(float x);
__device__ float __uint_as_float(unsigned int x);
__device__ long long __double_as_longlong(double x);
__device__ double __longlong_as_double(long long x);
__device__ double __hiloint2double(int high, int low);

// The operations that kernels use, on the types that HIP supports.
#define ATOMIC(name)                                                                                                   \
    __device__ unsigned int name(unsigned int* at, unsigned int value);                                                \
    __device__ unsigned long long name(unsigned long long* at, unsigned long long value);
ATOMIC(atomicAdd)
ATOMIC(atomicExch)
ATOMIC(atomicMin)
ATOMIC(atomicMax)
ATOMIC(atomicOr)
ATOMIC(atomicXor)
#undef ATOMIC
__device__ float atomicAdd(float* at, float value);
__device__ double atomicAdd(double* at, double value);
