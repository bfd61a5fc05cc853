"""Tests the cases of scripts/peers/random_cases.py: they depend on seed and number only, have the stated shares, are accepted by
plimsoll, and their texts mean in plimsoll what the oracle, which reads them as Python, says.

Without PLIMSOLL_PROGRAMS, the folder of the built `plimsoll` and `examples/09_evaluate`, the last two are skipped. Where PyTorch is
installed, its results are compared with the oracle too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

import numpy as np

import expression as ex
from cases import Case, Layout, Tensor, data
from dtypes import ROOT, TYPES
from expression import Kernel, Node, Output, cast_to, input_of, literal, operation
from judge import judge
from oracle import Oracle
from subject import Subject

sys.path.insert(0, str(ROOT / "scripts/peers"))
import drawn_case  # noqa: E402
import random_cases  # noqa: E402
import random_summary  # noqa: E402
import torch_text  # noqa: E402

PROGRAMS = os.environ.get("PLIMSOLL_PROGRAMS")
CASES = 300
SMALL = (1 << 10, 1 << 14)
"""Bytes that a case for the oracle moves."""
LEAST_JUDGED = 0.9


class Value:
    """A node with Python's operators."""

    def __init__(self, node: Node):
        self.node = node

    def __neg__(self):
        return apply("neg", self)


def apply(op: str, *args) -> Value:
    return Value(operation(op, *(arg.node if isinstance(arg, Value) else literal(arg) for arg in args)))


def binary(op: str, swapped: bool):
    return lambda a, b: apply(op, b, a) if swapped else apply(op, a, b)


for name, op in {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "and": "&"}.items():
    setattr(Value, f"__{name}__", binary(op, False))
    setattr(Value, f"__r{name}__", binary(op, True))
for name, op in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "!="}.items():
    setattr(Value, f"__{name}__", binary(op, False))


def names() -> dict:
    """The functions of a text."""
    functions = [*ex.FUNCTIONS, *ex.NUMERIC_UNARY, *ex.ROUNDINGS, *ex.SELECTIONS, "select", "clamp", "pow", "atan2"]
    found = {name: lambda *args, op=name: apply(op, *args) for name in functions}
    return found | {name: lambda x, dtype=dtype: Value(cast_to(dtype, x.node)) for name, dtype in TYPES.items()}


def kernel_of(case: drawn_case.Case) -> Kernel:
    inputs = [TYPES[item.dtype] for item in case.inputs]
    places = [item.name for item in case.inputs]
    leaves = [Value(input_of(place, dtype)) for place, dtype in enumerate(inputs)]
    values = torch_text.function_of(case.text, places, names())(*leaves)
    outputs = []
    for (name, stated), value in zip(case.outputs, values, strict=True):
        dtype = TYPES[stated] if stated else value.node.dtype
        outputs.append(Output(name, value.node, dtype, places.index(name) if name in places else None))
    declared = ", ".join(f"{item.name}: {item.dtype}" for item in case.inputs)
    return Kernel(inputs, [], outputs, f"in {declared}; {case.text}")


def call_of(case: drawn_case.Case, kernel: Kernel) -> Case:
    numbers = np.random.default_rng(case.number)

    def tensor(dtype, shape, strides):
        strides = strides or drawn_case.dense(shape, range(len(shape)))
        memory = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        return Tensor(dtype, Layout(shape, strides, 0, memory), data(numbers, dtype, memory, "tame"))

    inputs = [tensor(TYPES[item.dtype], item.shape, item.strides) for item in case.inputs]
    outputs = [None if output.in_place is not None else tensor(output.dtype, case.shape, None) for output in kernel.outputs]
    return Case(case.shape, inputs, outputs, [])


def bytes_moved(case: drawn_case.Case, kernel: Kernel) -> int:
    elements = int(np.prod(case.shape))
    read = sum(int(np.prod(item.shape)) * dtype.bytes for item, dtype in zip(case.inputs, kernel.inputs, strict=True))
    return read + sum(elements * output.dtype.bytes for output in kernel.outputs)


class RandomCases(unittest.TestCase):
    def test_a_case_depends_on_its_seed_and_number_only(self):
        once = [drawn_case.drawn("a", number) for number in range(20)]
        self.assertEqual(once[7:9], [drawn_case.drawn("a", number) for number in (7, 8)])
        self.assertNotEqual(once, [drawn_case.drawn("b", number) for number in range(20)])
        program = "import drawn_case; print(drawn_case.drawn('a', 7).line())"
        line = subprocess.run([sys.executable, "-c", program], cwd=ROOT / "scripts/peers", capture_output=True, text=True, check=True)
        self.assertEqual(line.stdout.strip(), once[7].line())

    def test_layouts_types_and_sizes_have_their_shares(self):
        cases = [drawn_case.drawn("shares", number) for number in range(4000)]
        for field, shares in (("layout", drawn_case.LAYOUTS), ("types", drawn_case.TYPES)):
            found = Counter(getattr(case, field) for case in cases)
            for name, share in shares.items():
                self.assertAlmostEqual(found[name] / len(cases), share / 100, delta=0.025, msg=name)
        logs = np.log2([bytes_moved(case, kernel_of(case)) / (1 << 20) for case in cases])
        self.assertTrue(np.all((logs > -0.5) & (logs < 10.5)), (logs.min(), logs.max()))
        for quarter in range(4):
            within = (logs >= 2.5 * quarter - 0.3) & (logs < 2.5 * quarter + 2.2)
            self.assertAlmostEqual(within.mean(), 0.25, delta=0.04)
        odd = np.mean([case.shape[-1] % 2 for case in cases])
        self.assertGreater(odd, 0.2)

    def test_cases_have_up_to_four_inputs_and_every_family(self):
        cases = [drawn_case.drawn("families", number) for number in range(2000)]
        self.assertEqual({len(case.inputs) for case in cases}, {1, 2, 3, 4})
        families = Counter(case.family for case in cases)
        self.assertEqual(set(families), {family for family, *_ in drawn_case.recipes.RECIPES} | {"random"})
        self.assertGreater(min(families.values()), 10, families)

    @unittest.skipUnless(PROGRAMS, "PLIMSOLL_PROGRAMS is not set")
    def test_plimsoll_accepts_every_case_and_counts_the_same_bytes(self):
        for number in range(CASES):
            case = drawn_case.drawn("accepted", number)
            # Like `bench`, but without timing.
            command = [f"{PROGRAMS}/plimsoll", "predict", *case.arguments(), "--machine", "h200", "--estimate", "--format", "json"]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, f"{case.line()}\n{done.stderr}")
            self.assertEqual(json.loads(done.stdout)[0]["bytes_moved"], bytes_moved(case, kernel_of(case)), case.line())

    @unittest.skipUnless(PROGRAMS, "PLIMSOLL_PROGRAMS is not set")
    def test_texts_mean_what_the_oracle_says(self):
        subject, elements, judged = Subject(f"{PROGRAMS}/examples/09_evaluate", "cpu", 0), 0, 0
        self.addCleanup(subject.close)
        for number in range(CASES):
            case = drawn_case.drawn("meaning", number, SMALL)
            kernel = kernel_of(case)
            verdict = judge(Oracle(gpu=False), subject, kernel, call_of(case, kernel))
            self.assertEqual(verdict.wrong, [], case.line())
            elements, judged = elements + verdict.elements, judged + verdict.judged
        self.assertGreater(judged / elements, LEAST_JUDGED)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_pytorch_agrees_with_the_oracle(self):
        import torch
        import torch_side

        for number in range(CASES):
            case = drawn_case.drawn("pytorch", number, SMALL)
            kernel = kernel_of(case)
            side = torch_side.Side(case, "cpu", 1)
            self.assertEqual(side.types, [torch_text.dtype(output.dtype.name) for output in kernel.outputs], case.line())
            side.allocate()
            expected = side.choose_range()[0]
            inputs = [tensor.expand(case.shape).to(torch.float64).numpy().ravel() for tensor in side.inputs(0)]
            inputs = [values.astype(dtype.carrier) for values, dtype in zip(inputs, kernel.inputs, strict=True)]
            bounds = Oracle(gpu=False).run(kernel, inputs, [], case.shape)
            for value, bound, output in zip(expected, bounds, kernel.outputs, strict=True):
                found = value.to(torch.float64).numpy().ravel()[: bound.low.size]
                low, high = (end.astype(np.float64) for end in (bound.low, bound.high))
                scale = np.sqrt(np.mean(np.square(low[np.isfinite(low)]))) if np.isfinite(low).any() else 0.0
                units = 2.0 ** (1 - output.dtype.precision) + 1e-5
                slack = units * np.maximum(np.abs(low), scale) if output.dtype.is_float else 1.0
                near = (found >= low - slack) & (found <= high + slack) | np.isnan(low) | ~bound.sure
                self.assertLess(np.mean(~near[: found.size]), 0.01, f"{case.line()} {output.name}")


def record(number: int, plain: float, **others) -> dict:
    """What the race writes for one case; PyTorch takes 10 us."""
    case = drawn_case.drawn("results", number)
    times = {"plain_us": plain, "dependent_us": plain, "compile_us": 10.0, "eager_us": 20.0, "bytes": 1 << 21, "took": 1.0}
    about = {"key": case.key, "seed": case.seed, "layout": "flat", "types": "f32", "family": "loss", "command": case.command()}
    about |= {"device": "GPU", "torch": "2", "tuned": False, "wrong": None, "error": None}
    return about | times | others


class ResultsOfARace(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/results.jsonl"

    def test_cases_that_failed_or_were_cut_off_run_again(self):
        results = random_cases.Results(self.path)
        for found in (record(0, 8.0), record(1, 8.0, error="out of memory"), record(2, 8.0, wrong="NaN")):
            results.add(found)
        with open(self.path, "a") as file:
            file.write(json.dumps(record(3, 8.0))[:50])
        again = random_cases.Results(self.path)
        self.assertEqual(again.done(tuned=False), {"results/0", "results/2"})
        self.assertEqual(again.done(tuned=True), set())
        again.add(record(3, 8.0))
        self.assertIn("results/3", random_cases.Results(self.path).done(tuned=False))

    def test_messages_in_records_name_no_path_of_the_machine(self):
        messages = "note: ../bin/plimsoll: 1 of 8 elements are wrong\nrecord: /tmp/race-1/run/run.jsonl\n"
        quoted = random_cases.quote_messages("../bin/plimsoll", messages, "/tmp/race-1")
        self.assertEqual(quoted, "plimsoll bench: note: plimsoll: 1 of 8 elements are wrong")

    def test_the_summary_counts_each_case_once_and_shows_the_worst_command(self):
        records = [record(0, 40.0), record(0, 8.0), record(1, 12.5), record(2, 1.0, wrong="plimsoll: NaN")]
        text = random_summary.text(records)
        self.assertIn("| all | 2 | 1.000 | 50.0% | 0.800 |", text)
        worst = text.split("worst of plain")[1].splitlines()[4]
        self.assertTrue(worst.startswith("| 0.800 | 12.50 | 10.00 | 20.00 | results/1 flat, 2.0 MiB |"), worst)
        self.assertIn("Wrong: results/2: plimsoll: NaN", text)


if __name__ == "__main__":
    unittest.main()
