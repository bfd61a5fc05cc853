// Runs the histogram, the sliding window and their checks over awkward sizes and grids.
inline int check_histogram(void (*kernel)(u32*, const u32*, u32, u64)) {
    int failed = 0;
    for (size_t vectors : {1, 31, 1025})
        for (u32 bins : {1u, 7u, 1009u})
            for (unsigned blocks : {1u, 3u}) {
                const size_t n = 4 * vectors;
                Array<u32> at(bins), data(n), right(bins);
                for (size_t i = 0; i < bins; ++i) at[i] = right[i] = 0;
                for (size_t i = 0; i < n; ++i) {
                    data[i] = u32(i * 2654435761u);
                    ++right[size_t(double(data[i]) / 4294967296.0 * bins)];
                }
                launch(blocks, 32, kernel, at.at, data.at, bins, u64(vectors));
                for (size_t i = 0; i < bins; ++i)
                    if (at[i] != right[i]) failed |= wrong("histogram", i, bins);
            }
    return failed;
}

inline int check_sliding(void (*kernel)(u32*, u32*, u64, u32)) {
    int failed = 0;
    for (size_t kept : {1, 31, 1025})
        for (u32 passes : {1u, 3u})
            for (unsigned blocks : {1u, 3u}) {
                Array<u32> buffer(4 * kept), stream(4 * kept * passes);
                for (size_t i = 0; i < buffer.n; ++i) buffer[i] = u32(i);
                for (size_t i = 0; i < stream.n; ++i) stream[i] = u32(3 * i);
                launch(blocks, 32, kernel, buffer.at, stream.at, u64(kept), passes);
                for (size_t i = 0; i < buffer.n; ++i)
                    if (buffer[i] != u32(i) + passes) failed |= wrong("buffer", i, buffer.n);
                for (size_t i = 0; i < stream.n; ++i)
                    if (stream[i] != u32(3 * i) + 1) failed |= wrong("stream", i, stream.n);
            }
    return failed;
}

inline int check_checks() {
    const u64 n = 1000;
    Array<u32> words(n);
    u64 sum = 0, in_bin = 0;
    for (size_t i = 0; i < n; ++i) {
        words[i] = u32(i * 2654435761u);
        sum += words[i];
        in_bin += size_t(double(words[i]) / 4294967296.0 * 10) == 3;
    }
    u64 result = 0;
    launch(3, 32, residency_total, &result, (const u32*)words.at, n);
    int failed = result == sum ? 0 : wrong("total", 0, n);
    result = 0;
    launch(3, 32, residency_count, &result, (const u32*)words.at, 10u, 3u, n);
    failed |= result == in_bin ? 0 : wrong("count", 0, n);
    for (size_t i = 0; i < n; ++i) words[i] = i == 17 ? 4 : 5;
    result = 0;
    launch(3, 32, residency_others, &result, (const u32*)words.at, 5u, n);
    return failed | (result == 1 ? 0 : wrong("others", 17, n));
}
