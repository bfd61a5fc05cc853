#!/usr/bin/env bash
# Measures and predicts the engine's own kernels for `cargo xtask model`: six expressions in two types, 64 KiB to 2 GiB per tensor,
# hot and cold, one JSON file each. Existing files are skipped, so the same command continues a run that was cut off.
#
#   scripts/explain_records.sh PLIMSOLL OUT [NVDISASM]
#
# PLIMSOLL is the executable and OUT a folder. NVDISASM is the disassembler's absolute path, if it isn't found automatically:
# without it, instruction counts are estimates. Takes some 8 minutes at EFFORT=standard (the default), 3 at EFFORT=quick. Then put
# the files of OUT, compressed (`gzip -9n`), into records/h200/DATE-explain, and run `cargo xtask model --bless` to write the table.
set -euo pipefail

plimsoll=${1:?the executable}
out=${2:?a folder}
effort=${EFFORT:-standard}
tools=()
[ $# -ge 3 ] && tools=(--nvdisasm "$3")
mkdir -p "$out"

explain() { # NAME DTYPE EXPRESSION [OPTIONS…]
    local file="$out/$1-$2.json" name=$1 dtype=$2 expression=$3
    shift 3
    [ -s "$file" ] && return
    # Exit code 1 means that a result was wrong: the file flags it, and the other results are valid.
    "$plimsoll" explain "$expression" --name "$name" --dtype "$dtype" "$@" --bytes 64KiB..2GiB --both --no-counters \
        --effort "$effort" --seed 1 --device cuda:0 --out "$out/records/$name-$dtype-$(date +%s)" --format json \
        "${tools[@]}" >"$file.part" || [ $? = 1 ]
    mv "$file.part" "$file"
}

for dtype in f32 bf16; do
    explain copy "$dtype" 'x'
    explain add_const "$dtype" 'x + 42'
    explain triad "$dtype" 'a*x + y' --scalar a=0.5
    explain exp "$dtype" 'exp(x)'
    explain log "$dtype" 'log(x)'
    explain erf "$dtype" 'erf(x)'
done
