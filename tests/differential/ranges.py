"""The range of each value of an expression, as far as types and operations tell. It decides which precision an operand needs."""

from __future__ import annotations

import math
from typing import NamedTuple

from dtypes import BOOL, DType, integer_range
from expression import COMPARISONS, LOGIC, ROUNDINGS, Kernel, Node

INFINITY = math.inf


class Range(NamedTuple):
    """Both ends; infinite if unknown."""

    low: float
    high: float

    @property
    def most(self) -> float:
        return max(abs(self.low), abs(self.high))


UNKNOWN = Range(-INFINITY, INFINITY)
BOUNDED = {
    "sign": Range(-1, 1), "sin": Range(-1, 1), "cos": Range(-1, 1), "tanh": Range(-1, 1), "erf": Range(-1, 1),
    "sigmoid": Range(0, 1), "erfc": Range(0, 2), "expm1": Range(-1, INFINITY), "cosh": Range(1, INFINITY),
    "softplus": Range(0, INFINITY), "atan": Range(-1.571, 1.571), "atan2": Range(-3.142, 3.142),
}  # fmt: skip


def of_type(dtype: DType) -> Range:
    if dtype is BOOL:
        return Range(0, 1)
    if dtype.is_int:
        return Range(*map(float, integer_range(dtype)))
    return Range(-448, 448) if dtype.name == "f8e4m3" else UNKNOWN


def _power(base: float, exponent: float) -> float:
    return base**exponent if exponent < 1000 else INFINITY


def _known(low: float, high: float) -> Range:
    return Range(-INFINITY if math.isnan(low) else low, INFINITY if math.isnan(high) else high)


def product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    if any(map(math.isnan, ends)):
        return Range(0, INFINITY) if min(a.low, b.low) >= 0 else UNKNOWN
    return Range(min(ends), max(ends))


def _converted(x: Range, dtype: DType) -> Range:
    limit = of_type(dtype)
    fits = dtype.is_float or (limit.low <= x.low and x.high <= limit.high)
    return x if fits and dtype is not BOOL else limit


def _of_one(op: str, x: Range) -> Range:
    if op == "neg":
        return Range(-x.high, -x.low)
    if op == "abs":
        return Range(min(map(abs, x)) if x.low > 0 or x.high < 0 else 0, x.most)
    if op == "relu":
        return Range(max(x.low, 0), max(x.high, 0))
    if op in ROUNDINGS:
        return Range(*(end if math.isinf(end) else outer(end) for end, outer in zip(x, (math.floor, math.ceil))))
    if op in ("exp", "exp2"):
        base = math.e if op == "exp" else 2.0
        return Range(_power(base, x.low), _power(base, x.high))
    if op == "sqrt":
        return Range(math.sqrt(max(x.low, 0)), math.sqrt(max(x.high, 0)))
    return BOUNDED.get(op, UNKNOWN)


def _of_two(op: str, a: Range, b: Range) -> Range:
    if op == "+":
        return _known(a.low + b.low, a.high + b.high)
    if op == "-":
        return _known(a.low - b.high, a.high - b.low)
    if op == "*":
        return product(a, b)
    if op == "min":
        return Range(min(a.low, b.low), min(a.high, b.high))
    if op == "max":
        return Range(max(a.low, b.low), max(a.high, b.high))
    if op in ("fmin", "fmax"):
        return Range(min(a.low, b.low), max(a.high, b.high))
    return BOUNDED.get(op, UNKNOWN)


def _of(node: Node, ranges: list[Range]) -> Range:
    if node.op in ("literal", "constant"):
        return Range(float(node.value), float(node.value))
    if node.op in (*COMPARISONS, *LOGIC):
        return of_type(BOOL)
    if node.op == "select":
        return Range(min(ranges[1].low, ranges[2].low), max(ranges[1].high, ranges[2].high))
    if node.op == "cast":
        return _converted(ranges[0], node.dtype)
    if not ranges or not node.dtype.is_float:
        return of_type(node.dtype)
    if node.op == "fma":
        return _of_two("+", product(ranges[0], ranges[1]), ranges[2])
    return _of_one(node.op, *ranges) if len(ranges) == 1 else _of_two(node.op, *ranges)


def ranges_of(kernel: Kernel) -> dict[int, Range]:
    """The range of every node, by its identity."""
    ranges: dict[int, Range] = {}
    for node in kernel.nodes():
        ranges[id(node)] = _of(node, [_converted(ranges[id(arg)], node.taken) for arg in node.args])
    return ranges
