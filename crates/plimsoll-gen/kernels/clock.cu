// clock: measures the SM clock under a load that settles it. Every block multiplies and adds until `nanoseconds` of the device's
// timer have passed; the first thread of the grid stores the elapsed cycles and nanoseconds.
//
// Why the compiler keeps it: the store that depends on the sums (never executed, because they stay below its threshold) and the two
// counts.
// Its loop in SASS: one loop of 64 FFMA and a read of the timer; no local memory.

#if defined(__CUDA_ARCH__)
__device__ __forceinline__ unsigned long long timer() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
    return t;
}
#else
__device__ unsigned long long timer();
#endif

extern "C" __global__ void __launch_bounds__(256) plimsoll_spin(unsigned long long* out, unsigned long long nanoseconds) {
    float a = threadIdx.x, b = 0.999f, c = 0.5f;
    const unsigned long long begin = timer();
    const long long first = clock64();
    unsigned long long now = begin;
    while (now - begin < nanoseconds) {
#pragma unroll 64
        for (int i = 0; i < 64; ++i) a = fmaf(a, b, c);
        now = timer();
    }
    const long long last = clock64();
    if (a > 1e30f) out[0] = 0;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        out[0] = last - first;
        out[1] = now - begin;
    }
}

// Does nothing: measures the cost of a launch.
extern "C" __global__ void plimsoll_empty() {}
