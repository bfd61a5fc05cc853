// Runs one copy kernel over awkward sizes and grids.
template <typename INDEX>
int check(const char* name, size_t width, bool loop, void (*kernel)(u32*, const u32*, INDEX)) {
    const unsigned threads = 32;
    int failed = 0;
    for (int size : {0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 255, 256, 257, 1025, 1999}) {
        const size_t n = size_t(size);
        // As many blocks as the vectors need, more, and fewer if threads loop.
        const unsigned least = blocks_for(n / width, threads);
        for (unsigned blocks : {least, least + 2, loop ? 1 : least}) {
            Array<u32> out(n), in(n);
            for (size_t i = 0; i < n; ++i) out[i] = ~0u, in[i] = u32(i * 2654435761u);
            launch(blocks, threads, kernel, out.at, in.at, INDEX(n));
            for (size_t i = 0; i < n; ++i)
                if (out[i] != in[i]) {
                    failed |= wrong(name, i, n);
                    break;
                }
        }
    }
    return failed;
}
