// Bulk copies from global to shared memory: one thread issues them and its whole block waits for them. Compute capability 9.0 and
// later. Addresses and sizes are multiples of 16 bytes.
#pragma once

#include "device.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// From 12.0 on, a copy to shared::cluster compiles to a call of a system routine, whose address adds data to the module. Before
// 12.0, it is the form that every compiler supports.
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

// Arrives at the barrier and announces `bytes` bytes of copies.
__device__ __forceinline__ void expect_bytes(u64* barrier, u32 bytes) {
    const u32 at = shared_address(barrier);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bulk_copy(void* to, u64 from, u32 bytes, u64* barrier) {
    const u32 at = shared_address(to), done = shared_address(barrier);
    asm volatile("cp.async.bulk." BULK_TO ".global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at),
                 "l"(from), "r"(bytes), "r"(done) : "memory");
}

// The same with an eviction policy for its lines in L2.
__device__ __forceinline__ void bulk_copy(void* to, u64 from, u32 bytes, u64* barrier, u64 policy) {
    const u32 at = shared_address(to), done = shared_address(barrier);
    asm volatile("cp.async.bulk." BULK_TO ".global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(at), "l"(from), "r"(bytes), "r"(done), "l"(policy) : "memory");
}

// The evict-last policy if `last`, else evict-normal.
__device__ __forceinline__ u64 eviction_policy(bool last) {
    u64 evict_last, evict_normal;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(evict_last));
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(evict_normal));
    return last ? evict_last : evict_normal;
}

// Demotes L2 lines to normal priority: all lines that begin within `bytes` from an address on. Called by all `threads` of the
// block.
__device__ __forceinline__ void demote(u64 from, u32 bytes, u32 threads) {
    enum { LINE = 128 };
#pragma unroll 1
    for (u32 at = (0 - u32(from)) % LINE + threadIdx.x * LINE; at < bytes; at += threads * LINE)
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(from + at) : "memory");
}

// Waits until all bytes of the barrier's first phase have arrived.
__device__ __forceinline__ void wait_for_bytes(u64* barrier) {
    asm volatile("{.reg .pred done;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra AGAIN;}" ::"r"(shared_address(barrier)) : "memory");
}
#endif
