#!/bin/sh
# The staged run on a GPU machine: everything that shows on real hardware, in stages of less than 8 minutes each. It needs
# the plimsoll executable beside it (or in PLIMSOLL), a driver and NVRTC; no cargo, no source.
#
#   stages.sh [-o FOLDER] [STAGE…]     all stages by default, in order
#
# FOLDER is $OUT/stages or ./stages by default. Each stage keeps FOLDER/STAGE.log, its record if it has one (FOLDER/STAGE/),
# and FOLDER/STAGE.status: its exit code and seconds. A stage that ended well is passed over the next time, so a run that was
# cut off is begun again with the same command. Well is 0, and of the two comparisons 4 as well: some figures were ambiguous.
# What is found is kept in FOLDER/profiles/. DEVICE names another device than cuda:0. Exit code: 0 where all stages that were
# asked for have ended well (now or earlier), else 1.
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
[ -x "$plimsoll" ] || { echo "stages.sh: no executable $plimsoll: put plimsoll beside this script, or set PLIMSOLL" >&2; exit 2; }
for stage; do
    case " $all " in *" $stage "*) ;; *) echo "stages.sh: no stage '$stage': there are $all" >&2; exit 2 ;; esac
done
mkdir -p "$out/profiles" && out=$(cd "$out" && pwd) || exit 2
# A cache of its own, which measure-1 empties: its time includes every compilation.
XDG_CACHE_HOME=$out/cache
export XDG_CACHE_HOME
export NO_COLOR=1

# Whether a stage is done that ended with this code.
ended_well() {
    case $1:$2 in *:0 | compare:4 | suite-compare:4) return 0 ;; *) return 1 ;; esac
}

# Runs the command with the time that a stage may take, where this machine can limit it.
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout "$limit" "$@"; else "$@"; fi
}

measure() {
    folder=$1
    shift
    # Left behind by a run that was cut off; plimsoll overwrites nothing. Pages of older records have to be made again.
    rm -rf "$out/$folder" "$out/report.status"
    limited "$plimsoll" measure "$@" --device "$device" --profile "$out/profiles" --out "$out/$folder"
}

# The page of a run, where that run was measured: a stage that was left out or failed is not this one's fault.
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
    # Every probe that there is: the first with an empty kernel cache, then twice at the effort to quote.
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
            echo "there is no record to make a page of: run the stages measure-1, trace or suite-1 first"
            return 4
        fi
        ;;
    # One file to take home: records, logs and pages, without the compiled kernels.
    pack)
        rm -f "$out/stages.tar.gz"
        (cd "$out" && tar -cf - $(ls | grep -v -e '^cache$' -e '^pack\.' -e '^stages\.tar') | gzip -9 >stages.tar.gz)
        ;;
    esac
}

failed=0
for stage in ${*:-$all}; do
    # What is packed may have changed.
    if [ "$stage" != pack ] && ended_well "$stage" "$(cut -d' ' -f1 "$out/$stage.status" 2>/dev/null)"; then
        echo "$stage: done before"
        continue
    fi
    begin=$(date +%s)
    run "$stage" >"$out/$stage.log" 2>&1
    code=$?
    seconds=$(($(date +%s) - begin))
    echo "$code $seconds" >"$out/$stage.status"
    echo "$stage: ended with $code after $seconds s"
    if ! ended_well "$stage" "$code"; then
        failed=1
        tail -n 20 "$out/$stage.log" | sed 's/^/    /'
    fi
    # Nothing that follows means anything without a device.
    [ "$stage" = doctor ] && [ "$code" != 0 ] && break
done
exit $failed
