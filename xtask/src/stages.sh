#!/bin/sh
# The staged run on a GPU machine: every check and measurement that needs real hardware, in stages of less than 8 minutes each. It
# needs the plimsoll executable next to it (or in PLIMSOLL), a driver and NVRTC, but neither cargo nor the sources.
#
#   stages.sh [-o FOLDER] [STAGE…]     all stages by default, in order
#
# FOLDER is $OUT/stages or ./stages by default. Each stage writes FOLDER/STAGE.log, its record if it has one (FOLDER/STAGE/),
# and FOLDER/STAGE.status: its exit code and seconds. A stage that succeeded is skipped the next time, so the same command
# continues a run that was cut off. Success is exit code 0, for the two comparisons also 4: some figures were ambiguous.
# Findings are stored in FOLDER/profiles/. Set DEVICE for a device other than cuda:0. Exit code: 0 if all requested stages
# have succeeded, now or earlier; else 1.
set -u

here=$(cd "$(dirname "$0")" && pwd)
plimsoll=${PLIMSOLL:-$here/plimsoll}
device=${DEVICE:-cuda:0}
out=${OUT:-.}/stages
probes="stream mix copy launch dispatch transfer"
all="doctor verify memcheck racecheck measure-1 measure-2 compare trace suite-quick suite-1 suite-2 suite-compare counters report pack"
limit=480

if [ "${1:-}" = -o ]; then
    [ $# -ge 2 ] || { echo "stages.sh: -o needs a folder" >&2; exit 2; }
    out=$2
    shift 2
fi
[ -x "$plimsoll" ] || { echo "stages.sh: no executable $plimsoll: put plimsoll next to this script, or set PLIMSOLL" >&2; exit 2; }
for stage; do
    case " $all " in *" $stage "*) ;; *) echo "stages.sh: unknown stage '$stage'; known: $all" >&2; exit 2 ;; esac
done
mkdir -p "$out/profiles" && out=$(cd "$out" && pwd) || exit 2
# A separate cache, which measure-1 empties so that its time includes every compilation.
XDG_CACHE_HOME=$out/cache
export XDG_CACHE_HOME
export NO_COLOR=1

# True if the stage $1 succeeded with the exit code $2.
succeeded() {
    case $1:$2 in *:0 | compare:4 | suite-compare:4) return 0 ;; *) return 1 ;; esac
}

# Runs the command with a stage's time limit, if timeout is installed.
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout "$limit" "$@"; else "$@"; fi
}

measure() {
    folder=$1
    shift
    # A run that was cut off may have left its folder, and plimsoll overwrites nothing. Pages of older records must be rewritten.
    rm -rf "$out/$folder" "$out/report.status"
    limited "$plimsoll" measure "$@" --device "$device" --profile "$out/profiles" --out "$out/$folder"
}

# Writes the page $1 of the run $2, if that run was measured. A missing run is not an error of this stage.
page() {
    if [ ! -f "$out/$2/run.jsonl" ]; then
        echo "$2 was not measured: no $1"
        return 0
    fi
    pages=$((pages + 1))
    "$plimsoll" report "$out/$2" -o "$out/$1" --force
}

run() {
    case $1 in
    doctor)
        "$plimsoll" devices --profile "$out/profiles"
        case ${device%%:*} in
        cpu | cuda) "$plimsoll" doctor --require "${device%%:*}" ;;
        *) "$plimsoll" doctor ;;
        esac
        ;;
    verify) limited "$plimsoll" verify --device "$device" ;;
    memcheck | racecheck)
        if ! command -v compute-sanitizer >/dev/null 2>&1; then
            echo "compute-sanitizer is not on the PATH: it comes with the CUDA toolkit"
            return 3
        fi
        limited compute-sanitizer --tool "$1" --error-exitcode 9 "$plimsoll" verify --small --deadline 600 --device "$device"
        ;;
    measure-1)
        rm -rf "$out/cache"
        measure measure-1 $probes --effort standard
        ;;
    measure-2) measure measure-2 $probes --effort standard ;;
    compare) "$plimsoll" compare "$out/measure-1" "$out/measure-2" --all ;;
    trace) measure trace copy --bytes 16MiB --trace ;;
    # Every probe: once with an empty kernel cache, then twice at the effort for figures to compare.
    suite-quick)
        rm -rf "$out/cache"
        measure suite-quick --effort quick
        ;;
    suite-1 | suite-2) measure "$1" --effort standard ;;
    suite-compare) "$plimsoll" compare "$out/suite-1" "$out/suite-2" --all ;;
    counters) measure counters stream copy --counters ;;
    report)
        pages=0
        page report.html measure-1 && page trace.html trace && page suite.html suite-1 || return
        if [ $pages = 0 ]; then
            echo "there is no record for a page: run the stages measure-1, trace or suite-1 first"
            return 4
        fi
        ;;
    # One archive of records, logs and pages, without the compiled kernels.
    pack)
        rm -f "$out/stages.tar.gz"
        (cd "$out" && tar -cf - $(ls | grep -v -e '^cache$' -e '^pack\.' -e '^stages\.tar') | gzip -9 >stages.tar.gz)
        ;;
    esac
}

failed=0
for stage in ${*:-$all}; do
    # pack always runs, because the files may have changed.
    if [ "$stage" != pack ] && succeeded "$stage" "$(cut -d' ' -f1 "$out/$stage.status" 2>/dev/null)"; then
        echo "$stage: done before"
        continue
    fi
    begin=$(date +%s)
    run "$stage" >"$out/$stage.log" 2>&1
    code=$?
    seconds=$(($(date +%s) - begin))
    echo "$code $seconds" >"$out/$stage.status"
    echo "$stage: ended with $code after $seconds s"
    if ! succeeded "$stage" "$code"; then
        failed=1
        tail -n 20 "$out/$stage.log" | sed 's/^/    /'
    fi
    # Without a device, the other stages can't run.
    [ "$stage" = doctor ] && [ "$code" != 0 ] && break
done
exit $failed
