// Runs the threads of a block concurrently, each as a host thread, so that kernels whose threads wait for each other run too.
#pragma once
#include <pthread.h>
#include <thread>
#include <vector>

inline pthread_barrier_t block_barrier;
inline void __syncthreads() { pthread_barrier_wait(&block_barrier); }

template <typename Kernel, typename... Arguments>
void launch_blocks(Index3 grid, Index3 block, Kernel kernel, Arguments... arguments) {
    const unsigned count = block.x * block.y * block.z;
    pthread_barrier_init(&block_barrier, nullptr, count);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t)
        threads.emplace_back([=] {
            gridDim = grid, blockDim = block;
            threadIdx = Index3{t % block.x, t / block.x % block.y, t / block.x / block.y};
            for (unsigned b = 0; b < grid.x * grid.y * grid.z; ++b) {
                blockIdx = Index3{b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
                kernel(arguments...);
                pthread_barrier_wait(&block_barrier);
            }
        });
    for (auto& thread : threads) thread.join();
    pthread_barrier_destroy(&block_barrier);
}

// The same for kernels whose threads don't wait: one thread after the other.
template <typename Kernel, typename... Arguments>
void launch_each(Index3 grid, Index3 block, Kernel kernel, Arguments... arguments) {
    gridDim = grid, blockDim = block;
    for (unsigned b = 0; b < grid.x * grid.y * grid.z; ++b)
        for (unsigned t = 0; t < block.x * block.y * block.z; ++t) {
            blockIdx = Index3{b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
            threadIdx = Index3{t % block.x, t / block.x % block.y, t / block.x / block.y};
            kernel(arguments...);
        }
}

// A number from -1 to 1 that differs for each i.
inline float jitter(size_t i, unsigned salt) { return float((i * 2654435761u + salt * 40503u) % 65536) / 32768 - 1; }
