#!/usr/bin/env python3
"""Times expressions on one GPU in one run: plimsoll, an older plimsoll, torch.compile (max-autotune) and eager PyTorch.

  expressions.py --plimsoll NEW [--before OLD] [--seed S --cases N] [--sizes-mib 16,1024] [--out FOLDER]

Without --cases, the expressions of LISTED in f32 and bf16; with it, N random ones. Sizes are bytes of each tensor. Every cell is a row of
FOLDER/expressions.csv, written when it is complete; a second call continues. Each side has windows that are together larger than the
caches, launches in a CUDA graph, and the median of its samples.
"""
import argparse
import csv
import gc
import os
import random
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contestants as c  # noqa: E402
import torch_text  # noqa: E402

BEGAN = time.perf_counter()
LISTED = ["x/7", "x/y", "gelu(x)", "gelu(x + y) + z", "silu(x)", "mish(x)", "softplus(x)", "atan2(x, y)", "pow(x, y)", "sin(x)", "exp(x)",
          "log(x)", "erf(x)", "x*clamp(x + 3, 0, 6)/6", "x*y + z"]
UNARY = ["exp", "log", "sin", "cos", "tanh", "erf", "sigmoid", "silu", "gelu", "softplus", "mish", "sqrt", "rsqrt", "abs", "relu"]
HEADER = ["expression", "dtype", "mib", "new_us", "before_us", "compile_us", "eager_us", "new_of_compile", "new_of_before"]


def drawn(seed, number):
    """a random expression of 2 to 6 operations on up to three inputs, and its type"""
    draw = random.Random(f"{seed}/{number}")
    inputs = ["x", "y", "z"][: draw.randint(1, 3)]
    terms = list(inputs)
    for _ in range(draw.randint(2, 6)):
        kind = draw.random()
        a = draw.choice(terms)
        if kind < 0.45:
            terms.append(f"{draw.choice(UNARY)}({a})")
        elif kind < 0.9:
            b = draw.choice([*terms, "0.5", "3", "7"])
            terms.append(f"({a} {draw.choice('+-*/')} {b})")
        else:
            terms.append(f"{draw.choice(['max', 'min'])}({a}, {draw.choice(terms)})")
    text = terms[-1]
    missing = [name for name in inputs if not re.search(rf"\b{name}\b", text)]
    return " + ".join([text, *missing]), draw.choice(["f32", "bf16", "f16"])


def as_torch(text):
    """the expression as a function of tensors, and the names of these"""
    inputs = sorted(set(re.findall(r"\b[xyz]\b", text)))
    return inputs, torch_text.function_of(text, inputs, torch_text.names())


class Torch:
    def __init__(self, largest):
        import torch

        c.unlimited_recompiles()
        self.torch, self.pools = torch, [c.Pools(largest) for _ in range(2)]

    def tensors(self, dtype, nbytes):
        for pools in self.pools:
            if pools.filled != (dtype, "small"):
                for pool in (pools.a, pools.b):
                    pool.view(c.torch_dtype(dtype)).uniform_(0.05, 4.0)
                pools.filled = (dtype, "small")
        first, second = (pools.views(dtype, nbytes) for pools in self.pools)
        return [first[0], first[1], second[0]], first[2]

    def forget(self):
        """frees what compiled functions and graphs hold"""
        self.torch._dynamo.reset()
        gc.collect()
        self.torch.cuda.empty_cache()

    def time(self, text, dtype, nbytes, compiled):
        inputs, function = as_torch(text)
        tensors, outputs = self.tensors(dtype, nbytes)
        if compiled:
            body = self.torch.compile(lambda out, *args: out.copy_(function(*args)[0]), dynamic=False, fullgraph=True, options=c.MAX_AUTOTUNE)
        else:
            def body(out, *args):
                out.copy_(function(*args)[0])
        launch = lambda window: body(outputs[window], *(tensor[window] for tensor in tensors[: len(inputs)]))  # noqa: E731
        return c.time_it(self.pools[0].stream, nbytes, len(inputs) + 1, launch, replays=10)


def ours(program, text, dtype, sizes, out):
    """{bytes of a tensor: us}"""
    inputs = len(set(re.findall(r"\b[xyz]\b", text)))
    folder = os.path.join(out, "records", f"{time.time_ns()}")
    command = [program, "bench", text, "--dtype", dtype, "--bytes", ",".join(map(str, sizes)), "--format", "csv", "--effort", "quick",
               "--seed", "1", "--device", "cuda:0", "--plain", "--out", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    rows = csv.DictReader(done.stdout.splitlines())
    return {int(row["bytes_moved"]) // (inputs + 1): float(row["median_us"]) for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plimsoll", default="plimsoll")
    parser.add_argument("--before", help="an older plimsoll to compare with")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--sizes-mib", default="16,1024")
    parser.add_argument("--budget", type=float, default=420, help="seconds after which nothing new is started")
    parser.add_argument("--out", default="expressions")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    c.prepare_inductor(args.out)
    sizes = [int(size) << 20 for size in args.sizes_mib.split(",")]
    cells = [drawn(args.seed, number) for number in range(args.cases)] or [(text, dtype) for text in LISTED for dtype in ("f32", "bf16")]
    path = os.path.join(args.out, "expressions.csv")
    done = set()
    if os.path.exists(path):
        with open(path, newline="") as file:
            done = {(row["expression"], row["dtype"]) for row in csv.DictReader(file)}
    else:
        with open(path, "w", newline="") as file:
            csv.writer(file).writerow(HEADER)
    torch = Torch(max(sizes))
    for text, dtype in cells:
        if (text, dtype) in done:
            continue
        if time.perf_counter() - BEGAN > args.budget:
            c.log("# budget reached: call again")
            break
        try:
            new = ours(args.plimsoll, text, dtype, sizes, args.out)
            before = ours(args.before, text, dtype, sizes, args.out) if args.before else {}
            rows = []
            for nbytes in sizes:
                compiled = torch.time(text, dtype, nbytes, True)
                torch.forget()
                eager = torch.time(text, dtype, nbytes, False)
                old = before.get(nbytes)
                rows.append([text, dtype, nbytes >> 20, f"{new[nbytes]:.3f}", f"{old:.3f}" if old else "", f"{compiled:.3f}",
                             f"{eager:.3f}", f"{compiled / new[nbytes]:.3f}", f"{old / new[nbytes]:.3f}" if old else ""])
        except Exception as error:
            c.log(f"# {text} {dtype}: {error!r}")
            continue
        with open(path, "a", newline="") as file:
            csv.writer(file).writerows(rows)
        for row in rows:
            print(",".join(map(str, row)), flush=True)


main()
