#!/usr/bin/env bash
# Predictions beside measurements of the engine's own kernels, for `cargo xtask model`: six expressions in two types, 64 KiB to 2 GiB per
# tensor, hot and cold, one JSON file each. Files that are there are passed over, so a run that was cut off is begun again alike.
#
#   scripts/explain_records.sh PLIMSOLL OUT [NVDISASM]
#
# PLIMSOLL is the executable, OUT a folder, NVDISASM the disassembler by absolute path where it isn't found by itself: without it
# instructions are rough counts. Some 8 minutes at EFFORT=standard (the default), 3 at EFFORT=quick. Then the files of OUT,
# compressed (`gzip -9n`), belong into records/h200/DATE-explain, and `cargo xtask model --bless` makes the table.
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
    # 1 says that a result was wrong: the file says of which, and the others count.
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
