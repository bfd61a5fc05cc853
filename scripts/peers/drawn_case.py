"""Draws the cases of random_cases.py: an expression, its types, its layout and its size. Needs neither PyTorch nor a GPU.

A case is a function of its seed and number only. Shares of the layouts are in LAYOUTS; the bytes that a launch moves are drawn
log-uniformly from SIZES.
"""
import math
import random
import shlex
from dataclasses import dataclass

import recipes
from torch_text import statements

MIB = 1 << 20
SIZES = (MIB, 1024 * MIB)
LAYOUTS = {"flat": 55, "broadcast": 15, "transposed": 12, "channel": 8, "strided": 5, "outer": 5}
TYPES = {"f32": 34, "bf16": 28, "f16": 14, "f64": 9, "mixed": 15}
ITEM = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "f8e4m3": 1, "f8e5m2": 1, "i8": 1, "u8": 1, "bool": 1}
USUAL = [32, 64, 80, 96, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 8192, 11008, 14336, 16384, 50257]
TREES = 0.18
"""Share of random trees; the others are recipes."""


@dataclass
class Input:
    name: str
    dtype: str
    shape: tuple
    strides: tuple = None
    """In elements; None if contiguous."""

    def argument(self):
        extents = "x".join(map(str, self.shape))
        if self.strides is None:
            return f"{self.name}:{self.dtype}:{extents}"
        if len(self.shape) == 2 and self.strides == (1, self.shape[0]):
            return f"{self.name}:{self.dtype}:{self.shape[1]}x{self.shape[0]}:transposed"
        return f"{self.name}:{self.dtype}:{extents}:strides={'x'.join(map(str, self.strides))}"


@dataclass
class Case:
    seed: str
    number: int
    family: str
    layout: str
    types: str
    text: str
    inputs: list
    shape: tuple
    """The shape of the outputs, to which inputs are broadcast."""

    @property
    def key(self):
        return f"{self.seed}/{self.number}"

    @property
    def kind(self):
        """the layout; a transposed input of three dimensions is a permuted one"""
        return "permuted" if self.layout == "transposed" and len(self.shape) > 2 else self.layout

    @property
    def outputs(self):
        """(name, type or None) of each output in order; without a type it has that of its value"""
        return outputs_of(self.text, self.inputs)

    def arguments(self):
        words = [self.text]
        for item in self.inputs:
            words += ["--in", item.argument()]
        return words

    def command(self, program="plimsoll"):
        return shlex.join([program, "bench", *self.arguments(), "--plain", "--dependent"])

    def line(self):
        return f"{self.key} {self.kind} {self.family} {self.types}: {self.command()}"


def outputs_of(text, inputs):
    types = {item.name: item.dtype for item in inputs}
    return [(name, dtype or types.get(name)) for name, dtype, stored, _ in statements(text) if stored]


def weighted(draw, shares):
    return draw.choices(list(shares), list(shares.values()))[0]


def drawn(seed, number, sizes=SIZES):
    """the case of this number, which moves bytes between these sizes"""
    draw = random.Random(f"{seed}/{number}")
    layout, types = weighted(draw, LAYOUTS), weighted(draw, TYPES)
    target = sizes[0] * (sizes[1] / sizes[0]) ** draw.random()
    family, text, roles = expression(draw, layout)
    kinds = {name: kind_of(draw, role, types) for name, role in roles.items()}
    text = typed(draw, text, types)
    small = parameters(draw, layout, text, roles)
    per_element = sum(ITEM[kinds[name]] for name in roles if name not in small)
    widest = max(kinds.values(), key=lambda kind: ITEM[kind])
    inputs = [Input(name, kind, ()) for name, kind in kinds.items()]
    per_element += sum(ITEM[dtype or widest] for _, dtype in outputs_of(text, inputs))
    shape = shape_of(draw, layout, max(1, int(target / per_element)))
    place(draw, layout, text, inputs, shape, small)
    return Case(seed, number, family, layout, types, text, inputs, shape)


def expression(draw, layout):
    """(family, text, roles) that suit a layout"""
    directed = [recipe for recipe in recipes.RECIPES if set(recipe[2].values()) & {"row", "col", "vec"}]
    plain = [recipe for recipe in recipes.RECIPES if recipe not in directed]
    several = layout in ("broadcast", "channel", "outer")
    while True:
        if draw.random() < TREES:
            family, text, roles = recipes.random_tree(draw)
        else:
            wants_directed = layout in ("broadcast", "channel") and draw.random() < 0.7
            # Families are drawn first, so that one with many recipes isn't drawn more often.
            pool = directed if wants_directed else plain
            chosen = draw.choice(sorted({recipe[0] for recipe in pool}))
            family, text, roles = draw.choice([recipe for recipe in pool if recipe[0] == chosen])
        free = [name for name in roles if name not in written(text)]
        if (not several or len(roles) > 1) and free and (layout != "outer" or len(free) == len(roles)):
            return family, recipes.fill(draw, text), dict(roles)


def written(text):
    """names of everything that a text stores or names"""
    return {name for name, *_ in statements(text)}


def kind_of(draw, role, types):
    """the type of an input"""
    if role in ("mask", "i8", "f8"):
        return {"mask": "bool", "i8": "i8", "f8": draw.choice(["f8e4m3", "f8e5m2"])}[role]
    if types == "mixed":
        return "f32" if role == "state" else draw.choice(["f32", "bf16", "bf16", "f16"])
    if role == "state":
        return "f64" if types == "f64" else draw.choice(["f32", types])
    return types


def typed(draw, text, types):
    """sometimes gives the only output a type of its own, as mixed programs do"""
    last = statements(text)[-1]
    if types == "mixed" and last[0] == "out" and draw.random() < 0.6:
        head = text.rpartition(";")[0]
        return (head + "; " if head else "") + f"out: {draw.choice(['bf16', 'f16', 'f32'])} = {last[3]}"
    return text


def parameters(draw, layout, text, roles):
    """{name: role} of the inputs that are smaller than the shape"""
    if layout not in ("broadcast", "channel", "outer"):
        return {}
    found = {name: role for name, role in roles.items() if role in ("row", "col", "vec")}
    free = [name for name, role in roles.items() if name not in written(text)]
    if layout == "outer":
        # Every input is a row or a column, and both occur.
        names = list(roles)
        draw.shuffle(names)
        split = draw.randint(1, len(names) - 1)
        return {name: "col" if place < split else "row" for place, name in enumerate(names)}
    if not found:
        found = {draw.choice(free): "vec"}
    either = draw.choice(["row", "col"])
    return {name: either if role == "vec" else role for name, role in found.items()}


def shape_of(draw, layout, elements):
    if layout == "flat" or (layout == "strided" and draw.random() < 0.2):
        return (rounded(draw, elements, [1, 1, 8, 4096, 1 << 16]),)
    if layout == "channel":
        return with_channels(draw, elements)
    if layout in ("transposed", "strided") and draw.random() < 0.4:
        inner = extent(draw, 8, max(8, elements // 64))
        middle = extent(draw, 4, max(4, elements // inner // 4))
        return (max(1, elements // inner // middle), middle, inner)
    inner = extent(draw, 16, max(16, elements // 16))
    return (rounded(draw, max(1, elements // inner), [1, 1, 8, 64]), inner)


def extent(draw, least, most):
    """an extent: a common one, or any number, half of the time odd"""
    usual = [extent for extent in USUAL if least <= extent <= most]
    if usual and draw.random() < 0.5:
        return draw.choice(usual)
    return int(least * (most / least) ** draw.random())


def rounded(draw, count, steps):
    """a multiple of one of the steps, unless that would lose much"""
    step = draw.choice(steps)
    return count // step * step if count >= 16 * step else count


def with_channels(draw, elements):
    rank = draw.choice([3, 4, 4])
    inner = draw.choice([7, 14, 28, 56, 112, 224, 13, 37, 75, 128, draw.randint(5, 300)])
    tail = (inner,) * (rank - 2) if draw.random() < 0.7 or rank == 3 else (inner, draw.randint(5, 300))
    if rank == 3 and draw.random() < 0.7:
        tail = (draw.choice([128, 512, 1024, 2048, 197, 1025, draw.randint(20, 5000)]),)
    channels = draw.choice([3, 16, 64, 96, 128, 256, 512, draw.randint(3, 700)])
    channels = max(1, min(channels, elements // math.prod(tail)))
    return (max(1, elements // math.prod(tail) // channels), channels, *tail)


def place(draw, layout, text, inputs, shape, small):
    """gives every input its shape and strides"""
    for item in inputs:
        item.shape = shape
        if item.name in small:
            item.shape = parameter_shape(layout, small[item.name], shape)
    free = [item for item in inputs if item.name not in written(text)]
    if layout == "transposed":
        item = draw.choice(free)
        order = list(range(len(shape)))
        while order == sorted(order):
            draw.shuffle(order)
        item.strides = dense(shape, order)
    if layout == "strided":
        for item in draw.sample(free, draw.randint(1, len(free))):
            item.strides = sliced(draw, shape)


def parameter_shape(layout, role, shape):
    if layout == "channel":
        return (1, shape[1]) + (1,) * (len(shape) - 2)
    return (1, shape[1]) if role == "row" else (shape[0], 1)


def dense(shape, order):
    """strides of a dense tensor whose dimensions lie in memory in this order, the slowest first"""
    strides, stride = [0] * len(shape), 1
    for dimension in reversed(order):
        strides[dimension] = stride
        stride *= shape[dimension]
    return tuple(strides)


def sliced(draw, shape):
    """strides of a slice of a wider tensor: part of each row, or every second element"""
    step = draw.choice([1, 1, 1, 2]) if len(shape) > 1 else 2
    inner = shape[-1] * step
    pitch = draw.choice([2 * inner, 3 * inner, inner + 8, inner + 1, inner + 64]) if step == 1 else inner
    strides = [step]
    for place, extent in enumerate(reversed(shape[1:])):
        strides.insert(0, pitch if place == 0 else strides[0] * extent)
    return tuple(strides)
