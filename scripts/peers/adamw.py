#!/usr/bin/env python3
"""AdamW over all parameters of a transformer, on one GPU: one launch of plimsoll against torch.optim.AdamW, fused and foreach.

  adamw.py --list                                      print the sets of each model; needs no GPU
  adamw.py [--model gpt-1.3b,llama-8b] [--types f32,mixed] [--plimsoll PROGRAM] [--effort standard] [--out FILE]

Types: `f32` is all f32; `mixed` has parameters and gradients in bf16 and moments in f32. PyTorch keeps the moments in the parameters' type:
its `mixed` moves fewer bytes and rounds the moments to bf16. If its optimizer takes f32 moments, that is timed too.

Each side runs in its own process, so that its memory is free before the next one starts: with 8 billion parameters one takes most of a
GPU. plimsoll times by `bench --batch` (launches in a graph, host time apart); PyTorch by events around several steps, and the host's time for
a step that doesn't wait. A side that fails is a line with the reason. GB/s counts each parameter, gradient and moment once per access.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ADAMW = ("m = 0.9*m + 0.1*g; v = 0.999*v + 0.001*g*g; "
         "p = keep*p - rate/(1 - pow(0.9, abs(t) + 1))*m/(sqrt(v*(1/(1 - pow(0.999, abs(t) + 1)))) + 1e-8)")
RATE, DECAY = 1e-3, 0.1
STEPS, WARM_UP = 10, 3


def gpt(layers, width, words, context):
    """the shapes of a GPT-2-like transformer's parameters"""
    shapes = [(words, width), (context, width)]
    for _ in range(layers):
        shapes += [(width,), (width,), (3 * width, width), (3 * width,), (width, width), (width,)]
        shapes += [(width,), (width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,)]
    return shapes + [(width,), (width,)]


def llama(layers, width, hidden, keys, words):
    """the shapes of a Llama-like transformer's parameters"""
    shapes = [(words, width)]
    for _ in range(layers):
        shapes += [(width, width), (keys, width), (keys, width), (width, width)]
        shapes += [(hidden, width), (hidden, width), (width, hidden), (width,), (width,)]
    return shapes + [(width,), (words, width)]


MODELS = {
    "gpt-1.3b": lambda: gpt(24, 2048, 50257, 2048),
    "llama-8b": lambda: llama(32, 4096, 14336, 1024, 128256),
}
# Bytes that one element moves: g, then m, v and p read and written.
MOVED = {"f32": 4 + 2 * (4 + 4 + 4), "mixed": 2 + 2 * (4 + 4 + 2), "mixed, moments bf16": 2 + 2 * (2 + 2 + 2)}


def elements(shapes):
    total = 0
    for shape in shapes:
        count = 1
        for extent in shape:
            count *= extent
        total += count
    return total


def listed(shapes):
    """the shapes as a list for --batch, in their order"""
    return "\n".join("x".join(str(extent) for extent in shape) for shape in shapes) + "\n"


# ---------------------------------------------------------------------------------------------- plimsoll
def ours(args, model, types):
    """seconds of a step, of the host for a launch, and the share of flat bandwidth"""
    dtype = {"f32": ["--dtype", "f32"], "mixed": ["--dtype", "g:bf16,p:bf16,m:f32,v:f32"]}[types]
    folder = tempfile.mkdtemp(prefix="adamw-")
    try:
        sets = os.path.join(folder, "sets.txt")
        with open(sets, "w") as file:
            file.write(listed(MODELS[model]()))
        command = [args.plimsoll, "bench", ADAMW, "--batch", sets, *dtype, "--in", "t:f32:1", "--scalar", f"rate={RATE}",
                   "--scalar", f"keep={1 - RATE * DECAY}", "--format", "json", "--effort", args.effort, "--device", args.device,
                   "--out", os.path.join(folder, "run"), "--name", "adamw"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.strip()[-300:]}")
    lines = json.loads(done.stdout)
    batch = [line for line in lines if line["shape"].startswith("batch")][0]
    if "VERIFY_FAIL" in batch["flags"]:
        raise RuntimeError("wrong results")
    return {"seconds": batch["seconds"], "host": batch["host_seconds"], "of_flat": batch["of_flat"]}


# ---------------------------------------------------------------------------------------------- PyTorch
def theirs(model, types, form):
    """seconds of a step and of the host for it; runs in its own process"""
    import torch

    shapes = MODELS[model]()
    dtype = torch.float32 if types == "f32" else torch.bfloat16
    parameters = []
    for shape in shapes:
        parameter = torch.nn.Parameter(torch.ones(shape, dtype=dtype, device="cuda"))
        parameter.grad = torch.full_like(parameter, 1e-3)
        parameters.append(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=DECAY, **{form: True})
    if types == "mixed":
        optimizer.step()
        for state in optimizer.state.values():
            for name in ["exp_avg", "exp_avg_sq"]:
                state[name] = state[name].float()
    for _ in range(WARM_UP):
        optimizer.step()
    torch.cuda.synchronize()
    host, begin, end = [], torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(STEPS):
        before = time.perf_counter()
        optimizer.step()
        host.append(time.perf_counter() - before)
    end.record()
    torch.cuda.synchronize()
    return {"seconds": begin.elapsed_time(end) / 1e3 / STEPS, "host": statistics.median(host), "torch": torch.__version__}


def apart(args, model, types, form):
    """`theirs` in another process"""
    command = [sys.executable, os.path.abspath(__file__), "--side", form, "--model", model, "--types", types]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1][:200] if done.stderr.strip() else f"exit {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------------------------------------- the race
def race(args, out):
    for model in args.model.split(","):
        count = elements(MODELS[model]())
        for types in args.types.split(","):
            sides = [("plimsoll", types, lambda: ours(args, model, types))]
            for form in ["fused", "foreach"]:
                kinds = [types] if types == "f32" else ["mixed", "mixed, moments bf16"]
                sides += [(f"torch {form}", kind, lambda form=form, kind=kind: apart(args, model, kind, form)) for kind in kinds]
            first = None
            for side, kind, run in sides:
                record = {"model": model, "types": kind, "side": side, "elements": count}
                try:
                    record.update(run())
                    first = first or record["seconds"]
                    record["gbps"] = MOVED[kind] * count / record["seconds"] / 1e9
                    record["times_ours"] = record["seconds"] / first if side != "plimsoll" else 1.0
                    of_flat = f", {record['of_flat']:.3f} of flat" if record.get("of_flat") else ""
                    print(f"{model} {kind:20} {side:14} {record['seconds'] * 1e3:8.3f} ms {record['gbps']:7.0f} GB/s, "
                          f"{record['times_ours']:.3f} times ours, host {(record['host'] or 0) * 1e6:.1f} µs{of_flat}", flush=True)
                except Exception as error:  # noqa: BLE001: the other sides still run
                    record["error"] = str(error)
                    print(f"{model} {kind:20} {side:14} {error}", flush=True)
                out.write(json.dumps(record) + "\n")
                out.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=",".join(MODELS))
    parser.add_argument("--types", default="f32,mixed")
    parser.add_argument("--plimsoll", default="plimsoll")
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one side")
    parser.add_argument("--out", default=os.devnull, help="file for JSON lines")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--side", choices=["fused", "foreach"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(theirs(args.model, args.types, args.side)))
        return
    if args.list:
        for model in args.model.split(","):
            shapes = MODELS[model]()
            print(f"# {model}: {len(shapes)} sets, {elements(shapes):,} elements\n{listed(shapes)}")
        return
    with open(args.out, "a") as out:
        race(args, out)


if __name__ == "__main__":
    main()
