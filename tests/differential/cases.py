"""Layouts and data for a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import ml_dtypes
import numpy as np

from dtypes import BOOL, DType, decode, integer_range
from expression import Kernel

MOST_DIMENSIONS = 8


@dataclass
class Layout:
    """Shape, strides and offset in elements, and how many elements the memory has."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    memory: int

    def places(self, shape: tuple[int, ...]) -> np.ndarray:
        """The memory position of each element of `shape`, in row-major order, with this layout broadcast to `shape`."""
        places = np.full((), self.offset, np.int64)
        fresh = len(shape) - len(self.shape)
        for dimension, extent in enumerate(shape):
            own = dimension - fresh
            stride = self.strides[own] if own >= 0 and self.shape[own] != 1 else 0
            places = places[..., None] + np.arange(extent, dtype=np.int64) * stride
        return places.ravel()


@dataclass
class Tensor:
    dtype: DType
    layout: Layout
    memory: np.ndarray

    def elements(self, shape: tuple[int, ...]) -> np.ndarray:
        return decode(self.dtype, self.memory[self.layout.places(shape)])


@dataclass
class Case:
    """One call of a kernel: `outputs` have the initial content of their memory, or are `None` if written in place."""

    shape: tuple[int, ...]
    inputs: list[Tensor]
    outputs: list[Tensor | None]
    scalars: list[np.ndarray]
    isa: int = 0
    nontemporal: bool = False


def shape_of(random: Random, least_rank: int) -> tuple[int, ...]:
    """Mostly some hundreds of elements in odd shapes; sometimes none, one, or many."""
    size = random.choice([0, 1, 2, 40, 200, 200, 700, 700, 700, 2500])
    if random.random() < 0.02:
        size = random.choice([9000, 30000])
    rank = max(least_rank, random.choice([0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 5, MOST_DIMENSIONS]))
    if size == 0:
        return tuple(random.choice([0, 3]) if rank > 1 else 0 for _ in range(max(rank, 1) - 1)) + (0,)
    shape, left = [], size
    for dimension in range(rank):
        last = dimension == rank - 1
        share = left if last else max(1, round(left ** random.uniform(0.0, 2.0 / (rank - dimension))))
        extent = max(1, min(left, share) + (random.choice([-1, 0, 0, 1]) if share > 2 else 0))
        if random.random() < 0.3:
            extent = max(1, extent // 16 * 16)
        shape.append(extent)
        left = max(1, left // extent)
    random.shuffle(shape)
    return tuple(shape)


def layout_of(random: Random, shape: tuple[int, ...]) -> Layout:
    """A layout without overlap: dense, permuted, with gaps, with negative strides, or with an offset."""
    rank, plain = len(shape), random.random() < 0.45
    order = list(range(rank - 1, -1, -1))
    if not plain and random.random() < 0.6:
        random.shuffle(order)
    strides, stride, low = [0] * rank, 1, 0
    if not plain and random.random() < 0.2:
        stride = random.choice([2, 3, 4])
    for dimension in order:
        backwards = not plain and random.random() < 0.15
        strides[dimension] = -stride if backwards else stride
        if backwards:
            low += stride * (max(shape[dimension], 1) - 1)
        stride *= max(shape[dimension], 1)
        if not plain and random.random() < 0.2:
            stride += random.choice([1, 3, 16])
    offset = low + (random.choice([0, 0, 1, 2, 3, 4, 8, 16]) if random.random() < 0.4 else 0)
    reach = offset + sum(max(s, 0) * (max(e, 1) - 1) for s, e in zip(strides, shape, strict=True))
    return Layout(shape, tuple(strides), offset, reach + 1 + random.choice([0, 0, 1, 5]))


def input_layout(random: Random, shape: tuple[int, ...]) -> Layout:
    """A layout like an output's, or broadcast in some dimensions by extents of 1, fewer dimensions, or strides of 0."""
    if random.random() < 0.7 or not shape:
        return layout_of(random, shape)
    kept = tuple(1 if random.random() < 0.4 else extent for extent in shape)
    kept = kept[random.randint(0, len(kept)) :] if random.random() < 0.4 else kept
    layout = layout_of(random, kept)
    if random.random() < 0.3 and kept and len(kept) == len(shape):
        strides = tuple(0 if k != e else s for k, e, s in zip(kept, shape, layout.strides, strict=True))
        return Layout(shape, strides, layout.offset, layout.memory)
    return layout


def case_of(kernel: Kernel, seed: str) -> Case:
    random = Random(seed)
    numbers = np.random.default_rng(random.getrandbits(64))
    shape = shape_of(random, kernel.least_rank)
    manner = random.choice(["tame", "tame", "mixed", "mixed", "wild"])
    # Large quotients are the most likely to be wrong.
    divides = any(node.op in ("//", "%") for node in kernel.nodes())
    outputs: list[Tensor | None] = []
    layouts = [input_layout(random, shape) for _ in kernel.inputs]
    for output in kernel.outputs:
        layout = layout_of(random, shape)
        if output.in_place is None:
            poison = numbers.integers(0, 256, layout.memory * output.dtype.bytes, np.uint8)
            outputs.append(Tensor(output.dtype, layout, poison.view(output.dtype.storage)))
        else:
            layouts[output.in_place] = layout
            outputs.append(None)
    inputs = []
    for dtype, layout in zip(kernel.inputs, layouts, strict=True):
        own = random.choice(["large", "ends"]) if random.random() < (0.5 if divides else 0.2) else manner
        inputs.append(Tensor(dtype, layout, data(numbers, dtype, layout.memory, own)))
    scalars = [data(numbers, dtype, 1, "tame" if random.random() < 0.7 else manner) for dtype in kernel.scalars]
    return Case(shape, inputs, outputs, scalars, random.randrange(6), random.random() < 0.2)


MANNERS = {
    "tame": [0.02, 0.0, 0.38, 0.4, 0.2, 0.0],
    "mixed": [0.1, 0.05, 0.3, 0.3, 0.2, 0.05],
    "wild": [0.25, 0.35, 0.2, 0.1, 0.1, 0.0],
    "ends": [0.7, 0.0, 0.1, 0.1, 0.1, 0.0],
    "large": [0.02, 0.0, 0.1, 0.1, 0.08, 0.7],
}
"""Shares of the sorts of data in each manner."""


def data(numbers: np.random.Generator, dtype: DType, count: int, manner: str) -> np.ndarray:
    """Elements of a type in memory, a mixture of several sorts of data."""
    if dtype is BOOL:
        return np.where(numbers.random(count) < 0.9, numbers.integers(0, 2, count), numbers.integers(0, 256, count)).astype(np.uint8)
    sorts = _floats(numbers, dtype, count) if dtype.is_float else _integers(numbers, dtype, count)
    which = numbers.choice(len(sorts), count, p=MANNERS[manner])
    return np.choose(which, [sort.view(_bits(dtype)) for sort in sorts]).astype(_bits(dtype)).view(dtype.storage)


def _bits(dtype: DType) -> np.dtype:
    return np.dtype(f"u{dtype.bytes}")


def _random_bits(numbers: np.random.Generator, dtype: DType, count: int) -> np.ndarray:
    return numbers.integers(0, 256, count * dtype.bytes, np.uint8).view(dtype.storage)


def _floats(numbers: np.random.Generator, dtype: DType, count: int) -> list[np.ndarray]:
    """The sorts: special values, random bits, numbers of all sizes, ordinary numbers, small integers and halves, and numbers that
    give large quotients."""
    finfo = ml_dtypes.finfo(dtype.storage)
    tiny, least, eps = float(finfo.tiny), float(finfo.smallest_subnormal), float(finfo.eps)
    positive = [0.0, least, tiny - least, tiny, 0.5, 1.0 - eps / 2, 1.0, 1.0 + eps, 1.5, 2.5, 88.72283, 709.78, np.pi, np.pi / 2]
    positive += [float(2**k) for k in (7, 8, 11, 15, 16, 24, 31, 32, 53, 63, 64)] + [dtype.largest, np.inf, np.nan, 65520.0]
    with np.errstate(over="ignore"):
        special = np.array([*positive, *(-x for x in positive)]).astype(dtype.storage)
    sign = numbers.choice([-1.0, 1.0], count)
    reach = 45 if dtype.bytes >= 4 or dtype.name == "bf16" else 12
    sized = sign * np.exp2(numbers.uniform(-reach, reach, count))
    ordinary = np.where(numbers.random(count) < 0.5, numbers.normal(0, 2, count), numbers.uniform(-20, 20, count))
    return [
        special[numbers.integers(0, len(special), count)],
        _random_bits(numbers, dtype, count),
        sized.astype(dtype.storage),
        ordinary.astype(dtype.storage),
        (numbers.integers(-16, 17, count) / 2).astype(dtype.storage),
        (sign * np.exp2(dtype.precision + numbers.uniform(-5, 5, count))).astype(dtype.storage),
    ]


def _integers(numbers: np.random.Generator, dtype: DType, count: int) -> list[np.ndarray]:
    """The sorts: ends of the range and powers of two, random bits, small integers, smaller ones, integers of all sizes, and random
    bits shifted right by one."""
    least, most = integer_range(dtype)
    special = [least, least + 1, most, most - 1, 0, 1, *(1 << k for k in range(8 * dtype.bytes - 1))]
    if least < 0:
        special += [-1, -2, *(-(1 << k) for k in range(8 * dtype.bytes - 1))]
    special = np.array(special, dtype.storage)
    low = -100 if least < 0 else 0
    shifts = numbers.integers(0, 8 * dtype.bytes, count).astype(dtype.storage)
    return [
        special[numbers.integers(0, len(special), count)],
        _random_bits(numbers, dtype, count),
        numbers.integers(low, 101, count).astype(dtype.storage),
        numbers.integers(max(low, -4), 10, count).astype(dtype.storage),
        _random_bits(numbers, dtype, count) >> shifts,
        _random_bits(numbers, dtype, count) >> np.ones((), dtype.storage),
    ]
