// Traverses all tiles of matrices of a few panels, in every order. A warp is one thread here: each stores a word.
template <typename Kernel> int check(const char* name, unsigned threads, unsigned iteration, Kernel kernel) {
    int failed = 0;
    for (unsigned rows : {1u, 3u, 5u})
        for (unsigned columns : {1u, 2u, 4u})
            for (unsigned group : {0u, 1u, 2u, 3u, 4u, 5u}) {
                const unsigned vectors = 2 * iteration;
                Array<uint4> a(size_t(rows) * vectors), b(size_t(columns) * vectors);
                Array<uint4> out(size_t(rows) * columns * threads / 4);
                u32* const x = reinterpret_cast<u32*>(a.at);
                u32* const y = reinterpret_cast<u32*>(b.at);
                u32* const left = reinterpret_cast<u32*>(out.at);
                for (size_t i = 0; i < 4 * a.n; ++i) x[i] = u32(i) * 2654435761u;
                for (size_t i = 0; i < 4 * b.n; ++i) y[i] = u32(i) * 2246822519u + 7;
                for (size_t i = 0; i < 4 * out.n; ++i) left[i] = ~0u;
                launch(rows * columns, threads, kernel, left, x, y, rows, columns, group, vectors);
                for (size_t i = 0; i < 4 * out.n; ++i) {
                    const size_t tile = i / threads, thread = i % threads;
                    u32 right = 0;
                    for (size_t v = thread; v < vectors; v += threads)
                        for (int w = 0; w < 4; ++w)
                            right ^= x[(tile / columns * vectors + v) * 4 + w] ^ y[(tile % columns * vectors + v) * 4 + w];
                    if (left[i] != right) {
                        failed |= wrong(name, i, group);
                        break;
                    }
                }
            }
    return failed;
}
