"""Random kernels over the whole grammar."""

from __future__ import annotations

from random import Random

import expression as ex
from dtypes import BOOL, I64, TYPES, DType, integer_range
from expression import Kernel, Node, Output, Untyped, cast_to, constant, index, input_of, literal, operation, scalar_of
from printing import Printer

MOST_OPERATIONS = 14
WEIGHTS = {
    "function": 22,
    "arithmetic": 24,
    "quotient": 10,
    "selection": 8,
    "numeric": 8,
    "rounding": 6,
    "cast": 10,
    "compare": 8,
    "select": 7,
    "bits": 5,
    "shift": 4,
    "power": 5,
    "fma": 5,
    "clamp": 3,
    "logic": 3,
    "wrap": 9,
}
"""How often each sort of operation is tried."""
FAVOURED = {
    ("int", "bits"): 3,
    ("int", "shift"): 3,
    ("int", "numeric"): 3,
    ("int", "cast"): 2,
    ("int", "wrap"): 3,
    ("bool", "logic"): 8,
    ("bool", "bits"): 3,
}
"""Sorts that are tried more often on operands of a kind, because few other sorts suit them."""
FAMILIES = [
    ["f32", "f64"],
    ["f16", "bf16", "f32"],
    ["f32"],
    ["f64"],
    ["bf16"],
    ["f16"],
    ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"],
    ["i32", "f32"],
    ["f8e4m3", "f8e5m2", "f16", "f32"],
    list(TYPES),
    list(TYPES),
]
"""Types that occur together. Most families are small, because real programs rarely mix many types."""


class Generator:
    """Generates one kernel from one seed."""

    def __init__(self, seed: str):
        self.random = Random(seed)
        self.family = [TYPES[name] for name in self.random.choice(FAMILIES)]
        self.inputs: list[DType] = []
        self.scalars: list[DType] = []
        self.pool: list[Node] = []
        self.states: list = []

    def kernel(self) -> Kernel:
        random = self.random
        self.inputs = [random.choice(self.family) for _ in range(random.choice([1, 1, 2, 2, 2, 3, 3, 4]))]
        self.pool = [input_of(place, dtype) for place, dtype in enumerate(self.inputs)]
        if random.random() < 0.35:
            self.scalars = [random.choice([*self.family, TYPES["f32"]]) for _ in range(random.choice([1, 1, 2]))]
            self.pool += [scalar_of(place, dtype) for place, dtype in enumerate(self.scalars)]
        if random.random() < 0.12:
            self.pool.append(index(random.choice([None, None, 0, 1, 2])))
        if random.random() < 0.06:
            self.iterate()
        for _ in range(random.randint(1, random.choice([2, 4, 8, MOST_OPERATIONS]))):
            self.grow()
        kernel = Kernel(self.inputs, self.scalars, self.outputs())
        kernel.text = Printer(kernel, random, self.states).text()
        return kernel

    def grow(self) -> None:
        """Adds an operation, preferably on the latest nodes."""
        for _ in range(20):
            try:
                self.pool.append(self.attempt())
                return
            except Untyped:
                continue

    def pick(self) -> Node:
        random = self.random
        return self.pool[-1] if random.random() < 0.55 else random.choice(self.pool)

    def second_operand(self, other: Node) -> Node:
        """A second operand: often a number."""
        return self.number_for(other) if self.random.random() < 0.25 else self.pick()

    def number_for(self, other: Node) -> Node:
        random, dtype = self.random, other.dtype
        if dtype is BOOL:
            return literal(random.random() < 0.5)
        if random.random() < 0.15:
            return self.typed(random.choice(self.family))
        if dtype.is_int and random.random() < 0.85:
            least, most = integer_range(dtype)
            return literal(random.choice([random.randint(0, 9), 2, 3, random.randint(least, most), most, least]))
        return literal(random.choice([0.5, 2.0, 0.1, 1e-3, 3.0, -1.5, 7.0, 0.0, 1e4, random.uniform(-10, 10)]))

    def typed(self, dtype: DType) -> Node:
        if dtype is BOOL:
            return literal(True)
        if dtype.is_int:
            least, most = integer_range(dtype)
            return constant(self.random.choice([1, 3, self.random.randint(max(least, -(2**62)), most)]), dtype)
        return constant(self.random.choice([0.5, 0.1, 3.0, 1.25, 100.0]), dtype)

    def attempt(self) -> Node:
        random, a = self.random, self.pick()
        weights = [weight * FAVOURED.get((a.dtype.kind, sort), 1) for sort, weight in WEIGHTS.items()]
        sort = random.choices(list(WEIGHTS), weights)[0]
        if sort == "function":
            return operation(random.choice(ex.FUNCTIONS), a)
        if sort == "numeric":
            return operation(random.choice([*ex.NUMERIC_UNARY, "abs", "not"]), a)
        if sort == "rounding":
            return operation(random.choice(ex.ROUNDINGS), a)
        if sort == "cast":
            return cast_to(random.choice([*self.family, random.choice(ex.ALL_TYPES)]), a)
        if sort == "wrap":
            return self.wrap(a)
        if sort == "select":
            conditions = [node for node in self.pool if node.dtype is BOOL and node.strength >= ex.SCALAR]
            condition = random.choice(conditions) if conditions else self.compare(a)
            return operation("select", condition, self.pick(), self.second_operand(a))
        if sort == "compare":
            return self.compare(a)
        if sort in ("fma", "clamp"):
            return operation(sort, a, self.second_operand(a), self.second_operand(a))
        groups = {
            "arithmetic": ["+", "-", "*", "*", "+"],
            "quotient": ["/", "//", "//", "%"],
            "selection": ex.SELECTIONS,
            "bits": ex.BITS,
            "shift": ex.SHIFTS,
            "power": ["pow", "atan2"],
            "logic": ex.LOGIC,
        }
        if sort == "quotient" and random.random() < 0.5:
            # Of inputs, whose magnitudes vary.
            a = random.choice(self.pool[: len(self.inputs)])
        pair = [a, self.second_operand(a)]
        random.shuffle(pair)
        return operation(random.choice(groups[sort]), *pair)

    def wrap(self, a: Node) -> Node:
        """An operation that may wrap in a signed type, widened or converted to float: a compiler that forgets the least integer
        gets this wrong."""
        random = self.random
        if not a.dtype.is_signed or a.dtype is I64:
            # Of inputs, because few other nodes take all values.
            dtype = TYPES[random.choice(["i8", "i16", "i16", "i32"])]
            a = cast_to(dtype, random.choice(self.pool[: len(self.inputs)]))
        op = random.choice(["abs", "abs", "abs", "neg", "-", "+", "*", "<<"])
        wrapped = operation(op, a) if op in ex.NUMERIC_UNARY else operation(op, *random.sample([a, self.number_for(a)], 2))
        wider = [dtype for dtype in TYPES.values() if dtype.is_float or dtype.bytes > wrapped.dtype.bytes]
        return cast_to(random.choice(wider), wrapped)

    def compare(self, a: Node) -> Node:
        return operation(self.random.choice(ex.COMPARISONS), a, self.second_operand(a))

    def iterate(self) -> None:
        """Updates values named by `let` a few times, each from those of the previous iteration."""
        random = self.random
        # Only leaves so far. A value that a step reads unchanged must not be one that it starts from, which has another name.
        starts = random.sample(self.pool, min(len(self.pool), random.choice([1, 2])))
        others = [node for node in self.pool if node not in starts] or [None]
        names, steps = ["a", "b"][: len(starts)], random.randint(1, 4)
        shapes = [(random.choice(["+", "-", "*", "max", "fma", "sin"]), random.randrange(len(starts)),
                   random.choice(others), random.choice([0.5, 2, None])) for _ in starts]  # fmt: skip
        values, first = starts, None
        try:
            for _ in range(steps):
                values = [self.step(shape, values, own) for shape, own in zip(shapes, values, strict=True)]
                first = first or values
        except Untyped:
            return
        self.states.append((names, starts, steps, first, values))
        self.pool += values

    def step(self, shape, values: list[Node], own: Node) -> Node:
        op, other, fixed, factor = shape
        if op == "sin":
            return operation(op, values[other])
        if op == "fma" and fixed:
            return operation(op, own, values[other], fixed)
        op = "+" if op == "fma" else op
        second = literal(factor or 2) if factor or fixed is None else fixed
        return operation(op, own, operation("+", values[other], second))

    def outputs(self) -> list[Output]:
        random = self.random
        made = [node for node in self.pool if node.args] or self.pool[:1]
        used = {id(arg) for node in made for arg in node.args}
        # Nodes that nothing else uses, the last first, so that most nodes affect an output.
        unused = [node for node in reversed(made) if id(node) not in used] or made[-1:]
        roots = unused[: random.choice([1, 1, 2, 2, 3, 4])]
        if random.random() < 0.2:
            roots.append(random.choice(made))
        count = len(roots)
        outputs, taken = [], set()
        for place, node in enumerate(roots):
            alike = [k for k, dtype in enumerate(self.inputs) if k not in taken]
            if alike and random.random() < 0.2:
                slot = random.choice(alike)
                taken.add(slot)
                outputs.append(Output(f"x{slot}", node, self.inputs[slot], slot))
                continue
            dtype = node.dtype if random.random() < 0.6 else random.choice([*self.family, random.choice(ex.ALL_TYPES)])
            outputs.append(Output("out" if count == 1 and random.random() < 0.5 else f"d{place}", node, dtype))
        return outputs
