"""The smallest part of a kernel that still fails, on one element."""

from __future__ import annotations

import copy
from random import Random

import numpy as np

from bounds import order
from cases import Case, Layout, Tensor
from dtypes import TYPES, decode
from expression import Kernel, Node, Output, input_of
from judge import Verdict, judge
from oracle import Oracle
from printing import Printer
from subject import Subject, request

Found = tuple[Kernel, Case, Verdict]


def _flat(case: Case, kernel: Kernel, elements: np.ndarray, like: Kernel) -> Case:
    """The same data for some elements, contiguous."""
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
    """One node as the only output."""
    dtype = output.dtype if output else node.dtype
    alone = Kernel(kernel.inputs, kernel.scalars, [Output("out", node, dtype)])
    alone.text = Printer(alone, Random(0), []).text()
    return alone


def _operation(oracle: Oracle, kernel: Kernel, case: Case, node: Node) -> tuple[Kernel, Case] | None:
    """A node on inputs that hold what its operands are, where these are exact and of a type that holds them."""
    inputs = [tensor.elements(case.shape) for tensor in case.inputs]
    scalars = [decode(d, s)[0] for d, s in zip(kernel.scalars, case.scalars, strict=True)]
    values = oracle.values(kernel, inputs, scalars, case.shape)
    tensors, args = [], []
    for arg in node.args:
        if arg.op in ("literal", "constant"):
            args.append(arg)
            continue
        value = values[id(arg)]
        dtype = TYPES[{4: "f32", 8: "f64"}[value.low.dtype.itemsize]] if arg.dtype.is_float else arg.dtype
        if not value.sure.all() or not (value.exact or np.array_equal(order(value.low), order(value.high))):
            return None
        layout = Layout(case.shape, (1,), 0, case.shape[0])
        tensors.append(Tensor(dtype, layout, np.ascontiguousarray(value.low.astype(dtype.storage))))
        args.append(input_of(len(tensors) - 1, dtype))
    fresh = copy.copy(node)
    fresh.args = tuple(args)
    small = Kernel([tensor.dtype for tensor in tensors], [], [Output("out", fresh, node.dtype)])
    small.text = Printer(small, Random(0), []).text()
    output = Tensor(node.dtype, Layout(case.shape, (1,), 0, case.shape[0]), np.zeros(case.shape[0], node.dtype.storage))
    return small, Case(case.shape, tensors, [output], [], case.isa, False)


def shrink(oracle: Oracle, subject: Subject, kernel: Kernel, case: Case, verdict: Verdict) -> Found:
    """Tries fewer elements, then parts of the expression, then single operations on plain inputs."""
    best: Found = (kernel, case, verdict)
    if verdict.element is None or any(node.op == "index" for node in kernel.nodes()):
        return best

    def attempt(candidate: Kernel, smaller: Case) -> bool:
        nonlocal best
        outcome = judge(oracle, subject, candidate, smaller)
        if outcome.element is not None:
            best = (candidate, smaller, outcome)
        return outcome.element is not None

    output = kernel.outputs[verdict.output]
    elements = np.array([verdict.element])
    whole = _alone(kernel, output.node, output)
    if not attempt(whole, _flat(case, whole, elements, kernel)):
        return best
    for node in output.node.below():
        if node.args:
            part = _alone(kernel, node)
            if attempt(part, _flat(case, part, elements, kernel)):
                single = _operation(oracle, part, best[1], node)
                if single:
                    attempt(*single)
                break
    return best


def described(found: Found) -> dict:
    """For a file: everything that is needed to see the failure again."""
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
