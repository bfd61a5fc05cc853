"""The required results of an expression, as docs/expressions.md and docs/mathematics.md define them."""

from __future__ import annotations

import operator

import numpy as np

import exact
import expression as ex
from bounds import Bounds, between, corners, crosses_zero, exactly, hull, may_be_infinite, order
from dtypes import BOOL, F32, TYPES, DType, cast, round_to
from expression import Kernel, Node
from functions import true_atan2, true_pow, true_range
from promises import Need, Promise, blur_of, is_exact
from ranges import Range, product, ranges_of

MONOTONE = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sign": exact.sign,
    "relu": lambda x: exact.maximum(x, np.zeros((), x.dtype)),
}
BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "//": exact.floor_divide,
    "/": operator.truediv,
    "min": exact.minimum,
    "max": exact.maximum,
    "fmin": exact.ignoring_nan(exact.minimum),
    "fmax": exact.ignoring_nan(exact.maximum),
}
INTEGER = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": exact.floor_divide,
    "%": exact.remainder,
    "min": exact.minimum,
    "max": exact.maximum,
    "fmin": exact.minimum,
    "fmax": exact.maximum,
    "pow": exact.power_of_integers,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "&&": operator.and_,
    "||": operator.or_,
    "<<": lambda a, b: exact.shift(a, b, True),
    ">>": lambda a, b: exact.shift(a, b, False),
    "neg": operator.neg,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, np.zeros((), x.dtype)),
    "not": operator.invert,
    "fma": exact.fma,
}
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}
PASSES_NEED = ("neg", "abs", "relu", "min", "max", "fmin", "fmax", "select")
SHORT = {"bf16": Need(8, True), "f16": Need(11, False), "f8e4m3": Need(11, False), "f8e5m2": Need(11, False)}


TERM = Need(11, True)
"""Of a term of a sum that is rounded to 16 bits."""


def bare(node: Node) -> Node:
    """A value without casts to its own type. Graphs leave these out, unless the value was computed with more digits than the type has."""
    while node.op == "cast" and node.args[0].dtype is node.dtype:
        if node.args[0].op not in ("input", "scalar", "cast") and node.dtype.storage != node.dtype.carrier:
            break
        node = node.args[0]
    return node


def keys_of(kernel: Kernel) -> dict[int, int]:
    """A number for each node, equal for values that are one value in a graph, which shares equal ones."""
    keys: dict[int, int] = {}
    known: dict[tuple, int] = {}
    for node in kernel.nodes():
        if bare(node) is not node:
            keys[id(node)] = keys[id(bare(node))]
            continue
        args = [keys[id(arg)] for arg in node.args]
        if node.op in ("*", "+", "&", "|", "^", "min", "max", "fmin", "fmax", "==", "!="):
            args.sort()
        key = (node.op, repr(node.value), node.dtype.name, *args)
        keys[id(node)] = known.setdefault(key, len(known))
    return keys


def fused_products(kernel: Kernel) -> dict[int, int]:
    """For each sum or difference of floats that takes in a product, the place of that operand: the first product that nothing else
    uses."""
    keys = keys_of(kernel)
    nodes = [node for node in kernel.nodes() if bare(node) is node]
    users: dict[int, set] = {}
    for node in nodes:
        for place, arg in enumerate(node.args):
            users.setdefault(keys[id(arg)], set()).add((keys[id(node)], place))
    for place, output in enumerate(kernel.outputs):
        users.setdefault(keys[id(output.node)], set()).add(("output", place))
    fused = {}
    for node in nodes:
        if node.op not in ("+", "-") or not node.taken.is_float:
            continue
        for place, arg in enumerate(map(bare, node.args)):
            is_product = arg.op == "*" and arg.dtype.carrier == node.taken.carrier
            if is_product and len(users[keys[id(arg)]]) == 1:
                fused[id(node)] = place
                break
    return fused


SMOOTH = ("recip", "tanh", "erf", "atan", "asinh")
SMOOTH_IF_POSITIVE = ("sqrt", "rsqrt")
SMOOTH_IF_SMALL = ("exp", "exp2", "expm1", "sinh", "cosh", "sin")
SMOOTH_ABOVE = ("sigmoid", "silu", "gelu", "gelu_tanh", "softplus", "mish")
SMALL = 2.25
"""Functions that change relatively little more than their operand: all, those without a cancellation in the operand, those whose
operand is known to be within ±SMALL, and those whose operand is known to be at least -SMALL; see docs/mathematics.md."""


def is_smooth(op: str, operand: Range, cancels: bool) -> bool:
    """Whether the relative error of the result is no larger than that of the operand."""
    return op in SMOOTH or (not cancels and (op in SMOOTH_IF_POSITIVE or (op == "log1p" and operand.low >= 0)))


def is_nearly_smooth(op: str, operand: Range) -> bool:
    """Whether the relative error of the result is at most five times that of the operand."""
    return (op in SMOOTH_IF_SMALL and operand.most <= SMALL) or (op in SMOOTH_ABOVE and operand.low >= -SMALL)


def may_cancel(kernel: Kernel, ranges: dict[int, Range]) -> dict[int, bool]:
    """Whether a value depends on a sum of terms that may have different signs."""
    cancels: dict[int, bool] = {}
    for node in kernel.nodes():
        operands = [ranges[id(arg)] for arg in node.args]
        terms = {
            "+": lambda: [operands[0].low, operands[1].low],
            "-": lambda: [operands[0].low, -operands[1].high],
            "fma": lambda: [product(operands[0], operands[1]).low, operands[2].low],
        }
        itself = node.op in terms and min(terms[node.op]()) < 0
        cancels[id(node)] = itself or any(cancels[id(arg)] for arg in node.args)
    return cancels


def needs_of(kernel: Kernel) -> dict[int, Need | None]:
    """The precision to which each value is needed, see docs/mathematics.md; `None` is the full precision of its carrier."""
    needs: dict[int, Need | None] = {}
    ranges = ranges_of(kernel)
    cancels = may_cancel(kernel, ranges)

    def pass_on(node: Node, need: Need | None) -> None:
        before = needs.get(id(node), need)
        needs[id(node)] = before and before.and_also(need)

    for output in kernel.outputs:
        pass_on(output.node, SHORT.get(output.dtype.name))
    for node in reversed(kernel.nodes()):
        need = needs.get(id(node))
        for place, arg in enumerate(node.args):
            if node.op == "cast" and not (node.dtype is F32 and arg.dtype.carrier == np.float32):
                pass_on(arg, SHORT.get(node.dtype.name))
            elif arg.dtype.carrier != node.taken.carrier or (node.op == "select" and place == 0):
                pass_on(arg, None)
            elif node.op in PASSES_NEED or node.op == "cast":
                pass_on(arg, need)
            elif node.op in ("*", "/") or is_smooth(node.op, ranges[id(arg)], cancels[id(arg)]):
                pass_on(arg, need and need.scaled)
            elif node.op in ("+", "-", "fma") or is_nearly_smooth(node.op, ranges[id(arg)]):
                pass_on(arg, need and TERM)
            else:
                pass_on(arg, None)
    return needs


SMALL_TYPES = ("f16", "f8e4m3", "f8e5m2")
VANISHING = 2.0**-100
MOST_PRODUCTS = 4
"""The result of a function may be 0 if it is smaller, in a product that is stored in one of SMALL_TYPES, if at most so many products
follow; see docs/mathematics.md."""


def may_vanish(kernel: Kernel) -> dict[int, bool]:
    """Whether a value may be 0 where it is small. It may if it is only multiplied by values that f16 can hold, or by infinity, and the
    product is stored in one of SMALL_TYPES."""
    ranges = ranges_of(kernel)
    modest: dict[int, bool] = {}
    for node in kernel.nodes():
        typed = node.op in ("input", "scalar", "cast") and node.dtype.name in SMALL_TYPES
        kept = node.op in PASSES_NEED and all(modest[id(arg)] for arg in node.args)
        modest[id(node)] = typed or kept or ranges[id(node)].most <= 65536
    vanish: dict[int, bool] = {}
    products: dict[int, int] = {}

    def pass_on(node: Node, may: bool) -> None:
        vanish[id(node)] = vanish.get(id(node), True) and may

    for output in kernel.outputs:
        pass_on(output.node, output.dtype.name in SMALL_TYPES)
    for node in reversed(kernel.nodes()):
        may = vanish.get(id(node), False)
        following = products.get(id(node), 0) + (node.op == "*")
        for place, arg in enumerate(node.args):
            products[id(arg)] = max(products.get(id(arg), 0), following)
            if node.op == "cast":
                pass_on(arg, may if node.dtype is F32 else node.dtype.name in SMALL_TYPES)
            elif node.op == "*":
                pass_on(arg, may and following <= MOST_PRODUCTS and modest[id(node.args[1 - place])])
            else:
                pass_on(arg, may and node.op in PASSES_NEED)
    return vanish


class Oracle:
    """Evaluates expressions for one device."""

    def __init__(self, gpu: bool):
        self.promise = Promise(gpu)
        self.gpu = gpu

    def run(self, kernel: Kernel, inputs: list[np.ndarray], scalars: list, shape: tuple[int, ...]) -> list[Bounds]:
        """Bounds of every output in its type, in row-major order. `inputs` are in the carriers, with one element for each of the
        shape."""
        values = self.values(kernel, inputs, scalars, shape)
        return [stored(values[id(output.node)], output) for output in kernel.outputs]

    def values(self, kernel: Kernel, inputs, scalars, shape) -> dict[int, Bounds]:
        """Bounds of every node."""
        needs = needs_of(kernel) if self.gpu else {}
        fused = fused_products(kernel) if self.gpu else {}
        vanish = may_vanish(kernel) if self.gpu else {}
        elements = int(np.prod(shape, dtype=np.int64))
        values: dict[int, Bounds] = {}
        for node in kernel.nodes():
            if id(node) in fused:
                values[id(node)] = _fused(node, fused[id(node)], values)
            elif node.args:
                result = self._apply(node, [values[id(arg)] for arg in node.args], needs.get(id(node)))
                values[id(node)] = _without_vanished(node, result, values, vanish)
            elif node.op == "input":
                values[id(node)] = exactly(inputs[node.value])
            elif node.op == "scalar":
                values[id(node)] = exactly(np.full(elements, scalars[node.value]))
            elif node.op == "index":
                values[id(node)] = exactly(_index(node.value, shape, elements))
            else:
                values[id(node)] = exactly(np.empty(elements, np.int8))
        return values

    def _apply(self, node: Node, operands: list[Bounds], need: Need | None) -> Bounds:
        if node.op == "cast":
            return cast_bounds(node.dtype, operands[0])
        if node.op == "select":
            return _choose(operands[0], *(converted(x, arg, node) for x, arg in list(zip(operands, node.args, strict=True))[1:]))
        operands = [converted(x, arg, node) for x, arg in zip(operands, node.args, strict=True)]
        if node.op in COMPARE:
            return _compare(node.op, *operands)
        if not node.taken.is_float:
            sure = np.logical_and.reduce([x.sure for x in operands])
            return exactly(INTEGER[node.op](*(x.low for x in operands)).astype(node.dtype.carrier), sure)
        return self._float(node.op, operands, need)

    def _float(self, op: str, operands: list[Bounds], need: Need | None) -> Bounds:
        x = operands[0]
        need = need if x.low.dtype == np.float32 else None
        if op in MONOTONE:
            return x.map(MONOTONE[op])
        if op == "neg":
            return between(*(-end for end in x.ends), sure=x.sure)
        if op == "abs":
            result = between(*(np.abs(end) for end in x.ends), sure=x.sure)
            if x.exact:
                return result
            return Bounds(np.where(crosses_zero(x), np.zeros((), x.low.dtype), result.low), result.high, result.sure)
        if op == "fma":
            return _guarded(exact.fma, operands, products=True)
        if op in ("*", "%"):
            return _guarded(operator.mul, operands, products=True) if op == "*" else _remainder(*operands)
        if op == "/":
            return self._quotient(operands, need)
        if op in BINARY:
            return _guarded(BINARY[op], operands, quotient=op == "//")
        if op in ("pow", "atan2"):
            return self._of_two(op, *operands, need)
        return self._function(op, x, need)

    def _function(self, name: str, x: Bounds, need: Need | None) -> Bounds:
        if is_exact(name, need) and name in ("sqrt", "recip"):
            if name == "sqrt":
                return x.map(np.sqrt)
            return _guarded(operator.truediv, [exactly(np.ones_like(x.low)), x], quotient=True)
        low, high, zero, sure = true_range(name, x)
        largest = np.maximum(np.abs(x.low), np.abs(x.high))
        blur = blur_of(name, largest, low)
        return self.promise.results(name, low, high, x.low.dtype, need=need, zero=zero, sure=sure, blur=blur)

    def _quotient(self, operands: list[Bounds], need: Need | None) -> Bounds:
        if not self.gpu or is_exact("/", need):
            return _guarded(operator.truediv, operands, quotient=True)
        wide = [Bounds(x.low.astype(np.longdouble), x.high.astype(np.longdouble), x.sure) for x in operands]
        quotient = _guarded(operator.truediv, operands, quotient=True)
        low, high = _extremes([a / b for a in (wide[0].low, wide[0].high) for b in (wide[1].low, wide[1].high)])
        zero = (operands[0].low == 0) & (operands[0].high == 0)
        return self.promise.results("/", low, high, np.dtype(np.float32), need=need, zero=zero, sure=quotient.sure)

    def _of_two(self, name: str, a: Bounds, b: Bounds, need: Need | None) -> Bounds:
        true = true_pow if name == "pow" else true_atan2
        sure = a.sure & b.sure
        ends = [true(x, y) for x in a.ends for y in b.ends]
        nan = [np.isnan(end) for end in ends]
        sure = sure & ~(np.logical_or.reduce(nan) & ~np.logical_and.reduce(nan))
        if not (a.exact and b.exact):
            points = (order(a.low) == order(a.high)) & (order(b.low) == order(b.high))
            of_pow = (a.low > 0) | ((a.high < 0) & (b.low == b.high))
            monotone = of_pow if name == "pow" else ~crosses_zero(a) | (b.low > 0)
            sure = sure & (points | monotone)
        if name == "pow":
            # 1 to any power, and anything to the power of 0, is 1 even with NaN.
            ones = np.isnan(b.low) & (a.low < 1) & (a.high > 1)
            sure = sure & ~ones & ~(np.isnan(a.low) & (b.low < 0) & (b.high > 0))
        low, high = _extremes(ends)
        zero = (low == 0) & (high == 0) & (a.low == a.high)
        zero = zero & ((a.low == 0) | np.isinf(a.low) | np.isinf(b.low))
        return self.promise.results(name, low, high, a.low.dtype, need=need, zero=zero, sure=sure)


def _without_vanished(node: Node, result: Bounds, values: dict[int, Bounds], vanish: dict[int, bool]) -> Bounds:
    """Not sure of products of a small result, which may be 0, and an infinity."""
    if node.op != "*" or not node.taken.is_float:
        return result
    for small, other in ((0, 1), (1, 0)):
        factor, partner = (values[id(node.args[place])] for place in (small, other))
        if vanish.get(id(node.args[small])) and not factor.exact:
            least = np.minimum(np.abs(factor.low), np.abs(factor.high))
            result = Bounds(result.low, result.high, result.sure & ~((least < VANISHING) & may_be_infinite(partner)))
    return result


def _fused(node: Node, place: int, values: dict[int, Bounds]) -> Bounds:
    """A sum or difference with a product as operand `place`, rounded once."""
    product, other = bare(node.args[place]), node.args[1 - place]
    factors = [converted(values[id(arg)], arg, product) for arg in product.args]
    term = converted(values[id(other)], other, node)
    if node.op == "-" and place == 0:
        term = between(*(-end for end in term.ends), sure=term.sure)
    if node.op == "-" and place == 1:
        factors[0] = between(*(-end for end in factors[0].ends), sure=factors[0].sure)
    return _guarded(exact.fma, [*factors, term], products=True)


def _extremes(ends: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest value, -0 before +0; NaN if one of the values is."""
    low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
    negative = np.logical_or.reduce([(end == 0) & np.signbit(end) for end in ends])
    positive = np.logical_or.reduce([(end == 0) & ~np.signbit(end) for end in ends])
    low = np.where((low == 0) & negative, -np.zeros((), low.dtype), low)
    return low, np.where((high == 0) & positive, np.zeros((), low.dtype), high)


def _guarded(function, operands: list[Bounds], *, products: bool = False, quotient: bool = False) -> Bounds:
    """Bounds of a function that is monotone in each operand, except for NaN inside the intervals: 0*inf, and quotients whose
    divisor may have either sign."""
    result = corners(function, *operands)
    if all(x.exact for x in operands):
        return result
    sure = result.sure
    if products:
        a, b = operands[:2]
        sure = sure & ~(crosses_zero(a) & may_be_infinite(b)) & ~(crosses_zero(b) & may_be_infinite(a))
    if quotient:
        a, b = operands
        sure = sure & ~crosses_zero(b) & ~(crosses_zero(a) & (b.low == 0)) & ~(may_be_infinite(a) & may_be_infinite(b))
    return Bounds(result.low, result.high, sure)


def _remainder(a: Bounds, b: Bounds) -> Bounds:
    """Known if all quotients of an interval have the same floor."""
    sure = a.sure & b.sure
    if not (a.exact and b.exact):
        floors = corners(exact.floor_divide, a, b)
        sure = sure & floors.sure & (floors.low == floors.high) & ~crosses_zero(b) & (np.abs(floors.low) < 2.0**20)
    result = corners(exact.remainder, a, b)
    result.sure = result.sure & sure
    return result


def _compare(op: str, a: Bounds, b: Bounds) -> Bounds:
    results = [COMPARE[op](x, y) for x in a.ends for y in b.ends]
    sure = a.sure & b.sure
    if len(results) > 1:
        same = np.logical_and.reduce(results) == np.logical_or.reduce(results)
        apart = (a.high < b.low) | (b.high < a.low) | np.isnan(a.low) | np.isnan(b.low)
        points = (a.low == a.high) & (b.low == b.high)
        sure = sure & (same & (apart | points) if op in ("==", "!=") else same)
    return exactly(results[0], sure)


def _choose(condition: Bounds, a: Bounds, b: Bounds) -> Bounds:
    low = np.where(condition.low, a.low, b.low)
    sure = np.where(condition.low, a.sure, b.sure)
    if low.dtype.kind != "f":
        return exactly(low, sure & (condition.sure | ((a.low == b.low) & a.sure & b.sure)))
    if condition.sure.all() and a.exact and b.exact:
        return exactly(low, sure)
    both = hull(a, b)
    high = np.where(condition.low, a.high, b.high)
    known = condition.sure
    return Bounds(np.where(known, low, both.low), np.where(known, high, both.high), np.where(known, sure, both.sure))


def cast_bounds(dtype: DType, x: Bounds) -> Bounds:
    if dtype.is_float:
        if x.low.dtype.kind != "f":
            return exactly(round_to(dtype, x.low), x.sure)
        result = x.map(lambda end: round_to(dtype, end))
        if dtype.name == "f8e4m3" and not x.exact:
            # Both ends overflow to NaN, but numbers between them may not.
            result.sure = result.sure & ~(np.isnan(result.low) & (x.low < 0) & (x.high > 0))
        return result
    results = [cast(dtype, end) for end in x.ends]
    sure = x.sure
    if not x.exact:
        sure = sure & (results[0] == results[1])
        if dtype is BOOL:
            sure = sure & ((x.low > 0) | (x.high < 0) | ((x.low == 0) & (x.high == 0)) | np.isnan(x.low))
    return exactly(results[0], sure)


def converted(x: Bounds, arg: Node, node: Node) -> Bounds:
    """An operand converted to the type that an operation takes; weak operands aren't rounded to 16 bits first."""
    dtype = node.taken
    carrier = TYPES[{4: "f32", 8: "f64"}[dtype.carrier.itemsize]] if dtype.is_float else dtype
    if arg.op == "literal":
        return exactly(np.full(x.low.shape, cast(carrier, np.asarray(_number(arg)))), x.sure)
    if arg.op == "constant":
        x = exactly(np.full(x.low.shape, cast(arg.dtype, np.asarray(_number(arg)))), x.sure)
    if arg.dtype.carrier == dtype.carrier:
        return x
    return cast_bounds(carrier if arg.strength < node.strength else dtype, x)


def _number(arg: Node):
    return np.longdouble(arg.value) if isinstance(arg.value, float) else np.array(arg.value)


def _index(dimension: int | None, shape: tuple[int, ...], elements: int) -> np.ndarray:
    if dimension is None:
        return np.arange(elements, dtype=np.int64)
    return np.indices(shape, dtype=np.int64)[dimension].ravel()


def stored(value: Bounds, output: ex.Output) -> Bounds:
    """A value converted to the type of its output."""
    if output.node.dtype is output.dtype and not output.dtype.is_float:
        return value
    return cast_bounds(output.dtype, value)
