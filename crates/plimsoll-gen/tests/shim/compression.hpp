// Runs z = a x + y over awkward numbers of vectors and grids, and prints the results of the fills.
inline int check(const char* name, bool loop, void (*kernel)(float*, const float*, const float*, float, u64)) {
    const unsigned threads = 1024;
    int failed = 0;
    for (size_t vectors : {0, 1, 31, 1023, 1024, 1025, 2500}) {
        const size_t n = 4 * vectors;
        const unsigned least = blocks_for(vectors, threads);
        for (unsigned blocks : {least, least + 1, loop ? 1 : least}) {
            Array<float> z(n), x(n), y(n);
            for (size_t i = 0; i < n; ++i) z[i] = -1, x[i] = 1 + float(i % 1009) / 1024, y[i] = 1 + float(i % 997) / 1024;
            launch(blocks, threads, kernel, z.at, x.at, y.at, 1.625f, u64(vectors));
            for (size_t i = 0; i < n; ++i)
                if (!equal(z[i], fmaf(1.625f, x[i], y[i]))) {
                    failed |= wrong(name, i, n);
                    break;
                }
        }
    }
    return failed;
}

inline void print(void (*fill)(u32*, u32, u64, u64)) {
    for (u32 kind = 0; kind < 7; ++kind) {
        Array<u32> out(200);
        launch(1, 1024, fill, out.at, kind, u64(7), u64(50));
        for (size_t i = 0; i < out.n; ++i) std::printf("%u %zu %x\n", kind, i, out[i]);
    }
}
