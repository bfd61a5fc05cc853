"""Kernels as text: with as few parentheses as the grammar needs, names for nodes that are used more than once, and in an order that
respects inputs overwritten in place."""

from __future__ import annotations

import math
from random import Random

from expression import ARITHMETIC, COMPARISONS, LOGIC, SELECTIONS, SHIFTS, Kernel, Node

LEVELS = {"||": 1, "&&": 2, "|": 4, "^": 5, "&": 6, "+": 8, "-": 8}
LEVELS |= dict.fromkeys(COMPARISONS, 3) | dict.fromkeys(SHIFTS, 7) | dict.fromkeys(("*", "/", "//", "%"), 9)
SIGN, ATOM = 10, 11
assert set(ARITHMETIC) <= set(LEVELS) and set(LOGIC) <= set(LEVELS) and not set(SELECTIONS) & set(LEVELS)


def number(value) -> str:
    """A number as text that parses back to the same number."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    text = repr(value)
    return text if any(c in text for c in ".e") else text + ".0"


class Printer:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, random: Random, states: list[tuple[list[str], list[Node], int, list[Node], list[Node]]]):
        self.kernel = kernel
        self.random = random
        self.names = [f"x{place}" for place in range(len(kernel.inputs))]
        self.known: dict[int, str] = {}
        self.lines: list[str] = []
        self.fresh = 0
        self.states = states
        self.uses: dict[int, int] = {}
        for node in kernel.nodes():
            for arg in node.args:
                self.uses[id(arg)] = self.uses.get(id(arg), 0) + 1
        self.overwritten = {output.in_place for output in kernel.outputs} - {None}

    def text(self) -> str:
        declared = [f"in {self.names[place]}: {dtype}" for place, dtype in enumerate(self.kernel.inputs)]
        declared += [f"scalar s{place}: {dtype}" for place, dtype in enumerate(self.kernel.scalars)]
        self.lines = declared
        for place in sorted(self.overwritten):
            # An overwritten input may be read again later.
            self.lines.append(f"let old{place} = {self.names[place]}")
        for state in self.states:
            self._iterate(*state)
        if self._is_bare():
            self.lines.append(self.write(self.kernel.outputs[0].node)[0])
        for output in [] if self._is_bare() else self.kernel.outputs:
            text, _ = self.write(output.node)
            own = output.in_place is None and output.dtype is output.node.dtype and self.random.random() < 0.7
            place = "" if own or output.in_place is not None else f": {output.dtype}"
            self.lines.append(f"{output.name}{place} = {text}")
            if self.random.random() < 0.5:
                self.known[id(output.node)] = output.name
        return ("\n" if self.random.random() < 0.7 else "; ").join(self.lines)

    def _is_bare(self) -> bool:
        outputs = self.kernel.outputs
        return len(outputs) == 1 and outputs[0].name == "out" and outputs[0].dtype is outputs[0].node.dtype

    def _iterate(self, names: list[str], starts: list[Node], steps: int, bodies: list[Node], ends: list[Node]) -> None:
        for name, start in zip(names, starts, strict=True):
            self.lines.append(f"let {name} = {self.write(start)[0]}")
        for name, start in zip(names, starts, strict=True):
            self.known.setdefault(id(start), name)
        known = dict(self.known)
        body = [self.inline(node) for node in bodies]
        self.known = {place: name for place, name in known.items() if name not in names}
        self.lines.append(f"iterate {steps}: {', '.join(names)} = {', '.join(body)}")
        for name, end in zip(names, ends, strict=True):
            self.known[id(end)] = name

    def inline(self, node: Node) -> str:
        """The text without new names, because it is written once for several steps."""
        uses, self.uses = self.uses, {}
        text, _ = self.write(node)
        self.uses = uses
        return text

    def write(self, node: Node) -> tuple[str, int]:
        """The text of a node and its precedence."""
        if id(node) in self.known:
            return self.known[id(node)], ATOM
        if not node.args:
            return self.leaf(node)
        text, level = self.operation(node)
        uses = self.uses.get(id(node), 0)
        if (uses > 1 and self.random.random() < 0.9) or (uses == 1 and self.random.random() < 0.08):
            self.fresh += 1
            self.known[id(node)] = f"t{self.fresh}"
            self.lines.append(f"let t{self.fresh} = {text}")
            return self.known[id(node)], ATOM
        return text, level

    def leaf(self, node: Node) -> tuple[str, int]:
        if node.op == "input":
            return (f"old{node.value}" if node.value in self.overwritten else self.names[node.value]), ATOM
        if node.op == "scalar":
            return f"s{node.value}", ATOM
        if node.op == "index":
            return f"index({'' if node.value is None else node.value})", ATOM
        text = number(node.value)
        if node.op == "constant":
            text += node.dtype.name
        return text, SIGN if text.startswith("-") else ATOM

    def operation(self, node: Node) -> tuple[str, int]:
        if node.op in LEVELS:
            level = LEVELS[node.op]
            chains = node.op not in COMPARISONS
            left = self.bracketed(node.args[0], level if chains else level + 1)
            right = self.bracketed(node.args[1], level + 1)
            return f"{left} {node.op} {right}", level
        if node.op in ("neg", "not"):
            sign = "-" if node.op == "neg" else self.random.choice("!~")
            return sign + self.bracketed(node.args[0], SIGN), SIGN
        name = node.dtype.name if node.op == "cast" else node.op
        if name == "select" and self.random.random() < 0.3:
            name = "where"
        return f"{name}({', '.join(self.write(arg)[0] for arg in node.args)})", ATOM

    def bracketed(self, node: Node, least: int) -> str:
        text, level = self.write(node)
        return f"({text})" if level < least or self.random.random() < 0.05 else text
