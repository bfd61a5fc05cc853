// Tests that the checks find a single wrong element, and nothing if all are right. Prints the results of the fills.
template <typename T, typename Kernel> int finds(const char* name, Kernel kernel, T (*right)(T, T, T, T)) {
    const size_t n = 1000;
    Array<T> out(n), a(n), b(n), c(n);
    Array<u64> result(2);
    int failed = 0;
    for (size_t bad : {n, size_t(0), size_t(500), n - 1}) {
        for (size_t i = 0; i < n; ++i) {
            a[i] = T(i % 64), b[i] = T(i % 7), c[i] = T(i % 5);
            out[i] = right(a[i], b[i], c[i], T(3));
        }
        if (bad < n) out[bad] = out[bad] + T(1);
        result[0] = 0, result[1] = ~0ull;
        launch(3, 32, kernel, out.at, a.at, b.at, c.at, T(3), n, result.at);
        if (result[0] != u64(bad < n) || (bad < n && result[1] != bad)) failed |= wrong(name, bad, n);
    }
    return failed;
}

template <typename T> void print(const char* name, void (*fill)(T*, u64, u64)) {
    Array<T> out(5);
    launch(1, 32, fill, out.at, 7ull, 5ull);
    for (size_t i = 0; i < out.n; ++i) {
        u64 bits = 0;
        std::memcpy(&bits, &out[i], sizeof(T));
        std::printf("%s %zu %llx\n", name, i, bits);
    }
}
