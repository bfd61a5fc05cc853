"""The promised accuracy of results: docs/mathematics.md for f32 and 16 bits, and NVIDIA's guide for f64, to which that page refers.
Turns true values into the carrier numbers that an implementation may return."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from bounds import Bounds, exactly, greater, lesser, order
from dtypes import F32, F64, ROOT, WIDE
from functions import COMPOSED

OF_DOUBLES = {
    "rsqrt": 1, "exp": 1, "exp2": 1, "expm1": 1, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sin": 2, "cos": 2,
    "tanh": 1, "sinh": 2, "cosh": 1, "asinh": 3, "acosh": 3, "atanh": 2, "atan": 2, "erf": 2, "erfc": 5, "pow": 2,
    "atan2": 2,
}  # fmt: skip
"""Largest errors of CUDA's f64 functions against the correctly rounded result, in units of the last place: CUDA C++ Programming
Guide, "Mathematical Functions", standard functions of double precision."""

OF_DOUBLES_ON_CPU = 3.0
"""The largest error of most f64 functions on CPUs; those with a larger one are allowed more on GPUs too."""

POLYNOMIALS_ON_CPU = ("exp", "log", "tanh", "erf")
"""Evaluated in f32 on CPUs; rsqrt is two operations of f32. The others are evaluated in f64 to some 45 bits and rounded once."""
ONCE_ROUNDED = 0.51


@functools.cache
def _promised() -> dict[str, tuple[float, float, float]]:
    """For each function, units of the last place in f32, in f32 with tier `fast`, and in 16 bits."""
    page = (ROOT / "docs/mathematics.md").read_text()
    section = page.split("## What is promised")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in section.splitlines()]
    table = {row[0]: tuple(map(float, row[1:])) for row in rows if len(row) == 4 and row[1][:1].isdigit()}
    if len(table) < 30:
        raise ValueError("docs/mathematics.md has no table of promises that can be parsed")
    return table


@dataclass(frozen=True)
class Need:
    """The type that a result is only ever converted to: a float with `precision` bits, in its own range or that of f32."""

    precision: int
    full_range: bool

    def and_also(self, other: Need | None) -> Need | None:
        if other is None or other == self:
            return other
        return Need(max(self.precision, other.precision), True)

    @property
    def scaled(self) -> Need:
        return Need(self.precision, True)


BF16 = Need(8, True)
ROUNDS_TO_0 = 2.0**-134
"""What rounds to 0 in bf16 may be 0."""


def is_exact(name: str, need: Need | None) -> bool:
    """True if a result must be correctly rounded."""
    return need is None and _promised()[name][0] == 0.5


def units(x: np.ndarray, precision: int, least: int) -> np.ndarray:
    """One unit in the last place of each number."""
    exponent = np.maximum(np.frexp(x)[1] - 1, least)
    return np.ldexp(WIDE(1), exponent - precision + 1)


class Promise:
    """The allowed errors of one device."""

    def __init__(self, gpu: bool):
        self.gpu = gpu

    def _of(self, name: str, carrier: np.dtype) -> float:
        if carrier == np.float64:
            allowed = 0.5 + OF_DOUBLES[name] if name in OF_DOUBLES else _promised()[name][0]
            return allowed if self.gpu else max(allowed, OF_DOUBLES_ON_CPU)
        if self.gpu or name in POLYNOMIALS_ON_CPU or name == "rsqrt":
            return _promised()[name][0]
        return ONCE_ROUNDED

    def results(self, name, low, high, carrier, *, need=None, zero=None, sure=None, blur=0.0) -> Bounds:
        """The allowed results for true values between `low` and `high`. `blur` is the error, in units of the last place, from
        rounding an operand inside a composed function."""
        dtype = F64 if carrier == np.float64 else F32
        allowed = self._of(name, carrier)
        slack = WIDE(2.0**-56 if dtype is F64 else 2.0**-40)
        ends = []
        for value, side in ((low, -1), (high, 1)):
            magnitude = np.abs(value)
            error = allowed * units(value, dtype.precision, dtype.least) + slack * magnitude
            error = error + blur * units(value, dtype.precision, dtype.least)
            if need is not None and dtype is F32:
                short = _promised()[name][2] - 0.5
                least = F32.least if need.full_range else -14
                error = np.maximum(error, short * units(value, need.precision, least) + slack * magnitude)
                if need == BF16:
                    error = np.where(magnitude < ROUNDS_TO_0, np.maximum(error, magnitude), error)
            ends.append(_outermost(value, error, side, carrier, dtype, need))
        if zero is not None:
            ends = [np.where(zero, value.astype(carrier), end) for value, end in zip((low, high), ends, strict=True)]
        sure = np.ones(low.shape, bool) if sure is None else sure
        same = np.array_equal(order(ends[0]), order(ends[1]))
        return exactly(ends[0], sure) if same else Bounds(ends[0], ends[1], sure)


def _outermost(value, error, side, carrier, dtype, need) -> np.ndarray:
    """The last carrier number within an error of a true value, on one side of it, and of its sign."""
    limit = value + side * error
    limit = np.where(np.isfinite(value), limit, value)
    result = limit.astype(carrier)
    outside = (result - limit) * side > 0
    result = np.where(outside, np.nextafter(result, np.array(-side * np.inf, carrier)), result)
    beyond = WIDE(65520.0) if need is not None and not need.full_range else 2 * WIDE(2) ** (-dtype.least + 1)
    if need is not None and not need.full_range:
        # Values beyond f16 may have become infinite in between.
        result = np.where((limit * side >= beyond) & (value * side > 0), np.array(side * np.inf, carrier), result)
    else:
        result = np.where(limit * side >= beyond, np.array(side * np.inf, carrier), result)
    zero = np.copysign(np.zeros((), carrier), value.astype(carrier))
    if side < 0:
        return np.where(np.signbit(value) | np.isnan(value), result, greater(result, zero))
    return np.where(np.signbit(value) & ~np.isnan(value), lesser(result, zero), result)


def blur_of(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray | float:
    """The error of a composed f64 function, in units of the last place, from rounding an intermediate operand once: only the
    functions it is composed of have promised errors."""
    if name not in COMPOSED or x.dtype != np.float64:
        return 0.0
    wide = x.astype(WIDE)
    inner = np.abs(wide) if name not in ("gelu", "gelu_tanh") else wide * wide + np.abs(wide**3) * WIDE(0.1)
    return np.where(np.isfinite(inner) & (y != 0), 2 * np.minimum(inner, WIDE(1e6)), WIDE(0))
