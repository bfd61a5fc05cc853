// Bulk copies from global to shared memory, which one thread asks for and all of its block wait for: compute capability 9.0 and
// later. Addresses and bytes are multiples of 16.
#pragma once

#include "device.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// From 12.0 on a copy to where a whole cluster's memory may be meant is a routine of the system, whose address then lies in the
// module; before, that is the form which every compiler knows.
#if __CUDA_ARCH__ >= 1200
#define BULK_TO "shared::cta"
#else
#define BULK_TO "shared::cluster"
#endif

__device__ __forceinline__ u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

// A barrier for one arrival, visible to the copies.
__device__ __forceinline__ void prepare_barrier(u64* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// That arrival, which so many bytes are to follow.
__device__ __forceinline__ void expect_bytes(u64* barrier, u32 bytes) {
    const u32 at = shared_address(barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bulk_copy(void* to, u64 from, u32 bytes, u64* barrier) {
    const u32 at = shared_address(to), done = shared_address(barrier);
    asm volatile("cp.async.bulk." BULK_TO ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at),
                 "l"(from), "r"(bytes), "r"(done) : "memory");
}

// The same with an eviction policy for its lines in the second-level cache.
__device__ __forceinline__ void bulk_copy(void* to, u64 from, u32 bytes, u64* barrier, u64 policy) {
    const u32 at = shared_address(to), done = shared_address(barrier);
    asm volatile("cp.async.bulk." BULK_TO ".global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(at), "l"(from), "r"(bytes), "r"(done), "l"(policy) : "memory");
}

// The policy for lines that are the last to be evicted, or for ordinary ones.
__device__ __forceinline__ u64 eviction_policy(bool last) {
    u64 kept, usual;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(kept));
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(usual));
    return last ? kept : usual;
}

// Demotes lines in the second-level cache to normal priority: those that begin in `bytes` from an address on, by all `threads` of the block.
__device__ __forceinline__ void give_back(u64 from, u32 bytes, u32 threads) {
    enum { LINE = 128 };
#pragma unroll 1
    for (u32 at = (0 - u32(from)) % LINE + threadIdx.x * LINE; at < bytes; at += threads * LINE)
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(from + at) : "memory");
}

// Until all bytes of the barrier's first use are there.
__device__ __forceinline__ void wait_for_bytes(u64* barrier) {
    asm volatile("{.reg .pred done;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra AGAIN;}" ::"r"(shared_address(barrier)) : "memory");
}
#endif
