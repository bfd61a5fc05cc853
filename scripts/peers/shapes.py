"""Shapes, odd sizes, offsets, broadcasts and mixed types: plimsoll compared with its own flat aligned figure for the same
bytes, and with PyTorch, eager and compiled. A stage of side_by_side.py; each case is one row of shapes.csv.
"""
import csv
import math
import os
import statistics
import subprocess
import time

import contestants as c

PRIME = 268_435_399  # the largest below 2^28
N = 1 << 28
SIDE = 1 << 14
SEED_SHAPES = [(1, 1024, 3072), (1, 2048, 3072), (1, 8, 3, 1025, 128)]
SEED_OPS = {"add_const": "x + 42", "log": "log(x)", "erf": "erf(x)"}
HEADER = ["case", "cache", "bytes_moved", "ours_us", "flat_us", "eager_us", "compile_us", "ours_GBps", "of_flat", "of_eager",
          "of_compile"]


class Case:
    """An expression on inputs; `torch` does the same in PyTorch, on one tensor per input and one for the output."""

    def __init__(self, name, text, inputs, torch, out, flat, caches=("cold",)):
        # inputs and out: (dtype, shape, how), how is '', 'offset=1' or 'transposed'. flat: (expression, dtype, bytes).
        self.name, self.text, self.inputs, self.torch = name, text, inputs, torch
        self.out, self.flat, self.caches = out, flat, caches

    def arguments(self):
        words = []
        for name, (dtype, shape, how) in zip("xyz", self.inputs):
            words += ["--in", ":".join([name, dtype, "x".join(map(str, shape))] + ([how] if how else []))]
        return [self.text, *words]


def apply(op):
    import torch

    if op == "add_const":
        return lambda x, out: torch.add(x, c.SHIFT, out=out)
    return lambda x, out: getattr(torch, op)(x, out=out)


def cases():
    import torch

    add = "x + 42"
    shift = apply("add_const")
    plus = lambda x, y, out: torch.add(x, y, out=out)  # noqa: E731
    square = (SIDE, SIDE)
    gib = (add, "f32", 1024 * c.MIB)
    found = [
        Case("n is prime, f32", add, [("f32", (PRIME,), "")], shift, ("f32", (PRIME,)), gib),
        Case("n is prime, bf16", add, [("bf16", (2 * PRIME - 1,), "")], shift, ("bf16", (2 * PRIME - 1,)), (add, "bf16", 1024 * c.MIB)),
        Case("input offset by one, f32", add, [("f32", (N,), "offset=1")], shift, ("f32", (N,)), gib),
        Case("input offset by one, bf16", add, [("bf16", (2 * N,), "offset=1")], shift, ("bf16", (2 * N,)), (add, "bf16", 1024 * c.MIB)),
        Case("bias over rows", "x + y", [("f32", square, ""), ("f32", (1, SIDE), "")], plus, ("f32", square), gib),
        Case("bias over columns", "x + y", [("f32", square, ""), ("f32", (SIDE, 1), "")], plus, ("f32", square), gib),
        Case("transposed, f32", add, [("f32", square, "transposed")], shift, ("f32", square), gib),
        Case("transposed, bf16", add, [("bf16", (2 * SIDE, SIDE), "transposed")], shift, ("bf16", (SIDE, 2 * SIDE)), (add, "bf16", 1024 * c.MIB)),
        Case("bf16 × f32 → bf16", "d: bf16 = x * y", [("bf16", (N,), ""), ("f32", (N,), "")], lambda x, y, out: torch.mul(x, y, out=out), ("bf16", (N,)), ("x * y", "f32", 2048 * c.MIB // 3 // 4096 * 4096)),
    ]
    for op, text in SEED_OPS.items():
        for dtype in ("f32", "bf16"):
            for shape in SEED_SHAPES:
                nbytes = math.prod(shape) * c.ITEM[dtype]
                name = f"{op} {dtype} ({', '.join(map(str, shape))})"
                # The flat figure is that of the nearest multiple of 4 KiB.
                flat = (text, dtype, max(4096, nbytes // 4096 * 4096))
                found.append(Case(name, text, [(dtype, shape, "")], apply(op), (dtype, shape), flat, ("cold", "hot")))
    return found


def tensors(case, window_count):
    """per window: the inputs and the output"""
    import torch

    def make(dtype, shape, how, random):
        count = math.prod(shape) + (1 if how.startswith("offset") else 0)
        flat = torch.empty(count, dtype=c.torch_dtype(dtype), device="cuda")
        if random:
            flat.uniform_(0.01, 3.0)
        flat = flat[1:] if how.startswith("offset") else flat
        shaped = flat.view(shape)
        return shaped.t() if how == "transposed" else shaped

    return [[make(*spec, True) for spec in case.inputs] + [make(*case.out, "", False)] for _ in range(window_count)]


def peer(case, cold, compiled):
    """microseconds of one launch"""
    import torch

    nbytes = max(math.prod(shape) * c.ITEM[dtype] for dtype, shape, *_ in [*case.inputs, case.out])
    sets = tensors(case, c.windows(nbytes) if cold else 1)
    function = case.torch
    if compiled:
        pure = {"log": torch.log, "erf": torch.erf}
        known = next((pure[op] for op in pure if op in case.text), None)
        if known:
            body = lambda x, out: out.copy_(known(x))  # noqa: E731
        elif len(case.inputs) == 1:
            body = lambda x, out: out.copy_(x + c.SHIFT)  # noqa: E731
        elif "*" in case.text:
            body = lambda x, y, out: out.copy_(x * y)  # noqa: E731
        else:
            body = lambda x, y, out: out.copy_(x + y)  # noqa: E731
        options = {"max_autotune": True, "max_autotune_pointwise": True, "triton.cudagraphs": False}
        function = torch.compile(body, dynamic=False, fullgraph=True, options=options)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    return c.time_it(stream, nbytes, len(case.inputs) + 1, lambda window: function(*sets[window % len(sets)]), cold=cold)


def ours(args, words, cold):
    """(microseconds, bytes) of one launch"""
    command = [args.plimsoll, "bench", *words, "--cold" if cold else "--hot", "--format", "csv", "--effort", "standard",
               "--device", "cuda:0", "--out", os.path.join(args.out, "records", f"shape-{time.time_ns()}")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    row = list(csv.DictReader(done.stdout.splitlines()))[-1]
    return float(row["median_us"]), int(row["bytes_moved"])


def measure(args, case, cold):
    """medians over the rounds; each round times every contestant once"""
    text, dtype, nbytes = case.flat
    found = {"ours": [], "flat": [], "eager": [], "compile": []}
    total = flat_total = 0
    for _ in range(args.rounds):
        us, total = ours(args, case.arguments(), cold)
        found["ours"].append(us)
        us, flat_total = ours(args, [text, "--dtype", dtype, "--bytes", str(nbytes)], cold)
        found["flat"].append(us)
        for name, compiled in (("eager", False), ("compile", True)):
            try:
                found[name].append(peer(case, cold, compiled))
            except Exception as error:
                c.log(f"# {case.name}: {name}: {error!r}")
    us = {name: statistics.median(times) if times else math.nan for name, times in found.items()}
    # Compare bandwidths, because the flat launch may move slightly more or fewer bytes.
    of_flat = (total / us["ours"]) / (flat_total / us["flat"])
    return [total, *(f"{us[name]:.3f}" for name in found), f"{total / us['ours'] / 1e3:.1f}", f"{of_flat:.4f}",
            f"{us['eager'] / us['ours']:.4f}", f"{us['compile'] / us['ours']:.4f}"]


def run(args, over):
    import torch

    c.prepare_inductor(args.out)
    c.unlimited_recompiles()
    path = os.path.join(args.out, "shapes.csv")
    rows = []
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = [row for row in csv.reader(file) if len(row) == len(HEADER)][1:]
    else:
        with open(path, "w", newline="") as file:
            csv.writer(file).writerow(HEADER)
    done = {tuple(row[:2]) for row in rows}
    for case in cases():
        for cache in case.caches:
            if (case.name, cache) in done:
                continue
            if over(args):
                c.log(f"# budget reached before {case.name}, {cache}: call again")
                return
            try:
                row = [case.name, cache, *measure(args, case, cache == "cold")]
            except RuntimeError as error:
                c.log(f"# {case.name}, {cache}: {error}")
                continue
            rows.append(row)
            with open(path, "a", newline="") as file:
                csv.writer(file).writerow(row)
            torch.cuda.empty_cache()
    text = ["| case | cache | GB/s | of flat | of eager | of torch.compile |", "|---|---|---|---|---|---|"]
    text += [f"| {row[0]} | {row[1]} | {row[7]} | {row[8]} | {row[9]} | {row[10]} |" for row in rows]
    with open(os.path.join(args.out, "shapes.md"), "w") as file:
        file.write("\n".join(text) + "\n")
    print("\n".join(text))
