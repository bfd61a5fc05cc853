// Kernels of src/custom/cubin.rs's tests: nvcc -cubin -arch=sm_90, or NVRTC's cubin for sm_90.
struct Five {
    int numbers[5];
    char letter;
};

extern "C" __global__ void __launch_bounds__(256) scale(const float *x, float *y, unsigned n, float factor)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = factor * x[i];
}

extern "C" __global__ void __launch_bounds__(128, 2)
    strided(const float4 *x, float4 *y, unsigned long long n, Five five, char letter)
{
    __shared__ float shared[64];
    shared[threadIdx.x & 63] = letter;
    __syncthreads();
    unsigned long long step = gridDim.x * (unsigned long long)blockDim.x;
    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x; i < n; i += step) {
        float4 v = x[i];
        v.x += five.numbers[4] + five.letter + shared[i & 63];
        y[i] = v;
    }
}

__device__ __noinline__ int called(int x)
{
    return x * x + 1;
}

template <class T> __global__ void filled(T *out)
{
    out[0] = called(threadIdx.x);
}
template __global__ void filled<float>(float *);

extern "C" __global__ void __block_size__((64, 2, 1)) fixed(int *out)
{
    out[threadIdx.x] = 1;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) clustered(int *out)
{
    out[threadIdx.x] = 1;
}

extern "C" __global__ void nothing()
{
}
