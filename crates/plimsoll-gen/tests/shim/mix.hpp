// Runs one mix kernel over awkward sizes and grids.
inline int check(const char* name, size_t reads, size_t writes, size_t tile, unsigned threads,
                 void (*kernel)(uint4*, const uint4*, u64, u64)) {
    int failed = 0;
    for (size_t n : {size_t(0), size_t(1), size_t(33), tile - 1, tile, tile + 1, 2 * tile + 3})
        for (unsigned blocks : {blocks_for(n, tile), blocks_for(n, tile) + 1, 1u}) {
            const size_t pitch = n + 3, folds = (size_t(blocks) * threads + 3) / 4;
            Array<uint4> in(reads * pitch), out(writes > 0 ? writes * pitch : folds);
            for (size_t i = 0; i < 4 * in.n; ++i) reinterpret_cast<u32*>(in.at)[i] = u32(i * 2654435761u);
            std::memset(out.at, 0, out.n * sizeof(uint4));
            launch(blocks, threads, kernel, out.at, in.at, pitch, n);
            auto word = [](Array<uint4>& a, size_t i) { return reinterpret_cast<u32*>(a.at)[i]; };
            u32 all = 0, found = 0;
            for (size_t i = 0; i < 4 * n; ++i) {
                u32 x = 0;
                for (size_t k = 0; k < reads; ++k) x ^= word(in, 4 * k * pitch + i);
                all ^= x;
                for (size_t k = 0; k < writes; ++k)
                    if (word(out, 4 * k * pitch + i) != (x ^ u32(k + 1))) return wrong(name, i, n);
            }
            for (size_t i = 0; writes == 0 && i < 4 * folds; ++i) found ^= word(out, i);
            if (writes == 0 && found != all) failed |= wrong(name, 0, n);
        }
    return failed;
}
