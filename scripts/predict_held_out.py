#!/usr/bin/env python3
"""Compares predictions with launches that the model was not fitted to, for the table in docs/model.md.

    scripts/predict_held_out.py PLIMSOLL [NVRTC NVDISASM] < records/h200/2026-11-23-peers/rounds.csv.gz

Uses plimsoll's own rounds of the comparison with its peers: the median of each cell over the rounds, cold. NVRTC and NVDISASM are
absolute paths, if they aren't found automatically: without them, instruction counts are estimates.
"""

import collections
import csv
import gzip
import json
import statistics
import subprocess
import sys

EXPRESSIONS = {"copy": "x", "add_const": "x + 42", "triad": "a*x + y", "exp": "exp(x)", "log": "log(x)", "erf": "erf(x)"}
SIZES = "1MiB,4MiB,16MiB,64MiB,256MiB,1GiB,2GiB"
MODES = {"plimsoll": "plain", "plimsoll_dependent": "dependent", "plimsoll_ordinary": "ordinary"}


def measured():
    rounds = collections.defaultdict(list)
    data = sys.stdin.buffer.read()
    text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode()
    for row in csv.DictReader(text.splitlines()):
        if row["peer"] in MODES:
            cell = (row["op"], row["dtype"], MODES[row["peer"]], int(row["bytes_moved"]))
            rounds[cell].append(float(row["median_us"]) * 1e-6)
    return {cell: statistics.median(times) for cell, times in rounds.items()}


def predicted(program, tools, op, dtype, mode):
    command = [program, "predict", EXPRESSIONS[op], "--dtype", dtype, "--machine", "h200", "--bytes", SIZES, "--format", "json"]
    command += tools
    command += ["--scalar", "a=0.5"] if op == "triad" else []
    command += {"plain": [], "dependent": ["--dependent"], "ordinary": ["--variant", "release=none"]}[mode]
    for launch in json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout):
        yield launch["bytes_moved"], launch["seconds"]


def main():
    program, *paths = sys.argv[1:]
    tools = ["--nvrtc", paths[0], "--nvdisasm", paths[1]] if paths else []
    cells = measured()
    errors = collections.defaultdict(list)
    for op, dtype, mode in sorted({cell[:3] for cell in cells}):
        for moved, seconds in predicted(program, tools, op, dtype, mode):
            if (op, dtype, mode, moved) in cells:
                errors[dtype, mode].append(abs(seconds / cells[op, dtype, mode, moved] - 1))
    print("| launches | number | median | 95 % |\n| --- | ---: | ---: | ---: |")
    for (dtype, mode), values in sorted(errors.items()):
        values.sort()
        most = values[min(int(len(values) * 0.95), len(values) - 1)]
        print(f"| {dtype}, {mode} | {len(values)} | {100 * statistics.median(values):.1f} % | {100 * most:.1f} % |")


main()
