"""What a value may be: an interval per element between two numbers of the carrier, or nothing known.

The ends are carrier numbers in total order (-0 before +0). NaN stands at both ends or at none. Elements where NaN and numbers
are both possible, or where a step lies inside an interval of integers, are not `sure`, and nothing is said of them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass
class Bounds:
    """`high is low` where every element is exact; of integers and truth values it always is."""

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
        """Both ends through a function that never decreases and keeps NaN."""
        return between(*(change(end) for end in self.ends), sure=self.sure)


def exactly(values: np.ndarray, sure: np.ndarray | None = None) -> Bounds:
    return Bounds(values, values, np.ones(values.shape, bool) if sure is None else sure)


def order(x: np.ndarray) -> np.ndarray:
    """Integers in the total order of floats."""
    bits = x.view(np.int32 if x.dtype == np.float32 else np.int64)
    return np.where(bits >= 0, bits, bits ^ np.iinfo(bits.dtype).max)


def lesser(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(order(a) <= order(b), a, b)


def greater(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(order(a) >= order(b), a, b)


def between(*corners: np.ndarray, sure: np.ndarray) -> Bounds:
    """The hull of some results of each element; not sure where only some of them are NaN."""
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
    """A function that is monotone in each operand, whatever the others are."""
    sure = operands[0].sure
    for operand in operands[1:]:
        sure = sure & operand.sure
    results = [function(*ends) for ends in itertools.product(*(operand.ends for operand in operands))]
    return between(*results, sure=sure)


def hull(a: Bounds, b: Bounds) -> Bounds:
    return between(*a.ends, *b.ends, sure=a.sure & b.sure)


def crosses_zero(x: Bounds) -> np.ndarray:
    """Where both signs are possible."""
    return np.signbit(x.low) != np.signbit(x.high)


def may_be_infinite(x: Bounds) -> np.ndarray:
    return np.isinf(x.low) | np.isinf(x.high)
