#!/usr/bin/env python3
"""Compares elementwise expressions on the CPU with NumPy, numexpr and PyTorch, interleaved in one run with the same threads.

  python3 -m venv target/peers-cpu && target/peers-cpu/bin/pip install numpy numexpr torch   # any one may be missing
  cargo build --release -p plimsoll-cpu --example foreign_calls
  target/peers-cpu/bin/python scripts/compare_elementwise_cpu.py [--elements 67108864] [--threads 2] [--rounds 5]

Every round times plimsoll and then each peer once (A B A B ...), each as the fastest of some runs in memory that it touched
before: other programs only add time. Plimsoll's are calls of `run_foreign`, so the library decides about threads and stores.
Peers write into existing tensors (`out=`), so temporaries cost them traffic but no allocation. stdout, CSV: operation, who,
GBps (the best round, counting the bytes that the expression must move: reads + writes), low, high, ratio of plimsoll to this
program.
"""

import argparse
import os
import re
import subprocess
import sys
import time

# Operation: plimsoll's text, and bytes moved per element (f32).
OPERATIONS = {
    "copy": ("in x: f32; y = x", 8),
    "triad": ("in x: f32, z: f32; scalar a: f32; y = a*x + z", 12),
    "exp": ("in x: f32; y = exp(x)", 8),
    "erf": ("in x: f32; y = erf(x)", 8),
    "tanh": ("in x: f32; y = tanh(x)", 8),
    "swiglu": ("in x: f32, z: f32; y = silu(x)*z", 12),
    "fused": ("in x: f32, z: f32; y = sqrt(x*x + z*z)*0.5", 12),
}
# The time of a peer's runs, seconds, and of a run of short calls.
TOTAL = 0.5
RUN = 1e-3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--elements", type=int, default=1 << 26)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--binary", default=os.environ.get("PLIMSOLL_CALLS", "target/release/examples/foreign_calls"))
    args = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
        os.environ[name] = str(args.threads)
    peers = load_peers(args)
    print("operation,who,GBps,low,high,ratio")
    for operation in args.operations.split(","):
        rates = {"plimsoll": []}
        for _ in range(args.rounds):
            rates["plimsoll"].append(ours(args, operation))
            for peer, run in peers.items():
                seconds = run(operation)
                if seconds is not None:
                    gigabytes = OPERATIONS[operation][1] * args.elements / 1e9
                    rates.setdefault(peer, []).append(gigabytes / seconds)
        own = max(rates["plimsoll"])
        for who, values in rates.items():
            best = max(values)
            print(f"{operation},{who},{best:.2f},{min(values):.2f},{best:.2f},{own / best:.2f}", flush=True)


def ours(args, operation):
    """GB/s of plimsoll's example program: the fastest of its runs."""
    text, width = OPERATIONS[operation]
    command = [args.binary, text, str(args.elements), str(args.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"([\d.]+) ns", done.stdout)
    if done.returncode or not found:
        sys.exit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return width * args.elements / float(found.group(1))


def fastest_seconds(run):
    run()
    begin = time.perf_counter()
    run()
    calls = max(1, int(RUN / max(1e-7, time.perf_counter() - begin)))
    fastest, start = float("inf"), time.perf_counter()
    while time.perf_counter() < start + TOTAL:
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        fastest = min(fastest, (time.perf_counter() - begin) / calls)
    return fastest


def load_peers(args):
    """The installed peers by name, each a function from an operation to seconds, or to None if the peer lacks the operation."""
    peers = {}
    try:
        import numpy
    except ImportError:
        return peers
    random = numpy.random.default_rng(1)
    x = random.uniform(-3, 3, args.elements).astype(numpy.float32)
    z = random.uniform(-3, 3, args.elements).astype(numpy.float32)
    y, t = numpy.zeros_like(x), numpy.zeros_like(x)
    a, half = numpy.float32(1.5), numpy.float32(0.5)

    def fused_numpy():
        numpy.multiply(x, x, out=y)
        numpy.multiply(z, z, out=t)
        numpy.add(y, t, out=y)
        numpy.sqrt(y, out=y)
        numpy.multiply(y, half, out=y)

    def triad_numpy():
        numpy.multiply(x, a, out=t)
        numpy.add(t, z, out=y)

    by_numpy = {
        "copy": lambda: numpy.copyto(y, x),
        "triad": triad_numpy,
        "exp": lambda: numpy.exp(x, out=y),
        "tanh": lambda: numpy.tanh(x, out=y),
        "fused": fused_numpy,
    }
    peers["numpy"] = timed(by_numpy)
    try:
        import numexpr

        numexpr.set_num_threads(args.threads)
        texts = {"copy": "x", "triad": "a*x + z", "exp": "exp(x)", "fused": "sqrt(x*x + z*z)*half"}
        texts |= {"tanh": "tanh(x)", "swiglu": "x/(one + exp(-x))*z"}
        names = {"x": x, "z": z, "a": a, "half": half, "one": numpy.float32(1)}
        evaluate = lambda text: lambda: numexpr.evaluate(text, local_dict=names, out=y)  # noqa: E731
        peers["numexpr"] = timed({name: evaluate(text) for name, text in texts.items()})
    except ImportError:
        pass
    try:
        import torch

        torch.set_num_threads(args.threads)
        tx, tz, ty, tt = (torch.from_numpy(array) for array in (x, z, y, t))

        def fused_torch():
            torch.mul(tx, tx, out=ty)
            torch.addcmul(ty, tz, tz, out=tt)
            torch.sqrt(tt, out=ty)
            torch.mul(ty, 0.5, out=ty)

        def swiglu_torch():
            torch.ops.aten.silu.out(tx, out=tt)
            torch.mul(tt, tz, out=ty)

        by_torch = {
            "copy": lambda: ty.copy_(tx),
            "triad": lambda: torch.add(tz, tx, alpha=1.5, out=ty),
            "exp": lambda: torch.exp(tx, out=ty),
            "erf": lambda: torch.erf(tx, out=ty),
            "tanh": lambda: torch.tanh(tx, out=ty),
            "swiglu": swiglu_torch,
            "fused": fused_torch,
        }
        peers["torch"] = timed(by_torch)
    except ImportError:
        pass
    return peers


def timed(runs):
    return lambda operation: fastest_seconds(runs[operation]) if operation in runs else None


if __name__ == "__main__":
    main()
