/* The four STREAM kernels by STREAM's rules (McCalpin, https://www.cs.virginia.edu/stream/ref.html): double arrays far
 * larger than the last-level cache, first touched by the threads that use them, ordinary loops that the compiler is free
 * to vectorise, bytes counted without write-allocate. Written for comparison with `plimsoll measure stream`; unlike the
 * original, it takes the array's size at run time and prints the median as well as the best.
 *
 *   gcc -O3 -march=native -fopenmp -fno-builtin stream.c -o stream && ./stream BYTES_PER_ARRAY REPETITIONS
 */
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { COPY, SCALE, ADD, TRIAD, KERNELS };
static const char *const NAMES[KERNELS] = {"copy", "scale", "add", "triad"};
static const int ARRAYS[KERNELS] = {2, 2, 3, 3};

static int by_time(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Aligned to 2 MiB and in huge pages, like plimsoll's arrays. */
static double *array(size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, (size_t)2 << 20, bytes) != 0) {
        fprintf(stderr, "no memory for an array of %zu bytes\n", bytes);
        exit(1);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static double timed(int kernel, double *restrict a, double *restrict b, double *restrict c, ptrdiff_t n, double scalar) {
    const double begin = omp_get_wtime();
    switch (kernel) {
    case COPY:
#pragma omp parallel for schedule(static)
        for (ptrdiff_t i = 0; i < n; i++) c[i] = a[i];
        break;
    case SCALE:
#pragma omp parallel for schedule(static)
        for (ptrdiff_t i = 0; i < n; i++) b[i] = scalar * c[i];
        break;
    case ADD:
#pragma omp parallel for schedule(static)
        for (ptrdiff_t i = 0; i < n; i++) c[i] = a[i] + b[i];
        break;
    default:
#pragma omp parallel for schedule(static)
        for (ptrdiff_t i = 0; i < n; i++) a[i] = b[i] + scalar * c[i];
    }
    return omp_get_wtime() - begin;
}

int main(int argc, char **argv) {
    if (argc != 3 || atoll(argv[1]) < 8 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: stream BYTES_PER_ARRAY REPETITIONS\n");
        return 2;
    }
    const size_t bytes = (size_t)atoll(argv[1]) / 8 * 8;
    const ptrdiff_t n = (ptrdiff_t)(bytes / 8);
    const int repetitions = atoi(argv[2]);
    double *a = array(bytes), *b = array(bytes), *c = array(bytes);
    double *times = malloc(sizeof(double) * KERNELS * (size_t)repetitions);
    if (times == NULL) return 1;
#pragma omp parallel for schedule(static)
    for (ptrdiff_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.0;
    }
    /* The scalar is small, so that values stay finite however often triad is applied to its own results. */
    const double scalar = 0.4;
    for (int kernel = 0; kernel < KERNELS; kernel++) timed(kernel, a, b, c, n, scalar);
    for (int repetition = 0; repetition < repetitions; repetition++)
        for (int kernel = 0; kernel < KERNELS; kernel++)
            times[kernel * repetitions + repetition] = timed(kernel, a, b, c, n, scalar);
    for (int kernel = 0; kernel < KERNELS; kernel++) {
        double *mine = times + kernel * repetitions;
        qsort(mine, (size_t)repetitions, sizeof(double), by_time);
        const double moved = (double)ARRAYS[kernel] * (double)bytes;
        printf("%s %.6e %.6e\n", NAMES[kernel], moved / mine[0], moved / mine[repetitions / 2]);
    }
    /* Use the results, so that the compiler can't remove the loops. */
    fprintf(stderr, "%g %g %g\n", a[n / 2], b[n / 2], c[n / 2]);
    return 0;
}
