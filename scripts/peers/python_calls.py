#!/usr/bin/env python3
"""Times plimsoll from Python on a GPU next to torch.compile (max-autotune, with CUDA graphs) and to PyTorch's fused AdamW.

    python3 scripts/peers/python_calls.py -o FILE.jsonl [--sizes 1,16,256,1024]

Each line is one cell: the time of a call with both, in turns, on the same tensors; `ratio` is theirs divided by ours. Times are
medians of rounds by CUDA events, of calls that follow each other. Ours are recorded once with torch.cuda.graph and replayed, as
max-autotune does with its own. `host` cells are the time until a call returns, for 1 KiB.
"""

import argparse
import json
import statistics
import time

import torch

import plimsoll

MIB = 1 << 20
ROUNDS = 7


def gelu(x):
    return torch.nn.functional.gelu(x)


#: Name: our text, theirs, the types of the inputs, and bytes moved per element.
CELLS = {
    "swiglu": ("silu(x)*y", lambda x, y: torch.nn.functional.silu(x) * y, ["bfloat16"] * 2, 6),
    "bias-gelu-residual": ("gelu(x + b) + y", lambda x, b, y: gelu(x + b) + y, ["bfloat16", "row", "bfloat16"], 6),
    "f8-quantise": ("q: f8e4m3 = x*12.5", lambda x: (x * 12.5).to(torch.float8_e4m3fn), ["bfloat16"], 3),
    "f8-dequantise": ("y: bf16 = x*0.08", lambda x: (x.float() * 0.08).to(torch.bfloat16), ["float8_e4m3fn"], 3),
}
COLUMNS = 4096


def inputs(kinds, elements):
    """Tensors of these types; a row is broadcast."""
    made = []
    for kind in kinds:
        shape = (COLUMNS,) if kind == "row" else (max(elements // COLUMNS, 1), COLUMNS)
        dtype = getattr(torch, "bfloat16" if kind == "row" else kind)
        made.append(torch.randn(shape, device="cuda").clamp(-3, 3).to(dtype))
    return made


def seconds(call, calls):
    """The time of one of `calls` calls that follow each other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / 1e3 / calls


def in_turns(ours, theirs, least=0.02):
    """Medians of both times, with as many calls per round as take `least` seconds."""
    for call in (ours, theirs):
        for _ in range(5):
            call()
    torch.cuda.synchronize()
    calls = [max(3, min(2000, int(least / max(seconds(call, 5), 1e-7)))) for call in (ours, theirs)]
    rounds = [[seconds(call, count) for call, count in zip((ours, theirs), calls)] for _ in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds)]


def cell(name, mib):
    text, peer, kinds, moved = CELLS[name]
    tensors = inputs(kinds, mib * MIB // moved)
    f = plimsoll.compile(text)
    names = dict(zip(f.parameters, tensors))
    out = f(**names)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f(**names, out=out)
    for tensor in tensors:
        torch._dynamo.mark_static_address(tensor)
    torch._dynamo.reset()
    compiled = torch.compile(peer, mode="max-autotune")
    ordered = [names[parameter] for parameter in ("x", "b", "y") if parameter in names]
    expected = compiled(*ordered)
    torch.testing.assert_close(out.float(), expected.float(), rtol=2**-3 if "quantise" in name else 2**-6, atol=2**-6)
    ours, theirs = in_turns(graph.replay, lambda: compiled(*ordered))
    traffic = sum(tensor.nbytes for tensor in tensors) + out.nbytes
    return {"cell": name, "mib": mib, "ours": ours, "theirs": theirs, "ratio": theirs / ours, "gbps": traffic / ours / 1e9}


def adamw(count=300):
    torch.manual_seed(1)
    sizes = [int(2 ** torch.empty(()).uniform_(10, 23)) for _ in range(count)]
    lists = [[torch.randn(size, device="cuda") for size in sizes] for _ in range(2)]
    p, g = lists
    m, v = ([torch.zeros_like(x) for x in p] for _ in range(2))
    theirs = [torch.nn.Parameter(x.clone()) for x in p]
    for x, grad in zip(theirs, g):
        x.grad = grad
    optimizer = torch.optim.AdamW(theirs, lr=1e-3, fused=True)
    step = plimsoll.compile(
        "m = m + (g - m)*0.1\nv = v*0.999 + g*g*0.001\np = p*0.99999 - a*m/(sqrt(v)*b + 1e-8)"
    )
    count_steps = 0

    def ours():
        nonlocal count_steps
        count_steps += 1
        b1, b2 = 1 - 0.9**count_steps, 1 - 0.999**count_steps
        step.many(m=m, g=g, v=v, p=p, a=1e-3 / b1, b=b2**-0.5)

    times = in_turns(ours, optimizer.step)
    begin = time.perf_counter()
    ours()
    host = time.perf_counter() - begin
    traffic = 7 * 4 * sum(sizes)
    return {"cell": f"adamw-{count}", "mib": traffic / MIB, "ours": times[0], "theirs": times[1], "ratio": times[1] / times[0], "gbps": traffic / times[0] / 1e9, "host": host}


def host():
    """Seconds until a call returns, the least of many short runs."""
    x, y, out = (torch.randn(256, device="cuda") for _ in range(3))
    f = plimsoll.compile("x + y")

    def least(call):
        best = 1e9
        for _ in range(60):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(200):
                call()
            best = min(best, (time.perf_counter() - begin) / 200)
        return best

    for name, ours, theirs in [
        ("host, out=", lambda: f(x, y, out=out), lambda: torch.add(x, y, out=out)),
        ("host, new result", lambda: f(x, y), lambda: x + y),
    ]:
        a, b = least(ours), least(theirs)
        yield {"cell": name, "ours": a, "theirs": b, "ratio": b / a}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--sizes", default="1,16,256,1024", help="MiB moved")
    options = parser.parse_args()
    device = torch.cuda.get_device_name()
    with open(options.output, "a", encoding="utf-8") as file:

        def keep(line):
            line |= {"device": device, "torch": torch.__version__}
            file.write(json.dumps(line) + "\n")
            file.flush()
            print({key: round(value, 9) if isinstance(value, float) else value for key, value in line.items()}, flush=True)

        for line in host():
            keep(line)
        keep(adamw())
        for name in CELLS:
            for mib in map(int, options.sizes.split(",")):
                try:
                    keep(cell(name, mib))
                except Exception as error:
                    keep({"cell": name, "mib": mib, "error": f"{type(error).__name__}: {error}"[:300]})


if __name__ == "__main__":
    main()
