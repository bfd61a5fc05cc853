// batch: many sets of contiguous tensors. Each set has its own blocks: one per whole tile (tile.h), and after them one thread for each
// element before the first aligned one or after the last whole tile.
//
// Words of the form: address of the skip flag; address of the table or, if TABLE_IN_MEMORY is 0, the word at which it begins in the
// parameter block; in halves, log2 of the blocks per entry of the index, and the number of entries. Then the scalars of each group,
// and the table if it is there. Lower halves come first.
//
// The table: for every 2^shift blocks the first and the last set that they may belong to, in halves; then a record of RECORD words per
// set that isn't empty: first block and group in halves, number of elements, whole tiles and head in halves, the addresses. Records
// begin at multiples of 16 bytes.
//
// The table of a launch never changes. So it is read through the read-only path, before the wait, and stays in L1. In SASS: without a
// search two loads, one after the other, before the first load of an element.
#include "tile.h"

// Two words of the table.
__device__ __forceinline__ void load_pair(const Parameters& p, u32 place, u64* word) {
#if !TABLE_IN_MEMORY
    word[0] = p.at[u32(p.at[FORM_AT + 1]) + place];
    word[1] = p.at[u32(p.at[FORM_AT + 1]) + place + 1];
#elif defined(__CUDA_ARCH__)
    asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(word[0]), "=l"(word[1]) : "l"(p.at[FORM_AT + 1] + u64(place) * 8));
#else
    __builtin_memcpy(word, reinterpret_cast<const void*>(p.at[FORM_AT + 1] + u64(place) * 8), 16);
#endif
}

__device__ __forceinline__ u64 load_word(const Parameters& p, u32 place) {
#if !TABLE_IN_MEMORY
    return p.at[u32(p.at[FORM_AT + 1]) + place];
#elif defined(__CUDA_ARCH__)
    u64 word;
    asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(word) : "l"(p.at[FORM_AT + 1] + u64(place) * 8));
    return word;
#else
    u64 words[2];
    load_pair(p, place & ~1u, words);
    return words[place & 1];
#endif
}

// The record of a block's set: the last one whose first block isn't after it.
__device__ __forceinline__ Starts find_set(const Parameters& p, u32 block) {
    const u32 shift = u32(p.at[FORM_AT + 2]), records = u32(p.at[FORM_AT + 2] >> 32);
    const u64 range = load_word(p, block >> shift);
    u32 low = u32(range), high = u32(range >> 32);
#pragma unroll 1
    while (low < high) {
        const u32 middle = (low + high + 1) / 2;
        if (u32(load_word(p, records + middle * RECORD)) <= block) low = middle;
        else high = middle - 1;
    }
    Starts set;
#pragma unroll
    for (int w = 0; w < RECORD; w += 2) load_pair(p, records + low * RECORD + w, set.word + w);
    return set;
}

extern "C" __global__ void LAUNCH_BOUNDS elementwise(const __grid_constant__ Parameters p) {
    const Starts set = find_set(p, blockIdx.x);
    const u64 n = set.word[1];
    const u32 place = blockIdx.x - u32(set.word[0]), whole = u32(set.word[2]), head = u32(set.word[2] >> 32);
    const Scalars s = scalars(p.at + SCALARS_AT + u32(set.word[0] >> 32) * SCALARS);
    wait_for_previous();
#ifdef SKIP_TYPE
    if (load_one<SKIP_TYPE>(p.at[FORM_AT]) != Carrier<SKIP_TYPE>(0)) return;
#endif
    const Same same = same_for_all(p, set);
    if (place < whole) flat_tile<false>(p, s, same, set, place * Place(TILE) + Place(head), threadIdx.x);
    if (place >= apart(whole)) {
        const u64 inside = u64(whole) * TILE, e = u64(place - whole) * THREADS + threadIdx.x;
        if (e < n - inside) flat_one(p, s, same, set, e < head ? e : e + inside);
    }
    let_next_begin(LATE);
}
