"""Puts faults that engines have had into the oracle: the generated kernels and data must find each of them."""

from __future__ import annotations

import unittest
from unittest import mock

import numpy as np

import oracle as oracles
from bounds import Bounds, exactly
from cases import case_of
from dtypes import decode
from expression import Kernel, Node
from generator import Generator
from judge import outside
from oracle import Oracle, stored

KERNELS = 500
SETS = 3
LEAST_FOUND = 5
"""Minimum number of the kernels that must find a fault, so that runs of thousands also find rarer ones."""


class LeastIsPositive(Oracle):
    """Treats |least integer| as positive if the result is widened, as compilers for GPUs do."""

    def _apply(self, node: Node, operands: list[Bounds], need) -> Bounds:
        taken = node.dtype if node.op == "cast" else node.taken
        return super()._apply(node, [unwrapped(x, arg, taken) for x, arg in zip(operands, node.args, strict=True)], need)

    def run(self, kernel: Kernel, inputs, scalars, shape) -> list[Bounds]:
        values = self.values(kernel, inputs, scalars, shape)
        return [stored(unwrapped(values[id(output.node)], output.node, output.dtype), output) for output in kernel.outputs]


def unwrapped(x: Bounds, node: Node, taken) -> Bounds:
    if node.op == "abs" and node.dtype.is_signed and node.dtype.carrier != taken.carrier:
        return exactly(x.low.view(f"u{x.low.itemsize}"), x.sure)
    return x


def rounded_quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⌊a/b⌋ computed from the rounded difference of a and the remainder."""
    rem = np.fmod(a, b)
    less = (rem != 0) & ((rem < 0) != (b < 0))
    return np.rint((a - rem) / b - less).astype(a.dtype)


def found_by(mutant: Oracle, meets) -> int:
    """The number of kernels, among those that contain the operation, whose results differ between the mutant and the oracle."""
    oracle, found = Oracle(gpu=True), 0
    for number in range(KERNELS):
        kernel = Generator(f"mutants/{number}").kernel()
        if any(meets(node) for node in kernel.nodes()):
            found += any(differ(oracle, mutant, kernel, f"mutants/{number}/{place}") for place in range(SETS))
    return found


def differ(oracle: Oracle, mutant: Oracle, kernel: Kernel, seed: str) -> bool:
    case = case_of(kernel, seed)
    inputs = [tensor.elements(case.shape) for tensor in case.inputs]
    scalars = [decode(dtype, scalar)[0] for dtype, scalar in zip(kernel.scalars, case.scalars, strict=True)]
    expected = oracle.run(kernel, inputs, scalars, case.shape)
    results = mutant.run(kernel, inputs, scalars, case.shape)
    return any((a.sure & b.sure & outside(b.low, a)).any() for a, b in zip(expected, results, strict=True))


class Mutants(unittest.TestCase):
    def test_an_absolute_value_that_is_not_wrapped_is_found(self):
        self.assertGreaterEqual(
            found_by(LeastIsPositive(gpu=True), lambda node: node.op == "abs" and node.dtype.is_signed), LEAST_FOUND
        )

    def test_a_quotient_by_a_rounded_difference_is_found(self):
        class Rounded(Oracle):
            def run(self, *arguments) -> list[Bounds]:
                with mock.patch.dict(oracles.BINARY, {"//": rounded_quotient}):
                    return super().run(*arguments)

        self.assertGreaterEqual(found_by(Rounded(gpu=True), lambda node: node.op == "//" and node.dtype.is_float), LEAST_FOUND)

    def test_no_fault_is_found_in_the_oracle_itself(self):
        self.assertEqual(found_by(Oracle(gpu=True), lambda node: node.op in ("abs", "//")), 0)


if __name__ == "__main__":
    unittest.main()
