// Runs one footprint kernel over consecutive and interleaved pieces, for several passes.
template <typename Kernel> int check(const char* name, int inputs, int outputs, unsigned threads, Kernel kernel) {
    int failed = 0;
    for (unsigned blocks : {1u, 3u})
        for (unsigned rounds : {1u, 2u, 4u, 5u})
            for (unsigned passes : {1u, 3u})
                for (bool interleaved : {false, true}) {
                    const size_t n = size_t(blocks) * rounds * threads;
                    Array<uint4> out(outputs ? n : (blocks * threads + 3) / 4), a(n), b(n);
                    float* const x = reinterpret_cast<float*>(a.at);
                    float* const y = reinterpret_cast<float*>(b.at);
                    u32 bits = 0;
                    for (size_t i = 0; i < 4 * n; ++i) {
                        x[i] = 1.0f + float(i % 1009) / 1024, y[i] = 1.0f + float(i % 997) / 1024;
                        bits ^= bits_of<u32>(x[i]);
                    }
                    u32* const words = reinterpret_cast<u32*>(out.at);
                    for (size_t i = 0; i < 4 * out.n; ++i) words[i] = ~0u;
                    launch(blocks, threads, kernel, out.at, a.at, b.at, 1.5f, interleaved ? 1 : rounds,
                           interleaved ? blocks : 1, rounds, u64(rounds) * passes);
                    u32 folded = 0;
                    if (outputs == 0) {
                        for (size_t i = 0; i < size_t(blocks) * threads; ++i) folded ^= words[i];
                        if (folded != bits) failed |= wrong(name, 0, n);
                        continue;
                    }
                    for (size_t i = 0; i < 4 * n; ++i) {
                        const float right = inputs == 2 ? fmaf(1.5f, y[i], x[i]) : x[i];
                        if (words[i] != bits_of<u32>(right)) {
                            failed |= wrong(name, i, n);
                            break;
                        }
                    }
                }
    return failed;
}
