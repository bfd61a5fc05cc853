"""Finds the smallest part of a kernel that still fails, on one element."""

from __future__ import annotations

import copy
from random import Random

import numpy as np

from bounds import Bounds, order
from cases import Case, Layout, Tensor
from dtypes import TYPES, decode
from expression import Kernel, Node, Output, input_of
from judge import Verdict, judge
from oracle import Oracle
from printing import Printer
from subject import Subject, request

Found = tuple[Kernel, Case, Verdict]


def _flat(case: Case, kernel: Kernel, elements: np.ndarray) -> Case:
    """The same data for some elements only, contiguous."""
    layout = Layout((len(elements),), (1,), 0, len(elements))
    inputs = [
        Tensor(tensor.dtype, layout, np.ascontiguousarray(tensor.memory[tensor.layout.places(case.shape)][elements]))
        for tensor in case.inputs
    ]
    outputs = [
        None if o.in_place is not None else Tensor(o.dtype, layout, np.zeros(len(elements), o.dtype.storage)) for o in kernel.outputs
    ]
    return Case((len(elements),), inputs, outputs, case.scalars, case.isa, False)


def _alone(kernel: Kernel, node: Node, output: Output | None = None) -> Kernel:
    """A kernel with one node as the only output."""
    dtype = output.dtype if output else node.dtype
    alone = Kernel(kernel.inputs, kernel.scalars, [Output("out", node, dtype)])
    alone.text = Printer(alone, Random(0), []).text()
    return alone


def _operation(kernel: Kernel, case: Case, node: Node, values: dict[int, Bounds], element: int) -> tuple[Kernel, Case] | None:
    """A kernel with only this node, on inputs with its operands' values at one element; `None` if these aren't known exactly."""
    layout = Layout((1,), (1,), 0, 1)
    tensors, args = [], []
    for arg in node.args:
        if arg.op in ("literal", "constant"):
            args.append(arg)
            continue
        value, at = values[id(arg)], slice(element, element + 1)
        if not value.sure[at].all() or not (value.exact or np.array_equal(order(value.low[at]), order(value.high[at]))):
            return None
        dtype = TYPES[{4: "f32", 8: "f64"}[value.low.dtype.itemsize]] if arg.dtype.is_float else arg.dtype
        tensors.append(Tensor(dtype, layout, value.low[at].astype(dtype.storage)))
        args.append(input_of(len(tensors) - 1, dtype))
    fresh = copy.copy(node)
    fresh.args = tuple(args)
    small = Kernel([tensor.dtype for tensor in tensors], [], [Output("out", fresh, node.dtype)])
    small.text = Printer(small, Random(0), []).text()
    output = Tensor(node.dtype, layout, np.zeros(1, node.dtype.storage))
    return small, Case((1,), tensors, [output], [], case.isa, False)


def shrink(oracle: Oracle, subject: Subject, kernel: Kernel, case: Case, verdict: Verdict) -> Found:
    """A single operation on plain inputs, if one fails; else the smallest part of the expression that fails, on one element."""
    if verdict.element is None:
        return kernel, case, verdict
    output, element = kernel.outputs[verdict.output], verdict.element
    inputs = [tensor.elements(case.shape) for tensor in case.inputs]
    scalars = [decode(d, s)[0] for d, s in zip(kernel.scalars, case.scalars, strict=True)]
    values = oracle.values(kernel, inputs, scalars, case.shape)
    below = [node for node in output.node.below() if node.args]
    candidates = [_operation(kernel, case, node, values, element) for node in below]
    if not any(node.op == "index" for node in kernel.nodes()):
        parts = [_alone(kernel, node) for node in below] + [_alone(kernel, output.node, output)]
        candidates += [(part, _flat(case, part, np.array([element]))) for part in parts]
    for candidate in candidates:
        if candidate:
            outcome = judge(oracle, subject, *candidate)
            if outcome.element is not None:
                return *candidate, outcome
    return kernel, case, verdict


def described(found: Found) -> dict:
    """Everything needed to reproduce the failure, for a file."""
    kernel, case, verdict = found
    return {
        "wrong": verdict.wrong,
        "text": kernel.text,
        "shape": case.shape,
        "inputs": {f"x{k}": _values(tensor) for k, tensor in enumerate(case.inputs)},
        "scalars": [repr(decode(d, s)[0]) for d, s in zip(kernel.scalars, case.scalars, strict=True)],
        "isa": case.isa,
        "request": request(kernel, case).hex() if sum(t.memory.nbytes for t in case.inputs) < 4096 else None,
    }


def _values(tensor: Tensor) -> list[str]:
    shown = decode(tensor.dtype, tensor.memory)[:16]
    return [f"{tensor.dtype} {value!r} = {value.hex() if hasattr(value, 'hex') else hex(int(value))}" for value in shown.tolist()]
