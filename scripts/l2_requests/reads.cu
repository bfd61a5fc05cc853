// Reads of L2 and of memory in chosen orders. run.py drives it; README.md says why.
//
//   reads l2   [profile]   one line of key=value per configuration on stdin, one CSV row each on stdout
//   reads dram             read bandwidth over placement, arrays, ratio of writes and address bits
//   reads latency          dependent loads from several SMs
//   reads sms              how many SMs there are
//
// With `profile`, each configuration is launched once and not timed, so that ncu counts it.
//
// Why the compiler keeps the loads, and waits for them: their XOR decides whether a word is stored, which happens to one thread
// in 2^32.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

using u32 = uint32_t;
using u64 = uint64_t;

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        const cudaError_t error_ = (call);                                                                             \
        if (error_ != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));                 \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr u64 KI = 1 << 10, MI = 1 << 20, GI = 1 << 30;
constexpr int SAMPLES = 33, WARM = 3;
// Bytes that a launch on L2 moves: at 9 TB/s it takes 0.7 ms, of which starting it is some 0.3 %.
constexpr u64 MOVED = 6 * GI;

// ---- data -----------------------------------------------------------------------------------------------------------

__host__ __device__ inline u32 word_at(u64 index) {
    u64 x = (index + 1) * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull;
    return u32(x >> 32);
}

__global__ void fill_words(u32* words, u64 count) {
    for (u64 i = blockIdx.x * u64(blockDim.x) + threadIdx.x; i < count; i += u64(gridDim.x) * blockDim.x)
        words[i] = word_at(i);
}

// ---- loads ----------------------------------------------------------------------------------------------------------

// CG is served by L2 alone; PLAIN may be served by L1.
enum Load { CG, PLAIN };

template <int WIDTH, Load LOAD> __device__ __forceinline__ void load_words(u32 (&v)[WIDTH / 4], const char* p) {
    if constexpr (WIDTH == 16) {
        if constexpr (LOAD == CG)
            asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(p));
        else
            asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(p));
    } else {
        if constexpr (LOAD == CG) asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(p));
        else asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "l"(p));
    }
}

__device__ __forceinline__ u32 own_sm() {
    u32 sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    return sm;
}

__device__ __forceinline__ u64 nanoseconds() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// ---- reads of L2 ----------------------------------------------------------------------------------------------------

// A block reads piece ((id / div) % mod) % pieces first, and the piece `hop` further on after each.
struct Order {
    u32 div, mod, hop, pieces, piece, steps;
    u32 by_sm;
};

// CHUNKS: a warp reads WIDTH * UNROLL * 32 contiguous bytes at a time. ROWS: a block reads its threads * WIDTH bytes at a time.
enum Layout { CHUNKS, ROWS };

template <int WIDTH, int UNROLL, Load LOAD, Layout LAYOUT>
__global__ void __launch_bounds__(1024, WIDTH * UNROLL <= 64 ? 2 : 1)
    read_pieces(const char* array, Order order, u32 never, u32* check, u64* clocks) {
    const u64 first_cycle = clock64(), first_time = nanoseconds();
    const u32 id = order.by_sm ? own_sm() : blockIdx.x;
    u32 piece = id / order.div % order.mod % order.pieces;
    const u32 row = LAYOUT == CHUNKS ? 32 * WIDTH : blockDim.x * WIDTH;
    const u32 begin = LAYOUT == CHUNKS ? threadIdx.x / 32 * (32 * WIDTH * UNROLL) + threadIdx.x % 32 * WIDTH
                                       : threadIdx.x * WIDTH;
    const u32 stride = blockDim.x * WIDTH * UNROLL;
    u32 bits = 0;
    for (u32 step = 0; step < order.steps; ++step) {
        const char* from = array + u64(piece) * order.piece + begin;
#pragma unroll 1
        for (u32 done = 0; done < order.piece; done += stride, from += stride) {
            u32 v[UNROLL][WIDTH / 4];
#pragma unroll
            for (int u = 0; u < UNROLL; ++u) load_words<WIDTH, LOAD>(v[u], from + u * row);
#pragma unroll
            for (int u = 0; u < UNROLL; ++u)
                for (int i = 0; i < WIDTH / 4; ++i) bits ^= v[u][i];
        }
        piece += order.hop;
        if (piece >= order.pieces) piece -= order.pieces;
    }
    if (check != nullptr) {
        bits = __reduce_xor_sync(~0u, bits);
        if (threadIdx.x % 32 == 0) atomicXor(check, bits);
    } else if (bits == never) {
        clocks[2] = bits;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        clocks[0] = clock64() - first_cycle;
        clocks[1] = nanoseconds() - first_time;
    }
}

using Kernel = void (*)(const char*, Order, u32, u32*, u64*);

template <int WIDTH, int UNROLL> Kernel pick(Load load, Layout layout) {
    if (load == CG) return layout == CHUNKS ? read_pieces<WIDTH, UNROLL, CG, CHUNKS> : read_pieces<WIDTH, UNROLL, CG, ROWS>;
    return layout == CHUNKS ? read_pieces<WIDTH, UNROLL, PLAIN, CHUNKS> : read_pieces<WIDTH, UNROLL, PLAIN, ROWS>;
}

Kernel pick(u32 width, u32 unroll, Load load, Layout layout) {
    const u32 key = width * 100 + unroll;
    switch (key) {
        case 801: return pick<8, 1>(load, layout);
        case 802: return pick<8, 2>(load, layout);
        case 804: return pick<8, 4>(load, layout);
        case 808: return pick<8, 8>(load, layout);
        case 1601: return pick<16, 1>(load, layout);
        case 1602: return pick<16, 2>(load, layout);
        case 1604: return pick<16, 4>(load, layout);
        case 1608: return pick<16, 8>(load, layout);
        default: return nullptr;
    }
}

struct Config {
    std::map<std::string, std::string> keys;

    std::string text(const char* key, const char* otherwise) const {
        const auto found = keys.find(key);
        return found == keys.end() ? otherwise : found->second;
    }
    u64 number(const char* key, u64 otherwise) const {
        const auto found = keys.find(key);
        return found == keys.end() ? otherwise : strtoull(found->second.c_str(), nullptr, 10);
    }
};

u64 gcd(u64 a, u64 b) { return b == 0 ? a : gcd(b, a % b); }

// About three eighths of all pieces, and coprime to their number, so that every piece is visited.
u32 distant_hop(u32 pieces) {
    for (u32 hop = pieces * 3 / 8 + 1; hop < pieces; ++hop)
        if (gcd(hop, pieces) == 1) return hop;
    return 1 % pieces;
}

struct Summary {
    double median, low, high;
};

Summary summarize(std::vector<float> samples) {
    std::sort(samples.begin(), samples.end());
    const size_t n = samples.size();
    return {samples[n / 2], samples[n / 20], samples[n - 1 - n / 20]};
}

// Milliseconds of each of SAMPLES launches.
std::vector<float> time_launches(const std::function<void()>& launch) {
    cudaEvent_t begin, end;
    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    std::vector<float> samples;
    for (int i = 0; i < WARM + SAMPLES; ++i) {
        CUDA(cudaEventRecord(begin));
        launch();
        CUDA(cudaEventRecord(end));
        CUDA(cudaEventSynchronize(end));
        float time = 0;
        CUDA(cudaEventElapsedTime(&time, begin, end));
        if (i >= WARM) samples.push_back(time);
    }
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    return samples;
}

int run_l2(bool profile) {
    int sms = 0;
    CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    constexpr u64 MOST = 256 * MI;
    char* array = nullptr;
    u32* check = nullptr;
    u64* clocks = nullptr;
    CUDA(cudaMalloc(&array, MOST));
    CUDA(cudaMalloc(&check, 4));
    CUDA(cudaMalloc(&clocks, 24));
    fill_words<<<4 * sms, 512>>>(reinterpret_cast<u32*>(array), MOST / 4);
    CUDA(cudaDeviceSynchronize());
    if (!profile)
        printf("name,order,group,by,load,layout,width,unroll,threads,blocks_per_sm,resident,grid,piece,pieces,footprint,"
               "in_flight_per_sm,bytes,samples,median_us,low_us,high_us,TBps,clock_MHz,B_per_cycle_per_sm,check\n");
    std::string line;
    while (std::getline(std::cin, line)) {
        Config config;
        std::istringstream words(line);
        for (std::string word; words >> word;) {
            const size_t equal = word.find('=');
            if (equal != std::string::npos) config.keys[word.substr(0, equal)] = word.substr(equal + 1);
        }
        if (config.keys.empty()) continue;
        const std::string name = config.text("name", "-"), how = config.text("order", "distinct");
        const std::string load_name = config.text("load", "cg"), layout_name = config.text("layout", "chunks");
        const std::string by = config.text("by", "block");
        const u32 width = config.number("width", 16), unroll = config.number("unroll", 4);
        const u32 threads = config.number("threads", 1024), blocks = config.number("blocks", 1);
        const u32 group = std::max<u64>(1, config.number("group", 1));
        const Kernel kernel = pick(width, unroll, load_name == "plain" ? PLAIN : CG, layout_name == "rows" ? ROWS : CHUNKS);
        if (kernel == nullptr) {
            fprintf(stderr, "no such kernel: %s\n", line.c_str());
            continue;
        }
        int resident = 0;
        CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0));
        if (u32(resident) < blocks) {
            fprintf(stderr, "only %d blocks fit: %s\n", resident, line.c_str());
            continue;
        }

        const u32 all = blocks * sms, iteration = threads * width * unroll;
        const u64 footprint = std::min(config.number("footprint", 28 * MI), MOST);
        u32 piece = config.number("piece", 0);
        const bool one_each = piece == 0;
        if (one_each) piece = footprint / all;
        piece = std::max(piece / iteration, 1u) * iteration;
        u32 pieces = one_each ? all : std::max<u64>(footprint / piece, 1);
        if (how == "unique") pieces = std::max(pieces / all, 1u) * all;
        const u64 visits = std::max<u64>(MOVED / piece, all);

        Order order{1, all, 0, pieces, piece, u32((visits + all - 1) / all), by == "sm"};
        u32 grid = all;
        if (how == "unique") order.hop = all % pieces;
        else if (how == "distinct") order.hop = distant_hop(pieces);
        else if (how == "neighbour") order.hop = 1 % pieces;
        else if (how == "together") order.mod = 1, order.hop = 1 % pieces;
        else if (how == "wave") order.mod = pieces, order.hop = all % pieces;
        else if (how == "short") order.mod = pieces, order.steps = 1, grid = visits;
        // Groups of blocks with neighbouring or with distant numbers read the same pieces at the same time.
        else if (how == "group-near") order.div = group, order.hop = distant_hop(pieces);
        else if (how == "group-far") order.mod = std::max(all / group, 1u), order.hop = distant_hop(pieces);
        else {
            fprintf(stderr, "no such order: %s\n", line.c_str());
            continue;
        }
        const u64 bytes = u64(grid) * order.steps * piece;

        if (profile) {
            kernel<<<grid, threads>>>(array, order, 0, nullptr, clocks);
            CUDA(cudaDeviceSynchronize());
            printf("%s,%llu,%llu\n", name.c_str(), (unsigned long long)bytes, (unsigned long long)(u64(pieces) * piece));
            continue;
        }

        // What the XOR of all that is read has to be: pieces that are read an odd number of times count.
        std::vector<char> odd(pieces, 0);
        for (u32 block = 0; block < grid; ++block) {
            u32 at = block / order.div % order.mod % pieces;
            for (u32 step = 0; step < order.steps; ++step) {
                odd[at] ^= 1;
                at += order.hop;
                if (at >= pieces) at -= pieces;
            }
        }
        u32 expected = 0, got = 0;
        for (u32 p = 0; p < pieces; ++p)
            if (odd[p])
                for (u64 i = u64(p) * piece / 4; i < u64(p + 1) * piece / 4; ++i) expected ^= word_at(i);
        CUDA(cudaMemset(check, 0, 4));
        kernel<<<grid, threads>>>(array, order, 0, check, clocks);
        CUDA(cudaGetLastError());
        CUDA(cudaMemcpy(&got, check, 4, cudaMemcpyDeviceToHost));

        const Summary time =
            summarize(time_launches([&] { kernel<<<grid, threads>>>(array, order, 0, nullptr, clocks); }));
        CUDA(cudaGetLastError());
        u64 clock[2] = {};  // of block 0
        CUDA(cudaMemcpy(clock, clocks, 16, cudaMemcpyDeviceToHost));
        const double mhz = clock[1] > 100000 ? 1e3 * clock[0] / clock[1] : 0;
        const double rate = bytes / (time.median * 1e-3);
        printf("%s,%s,%u,%s,%s,%s,%u,%u,%u,%u,%d,%u,%u,%u,%llu,%u,%llu,%d,%.2f,%.2f,%.2f,%.4f,%.1f,%.2f,%s\n", name.c_str(),
               how.c_str(), group, by.c_str(), load_name.c_str(), layout_name.c_str(), width, unroll, threads, blocks,
               resident, grid, piece, pieces, (unsigned long long)(u64(pieces) * piece), blocks * threads * width * unroll,
               (unsigned long long)bytes, SAMPLES, time.median * 1e3, time.low * 1e3, time.high * 1e3, rate / 1e12, mhz,
               mhz > 0 ? rate / (mhz * 1e6) / sms : 0, got == expected ? "ok" : "WRONG");
        fflush(stdout);
    }
    return 0;
}

// ---- reads of memory ------------------------------------------------------------------------------------------------

// Inserts a bit `value` at position `bit` of `index`; 63 leaves it as it is.
__device__ __forceinline__ u64 insert_bit(u64 index, u32 bit, u32 value) {
    if (bit == 63) return index;
    const u64 low = (u64(1) << bit) - 1;
    return (index & ~low) << 1 | u64(value) << bit | (index & low);
}

// Each block reads 4 rows of 16 bytes a thread from each of READS arrays, and writes as much to each of WRITES arrays. Arrays
// are `apart` bytes apart.
template <int READS, int WRITES>
__global__ void __launch_bounds__(128) stream_arrays(char* array, u64 apart, u32 bit, u32 value, u32 never) {
    const u64 first = (blockIdx.x * u64(4) * 128 + threadIdx.x) * 16;
    u32 bits = 0;
#pragma unroll
    for (int r = 0; r < READS; ++r) {
        u32 v[4][4];
#pragma unroll
        for (int u = 0; u < 4; ++u)
            load_words<16, CG>(v[u], array + r * apart + insert_bit(first + u * 128 * 16, bit, value));
#pragma unroll
        for (int u = 0; u < 4; ++u) bits ^= v[u][0] ^ v[u][1] ^ v[u][2] ^ v[u][3];
    }
#pragma unroll
    for (int w = 0; w < WRITES; ++w)
#pragma unroll
        for (int u = 0; u < 4; ++u)
            *reinterpret_cast<uint4*>(array + (READS + w) * apart + first + u * 128 * 16) = uint4{bits, bits, bits, bits};
    if (WRITES == 0 && bits == never) *array = 1;
}

using Stream = void (*)(char*, u64, u32, u32, u32);

int run_dram() {
    size_t room = 0, total = 0;
    CUDA(cudaMemGetInfo(&room, &total));
    // The largest allocation that succeeds, in GiB.
    u64 gibibytes = room / GI;
    char* array = nullptr;
    while (gibibytes > 4 && cudaMalloc(&array, gibibytes * GI) != cudaSuccess) {
        cudaGetLastError();
        --gibibytes;
    }
    if (array == nullptr) return 3;
    fill_words<<<2048, 512>>>(reinterpret_cast<u32*>(array), gibibytes * GI / 4);
    CUDA(cudaDeviceSynchronize());
    fprintf(stderr, "%llu of %llu GiB allocated\n", (unsigned long long)gibibytes, (unsigned long long)(total / GI));
    printf("test,offset_GiB,arrays_read,arrays_written,window_MiB,bit,value,bytes,samples,median_us,low_us,high_us,TBps\n");
    // `window` bytes in each array.
    const auto measure = [&](const char* test, Stream kernel, u64 offset, u32 reads, u32 writes, u64 window, u64 apart,
                             u32 bit, u32 value) {
        const u32 grid = window / (4 * 128 * 16);
        const Summary time = summarize(
            time_launches([&] { kernel<<<grid, 128>>>(array + offset, apart, bit, value, 0); }));
        CUDA(cudaGetLastError());
        const u64 bytes = (reads + writes) * window;
        printf("%s,%.3f,%u,%u,%llu,%u,%u,%llu,%d,%.2f,%.2f,%.2f,%.4f\n", test, double(offset) / GI, reads, writes,
               (unsigned long long)(window / MI), bit, value, (unsigned long long)bytes, SAMPLES, time.median * 1e3,
               time.low * 1e3, time.high * 1e3, bytes / (time.median * 1e-3) / 1e12);
        fflush(stdout);
    };
    const Stream read1 = stream_arrays<1, 0>, read2 = stream_arrays<2, 0>, read3 = stream_arrays<3, 0>,
                 read4 = stream_arrays<4, 0>, write1 = stream_arrays<0, 1>, copy = stream_arrays<1, 1>,
                 triad = stream_arrays<2, 1>, one_four = stream_arrays<1, 4>, four_one = stream_arrays<4, 1>;

    // Placement: windows of 4 GiB from the beginning of the allocation to its end, then the first one once more.
    for (u64 at = 0; at + 4 <= gibibytes; at += 4) measure("placement", read1, at * GI, 1, 0, 4 * GI, 0, 63, 0);
    measure("placement", read1, 0, 1, 0, 4 * GI, 0, 63, 0);
    for (u64 at = 0; at + 4 <= gibibytes; at += 16) measure("placement", write1, at * GI, 0, 1, 4 * GI, 0, 63, 0);
    // Beginnings within a large page, and small windows.
    for (u64 shift : {4 * KI, 64 * KI, 1 * MI, 2 * MI, 66 * MI}) measure("shift", read1, shift, 1, 0, 4 * GI, 0, 63, 0);
    for (u64 window : {512 * MI, 1 * GI, 2 * GI, 8 * GI, 16 * GI})
        if (window <= gibibytes * GI) measure("window", read1, 0, 1, 0, window, 0, 63, 0);
    // Arrays, and reads with writes, at two distances.
    for (u64 apart : {4 * GI, 4 * GI + 66 * MI}) {
        if (gibibytes < 26) break;
        measure("arrays", read1, 0, 1, 0, 4 * GI, apart, 63, 0);
        measure("arrays", read2, 0, 2, 0, 2 * GI, apart, 63, 0);
        measure("arrays", read3, 0, 3, 0, 2 * GI, apart, 63, 0);
        measure("arrays", read4, 0, 4, 0, 1 * GI, apart, 63, 0);
        measure("mix", write1, 0, 0, 1, 4 * GI, apart, 63, 0);
        measure("mix", copy, 0, 1, 1, 2 * GI, apart, 63, 0);
        measure("mix", triad, 0, 2, 1, 2 * GI, apart, 63, 0);
        measure("mix", four_one, 0, 4, 1, 1 * GI, apart, 63, 0);
        measure("mix", one_four, 0, 1, 4, 1 * GI, apart, 63, 0);
    }
    // Only the addresses of which one bit has one value: a part of the channels, if this bit alone chose the channel.
    for (u32 bit = 7; bit <= 32; ++bit)
        for (u32 value = 0; value < 2; ++value)
            if (gibibytes >= 9) measure("bit", read1, 0, 1, 0, 4 * GI, 0, bit, value);
    return 0;
}

// ---- latency --------------------------------------------------------------------------------------------------------

// Word 0 of each line of 128 bytes names the next line: a sequence of full period over a power of two.
__global__ void build_chain(u32* array, u32 lines, u32 factor, u32 add) {
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < lines; i += gridDim.x * blockDim.x)
        array[u64(i) * 32] = (factor * i + add) & (lines - 1);
}

// One thread on SM `sm` follows `warm` and then `steps` links. out: cycles, the last line, whether a block has begun.
__global__ void chase(const u32* array, u32 lines, u32 sm, u32 warm, u32 steps, u64* out) {
    if (own_sm() != sm || threadIdx.x != 0 || atomicExch(reinterpret_cast<u32*>(out + 2), 1) != 0) return;
    u32 at = 0;
    u64 first = 0;
    for (u32 phase = 0; phase < 2; ++phase) {
        first = clock64();
        const u32 count = phase == 0 ? warm : steps;
#pragma unroll 1
        for (u32 i = 0; i < count; ++i) {
            u32 next;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(next) : "l"(array + u64(at) * 32));
            at = next;
        }
    }
    out[0] = clock64() - first;
    out[1] = at;
}

int run_latency() {
    int sms = 0;
    CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    u32* array = nullptr;
    u64* out = nullptr;
    CUDA(cudaMalloc(&array, 4 * GI));
    CUDA(cudaMalloc(&out, 24));
    printf("footprint_MiB,sm,steps,median_cycles,low_cycles,high_cycles,check\n");
    for (u64 footprint : {8 * MI, 32 * MI, 4 * GI}) {
        const u32 lines = footprint / 128;
        const u32 factor = 1664525, add = 1013904223;
        build_chain<<<4 * sms, 256>>>(array, lines, factor, add);
        CUDA(cudaDeviceSynchronize());
        // Chains that L2 holds are followed once as a whole before.
        const u32 warm = footprint <= 32 * MI ? lines : 1000, steps = footprint <= 32 * MI ? 8192 : 16384;
        u32 expected = 0;
        for (u64 i = 0; i < u64(warm) + steps; ++i) expected = (factor * expected + add) & (lines - 1);
        for (int sm = 0; sm < sms; sm += footprint <= 8 * MI ? 4 : 12) {
            std::vector<float> cycles;
            bool right = true;
            for (int i = 0; i < (footprint <= 8 * MI ? 9 : 5); ++i) {
                u64 got[2] = {};
                CUDA(cudaMemset(out, 0, 24));
                chase<<<4 * sms, 32>>>(array, lines, sm, i == 0 || footprint > 32 * MI ? warm : 0, steps, out);
                CUDA(cudaMemcpy(got, out, 16, cudaMemcpyDeviceToHost));
                if (i == 0) right = got[1] == expected;
                cycles.push_back(float(double(got[0]) / steps));
            }
            const Summary all = summarize(cycles);
            printf("%llu,%d,%u,%.2f,%.2f,%.2f,%s\n", (unsigned long long)(footprint / MI), sm, steps, all.median, all.low,
                   all.high, right ? "ok" : "WRONG");
            fflush(stdout);
        }
    }
    return 0;
}

int main(int count, char** arguments) {
    const std::string what = count > 1 ? arguments[1] : "";
    const bool profile = count > 2 && std::string(arguments[2]) == "profile";
    if (what == "l2") return run_l2(profile);
    if (what == "dram") return run_dram();
    if (what == "latency") return run_latency();
    if (what == "sms") {
        int sms = 0;
        CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
        printf("%d\n", sms);
        return 0;
    }
    fprintf(stderr, "usage: reads l2 [profile] < configurations | reads dram | reads latency | reads sms\n");
    return 2;
}
