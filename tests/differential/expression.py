"""Expressions as graphs of typed nodes, by the rules of docs/expressions.md: the operations and the types of their results."""

from __future__ import annotations

from dataclasses import dataclass, field

from dtypes import BOOL, F32, F64, I64, TYPES, DType, common, integer_range
from functions import FUNCTIONS as TRUE_FUNCTIONS

LITERAL, SCALAR, TENSOR = range(3)
"""How strongly an operand determines the type of a result: literals and scalars are weaker than tensors."""

FUNCTIONS = list(TRUE_FUNCTIONS)
NUMERIC_UNARY = ["neg", "abs", "sign", "relu"]
ROUNDINGS = ["floor", "ceil", "round", "trunc"]
ARITHMETIC = ["+", "-", "*", "//", "%"]
SELECTIONS = ["min", "max", "fmin", "fmax"]
COMPARISONS = ["<", "<=", ">", ">=", "==", "!="]
BITS = ["&", "|", "^"]
SHIFTS = ["<<", ">>"]
LOGIC = ["&&", "||"]


class Untyped(Exception):
    """An operation that isn't defined for the types of its operands."""


@dataclass(eq=False)
class Node:
    """An operation with its operands; for leaves, `value` identifies them."""

    op: str
    args: tuple[Node, ...] = ()
    dtype: DType = F32
    strength: int = TENSOR
    value: object = None
    taken: DType = field(default=F32)
    """The type to which operands are converted."""

    def below(self) -> list[Node]:
        """All nodes that it depends on, operands first, and itself."""
        seen, ordered, stack = set(), [], [(self, False)]
        while stack:
            node, done = stack.pop()
            if done:
                ordered.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack.extend((arg, False) for arg in reversed(node.args))
        return ordered


def input_of(place: int, dtype: DType) -> Node:
    return Node("input", dtype=dtype, value=place)


def scalar_of(place: int, dtype: DType) -> Node:
    return Node("scalar", dtype=dtype, strength=SCALAR, value=place)


def literal(value) -> Node:
    dtype = BOOL if isinstance(value, bool) else I64 if isinstance(value, int) else F64
    return Node("literal", dtype=dtype, strength=LITERAL, value=value)


def constant(value, dtype: DType) -> Node:
    return Node("constant", dtype=dtype, strength=SCALAR, value=value)


def index(dimension: int | None = None) -> Node:
    return Node("index", dtype=I64, value=dimension)


def common_of(*operands: tuple[DType, int]) -> tuple[DType, int]:
    """The common type and strength of operands, taken from left to right."""
    dtype, strength = operands[0]
    for other, other_strength in operands[1:]:
        if strength == other_strength:
            dtype = common(dtype, other)
            continue
        (strong, weak) = (dtype, other) if strength > other_strength else (other, dtype)
        weakness = min(strength, other_strength)
        if weak.rank <= strong.rank:
            dtype = strong
        elif weakness == LITERAL:
            dtype = F32 if weak.is_float else I64
        else:
            dtype = weak
        strength = max(strength, other_strength)
    return dtype, strength


def _types(nodes) -> list[tuple[DType, int]]:
    return [(node.dtype, node.strength) for node in nodes]


def _require(condition: bool) -> None:
    if not condition:
        raise Untyped


def operation(op: str, *args: Node) -> Node:
    """A node of this operation on these operands."""
    if op == "clamp":
        return operation("min", operation("max", args[0], args[1]), args[2])
    # An operation on constants only would be folded, by different rules.
    _require(any(arg.op not in ("literal", "constant") for arg in args))
    if op == "select":
        return _select(*args)
    dtype, strength = common_of(*_types(args))
    taken = dtype
    if op in LOGIC or op in BITS or op == "not":
        _require(dtype is BOOL if op in LOGIC else not dtype.is_float)
    elif op in SHIFTS:
        _require(dtype.is_int)
    elif op in COMPARISONS:
        dtype = BOOL
    elif op in FUNCTIONS or op in ("/", "atan2"):
        dtype = taken = dtype if dtype.is_float else F32
    else:
        _require(dtype is not BOOL)
    for arg in args:
        _fits(arg, taken)
    if op in ROUNDINGS and dtype.is_int:
        return args[0]
    return Node(op, args, dtype, strength, taken=taken)


def _select(condition: Node, a: Node, b: Node) -> Node:
    _require(condition.dtype is BOOL and condition.strength >= SCALAR)
    dtype, strength = common_of(*_types((a, b)))
    # A choice among weak values is left out: the page doesn't say how weak it is.
    _require(strength == TENSOR)
    for arg in (a, b):
        _fits(arg, dtype)
    return Node("select", (condition, a, b), dtype, strength, taken=dtype)


def _fits(arg: Node, dtype: DType) -> None:
    """Rejects an integer literal that doesn't fit the type."""
    if arg.op == "literal" and dtype.is_int:
        least, most = integer_range(dtype)
        _require(not arg.dtype.is_float and least <= int(arg.value) <= most)


def cast_to(dtype: DType, arg: Node) -> Node:
    _require(arg.op not in ("literal", "constant"))
    return Node("cast", (arg,), dtype, arg.strength, taken=dtype)


@dataclass
class Output:
    """A stored value; `in_place` is the index of the input that it overwrites."""

    name: str
    node: Node
    dtype: DType
    in_place: int | None = None


@dataclass
class Kernel:
    """An expression with its text."""

    inputs: list[DType]
    scalars: list[DType]
    outputs: list[Output]
    text: str = ""

    @property
    def least_rank(self) -> int:
        return max((node.value + 1 for node in self.nodes() if node.op == "index" and node.value is not None), default=0)

    def nodes(self) -> list[Node]:
        """All nodes, operands first."""
        top = Node("outputs", tuple(output.node for output in self.outputs))
        return top.below()[:-1]


ALL_TYPES = list(TYPES.values())
