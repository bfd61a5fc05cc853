#!/usr/bin/env python3
"""Races plimsoll against torch.compile (max-autotune) and eager PyTorch on random expressions, types, layouts and sizes, on one GPU.

  random_cases.py --seed S --cases N --dry-run                  print the cases; needs no GPU
  random_cases.py --seed S --cases N --out FILE [--plimsoll NEW] [--before OLD] [--tune] [--limit-seconds T]
  random_cases.py --summary FILE…                               Markdown: means, shares, the worst cases

Case k of a seed is the same for every N. A finished case is one JSON line at the end of FILE; a second call continues. Cases are
compiled in batches, in several processes, while nothing is timed. Then each is timed in rounds: torch.compile, eager, plimsoll, all
with cold data (windows that are together larger than the caches) and launches in a CUDA graph. Eager is left out of further rounds if
it is more than 10 % behind torch.compile. A case with a wrong result is not timed: plimsoll checks its own, torch.compile is compared
with eager PyTorch in f64. With --tune, plimsoll is also timed with its own --tune, and a case is two lines: untuned, then tuned, with
the same times of PyTorch.
"""
import argparse
import csv
import gc
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from drawn_case import drawn  # noqa: E402

BEGAN = time.monotonic()
REPLAYS, WARM_UP = 8, 5
BEHIND = 1.1
"""Times of torch.compile from which on eager is not timed again."""
TUNED = "tuned_"
"""Before the names of what is timed with --tune."""
RESERVE = 15.0
"""Seconds that a case may take: nothing is started later than this before the limit."""
SECONDS_PER_CASE = {False: 4.0, True: 10.0}
"""Usual seconds of a case without and with --tune, to compile no more of them than there is time for."""


class Results:
    """A file of JSON lines that grows by whole lines."""

    def __init__(self, path):
        self.path = path
        self.records = read(path) if os.path.exists(path) else []
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, "rb+") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.write(b"\n")

    def done(self, tuned):
        """keys of the cases that need not run again; those that failed do"""
        return {record["key"] for record in self.records if record["tuned"] == tuned and not record.get("error")}

    def add(self, record):
        self.records.append(record)
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()


def read(path):
    """the records of a file, without a line that was cut off"""
    found = []
    with open(path) as file:
        for line in file:
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                print(f"# {path}: a line that isn't JSON is skipped", file=sys.stderr)
    return found


# ---------------------------------------------------------------------------------------------- plimsoll
class Wrong(Exception):
    """a program's results are wrong"""


def quote_messages(program, messages, folder):
    """the end of a program's messages, for a record: without lines that name a temporary folder, and without the program's own"""
    name = os.path.basename(program)
    kept = "\n".join(line for line in messages.splitlines() if folder not in line)
    return f"{name} bench: {kept.replace(program, name).strip()[-400:]}"


def ours(args, program, case, tune):
    """{launch: microseconds}, flags and bytes moved of one run of `plimsoll bench`. As CSV, because JSON has predictions, which cost
    time."""
    folder = tempfile.mkdtemp(prefix="random-cases-")
    try:
        command = [program, "bench", *case.arguments(), "--plain", "--dependent", "--format", "csv", "--effort", args.effort,
                   "--seed", "1", "--device", args.device, "--out", os.path.join(folder, "run"), *(["--tune"] if tune else [])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        path = os.path.join(folder, "run", "run.jsonl")
        points = [record for record in read(path) if record.get("kind") == "point"] if os.path.exists(path) else []
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    flags = {flag for point in points for flag in point.get("flags", [])}
    if "VERIFY_FAIL" in flags or done.returncode == 1:
        raise Wrong(quote_messages(program, done.stderr, folder))
    rows = {row["peer"].split()[0]: row for row in csv.DictReader(done.stdout.splitlines())}
    if done.returncode or set(rows) != {"plimsoll", "plimsoll_dependent"}:
        raise RuntimeError(f"exit {done.returncode}: {quote_messages(program, done.stderr, folder)}")
    us = {"plain": float(rows["plimsoll"]["median_us"]), "dependent": float(rows["plimsoll_dependent"]["median_us"])}
    return us, flags, int(rows["plimsoll"]["bytes_moved"])


# ---------------------------------------------------------------------------------------------- the race
class Race:
    def __init__(self, args):
        import contestants

        # Compiled in other processes: this one only loads it.
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        contestants.prepare_inductor(args.cache)
        import torch
        import torch_side

        self.args, self.torch, self.contestants, self.torch_side = args, torch, contestants, torch_side
        contestants.unlimited_recompiles()
        self.stream = torch.cuda.Stream()
        self.compilers = torch_side.Compilers(args.cache, args.workers)
        self.header = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "tuned": False}

    def run(self, cases, results):
        """races the cases in batches; returns how many are left"""
        left = list(cases)
        try:
            while left and not over(self.args):
                batch = left[: min(self.args.batch, affordable(self.args))]
                began = time.monotonic()
                prepared = self.compilers.prepare(batch)
                print(f"# {len(batch)} cases compiled in {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
                for case, found in zip(batch, prepared):
                    if over(self.args):
                        return len(left)
                    record = self.record(case, found)
                    for line in both(record) if self.args.tune else [record]:
                        results.add(line)
                        print(shown(line), flush=True)
                    left.pop(0)
        finally:
            self.compilers.stop()
        return len(left)

    def record(self, case, prepared):
        began = time.monotonic()
        record = {"key": case.key, "seed": case.seed, "number": case.number, "family": case.family, "layout": case.kind,
                  "types": case.types, "command": case.command(), **self.header, "wrong": None, "error": prepared.get("error")}
        if prepared.get("wrong"):
            record["wrong"] = "torch.compile: " + prepared["wrong"]
        if not record["error"] and not record["wrong"]:
            try:
                record |= self.times(case, prepared["range"])
            except Wrong as error:
                record["wrong"] = str(error)
            except Exception as error:
                record["error"] = f"{type(error).__name__}: {str(error).strip()[:500]}"
        self.forget()
        record["took"] = round(time.monotonic() - began, 2)
        return record

    def times(self, case, range_of_data):
        """medians over the rounds; each round times every contestant once"""
        args = self.args
        side = self.torch_side.Side(case)
        side.allocate()
        side.fill(*range_of_data)
        self.torch.cuda.synchronize()
        moved = side.bytes_moved()
        began = time.monotonic()
        launches = {name: self.contestants.Launches(self.stream, launch, side.windows, moved / 4.0e6)
                    for name, launch in (("compile", side.compiled()), ("eager", side.eager()))}
        loaded = time.monotonic() - began
        programs = {"": (args.plimsoll, False)}
        programs |= {TUNED: (args.plimsoll, True)} if args.tune else {}
        programs |= {"before_": (args.before, False)} if args.before else {}
        found, flags, missing = {}, {}, {}
        for _ in range(args.rounds):
            for name in list(launches):
                found.setdefault(name, []).append(statistics.median(launches[name].samples(REPLAYS, WARM_UP)))
            if "eager" in launches and found["eager"][-1] > BEHIND * found["compile"][-1]:
                del launches["eager"]
            for prefix, (program, tune) in list(programs.items()):
                try:
                    us, raised, bytes_moved = ours(args, program, case, tune)
                except (Wrong, RuntimeError) as error:
                    if not prefix:
                        raise
                    # The untuned times are kept. The older program may lack or fail at what the newer one does.
                    kind = "wrong" if prefix == TUNED and isinstance(error, Wrong) else "error"
                    missing[f"{prefix}{kind}"] = str(error)
                    del programs[prefix]
                    continue
                flags.setdefault(prefix, set()).update(raised)
                if bytes_moved != moved:
                    raise RuntimeError(f"plimsoll moves {bytes_moved} bytes, PyTorch {moved}")
                for launch, value in us.items():
                    found.setdefault(prefix + launch, []).append(value)
        found["compile"].append(statistics.median(launches["compile"].samples(REPLAYS, WARM_UP)))
        medians = {f"{name}_us": round(statistics.median(values), 3) for name, values in found.items()}
        rounds = {name: [round(value, 3) for value in values] for name, values in found.items()}
        raised = {f"{prefix}flags": " ".join(sorted(of)) for prefix, of in flags.items() if prefix != "before_"}
        return {"bytes": moved, **medians, **raised, "rounds": rounds, "loaded": round(loaded, 2), **missing}

    def forget(self):
        """frees what functions and graphs hold"""
        self.torch._dynamo.reset()
        gc.collect()
        self.torch.cuda.empty_cache()


def both(record):
    """a case's untuned record and its tuned one, in the order in which they are kept"""

    def untuned(of):
        return {name: value for name, value in of.items() if not name.startswith(TUNED)}

    def tuned(of):
        return untuned(of) | {name.removeprefix(TUNED): value for name, value in of.items() if name.startswith(TUNED)}

    rounds = record.get("rounds", {})
    return [untuned(record) | {"rounds": untuned(rounds)}, tuned(record) | {"rounds": tuned(rounds), "tuned": True}]


def shown(record):
    head = f"{record['key']} {'tuned ' if record['tuned'] else ''}{record['layout']} {record['family']} {record['types']}"
    if record["wrong"] or record["error"]:
        return f"{head}: {'WRONG ' if record['wrong'] else 'error '}{record['wrong'] or record['error']}"
    peer = min(record["compile_us"], record["eager_us"])
    return (f"{head} {record['bytes'] / (1 << 20):.1f} MiB: plain {record['plain_us']:.2f} us ({peer / record['plain_us']:.3f}), "
            f"dependent {record['dependent_us']:.2f} ({peer / record['dependent_us']:.3f}), compile {record['compile_us']:.2f}, "
            f"eager {record['eager_us']:.2f}; {record['took']:.1f} s")


def over(args):
    return args.limit_seconds is not None and time.monotonic() - BEGAN > args.limit_seconds - RESERVE


def affordable(args):
    """how many cases fit before the limit"""
    if args.limit_seconds is None:
        return args.batch
    return max(1, int((args.limit_seconds - (time.monotonic() - BEGAN)) / SECONDS_PER_CASE[args.tune]))


def stop_on_terminate():
    """ends like Ctrl-C, so that processes are stopped and the file has whole lines"""

    def stop(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--cases", type=int, default=200, help="cases 0 to N-1 of the seed")
    parser.add_argument("--only", type=int, help="only the case of this number")
    parser.add_argument("--layouts", help="only the cases of these layouts, such as transposed,permuted,strided")
    parser.add_argument("--dry-run", action="store_true", help="print the cases")
    parser.add_argument("--summary", nargs="+", metavar="FILE", help="print a summary of these files as Markdown")
    parser.add_argument("--out", default="random_cases.jsonl")
    parser.add_argument("--plimsoll", default="plimsoll", help="the plimsoll command")
    parser.add_argument("--before", help="an older plimsoll to time as well, alternating with the new one")
    parser.add_argument("--tune", action="store_true", help="also time plimsoll bench --tune")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--effort", default="quick", help="effort of plimsoll bench")
    parser.add_argument("--device", default="cuda:0", help="plimsoll's name of PyTorch's first GPU")
    parser.add_argument("--limit-seconds", type=float, help="seconds after which the program ends; a second call continues")
    parser.add_argument("--workers", type=int, default=max(1, min(14, (os.cpu_count() or 1) - 2)), help="processes that compile")
    parser.add_argument("--batch", type=int, default=28, help="cases that are compiled together")
    parser.add_argument("--cache", default="random_cases_cache", help="folder of torch.compile's caches")
    return parser.parse_args()


def main():
    args = arguments()
    if args.summary:
        import random_summary

        print(random_summary.text([record for path in args.summary for record in read(path)]))
        return
    numbers = range(args.cases) if args.only is None else [args.only]
    cases = [drawn(args.seed, number) for number in numbers]
    if args.layouts:
        cases = [case for case in cases if case.kind in args.layouts.split(",")]
    if args.dry_run:
        print("\n".join(case.line() for case in cases))
        return
    args.cache = os.path.abspath(args.cache)
    stop_on_terminate()
    results = Results(args.out)
    done = results.done(args.tune)
    left = 0
    try:
        todo = [case for case in cases if case.key not in done]
        left = Race(args).run(todo, results) if todo else 0
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command continues from here")
    print(f"# {len(cases) - left} of {len(cases)} cases done" + (": call again" if left else ""), file=sys.stderr)


if __name__ == "__main__":
    main()
