#!/usr/bin/env python3
"""Evaluates `lg2.approx` times a constant for every f16 operand, including those near 1. Prints the largest errors of the
logarithms in units of the last place, and the results of special operands. Needs a GPU and CuPy.

    python3 scripts/lg2_of_f16.py
"""

import cupy as cp
import numpy as np

SOURCE = r"""
#include <cuda_fp16.h>
extern "C" __global__ void f(const __half* x, __half* y, float* raw, int n, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = __half2float(x[i]), r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    raw[i] = r; y[i] = __float2half_rn(r * scale);
}"""
kernel = cp.RawKernel(SOURCE, "f")
bits = np.arange(65536, dtype=np.uint16)
x = bits.view(np.float16)
for name, scale, true in (("log", 0.69314718, np.log), ("log2", 1.0, np.log2), ("log10", 0.30102999566, np.log10)):
    y, raw = cp.empty(65536, cp.float16), cp.empty(65536, cp.float32)
    kernel((256,), (256,), (cp.asarray(x), y, raw, np.int32(65536), np.float32(scale)))
    y = y.get()
    with np.errstate(all="ignore"):
        t = true(x.astype(np.float64))
    ok = np.isfinite(t) & (x > 0)
    exponent = np.floor(np.log2(np.maximum(np.abs(t[ok]), 2.0**-14)))
    error = np.abs(y[ok].astype(np.float64) - t[ok]) / 2.0 ** (exponent - 10)
    order = np.argsort(-error)[:8]
    print(name, "worst", [(float(x[ok][i]), round(float(error[i]), 4)) for i in order], "at 1:", y[bits == 0x3C00],
          "specials", y[[0x0000, 0x8000, 0x7C00, 0xFC00, 0x7E00, 0xBC00]])
