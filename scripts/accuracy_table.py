#!/usr/bin/env python3
"""The table of errors in docs/mathematics.md, of what the tool printed.

    scripts/accuracy_table.py GPU.log CPU.log… > table.md

GPU.log: `plimsoll verify elementwise:NAME,… --exhaustive` on a GPU; CPU.log: `cargo run --release -p plimsoll-cpu --example accuracy 1`; of a
function that stands in several the most arguments count.
"""

import re
import sys

GPU = re.compile(r"(\S+) (f32|f16|bf16) (accurate|fast)(?: on|:) \d+ operands, worst ([\d.]+) ulp")
CPU = re.compile(r"(\S+): ([\d.]+) ulp at .*, of (\d+) arguments")
COLUMNS = [("f32", "accurate"), ("f32", "fast"), ("f16", "accurate"), ("bf16", "accurate")]


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
                if (match := CPU.match(line)) and int(match[3]) >= most.get(match[1], 0):
                    name, worst, count = match.groups()
                    most[name] = int(count)
                    cpu[name] = worst + ("" if most[name] == 1 << 32 else " (a share)")
    print("| function | f32 accurate | f32 fast | f16 | bf16 | CPU, f32 |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for name in found:
        cells = [found[name].get(column, "—") for column in COLUMNS]
        print(f"| {name} | " + " | ".join(cells) + f" | {cpu.get(name, '—')} |")


main()
