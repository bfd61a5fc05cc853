// Runs one kernel that limits the exponents of random bits, over awkward sizes and grids, and decomposes every number by division.
template <typename W>
int check(const char* name, int numbers, unsigned long long scale, unsigned long long exponents, int unused,
          void (*kernel)(W*, u64)) {
    const unsigned threads = 32;
    const unsigned long long junk = 1ull << unused;
    int failed = 0;
    for (int size : {0, 1, 2, 31, 32, 33, 257, 1025})
        for (unsigned blocks : {1u, 3u}) {
            const size_t n = size_t(size);
            Array<W> words(n + 1), before(n + 1);
            for (size_t i = 0; i <= n; ++i) words[i] = before[i] = W(i * 0x9e3779b97f4a7c15ull + 0x7feb352d9e3779b1ull);
            launch(blocks, threads, kernel, words.at, u64(n));
            if (words[n] != before[n]) failed |= wrong(name, n, n);
            const int bits = int(sizeof(W)) * 8 / numbers;
            for (size_t i = 0; i < n * size_t(numbers); ++i) {
                const auto number = [&](const Array<W>& of) {
                    const unsigned long long word = of.at[i / size_t(numbers)] >> (i % size_t(numbers)) * unsigned(bits);
                    return bits == 64 ? word : word % (1ull << (bits % 64));
                };
                const unsigned long long was = number(before), is = number(words);
                const bool sign = was / exponents / scale == is / exponents / scale;
                const bool fraction = is % scale == was % scale / junk * junk;
                const bool exponent = is / scale % exponents == exponents / 2 - 1 - was / scale % 4;
                if (!(sign && fraction && exponent)) {
                    failed |= wrong(name, i, n);
                    break;
                }
            }
        }
    return failed;
}
