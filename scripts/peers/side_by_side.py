#!/usr/bin/env python3
"""Compares plimsoll with the best of its peers in every cell, in one run on one machine.

  side_by_side.py build      compile cub.cu with nvcc; with --cccl a second time with a newer CUB
  side_by_side.py tune       time every peer in every cell with every configuration: tuned.csv, peers.csv
  side_by_side.py compare    time plimsoll and the best two peers of each cell, interleaved, in rounds: rounds.csv
  side_by_side.py accuracy   find the largest error of every contestant over all inputs: accuracy.csv
  side_by_side.py table      write ratios with intervals: side_by_side.csv, side_by_side.md, and short.md without figures
  side_by_side.py shapes     time shapes, odd sizes, offsets, broadcasts: see shapes.py

Every stage ends after --budget seconds, prints on stderr what is left, and continues there when it is called again. Uses torch,
triton, cupy and nvcc; if one is missing, its contestants are left out.
"""
import argparse
import csv
import gzip
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contestants as c  # noqa: E402

BEGAN = time.perf_counter()
EXPRESSIONS = {"copy": "x", "add_const": "x + 42", "triad": "x + a*y", "exp": "exp(x)", "log": "log(x)", "erf": "erf(x)"}
# Our launch forms: plain as a call makes them, dependent (overlapping), and ordinary as in every other program except CUB.
OURS = {"plain": "plimsoll", "dependent": "plimsoll_dependent", "ordinary": "plimsoll_ordinary"}
HEADER = ["peer", "op", "dtype", "bytes_moved", "median_us", "GBps"]
# Student's t, two-sided 95 %, by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 11: 2.201}


class Rows:
    """a CSV file that grows by whole lines, so that a stage that is cut off loses at most one; if only NAME.gz exists, it is
    unpacked first"""

    def __init__(self, path, header):
        self.path, self.header, self.rows = path, header, []
        if not os.path.exists(path) and os.path.exists(path + ".gz"):
            with gzip.open(path + ".gz") as packed, open(path, "wb") as file:
                shutil.copyfileobj(packed, file)
        if os.path.exists(path):
            with open(path, newline="") as file:
                self.rows = [row for row in csv.DictReader(file) if None not in row.values()]
        else:
            with open(path, "w", newline="") as file:
                csv.writer(file).writerow(header)

    def add(self, **row):
        self.rows.append({key: str(value) for key, value in row.items()})
        with open(self.path, "a", newline="") as file:
            csv.writer(file).writerow([row[key] for key in self.header])

    def keys(self, *names):
        return {tuple(row[name] for name in names) for row in self.rows}


def over(args):
    return time.perf_counter() - BEGAN > args.budget


def moved(op, nbytes):
    return c.operands(op) * nbytes


def cells(args):
    return [(op, dtype, nbytes) for dtype in args.dtypes for op in args.ops for nbytes in args.sizes]


def gbps(nbytes, us):
    return f"{nbytes / (us * 1e3):.1f}"


# ---------------------------------------------------------------------------------------------- stages
def build(args):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cub.cu")
    command = ["nvcc", "-O3", "-std=c++17", "-arch=native", "--extended-lambda", source, "-o"]
    subprocess.run(command + [os.path.join(args.out, "cub")], check=True)
    if args.cccl:
        # A checkout has its parts in separate folders; the package nvidia-cuda-cccl has all of them in include/cccl.
        checkout = os.path.isdir(os.path.join(args.cccl, "libcudacxx"))
        parts = [os.path.join(args.cccl, part) for part in ("cub", "thrust", "libcudacxx/include")]
        include = [f"-I{part}" for part in (parts if checkout else [args.cccl])]
        subprocess.run(command + [os.path.join(args.out, "cub-newer"), *include], check=True)


def tune(args):
    rows = Rows(os.path.join(args.out, "tuned.csv"), ["peer", "config"] + HEADER[1:])
    all_of = c.Contestants(args.out, max(args.sizes))
    done = rows.keys("peer", "config", "op", "dtype", "bytes_moved")
    todo = [
        (peer, config, op, dtype, nbytes)
        for peer in args.peers
        for op, dtype, nbytes in cells(args)
        for config in all_of.configs(peer, op)
        if (peer, config, op, dtype, str(moved(op, nbytes))) not in done
    ]
    c.log(f"# {len(todo)} of {len(todo) + len(done)} trials to do")
    warm(args, todo)
    broken = set()
    for place, (peer, config, op, dtype, nbytes) in enumerate(todo):
        if over(args):
            c.log(f"# budget reached, {len(todo) - place} trials left: call again")
            break
        if (peer, config, op, dtype) in broken:
            continue
        try:
            us = all_of.time(peer, config, op, dtype, nbytes)
        except Exception as error:
            c.log(f"# {peer} {config} {op} {dtype} {nbytes}: {error!r}")
            broken.add((peer, config, op, dtype))
            continue
        total = moved(op, nbytes)
        rows.add(peer=peer, config=config, op=op, dtype=dtype, bytes_moved=total, median_us=f"{us:.4f}", GBps=gbps(total, us))
    all_of.close()
    with open(os.path.join(args.out, "peers.csv"), "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(HEADER)
        for (op, dtype, total), ranked in best(rows).items():
            for us, peer, _ in ranked:
                out.writerow([peer, op, dtype, total, f"{us:.3f}", gbps(int(total), us)])


def warm(args, todo):
    """compiles missing Triton kernels in several processes at once"""
    jobs = sorted({(op, dtype, tuple(int(p) for p in config.split("/"))) for peer, config, op, dtype, _ in todo if peer == "triton"})
    if len(jobs) < 8:
        return
    import multiprocessing

    workers = min(8, os.cpu_count() or 1)
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        pool.map(c.warm_triton, [jobs[i::workers] for i in range(workers)])
    c.log(f"# {len(jobs)} Triton kernels compiled after {time.perf_counter() - BEGAN:.0f} s")


def best(rows):
    """by (op, dtype, bytes): each peer's best configuration, the fastest first"""
    by_cell = {}
    for row in rows.rows:
        cell = by_cell.setdefault((row["op"], row["dtype"], row["bytes_moved"]), {})
        found = (float(row["median_us"]), row["peer"], row["config"])
        cell[row["peer"]] = min(cell.get(row["peer"], found), found)
    return {key: sorted(cell.values()) for key, cell in by_cell.items()}


def ours(args, op, dtype, sizes):
    """{(peer, bytes_moved): us} of every launch form"""
    found = bench(args, op, dtype, sizes, "--plain", "--dependent")
    ordinary = bench(args, op, dtype, sizes, "--plain", "--variant", "release=none")
    return found | {(OURS["ordinary"], total): us for (_, total), us in ordinary.items()}


def bench(args, op, dtype, sizes, *launches):
    """{(peer, bytes_moved): us} of one process for all sizes"""
    listed = ",".join(str(nbytes) for nbytes in sizes)
    command = [args.plimsoll, "bench", EXPRESSIONS[op], "--name", op, "--dtype", dtype, "--bytes", listed, "--format", "csv",
               "--effort", args.effort, "--seed", "1", "--device", "cuda:0", *launches]
    if op == "triad":
        command += ["--scalar", f"a={c.ALPHA}"]
    folder = os.path.join(args.out, "records", f"{op}-{dtype}-{time.time_ns()}")
    done = subprocess.run(command + ["--out", folder], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    table = csv.DictReader(done.stdout.splitlines())
    return {(row["peer"], row["bytes_moved"]): float(row["median_us"]) for row in table}


def compare(args):
    ranked = best(Rows(os.path.join(args.out, "tuned.csv"), ["peer", "config"] + HEADER[1:]))
    rows = Rows(os.path.join(args.out, "rounds.csv"), ["round", "peer", "config"] + HEADER[1:])
    done = rows.keys("round", "op", "dtype")
    all_of = c.Contestants(args.out, max(args.sizes))
    for number in range(args.rounds):
        missing = [(op, dtype) for dtype in args.dtypes for op in args.ops if (str(number), op, dtype) not in done]
        if missing and not over(args):
            all_of.move(number)
        for op, dtype in missing:
            if over(args):
                c.log(f"# budget reached before {op} {dtype} round {number}: call again")
                all_of.close()
                return
            one_round(args, all_of, ranked, rows, (op, dtype), number)
    all_of.close()
    c.log("# every round is measured")


def one_round(args, all_of, ranked, rows, group, number):
    """times ours, then the best two peers of each cell; in odd rounds in the reverse order. Rows are written only when complete."""
    op, dtype = group
    found = []

    def time_ours():
        for (peer, total), us in ours(args, op, dtype, args.sizes).items():
            found.append((peer, "", total, us))

    def time_peers():
        for nbytes in args.sizes:
            total = str(moved(op, nbytes))
            for _, peer, config in ranked.get((op, dtype, total), [])[:2]:
                try:
                    found.append((peer, config, total, all_of.time(peer, config, op, dtype, nbytes)))
                except Exception as error:
                    c.log(f"# {peer} {config} {op} {dtype} {nbytes}: {error!r}")

    try:
        for part in (time_ours, time_peers) if number % 2 == 0 else (time_peers, time_ours):
            part()
    except RuntimeError as error:
        c.log(f"# {error}")
        return
    for peer, config, total, us in found:
        rows.add(round=number, peer=peer, config=config, op=op, dtype=dtype, bytes_moved=total, median_us=f"{us:.4f}",
                 GBps=gbps(int(total), us))


# ---------------------------------------------------------------------------------------------- accuracy
FRACTION = {"f32": (23, -126), "bf16": (7, -126), "f16": (10, -14)}


def errors(torch, op, dtype, first, bits, y):
    """the largest error in units of the last place of the type, and its input; NaN and infinities must agree"""
    x = bits.view(c.torch_dtype(dtype)).double()
    r = {"exp": torch.exp, "log": torch.log, "erf": torch.erf, "add_const": lambda v: v + c.SHIFT, "copy": lambda v: v}[op](x)
    fraction, least = FRACTION[dtype]
    _, exponent = torch.frexp(r)
    place = torch.ldexp(torch.ones_like(r), torch.clamp(exponent - 1, min=least) - fraction)
    y = y.double()
    rounded = r.to(c.torch_dtype(dtype)).double()
    error = (y - r).abs() / place
    same = (y == rounded) | (y.isnan() & r.isnan())
    # Where the true result rounds to infinity or is NaN, anything else counts as an infinite error.
    error = torch.where(rounded.isinf() | r.isnan() | y.isnan(), torch.where(same, 0.0, math.inf), error)
    worst, at = error.max(dim=0)
    return float(worst), float(x[at])


def outputs(args, all_of, peer, op, dtype, first, count, bits):
    """a contestant's outputs for `count` bit patterns from `first` on"""
    torch = all_of.torch
    file = os.path.join(args.scratch, f"plimsoll-{peer}-{os.getpid()}.bin")
    try:
        if peer == "cub":
            all_of.cub().ask(f"bits {op} {dtype} {first} {count} {file}")
        elif peer == "plimsoll":
            command = [args.plimsoll, "bench", EXPRESSIONS[op], "--dtype", dtype, "--device", "cuda:0",
                       "--all-inputs", file, "--force", "--first", str(first), "--count", str(count)]
            subprocess.run(command, check=True, capture_output=True)
        else:
            x = bits.view(c.torch_dtype(dtype))
            y = torch.empty_like(x)
            if peer == "cupy":
                cupy, at = all_of.cupy.cupy, all_of.cupy.dtype(dtype)
                raw = [cupy.asarray(t.view(torch.uint8)).view(at) for t in (x, y)]
                torch.cuda.synchronize()
                all_of.cupy.kernels[op](*raw)
                cupy.cuda.runtime.deviceSynchronize()
            elif peer == "triton":
                c.tritons(op, (1024, 4))(x, x, y)
            else:
                (c.eager if peer == "torch_eager" else c.compiled)(op)(x, x, y)
            torch.cuda.synchronize()
            return y
        import numpy

        raw = numpy.fromfile(file, dtype=numpy.uint8)
        return torch.from_numpy(raw).cuda().view(c.torch_dtype(dtype))
    finally:
        if os.path.exists(file):
            os.remove(file)


def accuracy(args):
    rows = Rows(os.path.join(args.out, "accuracy.csv"), ["contestant", "op", "dtype", "first", "count", "max_ulp", "at"])
    all_of = c.Contestants(args.out, 512 * c.MIB)
    torch, done = all_of.torch, rows.keys("contestant", "op", "dtype", "first")
    contestants = ["plimsoll"] + [peer for peer in args.peers if peer != "memcpy"]
    for dtype in args.dtypes:
        total, chunk = (1 << 32, 1 << 28) if dtype == "f32" else (1 << 16, 1 << 16)
        for op in [op for op in args.ops if op not in ("copy", "triad")]:
            for first in range(0, total, chunk):
                missing = [peer for peer in contestants if (peer, op, dtype, str(first)) not in done]
                if not missing:
                    continue
                bits = torch.arange(first, first + chunk, device="cuda", dtype=torch.int64)
                bits = bits.to(torch.int32) if dtype == "f32" else bits.to(torch.int16)
                for peer in missing:
                    if over(args):
                        c.log(f"# budget reached before {peer} {op} {dtype} {first}: call again")
                        all_of.close()
                        return
                    try:
                        y = outputs(args, all_of, peer, op, dtype, first, chunk, bits)
                        worst, at = (0.0, 0.0)
                        # In parts, because float64 takes several times the memory.
                        part = min(chunk, 1 << 25)
                        for begin in range(0, chunk, part):
                            end = begin + part
                            found = errors(torch, op, dtype, first + begin, bits[begin:end], y[begin:end])
                            worst, at = max((worst, at), found, key=lambda pair: pair[0])
                        rows.add(contestant=peer, op=op, dtype=dtype, first=first, count=chunk, max_ulp=f"{worst:.4f}", at=repr(at))
                    except Exception as error:
                        c.log(f"# {peer} {op} {dtype} {first}: {error!r}")
    all_of.close()
    c.log("# every error is known")


# ---------------------------------------------------------------------------------------------- table
def interval(logs):
    """geometric mean with its 95 % interval over the rounds"""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), math.exp(mean), math.exp(mean)
    half = T95.get(len(logs) - 1, 2.0) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def ratios(rows):
    """[(form, op, dtype, bytes, peer, config, ratio, lo, hi, ours GB/s, theirs GB/s)]"""
    times = {}
    for row in rows.rows:
        key = (row["op"], row["dtype"], int(row["bytes_moved"]))
        contestant = times.setdefault(key, {}).setdefault((row["peer"], row["config"]), {})
        contestant[int(row["round"])] = float(row["median_us"])
    out = []
    for (op, dtype, total), contestants in times.items():
        peers = {who: rounds for who, rounds in contestants.items() if not who[0].startswith("plimsoll")}
        if not peers:
            continue
        for form, name in OURS.items():
            mine = contestants.get((name, ""))
            if not mine:
                continue
            (peer, config), theirs = min(peers.items(), key=lambda item: statistics.median(item[1].values()))
            shared = sorted(set(mine) & set(theirs))
            if not shared:
                continue
            ratio, lo, hi = interval([math.log(theirs[n] / mine[n]) for n in shared])
            speed = [gbps(total, statistics.median(side[n] for n in shared)) for side in (mine, theirs)]
            out.append((form, op, dtype, total, peer, config, ratio, lo, hi, *speed))
    order = {op: place for place, op in enumerate(c.OPS)}
    forms = list(OURS)
    return sorted(out, key=lambda r: (forms.index(r[0]), order.get(r[1], 99), c.DTYPES.index(r[2]), r[3]))


def size(nbytes):
    return f"{nbytes // (1024 * c.MIB)} GiB" if nbytes % (1024 * c.MIB) == 0 else f"{nbytes / c.MIB:g} MiB"


def table(args):
    found = ratios(Rows(os.path.join(args.out, "rounds.csv"), ["round", "peer", "config"] + HEADER[1:]))
    with open(os.path.join(args.out, "side_by_side.csv"), "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["launch", "op", "dtype", "bytes_moved", "best_peer", "config", "ratio", "lo", "hi", "GBps", "peer_GBps"])
        for row in found:
            out.writerow([*row[:6], *(f"{value:.5f}" for value in row[6:9]), *row[9:]])
    end = "Ratio of bandwidths with its 95 % interval over the rounds, then GB/s and the best peer.\n"
    text = "\n".join(sections(found, cell, end) + accuracy_table(args)) + "\n"
    for name, content in (("side_by_side.md", text), ("short.md", "\n".join(sections(found, short, "")))):
        with open(os.path.join(args.out, name), "w") as file:
            file.write(content)
    print(text)


def sections(found, cell, end):
    """a table per launch form, with `cell` of each row"""
    text = []
    for form in OURS:
        of_form = [row for row in found if row[0] == form]
        if not of_form:
            continue
        mean = math.exp(statistics.fmean(math.log(row[6]) for row in of_form))
        worst = min(of_form, key=lambda row: row[6])
        text.append(f"### {form} launches against the best peer\n")
        text.append(f"{len(of_form)} cells, geometric mean {mean:.3f}; worst: {worst[1]} {worst[2]} {size(worst[3])} moved, "
                    f"{worst[6]:.3f} [{worst[7]:.3f}, {worst[8]:.3f}] against {worst[4]}; "
                    f"{sum(row[6] < 0.99 for row in of_form)} cells below 0.99, {sum(row[6] < 1 for row in of_form)} below 1.\n")
        sizes = sorted({row[3] // c.operands(row[1]) for row in of_form})
        text.append("| | " + " | ".join(size(nbytes) for nbytes in sizes) + " |")
        text.append("|---" * (len(sizes) + 1) + "|")
        for op, dtype in dict.fromkeys((row[1], row[2]) for row in of_form):
            of = {row[3] // c.operands(op): row for row in of_form if row[1:3] == (op, dtype)}
            text.append(f"| {op} {dtype} | " + " | ".join(cell(of.get(nbytes)) for nbytes in sizes) + " |")
        text.append(f"\n{end}")
    return text


def cell(row):
    if row is None:
        return "—"
    return f"{row[6]:.3f} [{row[7]:.3f}, {row[8]:.3f}] {float(row[9]):.0f} {row[4]}"


def short(row):
    return "—" if row is None else f"{row[6]:.3f} ±{(row[8] - row[7]) / 2:.3f}"


def accuracy_table(args):
    path = os.path.join(args.out, "accuracy.csv")
    if not os.path.exists(path):
        return []
    worst, counts = {}, {}
    for row in Rows(path, []).rows:
        key = (row["contestant"], row["op"], row["dtype"])
        worst[key] = max(worst.get(key, 0.0), float(row["max_ulp"]))
        counts[key] = counts.get(key, 0) + int(row["count"])
    who = list(dict.fromkeys(key[0] for key in worst))
    text = ["### Largest error over all inputs, ulp\n", "| | " + " | ".join(who) + " |", "|---" * (len(who) + 1) + "|"]
    for op, dtype in dict.fromkeys(key[1:] for key in worst):
        whole = 1 << (32 if dtype == "f32" else 16)

        def shown(name):
            key = (name, op, dtype)
            if key not in worst:
                return "—"
            return f"{worst[key]:.3f}" + ("" if counts[key] == whole else f" ({counts[key] / whole:.0%} of inputs)")

        text.append(f"| {op} {dtype} | " + " | ".join(shown(name) for name in who) + " |")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=["build", "tune", "compare", "accuracy", "table", "shapes"])
    parser.add_argument("--out", default="side_by_side", help="folder for all output")
    parser.add_argument("--budget", type=float, default=450, help="seconds after which nothing new is started")
    parser.add_argument("--plimsoll", default="plimsoll", help="the plimsoll command")
    parser.add_argument("--effort", default="quick", help="effort of plimsoll bench")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--peers", default=",".join(c.PEERS))
    parser.add_argument("--ops", default=",".join(c.OPS))
    parser.add_argument("--dtypes", default=",".join(c.DTYPES))
    parser.add_argument("--sizes-mib", default=",".join(str(nbytes // c.MIB) for nbytes in c.SIZES))
    parser.add_argument("--cccl", help="folder of a CCCL newer than the toolkit's")
    parser.add_argument("--scratch", default="/dev/shm", help="folder for results passed between processes: 1 GiB")
    args = parser.parse_args()
    args.peers, args.ops, args.dtypes = (value.split(",") for value in (args.peers, args.ops, args.dtypes))
    args.sizes = [int(float(part) * c.MIB) for part in args.sizes_mib.split(",")]
    for given, known in ((args.peers, c.PEERS), (args.ops, c.OPS), (args.dtypes, c.DTYPES)):
        for word in given:
            if word not in known:
                parser.error(f"'{word}' is not one of {', '.join(known)}")
    os.makedirs(args.out, exist_ok=True)
    args.out = os.path.abspath(args.out)
    if args.stage == "shapes":
        import shapes

        shapes.run(args, over)
    else:
        {"build": build, "tune": tune, "compare": compare, "accuracy": accuracy, "table": table}[args.stage](args)
    c.log(f"# {args.stage}: {time.perf_counter() - BEGAN:.0f} s")


if __name__ == "__main__":
    main()
