"""Operations that are exact or correctly rounded, on arrays of one carrier."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dtypes import WIDE


def _each(function, carrier: np.dtype, *operands: np.ndarray) -> np.ndarray:
    """Applies a function element by element to Python's numbers, which are exact where NumPy's are not."""
    lists = [np.broadcast_to(x, np.broadcast_shapes(*(o.shape for o in operands))).ravel().tolist() for x in operands]
    return np.array([function(*values) for values in zip(*lists, strict=True)], object).astype(carrier)


def _rounded(value: Fraction | int, carrier: np.dtype) -> float:
    """A fraction rounded once."""
    precision, least, most = (24, -126, 128) if carrier == np.float32 else (53, -1022, 1024)
    if value == 0:
        return 0.0
    magnitude = abs(Fraction(value))
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, least) - precision + 1)
    whole = round(magnitude / quantum) * quantum
    result = math.inf if whole >= 2**most else float(whole)
    return -result if value < 0 else result


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a*b + c with one rounding."""
    if a.dtype.kind != "f":
        return a * b + c
    if a.dtype == np.float32:
        return _fma_of_singles(a, b, c)

    return _each(_fma_one, a.dtype, a, b, c)


def _fma_one(x: float, y: float, z: float) -> float:
    """For doubles, by exact fractions."""
    if not all(map(math.isfinite, (x, y, z))):
        return z if math.isfinite(x) and math.isfinite(y) and math.isinf(z) else x * y + z
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total != 0:
        return math.copysign(_rounded(total, np.dtype(np.float64)), -1.0 if total < 0 else 1.0)
    return x * y + z if x == 0 or y == 0 else 0.0


def _fma_of_singles(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The product is exact in f64. The sum is rounded to odd in f64, so that rounding it again to f32 is correct."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    virtual = total - product
    error = (product - (total - virtual)) + (addend - virtual)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    away = (error > 0) == (total > 0)
    odd = np.where(inexact, np.where(away, bits + 1, bits - 1), bits).view(np.float64)
    return odd.astype(np.float32)


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The floor of the exact quotient; for floats, rounded to the nearest number."""
    if a.dtype.kind != "f":
        safe = np.where(b == 0, np.ones((), b.dtype), b)
        return np.where(b == 0, np.zeros((), a.dtype), np.floor_divide(a, safe))
    wide = a.astype(WIDE) / b.astype(WIDE)
    floor = np.floor(wide)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    # The quotient is off by less than 2^-12 here, so its floor is right unless it is that close to an integer.
    doubtful = finite & ((np.abs(wide) >= 2.0**50) | (np.abs(wide - np.rint(wide)) < 2.0**-10)) & (a != 0)
    result = np.where(floor == 0, np.copysign(WIDE(0), wide), floor).astype(a.dtype)
    if doubtful.any():
        result[doubtful] = _each(lambda x, y: _floor_one(x, y, a.dtype), a.dtype, a[doubtful], b[doubtful])
    return _at_infinities(result, a, b)


def _at_infinities(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A finite dividend by infinity is a quotient of magnitude below one; an infinite dividend leaves no remainder: NaN."""
    below = np.isfinite(a) & np.isinf(b) & (a != 0) & (np.signbit(a) != np.signbit(b))
    result = np.where(below, np.array(-1.0, a.dtype), result)
    return np.where(np.isinf(a), np.array(np.nan, a.dtype), result)


def _floor_one(x: float, y: float, carrier: np.dtype) -> float:
    (n, d), (m, e) = x.as_integer_ratio(), y.as_integer_ratio()
    quotient = (n * e) // (d * m)
    return math.copysign(_rounded(quotient, carrier), -1.0 if (x < 0) != (y < 0) else 1.0)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b*floor(a/b), rounded once; it has the sign of the divisor, even if it is zero."""
    if a.dtype.kind != "f":
        safe = np.where(b == 0, np.ones((), b.dtype), b)
        return np.where(b == 0, a, np.remainder(a, safe))
    rest = np.fmod(a, b)
    rest = np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return np.where(rest == 0, np.copysign(rest, b), rest)


def power_of_integers(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Integer powers that wrap; a negative exponent gives 0, except for bases 1 and -1."""
    one, zero = np.ones((), a.dtype), np.zeros((), a.dtype)
    negative = b < 0
    power, base, rest = np.broadcast_to(one, a.shape).copy(), a.copy(), np.where(negative, zero, b)
    while rest.any():
        power = np.where(rest & one != 0, power * base, power)
        base, rest = base * base, rest >> one
    odd = b & one != 0
    of_negative = np.where(a == one, one, zero)
    if a.dtype.kind == "i":
        of_negative = np.where(a == -one, np.where(odd, -one, one), of_negative)
    return np.where(negative, of_negative, power)


def shift(a: np.ndarray, b: np.ndarray, left: bool) -> np.ndarray:
    """Shifts; a count that is negative, or the width or more, gives 0, or only the sign when shifting right."""
    width = 8 * a.dtype.itemsize
    inside = (b >= 0) & (b < width)
    count = np.where(inside, b, np.zeros((), b.dtype))
    if left:
        return np.where(inside, a << count, np.zeros((), a.dtype))
    return np.where(inside, a >> count, np.where(a < 0, ~np.zeros((), a.dtype), np.zeros((), a.dtype)))


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NaN if either operand is NaN; -0 is less than +0."""
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), np.minimum(a, b))


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))


def ignoring_nan(choose):
    """`fmin` and `fmax`: for a number and NaN, the number."""

    def chosen(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind != "f":
            return choose(a, b)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, choose(a, b)))

    return chosen


def sign(x: np.ndarray) -> np.ndarray:
    """0 (not -0) for either zero, NaN for NaN."""
    result = np.sign(x)
    return result + np.zeros((), x.dtype) if x.dtype.kind == "f" else result
