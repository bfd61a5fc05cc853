#!/usr/bin/env python3
"""Finds the polynomials of erf for f16 and bf16: odd ones, x·P(x²), that round correctly for every operand of bf16, and within
0.5001 units in the last place for f16.

    python3 scripts/erf_coefficients.py f16 10 2.88       # type, coefficients, where |x| is cut off
    python3 scripts/erf_coefficients.py bf16 8 2.7

First, a linear program. For every operand, the polynomial's value must lie in the interval that rounds to the correct result. For
operands in between, which an expression may compute in f32, and beyond the cut, where erf goes to 1, it must be within CLOSE units in the
last place of erf. The polynomial that stays farthest from the intervals' ends is chosen. Then, because coefficients are rounded to f32
and the sum is evaluated in f32, a search over neighbouring coefficients. Needs NumPy and SciPy.
"""
import sys
import time

import numpy as np
from scipy.optimize import linprog
from scipy.special import erf

TYPES = {"f16": (10, -14), "bf16": (7, -126)}
SECONDS = 300
CLOSE = 0.14


def operands(name):
    """all positive finite operands; negative ones mirror them"""
    if name == "f16":
        return np.arange(1, 0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    return (np.arange(1, 0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)


def place(y, name):
    """one unit in the last place"""
    fraction, least = TYPES[name]
    return 2.0 ** (np.maximum(np.floor(np.log2(y)), least) - fraction)


def between(end):
    """numbers between the operands, and the cut"""
    return np.append(np.linspace(0, end, 4001)[1:], end)


def solve_program(x, name, count, end):
    """the coefficients, and how far the polynomial stays from the intervals' ends in units of the last place"""
    x = x[x <= end]
    y = erf(x)
    right = np.round(y / place(y, name)) * place(y, name)
    unit = place(right, name)
    # Below a power of two, numbers are twice as dense.
    power = (np.log2(right) == np.floor(np.log2(right))) & (np.log2(right) > TYPES[name][1])
    low = right - np.where(power, unit / 4, unit / 2)
    high = np.where(right >= 1, np.inf, right + unit / 2)
    t = between(end)
    close = CLOSE * place(erf(t), name)
    x, unit = np.append(x, t), np.append(unit, close / CLOSE)
    low = np.append(low, np.where(t == end, 1, erf(t)) - close) / unit
    high = np.append(high, erf(t) + close) / unit
    terms = np.stack([x * (x / end) ** (2 * i) for i in range(count)], 1) / unit[:, None]
    margin = np.ones((len(x), 1))
    goal = np.zeros(count + 1)
    goal[-1] = -1
    finite = np.isfinite(high)
    found = linprog(
        goal,
        A_ub=np.vstack([np.hstack([terms, margin])[finite], np.hstack([-terms, margin])]),
        b_ub=np.concatenate([high[finite], -low]),
        bounds=[(None, None)] * count + [(None, 0.5)],
        method="highs",
    )
    return found.x[:count] / end ** (2.0 * np.arange(count)), -found.fun


def values(x, coefficients, end):
    """the polynomial, evaluated in f32 by fused multiply-adds"""
    t = np.minimum(x, np.float32(end)).astype(np.float32)
    s = (t * t).astype(np.float64)
    p = np.full(len(t), coefficients[-1], np.float32)
    for c in coefficients[-2::-1]:
        p = (p * s + np.float64(c)).astype(np.float32)
    return (t * p).astype(np.float64)


def worst(x, name, coefficients, end):
    """the largest error of rounded results, and of results between the operands before they are rounded, in units of the last place"""
    y = erf(x)
    unit = place(y, name)
    rounded = np.round(values(x, coefficients, end) / unit) * unit
    t = between(end)
    found = values(t, coefficients, end)
    error = np.maximum(np.abs(found - erf(t)), np.where(t == end, np.abs(found - 1), 0))
    return float((np.abs(rounded - y) / unit).max()), float((error / place(erf(t), name)).max())


def main():
    name, count, end = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    x = operands(name)
    # Smaller operands behave like the last binades that are kept.
    x = x[(x > 2.0**-20) | (x < 2.0**-118)]
    exact, margin = solve_program(x, name, count, end)
    print(f"margin {margin:.1e} units of the last place")
    x = x[x < 1.3 * end]
    best = exact.astype(np.float32)
    (error, close), begin, random = worst(x, name, best, end), time.time(), np.random.default_rng(1)
    while error > 0.5001 and time.time() - begin < SECONDS:
        near = best.copy()
        for _ in range(random.integers(1, 4)):
            i = random.integers(count)
            step = int(random.integers(1, 2 ** random.integers(1, 5 + i))) * int(random.choice([-1, 1]))
            near[i] = (near[i : i + 1].view(np.int32) + np.int32(step)).view(np.float32)[0]
        near_error, near_close = worst(x, name, near, end)
        if near_error <= error and near_close <= max(close, CLOSE):
            best, error, close = near, near_error, near_close
    print(f"largest error {error:.4f}, before rounding {close:.4f}:", ", ".join(float(c).hex() for c in best))


if __name__ == "__main__":
    main()
