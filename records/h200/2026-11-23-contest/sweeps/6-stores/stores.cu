// How results leave: by threads' stores of several widths, or as one bulk copy from shared memory. Copies and triads, cold.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
typedef uint32_t u32; typedef uint64_t u64;
#define CK(x) do { cudaError_t e = (x); if (e) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
__device__ u32 sh(const void* p) { return u32(__cvta_generic_to_shared(p)); }
__device__ void init(u64* b) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sh(b)) : "memory"); asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void expect(u64* b, u32 n) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sh(b)), "r"(n) : "memory"); }
__device__ void load(void* to, const void* from, u32 n, u64* b) { asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sh(to)), "l"(from), "r"(n), "r"(sh(b)) : "memory"); }
__device__ void wait(u64* b) { asm volatile("{.reg .pred d;\nA: mbarrier.try_wait.parity.shared::cta.b64 d, [%0], 0;\n@!d bra A;}" ::"r"(sh(b)) : "memory"); }
template <int H> __device__ void store(void* to, const void* from, u32 n) {
    if (H) { u64 pol; asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to), "r"(sh(from)), "r"(n), "l"(pol) : "memory"); }
    else asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(sh(from)), "r"(n) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
template <int V> struct W; template <> struct W<2> { typedef uint16_t t; }; template <> struct W<4> { typedef u32 t; }; template <> struct W<8> { typedef uint2 t; }; template <> struct W<16> { typedef uint4 t; };
// OUT: bytes per store, 0 a bulk copy, -1 one with evict-first; INPUTS 1 copies, 2 triads of f32
template <int TILE, int THREADS, int OUT, int INPUTS> __global__ void __launch_bounds__(THREADS) run(const char* x, const char* z, char* y, float a) {
    __shared__ alignas(128) char t0[TILE]; __shared__ alignas(128) char t1[INPUTS == 2 ? TILE : 128]; __shared__ alignas(8) u64 b;
    const u64 at = u64(blockIdx.x) * TILE;
    if (threadIdx.x == 0) { init(&b); expect(&b, TILE * INPUTS); 
        asm volatile("griddepcontrol.wait;" ::: "memory");
        load(t0, x + at, TILE, &b); if (INPUTS == 2) load(t1, z + at, TILE, &b); }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    __syncthreads();
    if (OUT <= 0 && INPUTS == 1) { if (threadIdx.x == 0) { wait(&b); store<OUT == -1>(y + at, t0, TILE); } return; }
    wait(&b);
    if (OUT <= 0) {
        for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS) ((float*)t0)[i] = a * ((float*)t0)[i] + ((float*)t1)[i];
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) store<OUT == -1>(y + at, t0, TILE);
        return;
    }
    constexpr int V = OUT > 0 ? OUT : 4; typedef typename W<V>::t T;
    if (INPUTS == 1) { for (u32 i = threadIdx.x; i < TILE / V; i += THREADS) ((T*)(y + at))[i] = ((T*)t0)[i]; }
    else for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS) __stcs((float*)(y + at) + i, a * ((float*)t0)[i] + ((float*)t1)[i]);
}
static char *X, *Z, *Y; static cudaStream_t S; static u64 N;
template <int TILE, int THREADS, int OUT, int INPUTS> void one(const char* what) {
    cudaEvent_t p, q; CK(cudaEventCreate(&p)); CK(cudaEventCreate(&q));
    cudaLaunchAttribute at; at.id = cudaLaunchAttributeProgrammaticStreamSerialization; at.val.programmaticStreamSerializationAllowed = 1;
    auto go = [&](int i) { cudaLaunchConfig_t c = {}; c.gridDim = dim3(u32(N / TILE)); c.blockDim = dim3(THREADS); c.stream = S; c.attrs = &at; c.numAttrs = 1; const u64 o = (i & 1) * N;
        CK(cudaLaunchKernelEx(&c, run<TILE, THREADS, OUT, INPUTS>, (const char*)(X + o), (const char*)(Z + o), (char*)(Y + o), 0.75f)); };
    int blocks; CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, run<TILE, THREADS, OUT, INPUTS>, THREADS, 0));
    std::vector<float> ms; const int K = N >= (1ull << 31) ? 4 : 8;
    for (int r = 0; r < 9; ++r) { CK(cudaEventRecord(p, S)); for (int i = 0; i < K; ++i) go(i); CK(cudaEventRecord(q, S)); CK(cudaEventSynchronize(q)); float m; CK(cudaEventElapsedTime(&m, p, q)); if (r > 1) ms.push_back(m / K); }
    std::sort(ms.begin(), ms.end());
    printf("%s,%llu,%d,%d,%d,%d,%.3f,%.1f\n", what, (unsigned long long)(N >> 20), TILE, THREADS, OUT, blocks * TILE * INPUTS / 1024, ms[3] * 1e3, (INPUTS + 1) * double(N / TILE * TILE) / (ms[3] * 1e6));
    fflush(stdout); CK(cudaEventDestroy(p)); CK(cudaEventDestroy(q));
}
int main() {
    CK(cudaSetDevice(0)); CK(cudaStreamCreate(&S));
    const u64 G = 1ull << 32; CK(cudaMalloc(&X, G)); CK(cudaMalloc(&Z, G)); CK(cudaMalloc(&Y, G)); CK(cudaMemset(X, 0, G)); CK(cudaMemset(Z, 0, G));
    printf("what,MiB,tile,threads,out,KiB in flight,us,GBps\n");
    for (int round = 0; round < 2; ++round) for (u64 mib : {256ull, 1024ull, 2048ull}) { N = mib << 20;
        one<2560, 128, 2, 1>("copy"); one<2816, 128, 2, 1>("copy"); one<2560, 128, 4, 1>("copy"); one<2816, 128, 16, 1>("copy");
        one<1536, 32, 0, 1>("copy"); one<1536, 32, -1, 1>("copy"); one<1280, 32, 0, 1>("copy"); one<1792, 32, 0, 1>("copy"); one<2048, 32, 0, 1>("copy");
        one<2560, 64, 0, 1>("copy"); one<1024, 32, 0, 1>("copy"); one<3072, 128, 0, 1>("copy"); one<3072, 128, -1, 1>("copy"); one<2560, 128, 0, 1>("copy"); one<4096, 128, 0, 1>("copy"); one<2048, 64, 0, 1>("copy"); one<4096, 256, 0, 1>("copy"); one<6144, 256, 0, 1>("copy"); one<6144, 256, -1, 1>("copy"); one<12288, 512, 0, 1>("copy");
        one<3072, 256, 4, 2>("triad"); one<2304, 192, 4, 2>("triad"); one<3072, 256, 0, 2>("triad"); one<3072, 256, -1, 2>("triad"); one<2304, 192, 0, 2>("triad"); one<1536, 128, 0, 2>("triad"); one<1536, 64, 0, 2>("triad"); one<768, 32, 0, 2>("triad"); one<768, 32, -1, 2>("triad"); one<2048, 128, 0, 2>("triad"); one<1024, 64, 0, 2>("triad"); one<1024, 64, -1, 2>("triad"); one<4096, 256, 0, 2>("triad");
    }
    return 0;
}
