// Triads and copies beside cub::DeviceTransform, on the same arrays in one process, interleaved: tiles, threads, width
// and hint of the stores, hint of the loads, a cap on the blocks of a multiprocessor by dynamic shared memory, and what
// a launch leaves of the cache to copies behind it. beside_cub STAGE [MIB [REPETITIONS]]: the list of a stage, all
// arrays that many MiB further in memory.
//
// The stages were programs of their own when they ran, each made from the one before; they were put together
// afterwards, so as not to have the kernels four times, compiled, and not run again.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_transform.cuh>
#include <cub/version.cuh>
#include <cuda/std/tuple>
#include <functional>
#include <string>
#include <vector>
typedef uint32_t u32;
typedef uint64_t u64;
#define CK(x)                                               \
    do {                                                    \
        cudaError_t e_ = (x);                               \
        if (e_) {                                           \
            printf("%s: %s\n", #x, cudaGetErrorString(e_)); \
            exit(1);                                        \
        }                                                   \
    } while (0)
__device__ u32 sh(const void* p) { return u32(__cvta_generic_to_shared(p)); }
__device__ void init(u64* b) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(sh(b)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(u64* b, u32 n) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sh(b)), "r"(n) : "memory");
}
template <int L>
__device__ void load(void* to, const void* from, u32 n, u64* b) {
    if (L == 0)
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sh(to)),
            "l"(from), "r"(n), "r"(sh(b))
            : "memory");
    else {
        u64 pol;
        if (L == 1)
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(pol));
        else if (L == 4)
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.5;" : "=l"(pol));
        else if (L == 5)
            asm("createpolicy.fractional.L2::evict_last.L2::evict_first.b64 %0, 0.5;" : "=l"(pol));
        else if (L == 6)
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.25;" : "=l"(pol));
        else if (L == 7)
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 0.125;" : "=l"(pol));
        else if (L == 2)
            asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(pol));
        else
            asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(pol));
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
            "%4;" ::"r"(sh(to)),
            "l"(from), "r"(n), "r"(sh(b)), "l"(pol)
            : "memory");
    }
}
__device__ void wait(u64* b) {
    asm volatile("{.reg .pred d;\nA: mbarrier.try_wait.parity.shared::cta.b64 d, [%0], 0;\n@!d bra A;}" ::"r"(sh(b))
                 : "memory");
}
template <int H>
__device__ void put(float* p, float v) {
    if (H == 0)
        *p = v;
    else if (H == 1)
        __stcs(p, v);
    else if (H == 2)
        __stwt(p, v);
    else if (H == 3)
        __stcg(p, v);
    else {
        u64 pol;
        if (H == 4)
            asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(pol));
        else if (H == 5)
            asm("createpolicy.fractional.L2::evict_unchanged.b64 %0, 1.0;" : "=l"(pol));
        else
            asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(pol));
        asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(p), "f"(v), "l"(pol) : "memory");
    }
}
template <int H>
__device__ void put(float4* p, float4 v) {
    if (H == 0)
        *p = v;
    else if (H == 1)
        __stcs(p, v);
    else if (H == 2)
        __stwt(p, v);
    else
        __stcg(p, v);
}
template <int H>
__device__ void put(float2* p, float2 v) {
    if (H == 0)
        *p = v;
    else if (H == 1)
        __stcs(p, v);
    else if (H == 2)
        __stwt(p, v);
    else
        __stcg(p, v);
}
__device__ bool last(u32 threads) {
    u32 m;
    asm("mov.u32 %0, %%nsmid;" : "=r"(m));
    return gridDim.x - blockIdx.x <= m * min(32u, 2048 / threads);
}
__device__ void next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// ORDER 0 as it is, 1 backwards, 2 two runs, 3 eight runs
template <int ORDER>
__device__ u32 place() {
    const u32 b = blockIdx.x, n = gridDim.x;
    if (ORDER == 1) return n - 1 - b;
    if (ORDER == 2) return (n & 1) ? b : (b & 1) * (n / 2) + b / 2;
    if (ORDER == 3) return (n & 7) ? b : (b & 7) * (n / 8) + b / 8;
    return b;
}
template <int TILE, int THREADS, int V, int H, int L, int ORDER>
__global__ void __launch_bounds__(THREADS) triad(const char* x, const char* z, char* y, float a) {
    __shared__ alignas(128) char t0[TILE];
    __shared__ alignas(128) char t1[TILE];
    __shared__ alignas(8) u64 b;
    const u64 at = u64(place<ORDER>()) * TILE;
    if (threadIdx.x == 0) {
        init(&b);
        expect(&b, TILE * 2);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        load<L>(t0, x + at, TILE, &b);
        load<L>(t1, z + at, TILE, &b);
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (last(THREADS)) next();
    __syncthreads();
    wait(&b);
    if (V == 4) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS)
            put<H>((float*)(y + at) + i, ((float*)t0)[i] + a * ((float*)t1)[i]);
    } else if (V == 8) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 8; i += THREADS) {
            float2 p = ((float2*)t0)[i], q = ((float2*)t1)[i];
            put<H>((float2*)(y + at) + i, make_float2(p.x + a * q.x, p.y + a * q.y));
        }
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 16; i += THREADS) {
            float4 p = ((float4*)t0)[i], q = ((float4*)t1)[i];
            put<H>((float4*)(y + at) + i, make_float4(p.x + a * q.x, p.y + a * q.y, p.z + a * q.z, p.w + a * q.w));
        }
    }
}
template <int L>
__device__ float4 get(const float4* p) {
    float4 v;
    if (L == 0) {
        asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(p));
    } else {
        u64 pol;
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(pol));
        asm volatile("ld.global.L2::cache_hint.v4.f32 {%0,%1,%2,%3}, [%4], %5;"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "l"(p), "l"(pol));
    }
    return v;
}
template <int THREADS, int U, int H, int L>
__global__ void __launch_bounds__(THREADS) flat(const char* x, const char* z, char* y, float a) {
    const u64 at = (u64(blockIdx.x) * THREADS * U + threadIdx.x) * 16;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (last(THREADS)) next();
    float4 p[U], q[U];
#pragma unroll
    for (int i = 0; i < U; ++i)
        p[i] = get<L>((const float4*)(x + at) + i * THREADS), q[i] = get<L>((const float4*)(z + at) + i * THREADS);
#pragma unroll
    for (int i = 0; i < U; ++i)
        put<H>((float4*)(y + at) + i * THREADS,
               make_float4(p[i].x + a * q[i].x, p[i].y + a * q[i].y, p[i].z + a * q[i].z, p[i].w + a * q[i].w));
}
// With evict_last loads but in the last R tiles, each of which gives the lines of the tile R before back to the others.
template <int TILE, int THREADS, int V, int H>
__global__ void __launch_bounds__(THREADS) giving(const char* x, const char* z, char* y, float a, u32 r) {
    __shared__ alignas(128) char t0[TILE];
    __shared__ alignas(128) char t1[TILE];
    __shared__ alignas(8) u64 b;
    const u64 at = u64(blockIdx.x) * TILE;
    const bool back = gridDim.x - blockIdx.x <= r && blockIdx.x >= r;
    if (threadIdx.x == 0) {
        init(&b);
        expect(&b, TILE * 2);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (back) {
            load<0>(t0, x + at, TILE, &b);
            load<0>(t1, z + at, TILE, &b);
        } else {
            load<1>(t0, x + at, TILE, &b);
            load<1>(t1, z + at, TILE, &b);
        }
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (last(THREADS)) next();
    if (back) {
        const u64 before = at - u64(r) * TILE;
        for (u32 i = threadIdx.x; i < 2 * TILE / 128; i += THREADS) {
            const char* p = i < TILE / 128 ? x + before + i * 128 : z + before + (i - TILE / 128) * 128;
            asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(p) : "memory");
        }
    }
    __syncthreads();
    wait(&b);
    if (V == 4) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS)
            put<H>((float*)(y + at) + i, ((float*)t0)[i] + a * ((float*)t1)[i]);
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 16; i += THREADS) {
            float4 p = ((float4*)t0)[i], q = ((float4*)t1)[i];
            put<H>((float4*)(y + at) + i, make_float4(p.x + a * q.x, p.y + a * q.y, p.z + a * q.z, p.w + a * q.w));
        }
    }
}
template <int TILE, int THREADS, int V, int H>
__global__ void __launch_bounds__(THREADS) copygiving(const char* x, char* y, u32 r) {
    __shared__ alignas(128) char t0[TILE];
    __shared__ alignas(8) u64 b;
    const u64 at = u64(blockIdx.x) * TILE;
    const bool back = gridDim.x - blockIdx.x <= r && blockIdx.x >= r;
    if (threadIdx.x == 0) {
        init(&b);
        expect(&b, TILE);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        if (back)
            load<0>(t0, x + at, TILE, &b);
        else
            load<1>(t0, x + at, TILE, &b);
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (last(THREADS)) next();
    if (back) {
        const u64 before = at - u64(r) * TILE;
        for (u32 i = threadIdx.x; i < TILE / 128; i += THREADS) {
            const char* p = x + before + i * 128;
            asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(p) : "memory");
        }
    }
    __syncthreads();
    wait(&b);
    if (V == 2) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 2; i += THREADS) ((uint16_t*)(y + at))[i] = ((uint16_t*)t0)[i];
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS) put<H>((float*)(y + at) + i, ((float*)t0)[i]);
    }
}
template <int TILE, int THREADS, int V, int H, int L>
__global__ void __launch_bounds__(THREADS) copy(const char* x, char* y) {
    __shared__ alignas(128) char t0[TILE];
    __shared__ alignas(8) u64 b;
    const u64 at = u64(blockIdx.x) * TILE;
    if (threadIdx.x == 0) {
        init(&b);
        expect(&b, TILE);
        asm volatile("griddepcontrol.wait;" ::: "memory");
        load<L>(t0, x + at, TILE, &b);
    }
    asm volatile("griddepcontrol.wait;" ::: "memory");
    if (last(THREADS)) next();
    __syncthreads();
    wait(&b);
    if (V == 2) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 2; i += THREADS) ((uint16_t*)(y + at))[i] = ((uint16_t*)t0)[i];
    } else if (V == 1) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE; i += THREADS) (y + at)[i] = t0[i];
    } else if (V == 4) {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 4; i += THREADS) put<H>((float*)(y + at) + i, ((float*)t0)[i]);
    } else {
#pragma unroll 1
        for (u32 i = threadIdx.x; i < TILE / 16; i += THREADS) put<H>((float4*)(y + at) + i, ((float4*)t0)[i]);
    }
}
__global__ void fill(float* p, u64 n, u64 salt) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < n; i += u64(gridDim.x) * blockDim.x) {
        u32 h = u32(i + salt) * 2654435761u;
        h ^= h >> 16;
        h *= 0x7FEB352Du;
        h ^= h >> 15;
        p[i] = -3.f + 6.f * float(h >> 8) / 16777216.f;
    }
}
struct Triad {
    __device__ float operator()(const float& b, const float& c) const { return b + 0.75f * c; }
};
struct Copy {
    __device__ uint16_t operator()(const uint16_t& a) const { return a; }
};
static char *X, *Z, *Y;
static cudaStream_t S;
static u64 N;
struct Variant {
    std::string name;
    std::function<void(u64)> launch;
    cudaGraphExec_t exec;
    std::vector<float> us;
    int k;
};
static std::vector<Variant> entries;
static cudaLaunchAttribute attribute() {
    cudaLaunchAttribute at;
    at.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    at.val.programmaticStreamSerializationAllowed = 1;
    return at;
}
static u32 pad(u32 own, int cap, int threads) {
    if (!cap || cap >= std::min(32, 2048 / threads)) return 0;
    u32 share = 233472 / cap / 128 * 128 - 1024;
    return share > own ? share - own : 0;
}
template <int TILE, int THREADS, int V = 4, int H = 1, int L = 0, int ORDER = 0>
void t(std::vector<int> caps = {0}) {
    for (int cap : caps) {
        const u32 own = 2 * ((TILE + 127) / 128 * 128) + 128, more = pad(own, cap, THREADS);
        auto f = triad<TILE, THREADS, V, H, L, ORDER>;
        int blocks;
        CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, THREADS, more));
        char name[200];
        snprintf(name, 200, "triad,%d,%d,%d,%d,%d,%d,%d,%d,%.1f", TILE, THREADS, V, H, L, ORDER, cap, blocks,
                 blocks * TILE * 2 / 1024.);
        entries.push_back(
            {name, [=](u64 o) {
                 auto at = attribute();
                 cudaLaunchConfig_t c = {};
                 c.gridDim = dim3(u32((N + TILE - 1) / TILE));
                 c.blockDim = dim3(THREADS);
                 c.dynamicSmemBytes = more;
                 c.stream = S;
                 c.attrs = &at;
                 c.numAttrs = 1;
                 CK(cudaLaunchKernelEx(&c, f, (const char*)(X + o), (const char*)(Z + o), (char*)(Y + o), 0.75f));
             }});
    }
}
template <int TILE, int THREADS, int V = 2, int H = 0, int L = 0>
void c(std::vector<int> caps = {0}) {
    for (int cap : caps) {
        const u32 own = (TILE + 127) / 128 * 128 + 128, more = pad(own, cap, THREADS);
        auto f = copy<TILE, THREADS, V, H, L>;
        int blocks;
        CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, THREADS, more));
        char name[200];
        snprintf(name, 200, "copy,%d,%d,%d,%d,%d,0,%d,%d,%.1f", TILE, THREADS, V, H, L, cap, blocks,
                 blocks * TILE / 1024.);
        entries.push_back({name, [=](u64 o) {
                               auto at = attribute();
                               cudaLaunchConfig_t c = {};
                               c.gridDim = dim3(u32((N + TILE - 1) / TILE));
                               c.blockDim = dim3(THREADS);
                               c.dynamicSmemBytes = more;
                               c.stream = S;
                               c.attrs = &at;
                               c.numAttrs = 1;
                               CK(cudaLaunchKernelEx(&c, f, (const char*)(X + o), (char*)(Y + o)));
                           }});
    }
}
template <int THREADS, int U, int H = 0, int L = 0>
void f() {
    auto k = flat<THREADS, U, H, L>;
    int blocks;
    CK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, THREADS, 0));
    char name[200];
    snprintf(name, 200, "flat,%d,%d,16,%d,%d,0,0,%d,%.1f", THREADS * U * 16, THREADS, H, L, blocks,
             blocks * THREADS * U * 32 / 1024.);
    entries.push_back(
        {name, [=](u64 o) {
             auto at = attribute();
             cudaLaunchConfig_t c = {};
             c.gridDim = dim3(u32((N + THREADS * U * 16 - 1) / (THREADS * U * 16)));
             c.blockDim = dim3(THREADS);
             c.stream = S;
             c.attrs = &at;
             c.numAttrs = 1;
             CK(cudaLaunchKernelEx(&c, k, (const char*)(X + o), (const char*)(Z + o), (char*)(Y + o), 0.75f));
         }});
}
template <int TILE, int THREADS, int V = 2, int H = 0>
void gc(int mib) {
    auto f = copygiving<TILE, THREADS, V, H>;
    char name[200];
    snprintf(name, 200, "copygiving%d,%d,%d,%d,%d,1,0,0,,", mib, TILE, THREADS, V, H);
    const u32 r = (u64(mib) << 20) / TILE;
    entries.push_back({name, [=](u64 o) {
                           auto at = attribute();
                           cudaLaunchConfig_t c = {};
                           c.gridDim = dim3(u32((N + TILE - 1) / TILE));
                           c.blockDim = dim3(THREADS);
                           c.stream = S;
                           c.attrs = &at;
                           c.numAttrs = 1;
                           CK(cudaLaunchKernelEx(&c, f, (const char*)(X + o), (char*)(Y + o), r));
                       }});
}
template <int TILE, int THREADS, int V = 4, int H = 1>
void g(int mib, int cap = 0) {
    auto f = giving<TILE, THREADS, V, H>;
    const u32 more = pad(2 * ((TILE + 127) / 128 * 128) + 128, cap, THREADS);
    char name[200];
    snprintf(name, 200, "giving%d,%d,%d,%d,%d,1,0,%d,,", mib, TILE, THREADS, V, H, cap);
    const u32 r = (u64(mib) << 20) / TILE;
    entries.push_back(
        {name, [=](u64 o) {
             auto at = attribute();
             cudaLaunchConfig_t c = {};
             c.gridDim = dim3(u32((N + TILE - 1) / TILE));
             c.blockDim = dim3(THREADS);
             c.dynamicSmemBytes = more;
             c.stream = S;
             c.attrs = &at;
             c.numAttrs = 1;
             CK(cudaLaunchKernelEx(&c, f, (const char*)(X + o), (const char*)(Z + o), (char*)(Y + o), 0.75f, r));
         }});
}
// A launch of the last entry, then a copy of `wash` MiB, then `times` copies of `mib` MiB in all, which the cache
// holds.
static void then(int mib, int times, int wash = 0) {
    auto before = entries.back();
    before.name =
        "then " + std::to_string(mib) + "x" + std::to_string(times) + "w" + std::to_string(wash) + " " + before.name;
    auto go = before.launch;
    before.launch = [=](u64 o) {
        go(o);
        auto one = [&](u64 n) {
            auto k = copy<4096, 256, 16, 0, 0>;
            cudaLaunchConfig_t c = {};
            c.gridDim = dim3(u32(n / 4096));
            c.blockDim = dim3(256);
            c.stream = S;
            CK(cudaLaunchKernelEx(&c, k, (const char*)(X + (4095ull << 20) - n), (char*)(Y + (4095ull << 20) - n)));
        };
        if (wash) one(u64(wash) << 19);
        for (int i = 0; i < times; ++i) one(u64(mib) << 19);
    };
    entries.push_back(before);
}
static void run(u64 mib, int reps) {
    N = mib << 20;
    cudaEvent_t p, q;
    CK(cudaEventCreate(&p));
    CK(cudaEventCreate(&q));
    for (auto& v : entries) {
        const int w = 2;
        v.k = std::max<int>(w, int(4096 / mib) / w * w);
        v.us.clear();
        v.launch(0);
        CK(cudaStreamSynchronize(S));
        cudaGraph_t g;
        CK(cudaStreamBeginCapture(S, cudaStreamCaptureModeRelaxed));
        for (int i = 0; i < v.k; ++i) v.launch((i % w) * N);
        CK(cudaStreamEndCapture(S, &g));
        CK(cudaGraphInstantiate(&v.exec, g, 0));
        CK(cudaGraphDestroy(g));
        CK(cudaGraphLaunch(v.exec, S));
        CK(cudaStreamSynchronize(S));
    }
    auto time = [&](Variant& v) {
        CK(cudaEventRecord(p, S));
        CK(cudaGraphLaunch(v.exec, S));
        CK(cudaEventRecord(q, S));
        CK(cudaEventSynchronize(q));
        float ms;
        CK(cudaEventElapsedTime(&ms, p, q));
        return ms * 1e3f / v.k;
    };
    for (int r = 0; r < reps; ++r)
        for (size_t i = 0; i < entries.size(); ++i) {
            auto& v = entries[r % 2 ? entries.size() - 1 - i : i];
            v.us.push_back(time(v));
        }
    auto median = [](std::vector<float> a) {
        std::sort(a.begin(), a.end());
        return a[a.size() / 2];
    };
    const float base = median(entries[0].us);
    for (auto& v : entries) {
        std::vector<float> s = v.us;
        std::sort(s.begin(), s.end());
        printf("%llu,%s,%.3f,%.3f,%.3f,%.4f\n", (unsigned long long)mib, v.name.c_str(), s[s.size() / 4],
               s[s.size() / 2], s[3 * s.size() / 4], base / s[s.size() / 2]);
        CK(cudaGraphExecDestroy(v.exec));
    }
    fflush(stdout);
}
int main(int argc, char** argv) {
    const int stage = argc > 1 ? atoi(argv[1]) : 4;
    const u64 shift = argc > 2 ? strtoull(argv[2], 0, 0) : 0;
    const int reps = argc > 3 ? atoi(argv[3]) : 9;
    CK(cudaSetDevice(0));
    CK(cudaStreamCreateWithFlags(&S, cudaStreamNonBlocking));
    const u64 G = (1ull << 32) + (64 << 20);
    char* hole = nullptr;
    if (shift) CK(cudaMalloc(&hole, shift << 20));
    CK(cudaMalloc(&X, G));
    CK(cudaMalloc(&Z, G));
    CK(cudaMalloc(&Y, G));
    CK(cudaMemset(Y, 0, G));
    fill<<<4096, 256, 0, S>>>((float*)X, G / 4, 1);
    fill<<<4096, 256, 0, S>>>((float*)Z, G / 4, 7777777);
    CK(cudaStreamSynchronize(S));
    printf("MiB,what,tile,threads,store,hint,load,order,cap,blocks,KiB,q1,median,q3,ratio # CUB %d.%d.%d\n",
           CUB_MAJOR_VERSION, CUB_MINOR_VERSION, CUB_SUBMINOR_VERSION);
    auto cub_triad = [](u64 o) {
        CK(cub::DeviceTransform::Transform(cuda::std::make_tuple((const float*)(X + o), (const float*)(Z + o)),
                                           (float*)(Y + o), int64_t(N / 4), Triad{}, S));
    };
    auto cub_copy = [](u64 o) {
        CK(cub::DeviceTransform::Transform(cuda::std::make_tuple((const uint16_t*)(X + o)), (uint16_t*)(Y + o),
                                           int64_t(N / 2), Copy{}, S));
    };
    if (stage == 1) {
        entries.push_back({"cub,,,,,,,,,", cub_triad});
        t<3072, 256, 4, 0>({0, 7, 6});
        t<3072, 256, 4, 1>({0, 7, 6});
        t<2304, 192, 4, 1>({0, 9, 8});
        t<2304, 192, 4, 0>({0, 9});
        t<1536, 128, 4, 1>({0, 15, 14, 13, 12});
        t<1536, 128, 4, 0>({0, 15, 14});
        t<3072, 128, 4, 1>({9, 8, 7, 6});
        t<3072, 192, 4, 1>({9, 8, 7});
        t<3072, 192, 16, 0>({9, 8, 7, 6});
        t<3072, 192, 16, 1>({9, 8, 7});
        t<3072, 256, 16, 0>({0, 7});
        t<3072, 256, 16, 1>({0, 7});
        t<3072, 384, 8, 1>({0});
        t<3072, 128, 8, 1>({8, 7});
        t<2048, 128, 16, 1>({12, 11, 10});
        t<2048, 128, 4, 1>({12, 11, 10});
        t<1024, 64, 4, 1>({24, 22, 20});
        t<6144, 256, 4, 1>({5});
        t<5120, 256, 4, 1>({5});
        t<2560, 160, 4, 1>({0, 9, 8});
        t<2560, 256, 4, 1>({0});
        t<2816, 256, 4, 1>({0});
        t<2688, 224, 4, 1>({0, 8});
        t<2688, 96, 4, 1>({9, 8});
        t<3072, 256, 4, 2>();
        t<3072, 256, 4, 3>();
        t<3072, 256, 4, 4>();
        t<3072, 256, 4, 5>();
        t<3072, 256, 4, 6>();
        t<3072, 256, 4, 1, 1>();
        t<3072, 256, 4, 1, 2>();
        t<3072, 256, 4, 1, 3>();
        t<3072, 256, 4, 1, 0, 1>();
        t<3072, 256, 4, 1, 0, 2>();
        t<3072, 256, 4, 1, 0, 3>();
        entries.push_back({"cub again,,,,,,,,,", cub_triad});
        for (u64 mib : {256, 1024}) run(mib, reps);
        entries.clear();
        entries.push_back({"cub,,,,,,,,,", cub_copy});
        c<3520, 160>({0, 11, 10});
        c<3840, 160>({0, 11, 10});
        c<1920, 96>({0, 20, 19, 18});
        c<2816, 128>({0, 15, 14});
        c<2560, 128>({0, 15});
        c<2560, 160>();
        c<2880, 160>();
        c<1536, 96>();
        c<1728, 96>();
        c<3072, 128>({14, 13, 12});
        c<2560, 128, 4>({0, 15});
        c<2816, 128, 4>({0, 15, 14});
        c<2560, 128, 1>({0});
        c<2048, 128, 2>({0});
        c<2304, 128, 2>({0});
        c<1280, 64, 2>({32, 30});
        c<5120, 256, 2>({0, 7});
        c<2560, 64, 2>({16, 15});
        c<2560, 96, 2>({16, 15});
        c<1664, 96>({0});
        entries.push_back({"cub again,,,,,,,,,", cub_copy});
        for (u64 mib : {256, 2048}) run(mib, reps);
    }
    if (stage == 2) {
        entries.push_back({"cub,,,,,,,,,", cub_triad});
        t<3072, 256, 4, 0>();
        t<3072, 256, 4, 1>();
        t<3072, 256, 4, 1, 1>({0, 7});
        t<3072, 256, 4, 0, 1>({0, 7});
        t<3072, 256, 4, 5, 1>();
        t<3072, 256, 4, 6, 1>();
        t<3072, 256, 4, 4, 1>();
        t<3072, 256, 4, 1, 4>();
        t<3072, 256, 4, 1, 5>();
        t<3072, 256, 4, 1, 6>();
        t<3072, 256, 4, 1, 7>();
        t<2304, 192, 4, 1, 1>({0, 9});
        t<2048, 128, 4, 1, 1>({13, 12, 11, 10});
        t<1536, 128, 4, 1, 1>({0, 15, 14});
        t<3072, 192, 4, 1, 1>({9, 8, 7});
        t<3072, 192, 16, 0, 1>({8, 7});
        t<3072, 256, 16, 1, 1>({0, 7});
        t<3072, 128, 8, 1, 1>({8});
        t<3072, 128, 4, 1, 1>({9, 8});
        t<4096, 256, 4, 1, 1>({8, 7, 6});
        t<3072, 256, 8, 1, 1>({0});
        t<2816, 256, 4, 1, 1>({0});
        t<3328, 256, 4, 1, 1>({0});
        t<3584, 256, 4, 1, 1>({0});
        t<2560, 160, 4, 1, 1>({0, 10});
        t<5120, 256, 4, 1, 1>({5});
        t<4096, 128, 4, 1, 1>({8, 7, 6});
        t<3072, 256, 4, 1, 1, 1>();
        f<256, 1>();
        f<256, 1, 1>();
        f<256, 1, 0, 1>();
        f<256, 1, 1, 1>();
        f<512, 1, 0, 1>();
        f<128, 1, 0, 1>();
        f<256, 2, 0, 1>();
        entries.push_back({"cub again,,,,,,,,,", cub_triad});
        t<3072, 256, 4, 1>();
        then(8, 16);
        t<3072, 256, 4, 1>();
        then(24, 16);
        t<3072, 256, 4, 1>();
        then(36, 16);
        t<3072, 256, 4, 1, 1>();
        then(8, 16);
        t<3072, 256, 4, 1, 1>();
        then(24, 16);
        t<3072, 256, 4, 1, 1>();
        then(36, 16);
        for (u64 mib : {64, 256, 1024, 1920}) run(mib, reps);
        entries.clear();
        entries.push_back({"cub,,,,,,,,,", cub_copy});
        c<3840, 160>();
        c<3840, 160, 2, 0, 1>({0, 11});
        c<2560, 128>();
        c<2560, 128, 2, 0, 1>();
        c<2816, 128>({15});
        c<2816, 128, 2, 0, 1>({0, 15, 14});
        c<3072, 128, 2, 0, 1>({0, 15, 14, 13});
        c<1920, 96, 2, 0, 1>();
        c<2560, 128, 4, 0, 1>();
        c<2816, 128, 4, 0, 1>();
        c<2816, 128, 4, 1, 1>({0, 15, 14});
        c<2560, 128, 16, 0, 1>();
        c<4096, 128, 2, 0, 1>({12, 11, 10});
        c<3072, 128, 16, 1, 1>({0, 14});
        c<3584, 128, 2, 0, 1>({13, 12});
        c<4096, 160, 2, 0, 1>({0});
        entries.push_back({"cub again,,,,,,,,,", cub_copy});
        for (u64 mib : {64, 256, 1024, 2048}) run(mib, reps);
    }
    if (stage == 3) {
        entries.push_back({"cub,,,,,,,,,", cub_triad});
        auto all_of = [&](auto make) {
            make();
            for (int k : {1, 2, 4, 8, 16, 64, 256}) {
                make();
                auto at = entries.size() - 1;
                then(36, k);
                entries.erase(entries.begin() + at);
            }
            for (int m : {16, 24, 28, 32, 40}) {
                make();
                auto at = entries.size() - 1;
                then(m, 16);
                entries.erase(entries.begin() + at);
            }
            for (int w : {64, 256}) {
                make();
                auto at = entries.size() - 1;
                then(36, 16, w);
                entries.erase(entries.begin() + at);
            }
        };
        all_of([] { t<3072, 256, 4, 1>(); });
        all_of([] { t<3072, 256, 4, 1, 1>(); });
        all_of([] { g<3072, 256>(10); });
        all_of([] { g<3072, 256>(16); });
        all_of([] { g<3072, 256>(24); });
        all_of([] { t<3072, 256, 4, 1, 5>(); });
        g<3072, 256>(4);
        g<3072, 256>(32);
        for (u64 mib : {256, 1024}) run(mib, reps);
    }
    if (stage == 4) {
        auto thens = [&](auto make) {
            make();
            for (int m : {32, 36, 40}) {
                make();
                auto at = entries.size() - 1;
                then(m, 16);
                entries.erase(entries.begin() + at);
            }
        };
        entries.push_back({"cub,,,,,,,,,", cub_triad});
        thens([] { t<3072, 256, 4, 1>(); });
        thens([] { t<3072, 256, 4, 1, 1>(); });
        thens([] { g<3072, 256>(1); });
        thens([] { g<3072, 256>(2); });
        thens([] { g<3072, 256>(3); });
        thens([] { g<3072, 256>(4); });
        thens([] { g<3072, 256>(5); });
        thens([] { g<3072, 256>(6); });
        thens([] { g<3072, 256>(7); });
        thens([] { g<3072, 256>(8); });
        thens([] { g<3072, 256>(9); });
        for (int r : {4, 8}) {
            g<3072, 256, 4, 0>(r);
            g<3072, 256, 16>(r);
            g<3072, 256, 16, 0>(r);
            g<3072, 192, 16, 0>(r, 8);
            g<3072, 192, 16, 0>(r, 9);
            g<3072, 192, 16, 1>(r, 0);
            g<3072, 192, 16, 1>(r, 8);
            g<3072, 192>(r, 8);
            g<3072, 192>(r, 9);
            g<2304, 192>(r);
            g<1536, 128>(r);
            g<1536, 128>(r, 15);
            g<2560, 160>(r);
            g<2560, 160>(r, 10);
            g<2048, 128>(r, 12);
            g<3072, 128>(r, 8);
            g<1152, 96>(r);
            g<1536, 96>(r);
            g<1920, 160>(r);
            g<1280, 160>(r);
            g<2048, 128, 16, 0>(r, 12);
            g<2048, 128, 16, 0>(r);
            g<1536, 96, 16, 0>(r);
        }
        entries.push_back({"cub again,,,,,,,,,", cub_triad});
        for (u64 mib : {256, 1024}) run(mib, reps);
        entries.clear();
        entries.push_back({"cub,,,,,,,,,", cub_copy});
        thens([] { c<2560, 128>(); });
        thens([] { c<2560, 128, 2, 0, 1>(); });
        thens([] { gc<2560, 128>(4); });
        thens([] { gc<2560, 128>(6); });
        thens([] { gc<2560, 128>(8); });
        thens([] { gc<2560, 128>(10); });
        thens([] { gc<2560, 128>(12); });
        thens([] { gc<2560, 128>(14); });
        thens([] { gc<2560, 128>(16); });
        thens([] { gc<2560, 128>(20); });
        for (int r : {8, 16}) {
            gc<3840, 160>(r);
            gc<3072, 128>(r);
            gc<2816, 128>(r);
            gc<1920, 96>(r);
            gc<3584, 128>(r);
            gc<2560, 128, 4>(r);
            gc<2560, 128, 4, 1>(r);
            gc<3072, 128, 4, 1>(r);
            gc<2816, 128, 4, 1>(r);
            gc<2560, 160, 4, 0>(r);
        }
        entries.push_back({"cub again,,,,,,,,,", cub_copy});
        for (u64 mib : {128, 256, 2048}) run(mib, reps);
    }
    return 0;
}
