#!/usr/bin/env python3
"""Makes the table of errors in docs/mathematics.md from the tool's output.

    scripts/accuracy_table.py GPU.log CPU.log… > table.md

GPU.log: output of `plimsoll verify elementwise:NAME,… --exhaustive` on a GPU. CPU.log: output of
`cargo run --release -p plimsoll-cpu --example accuracy 1`. If a function is in several logs, that with the most arguments counts.
"""

import re
import sys

GPU = re.compile(r"(\S+) (f32|f16|bf16) (accurate|fast)(?: on|:) \d+ operands, worst ([\d.]+) ulp")
CPU = re.compile(r"([^\s:]+)(?: (f32|f16|bf16))?: ([\d.]+) ulp at .*, of (\d+) arguments")
COLUMNS = [("f32", "accurate"), ("f32", "fast"), ("f16", "accurate"), ("bf16", "accurate")]
ON_CPU = ["f32", "f16", "bf16"]


def main():
    found, cpu, most = {}, {}, {}
    with open(sys.argv[1]) as file:
        for line in file:
            if match := GPU.search(line):
                name, dtype, tier, worst = match.groups()
                found.setdefault(name, {})[dtype, tier] = worst
    for path in sys.argv[2:]:
        with open(path) as file:
            for line in file:
                if not (match := CPU.match(line)):
                    continue
                name, dtype, worst, count = match.groups()
                # Old logs, which had only f32, don't name the type.
                key, count = (name, dtype or "f32"), int(count)
                if count >= most.get(key, 0):
                    most[key] = count
                    cpu[key] = worst + ("" if count in (1 << 32, 1 << 26, 1 << 16) else " (a share)")
    heads = ["function", "f32 accurate", "f32 fast", "f16", "bf16", *(f"CPU, {dtype}" for dtype in ON_CPU)]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    for name in found:
        cells = [found[name].get(column, "—") for column in COLUMNS]
        print(f"| {name} | " + " | ".join(cells + [cpu.get((name, dtype), "—") for dtype in ON_CPU]) + " |")


main()
