"""Compares the results of a subject with the results that are allowed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bounds import Bounds, order
from cases import Case
from dtypes import decode
from expression import Kernel, Output
from oracle import Oracle
from subject import Subject, SubjectDied

SHARP = 2.0**-4
"""Elements whose bounds are further apart than this, relative to their magnitude, aren't counted as judged."""


@dataclass
class Verdict:
    """The result of one call. `wrong` has messages; `element` is the row-major index of the first wrong element of output
    `output`."""

    elements: int = 0
    judged: int = 0
    wrong: list[str] = field(default_factory=list)
    output: int = 0
    element: int | None = None


def judge(oracle: Oracle, subject: Subject, kernel: Kernel, case: Case) -> Verdict:
    verdict = Verdict()
    try:
        answer = subject.run(kernel, case)
    except SubjectDied as error:
        answer = f"the subject died: {error}"
    if isinstance(answer, str):
        verdict.wrong.append(answer)
        return verdict
    inputs = [tensor.elements(case.shape) for tensor in case.inputs]
    scalars = [decode(dtype, scalar)[0] for dtype, scalar in zip(kernel.scalars, case.scalars, strict=True)]
    bounds = oracle.run(kernel, inputs, scalars, case.shape)
    for place, (output, memory, expected) in enumerate(zip(kernel.outputs, answer, bounds, strict=True)):
        _compare(verdict, place, (output, memory, expected), case)
    return verdict


def _compare(verdict: Verdict, place: int, written: tuple[Output, np.ndarray, Bounds], case: Case) -> None:
    output, memory, expected = written
    tensor = case.outputs[place] if output.in_place is None else case.inputs[output.in_place]
    places = tensor.layout.places(case.shape)
    found = decode(output.dtype, memory[places])
    bad = expected.sure & outside(found, expected)
    if output.dtype.kind == "bool":
        # 1 is stored for true.
        bad |= memory[places] > 1
    verdict.elements += found.size
    verdict.judged += int(sharp(expected).sum())
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        between = f"{expected.low[first]!r} to {expected.high[first]!r}"
        verdict.wrong.append(f"{output.name}[{first}] is {found[first]!r}, not {between}; {int(bad.sum())} of {found.size}")
        if verdict.element is None:
            verdict.output, verdict.element = place, first
    outside_elements = np.ones(memory.size, bool)
    outside_elements[places] = False
    bits = f"u{memory.itemsize}"
    if not np.array_equal(memory.view(bits)[outside_elements], tensor.memory.view(bits)[outside_elements]):
        verdict.wrong.append(f"memory outside the elements of {output.name} was changed")


def outside(found: np.ndarray, expected: Bounds) -> np.ndarray:
    if found.dtype.kind != "f":
        return found != expected.low
    nan = np.isnan(expected.low)
    inside = (order(expected.low) <= order(found)) & (order(found) <= order(expected.high))
    return np.where(nan, ~np.isnan(found), np.isnan(found) | ~inside)


def sharp(expected: Bounds) -> np.ndarray:
    if expected.low.dtype.kind != "f" or expected.exact:
        return expected.sure
    width = expected.high.astype(np.float64) - expected.low.astype(np.float64)
    near = width <= SHARP * np.maximum(np.abs(expected.low), np.abs(expected.high)).astype(np.float64)
    same = (order(expected.low) == order(expected.high)) | np.isnan(expected.low)
    # Neighbouring numbers are sharp, however large the steps of their type are.
    return expected.sure & (near | same | (np.nextafter(expected.low, expected.high) == expected.high))
