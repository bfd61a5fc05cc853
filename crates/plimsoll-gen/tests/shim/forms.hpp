// Runs elementwise kernels on a host: reads launches as words from stdin, and writes the outputs' memory to stdout. Each tensor
// has a separate allocation that ends where its memory ends, so that the sanitizer detects any access beyond it.
#pragma once
#include <sanitizer/asan_interface.h>
#include <cstdlib>
#include <vector>
#include "shim.hpp"
#define __grid_constant__
#define __noinline__
#define __shared__ static
inline int half_of_block = 0;
void __syncthreads() {}
#include "primitives.h"

inline u64 next_word() {
    u64 w = 0;
    if (std::fread(&w, 8, 1, stdin) != 1) std::exit(2);
    return w;
}

struct Memory {
    char* base = nullptr;
    size_t bytes = 0, before = 0;
    bool written = false, own = false;
};

// Runs one launch. Input: halves of a block, blocks, threads, number of tensors. For each tensor: 1 + the index of the tensor whose
// memory it shares, or 0; bytes before its memory; bytes of its memory; bytes from there to the first element; whether it is
// written; its contents, unless shared. Then the parameter block and the table of sets (its address goes to the block's second
// word), each as its number of words and the words. For each tensor the place of its address: twice a word of the block, or of the
// table plus one.
template <typename Parameters> void run(void (*kernel)(Parameters)) {
    const u64 halves = next_word(), blocks = next_word(), threads = next_word(), tensors = next_word();
    std::vector<Memory> all(tensors);
    std::vector<u64> firsts(tensors);
    for (u64 t = 0; t < tensors; ++t) {
        Memory& m = all[t];
        const u64 shared = next_word();
        m.before = next_word(), m.bytes = next_word();
        const u64 first = next_word();
        m.written = next_word();
        if (shared) {
            m.base = all[shared - 1].base;
        } else {
            m.own = true;
            m.base = static_cast<char*>(::operator new(m.before + m.bytes, std::align_val_t(32)));
            if (m.bytes && std::fread(m.base + m.before, 1, m.bytes, stdin) != m.bytes) std::exit(3);
            __asan_poison_memory_region(m.base, m.before / 8 * 8);
        }
        firsts[t] = reinterpret_cast<u64>(m.base) + m.before + first;
    }
    static Parameters p;
    const u64 words = next_word();
    for (u64 w = 0; w < words; ++w) p.at[w] = next_word();
    std::vector<u64> table(next_word());
    for (u64& word : table) word = next_word();
    if (!table.empty()) p.at[1] = reinterpret_cast<u64>(table.data());
    for (u64 t = 0; t < tensors; ++t) {
        const u64 place = next_word();
        if (place != ~0ull) (place & 1 ? table.data() : p.at)[place / 2] = firsts[t];
    }
    gridDim.x = unsigned(blocks);
    blockDim.x = unsigned(threads);
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (half_of_block = 0; half_of_block < int(halves); ++half_of_block)
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(p);
    for (Memory& m : all)
        if (m.written) std::fwrite(m.base + m.before, 1, m.bytes, stdout);
    for (Memory& m : all) {
        if (!m.own) continue;
        __asan_unpoison_memory_region(m.base, m.before);
        ::operator delete(m.base, std::align_val_t(32));
    }
}
