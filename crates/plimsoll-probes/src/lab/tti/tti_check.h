// Compares a step of kernel.cu with plain sums in double precision without shared memory: within 64 roundings of all terms.
#pragma once

struct Table {
    double first[RADIUS + 1], second[RADIUS + 1];
};
__device__ constexpr Table table() {
    Table all{};
    for (int k = 0; k <= RADIUS; ++k) all.first[k] = k > 0 ? first_weight(k) : 0, all.second[k] = second_weight(k);
    return all;
}
__device__ constexpr Table WEIGHTS = table();

// Second derivatives of a field, and the sum of all terms' sizes, in double precision.
struct Exact {
    double along[3][3], size[3][3];
    __device__ Exact(const float* at, const long long (&stride)[3]) {
#pragma unroll
        for (int a = 0; a < 3; ++a)
#pragma unroll
            for (int b = 0; b <= a; ++b) {
                double sum = a == b ? WEIGHTS.second[0] * at[0] : 0, sizes = fabs(sum);
#pragma unroll 1
                for (int k = 1; k <= RADIUS; ++k)
#pragma unroll 1
                    for (int l = a == b ? k : 1; l <= (a == b ? k : RADIUS); ++l) {
                        const double weight = a == b ? WEIGHTS.second[k] : WEIGHTS.first[k] * WEIGHTS.first[l];
                        const long long u = k * stride[a], w = a == b ? 0 : l * stride[b];
                        const double same = double(at[u + w]) + at[-u - w], other = double(at[u - w]) + at[w - u];
                        sum += weight * (a == b ? same : same - other);
                        sizes += fabs(weight) * (fabs(at[u + w]) + fabs(at[-u - w]));
                        if (a != b) sizes += fabs(weight) * (fabs(at[u - w]) + fabs(at[w - u]));
                    }
                along[a][b] = along[b][a] = sum, size[a][b] = size[b][a] = sizes;
            }
    }
    __device__ double over(const double (&of)[3][3], const double (&n)[3]) const {
        double sum = 0;
#pragma unroll
        for (int a = 0; a < 3; ++a)
#pragma unroll
            for (int b = 0; b < 3; ++b) sum += n[a] * n[b] * of[a][b];
        return sum;
    }
    __device__ double trace(const double (&of)[3][3]) const { return of[0][0] + of[1][1] + of[2][2]; }
};

__device__ __forceinline__ bool right_step(float p_after, float q_after, float p_before, float q_before, const float* p,
                                  const float* q, const Medium& m, u32 pitch, u32 rows) {
    const long long stride[3] = {1, (long long)pitch, (long long)pitch * rows};
    const Exact of_p(p, stride), of_q(q, stride);
    const double n[3] = {m.n[0], m.n[1], m.n[2]}, size_n[3] = {fabs(n[0]), fabs(n[1]), fabs(n[2])};
    const double p1 = of_p.over(of_p.along, n), q1 = of_q.over(of_q.along, n);
    const double p2 = of_p.trace(of_p.along) - p1, q2 = of_q.trace(of_q.along) - q1;
    const double shear = (double(m.epsilon) - m.delta) * (4.0 / 3);
    const double for_p = (1 + 2.0 * m.epsilon) * p2 + q1 + shear * (p1 - q1);
    const double for_q = (1 + 2.0 * m.delta) * p2 + q1 - shear * (p2 - q2);
    const double terms = 4 * (of_p.trace(of_p.size) + of_p.over(of_p.size, size_n) + of_q.trace(of_q.size) +
                              of_q.over(of_q.size, size_n));
    const double right_p = 2.0 * p[0] - p_before + m.v * for_p, right_q = 2.0 * q[0] - q_before + m.v * for_q;
    const double by = (m.v * terms + 2 * fabs(p[0]) + fabs(p_before) + 2 * fabs(q[0]) + fabs(q_before)) * (64.0 / 16777216);
    return fabs(p_after - right_p) <= by + 1e-42 && fabs(q_after - right_q) <= by + 1e-42;
}
