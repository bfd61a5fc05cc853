#!/usr/bin/env bash
# Compares `plimsoll measure stream` (ordinary stores) with the STREAM kernels compiled by gcc (stream.c), with the same array
# size and number of threads, alternating (A B A B …) so that changes of the machine affect both. For developers: needs gcc,
# python3 and a release build; tests don't use it.
#
#   scripts/compare_stream.sh [BYTES_PER_ARRAY [ROUNDS]]     # the default: 1 GiB, 5 rounds
#
# Prints the ratio of medians, plimsoll : STREAM, for each kernel and round, then the median of the ratios, and exits with 1 if
# one of the medians is below 0.97. Run it on an idle machine: on a busy one, preemption decides, and hurts STREAM more because
# its threads wait for each other.
set -euo pipefail
cd "$(dirname "$0")/.."

bytes=${1:-1073741824}
rounds=${2:-5}
plimsoll=${PLIMSOLL:-target/release/plimsoll}
[ -x "$plimsoll" ] || { echo "no $plimsoll: cargo build --release, or set PLIMSOLL" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gcc -O3 -march=native -fopenmp -fno-builtin scripts/stream.c -o "$work/stream"

# The bandwidths of one series in a run's CSV: kernel, second coordinate, B/s.
figures() {
    python3 -c '
import csv, sys
for row in csv.DictReader(sys.stdin):
    if row["case"] == sys.argv[1] and row["metric"] == "bandwidth":
        print(row["at 1"], row["at 2"], row["value"])' "$1"
}

# One pinned thread per core, as in plimsoll.
threads=$("$plimsoll" measure stream --bytes 1MiB --format csv --out "$work/probe" 2>/dev/null |
    figures threads | awk '$2 > most { most = $2 } END { print most + 0 }')
[ "$threads" -gt 0 ] || { echo "plimsoll measured nothing: run '$plimsoll measure stream' to see why" >&2; exit 2; }
export OMP_NUM_THREADS=$threads OMP_PLACES=cores OMP_PROC_BIND=close

for round in $(seq "$rounds"); do
    "$plimsoll" measure stream --bytes "$bytes" --format csv --out "$work/run$round" 2>/dev/null |
        figures kernels | awk '$2 == "ordinary" { print $1, $3 }' >"$work/plimsoll$round"
    "$work/stream" "$bytes" 20 2>/dev/null >"$work/stream$round"
done

python3 - "$work" "$rounds" <<'PYTHON'
import statistics, sys

folder, rounds = sys.argv[1], int(sys.argv[2])
ratios = {}
for r in range(1, rounds + 1):
    ours = {k: float(v) for k, v in (line.split() for line in open(f"{folder}/plimsoll{r}"))}
    for line in open(f"{folder}/stream{r}"):
        kernel, best, median = line.split()
        ratios.setdefault(kernel, []).append(ours[kernel] / float(median))
        print(f"{kernel:6} round {r}: plimsoll {ours[kernel] / 1e9:7.2f} GB/s, "
              f"STREAM median {float(median) / 1e9:7.2f}, best {float(best) / 1e9:7.2f}, ratio {ratios[kernel][-1]:.3f}")
low = False
for kernel, all_ratios in ratios.items():
    ratio = statistics.median(all_ratios)
    low |= ratio < 0.97
    print(f"{kernel:6} {ratio:.3f}  (rounds {min(all_ratios):.3f} to {max(all_ratios):.3f})")
sys.exit(1 if low else 0)
PYTHON
