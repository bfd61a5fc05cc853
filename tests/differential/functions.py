"""The true values of functions, in more digits than their results have, over intervals.

f32 results (and those of 16 and 8 bits, which are carried in f32) need few digits; those of f64 take the 64 bits of x87's
extended precision, and mpmath where NumPy has no such function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath
import numpy as np

from bounds import Bounds
from dtypes import WIDE

DIGITS = 40
"""Decimal digits that mpmath computes with."""


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _gelu_tanh(x):
    root = np.sqrt(2 / (4 * np.arctan(WIDE(1))))
    return x * _sigmoid(2 * root * (x + WIDE(0.044715) * x * x * x))


_erf, _erfc = np.vectorize(math.erf, [float]), np.vectorize(math.erfc, [float])


def _by_mpmath(function, x):
    """Evaluates each distinct value once."""
    values, places = np.unique(x, return_inverse=True)
    results = []
    with mpmath.workdps(DIGITS):
        for value in values:
            fraction, exponent = mpmath.frexp(function(mpmath.mpf(float(value))))
            head = float(fraction)
            results.append(np.ldexp(WIDE(head) + WIDE(float(fraction - head)), int(exponent)))
    return np.array(results, WIDE)[places].reshape(x.shape)


def _phi(x):
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _special(of_singles, of_doubles):
    """A function that NumPy lacks: evaluated by the C library in f64 for f32 results, else by mpmath."""

    def function(x, double):
        if not double:
            return of_singles(x.astype(np.float64)).astype(WIDE)
        result = of_singles(x.astype(np.float64)).astype(WIDE)
        # Beyond this range, the result is 0, 1, 2 or the operand itself, to all digits of an f64.
        near = np.abs(x) < 40
        if near.any():
            result[near] = np.copysign(_by_mpmath(of_doubles, x[near]), result[near])
        return result

    return function


def _plain(function):
    return lambda x, _double: function(x)


@dataclass(frozen=True)
class Function:
    """A function of one number. If it isn't monotone, `least` is where its minimum is."""

    wide: object
    shape: str = "monotone"
    least: float = 0.0


def _dip(function, least):
    return Function(function, "dip", least)


FUNCTIONS = {
    "sqrt": Function(_plain(np.sqrt)),
    "rsqrt": Function(_plain(lambda x: 1 / np.sqrt(x)), "pole"),
    "recip": Function(_plain(lambda x: 1 / x), "pole"),
    "exp": Function(_plain(np.exp)),
    "exp2": Function(_plain(np.exp2)),
    "expm1": Function(_plain(np.expm1)),
    "log": Function(_plain(np.log)),
    "log2": Function(_plain(np.log2)),
    "log10": Function(_plain(np.log10)),
    "log1p": Function(_plain(np.log1p)),
    "sin": Function(_plain(np.sin), "wave", 0.5),
    "cos": Function(_plain(np.cos), "wave", 0.0),
    "tanh": Function(_plain(np.tanh)),
    "sinh": Function(_plain(np.sinh)),
    "cosh": _dip(_plain(np.cosh), 0.0),
    "asinh": Function(_plain(np.arcsinh)),
    "acosh": Function(_plain(np.arccosh)),
    "atanh": Function(_plain(np.arctanh)),
    "atan": Function(_plain(np.arctan)),
    "erf": Function(_special(_erf, mpmath.erf)),
    "erfc": Function(_special(_erfc, mpmath.erfc)),
    "sigmoid": Function(_plain(_sigmoid)),
    "silu": _dip(_plain(lambda x: x * _sigmoid(x)), -1.2784645427610738),
    "gelu": _dip(_special(lambda x: x * 0.5 * _erfc(-x * math.sqrt(0.5)), _phi), -0.7517915241),
    "gelu_tanh": _dip(_plain(_gelu_tanh), -0.752461422),
    "softplus": Function(_plain(_softplus)),
    "mish": _dip(_plain(lambda x: x * np.tanh(_softplus(x))), -1.1924312),
}

COMPOSED = ("sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "mish")
ZEROS = {"log": 1, "log2": 1, "log10": 1, "acosh": 1}
"""The operands at which functions are exactly 0, if other than 0."""


def true_range(name: str, x: Bounds) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The least and the greatest true value over each interval, whether they are exact zeros, and where the result is known."""
    function, double = FUNCTIONS[name], x.low.dtype == np.float64
    ends = [function.wide(end.astype(WIDE), double) for end in x.ends]
    low, high, sure = ends[0], ends[-1], x.sure
    zero = np.logical_and.reduce([(y == 0) & (end == ZEROS.get(name, 0)) for y, end in zip(ends, x.ends, strict=True)])
    if x.exact:
        return low, high, zero, sure
    nan = [np.isnan(y) for y in ends]
    # If both ends lie outside the function's domain, on different sides, values between them are still numbers.
    sure = sure & (nan[0] == nan[1]) & ~(nan[0] & (x.low < 0) & (x.high > 0))
    swap = (low > high) | ((low == high) & np.signbit(high) & ~np.signbit(low))
    low, high = np.where(swap, high, low), np.where(swap, low, high)
    if function.shape == "pole":
        sure = sure & (np.signbit(x.low) == np.signbit(x.high))
    elif function.shape == "dip":
        inside = (x.low < function.least + 1e-3) & (x.high > function.least - 1e-3)
        bottom = function.wide(np.array([function.least], WIDE), double)[0]
        low = np.where(inside, np.minimum(low, bottom - abs(bottom) * WIDE(2.0**-30)), low)
    elif function.shape == "wave":
        low, high = _wave(function.least, x, low, high)
    return low, high, zero, sure


def _wave(shift: float, x: Bounds, low: np.ndarray, high: np.ndarray):
    """All of [-1, 1] wherever an extremum may lie inside."""
    pi = 4 * np.arctan(WIDE(1))
    half_waves = [np.floor(end.astype(WIDE) / pi - WIDE(shift)) for end in x.ends]
    wide = (half_waves[0] != half_waves[1]) | (np.abs(half_waves[0]) > 2.0**40)
    differ = wide & (x.low != x.high) & ~np.isnan(low)
    return np.where(differ, WIDE(-1), low), np.where(differ, WIDE(1), high)


def true_pow(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Special operands go through the C library's pow, because its powl returns infinity for -inf to the power of -2^63."""
    special = ~np.isfinite(a) | ~np.isfinite(b) | (a == 0)
    of_doubles = np.power(a.astype(np.float64), b.astype(np.float64)).astype(WIDE)
    return np.where(special, of_doubles, np.power(a.astype(WIDE), b.astype(WIDE)))


def true_atan2(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.arctan2(a.astype(WIDE), b.astype(WIDE))
