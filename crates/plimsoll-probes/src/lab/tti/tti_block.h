// A block of kernel.cu: how it loads and traverses planes. Blocks have TX × TY threads, one cell of a plane each.
#pragma once

// NONE leaves the ring empty, to time everything except the copies.
enum Loads { DIRECT, ASYNC, BULK, NONE };

struct Model {
    float *p_field, *q_field;
    const float *p, *q, *v;
    const u32 *thomsen, *axis;
    u32 nx, ny, nz, pitch, rows;
};

template <Loads LOADS, int TX, int TY> struct Block {
    static constexpr int W = TX + 2 * RADIUS, H = TY + 2 * RADIUS, PLANE = W * H, THREADS = TX * TY;
    // For both fields: planes of the ring, derivatives in y, derivatives in z; then a barrier.
    static constexpr u32 IN_Y = SLOTS * 2 * PLANE, IN_Z = IN_Y + 2 * W * TY, END = IN_Z + 2 * PLANE;

    const Model& m;
    float* const shared;
    const u32 corner;  // Of the tile with its halo, in plane 0.

    static __device__ __forceinline__ u32 thread() { return threadIdx.x; }
    __device__ __forceinline__ u32 plane() const { return m.pitch * m.rows; }
    __device__ __forceinline__ const float* now(u32 field) const { return field == 0 ? m.p : m.q; }
    // Offset in floats of a field's plane `by` planes above the one in slot `middle`.
    static __device__ __forceinline__ u32 slot(u32 middle, int by, u32 field) {
        const u32 up = middle + u32(by < 0 ? by + SLOTS : by), wrapped = up >= SLOTS ? up - SLOTS : up;
        return (2 * wrapped + field) * PLANE;
    }

#if __CUDA_ARCH__ >= 800
    static __device__ __forceinline__ u32 address(const void* p) { return u32(__cvta_generic_to_shared(p)); }
#endif

    // Issues the copy of plane z into slot `slot_of_z`, in vectors of 16 bytes.
    __device__ __forceinline__ void ask(int z, u32 slot_of_z) const {
        float* const place = shared + slot(slot_of_z, 0, 0);
        const u32 first = corner + u32(z + RADIUS + 1) * plane();
#if __CUDA_ARCH__ >= 900
        if constexpr (LOADS == BULK) {
            const u32 barrier = address(shared + END);
            for (u32 row = thread(); row < 2 * H; row += 32)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                                 address(place + row * W)), "l"(now(row / H) + (first + row % H * m.pitch)),
                             "r"(u32(W * 4)), "r"(barrier) : "memory");
            return;
        }
#endif
        constexpr u32 VECTORS = W / 4;
#pragma unroll
        for (u32 i = thread(); i < 2 * H * VECTORS; i += THREADS) {
            const u32 field = i / (H * VECTORS), row = i / VECTORS % H, x = i % VECTORS * 4;
            const float* const from = now(field) + (first + row * m.pitch + x);
            float* const to = place + (field * H + row) * W + x;
#if __CUDA_ARCH__ >= 800
            if constexpr (LOADS == ASYNC) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address(to)), "l"(from) : "memory");
                continue;
            }
#endif
            *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
        }
    }

    // Issues the copies of `planes` planes. For bulk copies one warp issues them and the barrier expects their bytes.
    __device__ __forceinline__ void fetch(int z, u32 slot_of_z, int planes) const {
        if constexpr (LOADS == BULK) {
#if __CUDA_ARCH__ >= 900
            if (thread() >= 32) return;
            if (thread() == 0)
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(shared + END)),
                             "r"(u32(planes * 2 * PLANE * 4)) : "memory");
            __syncwarp();
#endif
        }
#pragma unroll 1
        for (int k = 0; k < planes; ++k) ask(z + k, slot_of_z + k);
#if __CUDA_ARCH__ >= 800
        if constexpr (LOADS == ASYNC) asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }

    // Waits until all issued copies have arrived, for all threads. `iteration` counts the waits.
    __device__ __forceinline__ void arrive(u32 iteration) const {
#if __CUDA_ARCH__ >= 900
        if constexpr (LOADS == BULK)
            asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                         "@!done bra AGAIN;\n}" ::"r"(address(shared + END)), "r"(iteration & 1) : "memory");
#endif
#if __CUDA_ARCH__ >= 800
        if constexpr (LOADS == ASYNC) asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
        __syncthreads();
    }

    // The first derivative along `stride`.
    template <int K = 1> static __device__ __forceinline__ float first(const float* at, int stride, float sum = 0.0f) {
        const float sums = fused(Weight<K>::FIRST, at[K * stride] - at[-K * stride], sum);
        if constexpr (K < RADIUS) return first<K + 1>(at, stride, sums);
        else return sums;
    }
    template <int K = 1> static __device__ __forceinline__ float second(const float* at, int stride, float sum) {
        const float sums = fused(Weight<K>::SECOND, at[K * stride] + at[-K * stride], sum);
        if constexpr (K < RADIUS) return second<K + 1>(at, stride, sums);
        else return sums;
    }
    // The derivative along a column through the ring around slot `middle`; `at` is the column's offset in a slot.
    template <int K = 1> __device__ __forceinline__ float first_in_z(u32 middle, u32 at, float sum = 0.0f) const {
        const float sums = fused(Weight<K>::FIRST, shared[slot(middle, K, 0) + at] - shared[slot(middle, -K, 0) + at], sum);
        if constexpr (K < RADIUS) return first_in_z<K + 1>(middle, at, sums);
        else return sums;
    }
    template <int K = 1> __device__ __forceinline__ float second_in_z(u32 middle, u32 at, float sum) const {
        const float sums = fused(Weight<K>::SECOND, shared[slot(middle, K, 0) + at] + shared[slot(middle, -K, 0) + at], sum);
        if constexpr (K < RADIUS) return second_in_z<K + 1>(middle, at, sums);
        else return sums;
    }

    // Stores first derivatives for those across axes: in y for the tile's rows, in z for its rows and columns, with halo.
    __device__ __forceinline__ void prepare(u32 middle) const {
        for (u32 i = thread(); i < 2 * W * TY; i += THREADS) {
            const u32 field = i / (W * TY), cell = i % (W * TY) + RADIUS * W;
            shared[IN_Y + i] = first(shared + slot(middle, 0, field) + cell, W);
        }
        constexpr u32 CROSS = W * TY + 2 * RADIUS * TX;
        for (u32 i = thread(); i < 2 * CROSS; i += THREADS) {
            const u32 field = i / CROSS, k = i % CROSS, beside = k < W * TY ? 0 : k - W * TY;
            const u32 row = beside / TX < RADIUS ? beside / TX : beside / TX + TY;
            const u32 cell = k < W * TY ? k + RADIUS * W : row * W + RADIUS + beside % TX;
            shared[IN_Z + field * PLANE + cell] = first_in_z(middle, field * PLANE + cell);
        }
    }

    __device__ __forceinline__ Derivatives derivatives(u32 middle, u32 field, u32 cell) const {
        const float* const at = shared + slot(middle, 0, field) + cell;
        const float* const in_y = shared + IN_Y + field * W * TY + (cell - RADIUS * W);
        const float* const in_z = shared + IN_Z + field * PLANE + cell;
        const float now = Weight<0>::SECOND * at[0];
        return {second(at, 1, now), second(at, W, now), second_in_z(middle, field * PLANE + cell, now),
                first(in_y, 1), first(in_z, W), first(in_z, 1)};
    }

    __device__ __forceinline__ void walk() const {
        const u32 tx = thread() % TX, ty = thread() / TX, cell = (ty + RADIUS) * W + tx + RADIUS;
        const bool inside = blockIdx.x * TX + tx < m.nx && blockIdx.y * TY + ty < m.ny;
        u32 at = corner + (RADIUS + 1) * plane() + (ty + RADIUS) * m.pitch + tx + RADIUS;
        const int last = int(m.nz) - 1;
        // The first planes start at slot 0; asynchronous copies keep one more plane in flight.
        constexpr int AHEAD = LOADS == DIRECT ? 0 : 1;
        if constexpr (LOADS != NONE) fetch(-RADIUS, 0, 2 * RADIUS + AHEAD);
        else
            for (u32 i = thread(); i < IN_Y; i += THREADS) shared[i] = 0;
        u32 middle = RADIUS;
#pragma unroll 1
        for (int z = 0; z <= last; ++z, at += plane()) {
            const float v = m.v[at];
            const u32 thomsen = m.thomsen[at], axis = m.axis[at];
            const Two old = Two{m.p_field[at], m.q_field[at]};
            const u32 far = slot(middle, RADIUS + AHEAD, 0) / (2 * PLANE);
            if constexpr (LOADS == DIRECT) fetch(z + RADIUS, far, 1);
            arrive(u32(z));
            if constexpr (LOADS == ASYNC || LOADS == BULK) {
                if (z < last) fetch(z + RADIUS + 1, far, 1);
            }
            prepare(middle);
            __syncthreads();
            const u32 place = slot(middle, 0, 0) + cell;
            const Two now = Two{shared[place], shared[place + PLANE]};
            const Derivatives of_p = derivatives(middle, 0, cell), of_q = derivatives(middle, 1, cell);
            const Two next = advanced(medium(v, thomsen, axis), now, old, of_p, of_q);
            if (inside) m.p_field[at] = next.p, m.q_field[at] = next.q;
            middle = middle + 1 == SLOTS ? 0 : middle + 1;
        }
    }

    static __device__ __forceinline__ void step(const Model& m) {
#if defined(__CUDA_ARCH__)
        extern __shared__ uint4 dynamic[];
#else
        static uint4 dynamic[END / 4];
#endif
        float* const shared = reinterpret_cast<float*>(dynamic);
        const Block block{m, shared, blockIdx.y * TY * m.pitch + blockIdx.x * TX - RADIUS * m.pitch - RADIUS};
#if __CUDA_ARCH__ >= 900
        if constexpr (LOADS == BULK) {
            if (threadIdx.x == 0) {
                asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(shared + END)) : "memory");
                asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            }
            __syncthreads();
        }
#endif
        block.walk();
    }
};
