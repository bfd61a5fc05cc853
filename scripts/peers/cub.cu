// cub.cu - cub::DeviceTransform as a contestant: times the cells requested on stdin, so that a driver can interleave it with
// others. One process and one set of buffers for the whole run.
//
// Build:    nvcc -O3 -std=c++17 -arch=sm_90 --extended-lambda -o cub cub.cu
//           (a newer CCCL than the toolkit's: -I<cccl>/cub -I<cccl>/thrust -I<cccl>/libcudacxx/include)
// Commands: time OP DTYPE BYTES                  -> median microseconds of one launch
//           bits OP DTYPE FIRST COUNT FILE       -> writes the outputs for COUNT bit patterns from FIRST on; "ok"
//           version                              -> CUB's version
//
// Method. Every operand is a pool of W windows of S bytes, W = max(2, 512 MiB / S); launch i of a batch uses window
// i % W, so between two uses of one line at least 2 x 512 MiB of other traffic passes. A batch of K launches (a multiple
// of W, about 2 ms of work) is captured into one CUDA graph and replayed; CUDA events bracket a replay; the median of
// the replays divided by K is the time of one launch.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cub/device/device_transform.cuh>
#include <cub/version.cuh>
#include <cuda/std/tuple>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#define CK(x)                                                                                         \
  do                                                                                                  \
  {                                                                                                   \
    cudaError_t e_ = (x);                                                                             \
    if (e_ != cudaSuccess)                                                                            \
    {                                                                                                 \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_));         \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (0)

__host__ __device__ inline float up(float v) { return v; }
__host__ __device__ inline float up(__nv_bfloat16 v) { return __bfloat162float(v); }
__host__ __device__ inline float up(__half v) { return __half2float(v); }
template <class T>
__host__ __device__ inline T down(float v);
template <>
__host__ __device__ inline float down<float>(float v) { return v; }
template <>
__host__ __device__ inline __nv_bfloat16 down<__nv_bfloat16>(float v) { return __float2bfloat16_rn(v); }
template <>
__host__ __device__ inline __half down<__half>(float v) { return __float2half_rn(v); }

// Operations in f32 with one rounding at the end, as in every other contestant.
struct Copy
{
  static constexpr int inputs = 1;
  template <class T>
  __device__ T operator()(const T& a) const { return a; }
};
struct AddConst
{
  static constexpr int inputs = 1;
  template <class T>
  __device__ T operator()(const T& a) const { return down<T>(up(a) + 42.0f); }
};
struct Exp
{
  static constexpr int inputs = 1;
  template <class T>
  __device__ T operator()(const T& a) const { return down<T>(expf(up(a))); }
};
struct Log
{
  static constexpr int inputs = 1;
  template <class T>
  __device__ T operator()(const T& a) const { return down<T>(logf(up(a))); }
};
struct Erf
{
  static constexpr int inputs = 1;
  template <class T>
  __device__ T operator()(const T& a) const { return down<T>(erff(up(a))); }
};
struct Triad
{
  static constexpr int inputs = 2;
  template <class T>
  __device__ T operator()(const T& b, const T& c) const { return down<T>(up(b) + 0.75f * up(c)); }
};

__device__ inline uint32_t hash32(uint64_t i)
{
  uint32_t x = static_cast<uint32_t>(i) * 0x9E3779B9u + static_cast<uint32_t>(i >> 32) * 0x85EBCA6Bu + 0x27D4EB2Fu;
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  x ^= x >> 16;
  return x;
}
template <class T>
__global__ void random_values(T* p, size_t n, float lo, float hi, uint64_t salt)
{
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
  {
    const float u = static_cast<float>(hash32(i + salt) >> 8) * (1.0f / 16777216.0f);
    p[i]          = down<T>(lo + (hi - lo) * u);
  }
}
template <class Bits>
__global__ void patterns(Bits* p, size_t n, uint64_t first)
{
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
  {
    p[i] = static_cast<Bits>(first + i);
  }
}

static constexpr size_t kMiB      = size_t{1} << 20;
static constexpr size_t kMaxBytes = 2048 * kMiB;
static constexpr int kReplays     = 15;
static char *g_a, *g_b, *g_y;
static cudaStream_t g_s;
static std::string g_filled;

static size_t windows(size_t bytes) { return std::max<size_t>(2, (512 * kMiB + bytes - 1) / bytes); }

static double time_it(size_t bytes, int streams, const std::function<void(size_t)>& launch)
{
  const size_t w       = windows(bytes);
  const double guess   = std::max(2.0, static_cast<double>(bytes) * streams / 4.0e6); // us, at 4 TB/s
  const size_t batches = std::max<size_t>(1, static_cast<size_t>(std::ceil(2000.0 / (guess * w))));
  const size_t k       = w * batches;
  launch(0);
  CK(cudaStreamSynchronize(g_s));
  cudaGraph_t graph{};
  cudaGraphExec_t exec{};
  CK(cudaStreamBeginCapture(g_s, cudaStreamCaptureModeRelaxed));
  for (size_t i = 0; i < k; ++i)
  {
    launch(i % w);
  }
  CK(cudaStreamEndCapture(g_s, &graph));
  CK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t e0, e1;
  CK(cudaEventCreate(&e0));
  CK(cudaEventCreate(&e1));
  CK(cudaGraphLaunch(exec, g_s));
  CK(cudaGraphLaunch(exec, g_s));
  CK(cudaStreamSynchronize(g_s));
  std::vector<float> ms;
  for (int r = 0; r < kReplays; ++r)
  {
    CK(cudaEventRecord(e0, g_s));
    CK(cudaGraphLaunch(exec, g_s));
    CK(cudaEventRecord(e1, g_s));
    CK(cudaEventSynchronize(e1));
    float t = 0;
    CK(cudaEventElapsedTime(&t, e0, e1));
    ms.push_back(t);
  }
  CK(cudaEventDestroy(e0));
  CK(cudaEventDestroy(e1));
  CK(cudaGraphExecDestroy(exec));
  CK(cudaGraphDestroy(graph));
  std::nth_element(ms.begin(), ms.begin() + kReplays / 2, ms.end());
  return ms[kReplays / 2] * 1e3 / static_cast<double>(k);
}

template <class T, class Op>
static void launch(size_t at, int64_t n)
{
  const T* a = reinterpret_cast<const T*>(g_a + at);
  const T* b = reinterpret_cast<const T*>(g_b + at);
  T* y       = reinterpret_cast<T*>(g_y + at);
  if constexpr (Op::inputs == 2)
  {
    CK(cub::DeviceTransform::Transform(cuda::std::make_tuple(a, b), y, n, Op{}, g_s));
  }
  else
  {
    CK(cub::DeviceTransform::Transform(cuda::std::make_tuple(a), y, n, Op{}, g_s));
  }
}

template <class T, class Op>
static std::string time_cell(const std::string& key, bool positive, size_t bytes)
{
  if (g_filled != key)
  {
    const float lo = positive ? 0.01f : -3.0f, hi = positive ? 8.0f : 3.0f;
    const size_t n = 2 * kMaxBytes / sizeof(T);
    random_values<T><<<4096, 256, 0, g_s>>>(reinterpret_cast<T*>(g_a), n, lo, hi, 1);
    random_values<T><<<4096, 256, 0, g_s>>>(reinterpret_cast<T*>(g_b), n, lo, hi, 7777777);
    CK(cudaGetLastError());
    g_filled = key;
  }
  const int64_t n = static_cast<int64_t>(bytes / sizeof(T));
  char text[64];
  std::snprintf(text, sizeof text, "%.4f", time_it(bytes, Op::inputs + 1, [&](size_t w) { launch<T, Op>(bytes * w, n); }));
  return text;
}

template <class T, class Bits, class Op>
static std::string all_bits(uint64_t first, size_t count, const std::string& file)
{
  g_filled.clear();
  if (count * sizeof(T) > kMaxBytes)
  {
    return "error: at most 2 GiB";
  }
  patterns<Bits><<<4096, 256, 0, g_s>>>(reinterpret_cast<Bits*>(g_a), count, first);
  CK(cudaGetLastError());
  launch<T, Op>(0, static_cast<int64_t>(count));
  std::vector<char> host(count * sizeof(T));
  CK(cudaMemcpyAsync(host.data(), g_y, host.size(), cudaMemcpyDeviceToHost, g_s));
  CK(cudaStreamSynchronize(g_s));
  std::FILE* f = std::fopen(file.c_str(), "wb");
  if (!f || std::fwrite(host.data(), 1, host.size(), f) != host.size() || std::fclose(f) != 0)
  {
    return "error: can't write " + file;
  }
  return "ok";
}

template <class T, class Bits>
static std::string with_type(const std::vector<std::string>& words)
{
  const std::string &verb = words[0], &op = words[1], key = words[2] + (op == "log" ? "+" : "");
  const auto answer = [&](auto o) -> std::string {
    using Op = decltype(o);
    if (verb == "time" && words.size() == 4)
    {
      return time_cell<T, Op>(key, op == "log", std::stoull(words[3]));
    }
    if (verb == "bits" && words.size() == 6)
    {
      return all_bits<T, Bits, Op>(std::stoull(words[3]), std::stoull(words[4]), words[5]);
    }
    return "error: unknown command";
  };
  return op == "copy"        ? answer(Copy{})
         : op == "add_const" ? answer(AddConst{})
         : op == "triad"     ? answer(Triad{})
         : op == "exp"       ? answer(Exp{})
         : op == "log"       ? answer(Log{})
         : op == "erf"       ? answer(Erf{})
                             : "error: unknown operation";
}

int main()
{
  CK(cudaStreamCreateWithFlags(&g_s, cudaStreamNonBlocking));
  CK(cudaMalloc(&g_a, 2 * kMaxBytes));
  CK(cudaMalloc(&g_b, 2 * kMaxBytes));
  CK(cudaMalloc(&g_y, 2 * kMaxBytes));
  CK(cudaMemset(g_y, 0, 2 * kMaxBytes));
  std::string line;
  while (std::getline(std::cin, line))
  {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;)
    {
      words.push_back(word);
    }
    std::string answer = "error: unknown command";
    if (words.size() == 1 && words[0] == "version")
    {
      answer = std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "."
             + std::to_string(CUB_SUBMINOR_VERSION);
    }
    else if (words.size() > 3)
    {
      answer = words[2] == "f32"    ? with_type<float, uint32_t>(words)
               : words[2] == "bf16" ? with_type<__nv_bfloat16, uint16_t>(words)
               : words[2] == "f16"  ? with_type<__half, uint16_t>(words)
                                    : "error: unknown type";
    }
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
  return 0;
}
