"""An oracle that shares nothing with plimsoll: random expressions as trees, their text, and their values by NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

Array = np.ndarray

#: Functions of one argument, defined everywhere or guarded below, with NumPy's own.
UNARY: dict[str, Callable[[Array], Array]] = {
    "-": np.negative,
    "abs": np.abs,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "exp": lambda x: np.exp(-np.abs(x)),
    "floor": np.floor,
}
#: How a guarded function is written.
WRITTEN = {"-": "-({})", "sqrt": "sqrt(abs({}))", "exp": "exp(-abs({}))"}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


@dataclass(frozen=True)
class Node:
    """An expression: a name, a number, or a function of others."""

    kind: str
    children: tuple["Node", ...] = ()

    def text(self) -> str:
        """As plimsoll reads it."""
        inner = [child.text() for child in self.children]
        if not inner:
            return self.kind
        if len(inner) == 1:
            return WRITTEN.get(self.kind, self.kind + "({})").format(*inner)
        if self.kind in ("min", "max"):
            return f"{self.kind}({inner[0]}, {inner[1]})"
        return f"({inner[0]} {self.kind} {inner[1]})"

    def value(self, names: dict[str, Array]) -> Array:
        """Its value in float64."""
        if not self.children:
            return names[self.kind] if self.kind in names else np.float64(self.kind)
        inner = [child.value(names) for child in self.children]
        return (UNARY if len(inner) == 1 else BINARY)[self.kind](*inner)

    def has_step(self) -> bool:
        """Whether a small error of an operand may become a large one."""
        return self.kind == "floor" or any(child.has_step() for child in self.children)


def expressions(names: list[str]) -> st.SearchStrategy[Node]:
    """Random expressions of these names."""
    leaves = st.sampled_from([*names, "0.5", "2.0", "3.0"]).map(Node)

    def grow(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        unary = st.builds(lambda kind, a: Node(kind, (a,)), st.sampled_from(sorted(UNARY)), inner)
        binary = st.builds(lambda kind, a, b: Node(kind, (a, b)), st.sampled_from(sorted(BINARY)), inner, inner)
        return unary | binary

    return st.recursive(leaves, grow, max_leaves=8)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype) -> Array:
    """An array that is broadcast to this shape: with gaps, reversed, transposed, or of fewer dimensions."""
    extents = [extent if draw(st.integers(0, 4)) else 1 for extent in shape]
    if draw(st.booleans()):
        while extents and extents[0] == 1:
            extents.pop(0)
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1, -3])) for _ in extents]
    order = draw(st.permutations(range(len(extents))))
    memory_shape = [extents[place] * abs(steps[place]) for place in order]
    seed = draw(st.integers(0, 2**32 - 1))
    values = np.random.default_rng(seed).integers(-12, 13, memory_shape) / 4
    memory = np.array(values, dtype=dtype).transpose(np.argsort(order).astype(int))
    return memory[(*(slice(None, None, step) for step in steps), ...)]
