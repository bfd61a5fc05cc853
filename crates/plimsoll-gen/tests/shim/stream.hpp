// Runs one stream kernel over awkward sizes and grids, and compares with a naive oracle.
template <typename T> T datum(size_t i, unsigned salt) {
    return T(1) + T((i * 2654435761u + salt * 40503u) % 1024) / T(1024);
}

template <typename T> T around(Array<T>& a, long long i) {
    const long long last = (long long)a.n - 1;
    return a[size_t(i < 0 ? 0 : i > last ? last : i)];
}

template <typename T> T expected(Op op, Array<T>& a, Array<T>& b, Array<T>& c, T s, size_t at) {
    const long long i = (long long)at;
    switch (op) {
    case INIT: return s;
    case COPY: return a[at];
    case SCALE: return s * a[at];
    case ADD: return a[at] + b[at];
    case TRIAD: return std::fma(s, b[at], a[at]);
    case SCHOENAUER: return std::fma(b[at], c[at], a[at]);
    case POINT3: return s * ((around(a, i - 1) + a[at]) + around(a, i + 1));
    default: return s * ((((around(a, i - 2) + around(a, i - 1)) + a[at]) + around(a, i + 1)) + around(a, i + 2));
    }
}

template <typename T> bool folds_right(Op op, Array<T>& out, Array<T>& a, Array<T>& b) {
    if (op == READ) {
        u32 found = 0, right = 0;
        for (size_t i = 0; i < out.n * sizeof(T) / 4; ++i) found ^= reinterpret_cast<u32*>(out.at)[i];
        for (size_t i = 0; i < a.n * sizeof(T) / 4; ++i) right ^= reinterpret_cast<u32*>(a.at)[i];
        return found == right;
    }
    double found = 0, right = 0;
    for (size_t i = 0; i < out.n; ++i) found += out[i];
    for (size_t i = 0; i < a.n; ++i) right += double(a[i]) * b[i];
    return std::fabs(found - right) <= 1e-5 * right;
}

template <typename T> using Kernel = void (*)(T*, const T*, const T*, const T*, T, u64);

template <typename T>
int once(const char* name, Op op, size_t n, unsigned blocks, unsigned threads, Kernel<T> kernel) {
    const size_t all = size_t(blocks) * threads, length = op == READ ? all * 4 / sizeof(T) : op == DOT ? all : n;
    Array<T> out(length), a(n), b(n), c(n);
    for (size_t i = 0; i < length; ++i) out[i] = T(-7);
    for (size_t i = 0; i < n; ++i) a[i] = datum<T>(i, 1), b[i] = datum<T>(i, 2), c[i] = datum<T>(i, 3);
    const T s = T(0.75);
    launch(blocks, threads, kernel, out.at, a.at, b.at, c.at, s, n);
    if (op == READ || op == DOT) return folds_right(op, out, a, b) ? 0 : wrong(name, 0, n);
    for (size_t i = 0; i < n; ++i)
        if (!equal(out[i], expected(op, a, b, c, s, i))) return wrong(name, i, n);
    return 0;
}

template <typename T>
int check(const char* name, Op op, size_t tile, bool loop, unsigned threads, Kernel<T> kernel) {
    int failed = 0;
    for (size_t n : {size_t(0), size_t(1), size_t(2), size_t(31), size_t(32), size_t(33), size_t(1025), tile - 1, tile,
                     tile + 1, 2 * tile + 7, 3 * tile - 1, size_t(1999)}) {
        failed |= once(name, op, n, blocks_for(n, tile), threads, kernel);
        // More blocks than tiles, and fewer if threads loop.
        failed |= once(name, op, n, blocks_for(n, tile) + 2, threads, kernel);
        if (loop) failed |= once(name, op, n, 2, threads, kernel);
    }
    return failed;
}
