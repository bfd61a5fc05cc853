"""The possible values of a result: for each element an interval between two numbers of the carrier, or unknown.

The ends are carrier numbers in total order (-0 before +0). Either both ends are NaN or neither. Elements that may be NaN or a
number, or whose integer result depends on where in the interval the value lies, are not `sure` and are not judged.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass
class Bounds:
    """`high is low` if every element is exact, as integers and booleans always are."""

    low: np.ndarray
    high: np.ndarray
    sure: np.ndarray

    @property
    def exact(self) -> bool:
        return self.high is self.low

    @property
    def ends(self) -> tuple[np.ndarray, ...]:
        return (self.low,) if self.exact else (self.low, self.high)

    def map(self, change) -> Bounds:
        """Applies a function that never decreases and keeps NaN to both ends."""
        return between(*(change(end) for end in self.ends), sure=self.sure)


def exactly(values: np.ndarray, sure: np.ndarray | None = None) -> Bounds:
    return Bounds(values, values, np.ones(values.shape, bool) if sure is None else sure)


def order(x: np.ndarray) -> np.ndarray:
    """Maps floats to integers in the total order of floats."""
    bits = x.view(np.int32 if x.dtype == np.float32 else np.int64)
    return np.where(bits >= 0, bits, bits ^ np.iinfo(bits.dtype).max)


def lesser(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(order(a) <= order(b), a, b)


def greater(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(order(a) >= order(b), a, b)


def between(*corners: np.ndarray, sure: np.ndarray) -> Bounds:
    """The hull of several results for each element; not sure if only some of them are NaN."""
    if len(corners) == 1:
        return exactly(corners[0], sure)
    low = high = corners[0]
    some = every = np.isnan(corners[0])
    for corner in corners[1:]:
        low, high = lesser(low, corner), greater(high, corner)
        nan = np.isnan(corner)
        some, every = some | nan, every & nan
    low, high = np.where(some, np.nan, low).astype(low.dtype), np.where(some, np.nan, high).astype(low.dtype)
    result = Bounds(low, high, sure & ~(some & ~every))
    return exactly(low, result.sure) if np.array_equal(order(low), order(high)) else result


def corners(function, *operands: Bounds) -> Bounds:
    """Bounds of a function that is monotone in each operand for all values of the others."""
    sure = operands[0].sure
    for operand in operands[1:]:
        sure = sure & operand.sure
    results = [function(*ends) for ends in itertools.product(*(operand.ends for operand in operands))]
    return between(*results, sure=sure)


def hull(a: Bounds, b: Bounds) -> Bounds:
    return between(*a.ends, *b.ends, sure=a.sure & b.sure)


def crosses_zero(x: Bounds) -> np.ndarray:
    """True where both signs are possible."""
    return np.signbit(x.low) != np.signbit(x.high)


def may_be_infinite(x: Bounds) -> np.ndarray:
    return np.isinf(x.low) | np.isinf(x.high)
