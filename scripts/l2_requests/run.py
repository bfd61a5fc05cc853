#!/usr/bin/env python3
"""Compiles reads.cu, runs it, counts chosen configurations with ncu and writes CSV files. Less than four minutes.

    python3 scripts/l2_requests/run.py [FOLDER]     FOLDER: $OUT/l2_requests if OUT is set, else ./l2_requests

Needs nvcc and nvidia-smi; ncu only for the counters. Each step that fails is reported, and the others go on.
"""

import csv
import io
import os
import shutil
import statistics
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
LIMIT = 75  # seconds of one step
BEGAN = time.time()

METRICS = """
gpu__time_duration.sum
sm__cycles_elapsed.max
l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum
l1tex__m_l1tex2xbar_req_cycles_active.sum
l1tex__m_xbar2l1tex_read_bytes.sum
l1tex__m_xbar2l1tex_read_sectors.sum
lts__t_requests_srcunit_tex.sum
lts__t_requests_srcunit_tex_op_read.sum
lts__t_sectors_srcunit_tex.sum
lts__t_sectors_srcunit_tex_op_read.sum
lts__t_sectors_srcunit_tex_lookup_hit.sum
lts__t_sectors_srcunit_tex_lookup_miss.sum
lts__t_sectors_srcunit_ltcfabric.sum
lts__t_sectors_srcnode_gpc.sum
lts__t_tag_requests.sum
lts__t_bytes.sum
lts__t_sectors.sum
lts__d_sectors.sum
dram__bytes_read.sum
""".split()


def say(text):
    print(f"[{time.time() - BEGAN:5.1f} s] {text}", flush=True)


def find_tool(name):
    return shutil.which(name) or next((str(path) for path in Path("/usr/local").glob(f"cuda*/bin/{name}")), None)


def call(command, stdin="", limit=LIMIT, into=None):
    """The output of a command, or None after saying why not."""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        say(f"{command[0]}: {error}")
        return None
    if into:
        into.write_text(done.stdout)
    if done.stderr:
        sys.stderr.write(done.stderr[-2000:])
    if done.returncode:
        say(f"{' '.join(command[:6])}: exit status {done.returncode}: {done.stdout[-300:]}")
        return None
    return done.stdout


# ---- configurations --------------------------------------------------------------------------------------------------


def describe(name, **keys):
    return " ".join(["name=" + name, *(f"{key}={value}" for key, value in keys.items())])


def configurations(sms):
    """Each as (series, line). A footprint of `unit` is 64 KiB for each SM: one iteration of plimsoll's `l2`."""
    unit = sms * 65536
    ours = dict(blocks=1, threads=1024, width=16, unroll=4, load="cg", layout="chunks")
    theirs = dict(blocks=2, threads=1024, layout="rows", piece=256 * 1024)
    lines = []

    def add(series, **keys):
        lines.append(describe(f"{series}{len(lines)}", **keys))

    # Which lines are read close in time, one piece per block.
    for units in (1, 2, 3, 4):
        for order in ("unique", "distinct", "neighbour", "together"):
            add("pattern", order=order, footprint=units * unit, **ours)
    # How many blocks read a piece at the same time: 1 to all, next to each other or far apart.
    for by in ("block", "sm"):
        for order in ("group-near", "group-far"):
            for group in (1, 2, 3, 4, 6, 11, 22, 66, 132):
                add("group", order=order, by=by, group=group, footprint=3 * unit, piece=65536, **ours)
    # Pieces of 256 KiB in the order of blocks, two blocks per SM, persistent or one piece a block.
    for footprint in (4, 8, 16, 28, 40):
        for order in ("short", "wave", "together"):
            for width, unroll in ((8, 4), (8, 8), (16, 4)):
                for load in ("plain", "cg"):
                    add("theirs", order=order, footprint=footprint * MIB, width=width, unroll=unroll, load=load, **theirs)
    # Bytes in flight.
    for order in ("unique", "distinct", "wave"):
        for blocks, threads in ((1, 512), (1, 1024), (2, 512), (2, 1024), (4, 512)):
            for width, unroll in ((8, 1), (8, 4), (16, 1), (16, 2), (16, 4), (16, 8)):
                piece = max(65536, threads * width * unroll) if order != "wave" else 262144
                # `distinct` needs a piece for each block.
                if order == "wave" or 4 * unit // piece >= blocks * sms:
                    add("flight", order=order, footprint=4 * unit, piece=piece, blocks=blocks, threads=threads, width=width,
                        unroll=unroll, load="cg", layout="chunks")
    # Piece per block.
    for kib in (16, 32, 64, 128, 256, 512):
        for order in ("wave", "short", "distinct"):
            if order != "distinct" or 3 * unit // (kib * 1024) >= sms:
                add("piece", order=order, footprint=3 * unit, piece=kib * 1024, blocks=1, threads=512, width=16, unroll=2,
                    load="cg", layout="chunks")
    return lines


def counted(sms):
    unit = sms * 65536
    ours = dict(blocks=1, threads=1024, width=16, unroll=4, load="cg", layout="chunks")
    theirs = dict(blocks=2, threads=1024, layout="rows", piece=256 * 1024)
    lines = [describe(f"ours-{order}", order=order, footprint=3 * unit, **ours)
             for order in ("unique", "distinct", "neighbour", "together")]
    for group in (2, 6, 22, 132):
        for order in ("group-near", "group-far"):
            lines.append(describe(f"sm-{order}-{group}", order=order, by="sm", group=group, footprint=3 * unit, piece=65536,
                                  **ours))
    # Few bytes in flight, where blocks may meet at a piece although they begin far apart.
    for blocks, threads, width, unroll in ((2, 512, 16, 2), (2, 1024, 16, 1), (1, 1024, 8, 4), (1, 512, 16, 4)):
        for order in ("unique", "distinct"):
            lines.append(describe(f"flight-{order}-{blocks}x{threads}-{width}x{unroll}", order=order, footprint=4 * unit,
                                  piece=65536, blocks=blocks, threads=threads, width=width, unroll=unroll, load="cg",
                                  layout="chunks"))
    for footprint in (4, 28):
        for order in ("short", "wave"):
            for load in ("plain", "cg"):
                lines.append(describe(f"theirs-{order}-{load}-{footprint}", order=order, footprint=footprint * MIB, width=8,
                                      unroll=8, load=load, **theirs))
    return lines


# ---- steps -----------------------------------------------------------------------------------------------------------


def write_facts(out):
    """What may tell cards apart: everything nvidia-smi says, and a short list of it."""
    text = call(["nvidia-smi", "-q", "-x"], into=out / "nvidia-smi.xml")
    call(["nvidia-smi", "-q"], into=out / "nvidia-smi.txt")
    call(["nvidia-smi", "-q", "-d", "ROW_REMAPPER,ECC,CLOCK,TEMPERATURE,POWER,PERFORMANCE"], into=out / "nvidia-smi-more.txt")
    call(["nvidia-smi", "topo", "-m"], into=out / "topology.txt")
    driver = [path.read_text(errors="replace") for path in Path("/proc/driver/nvidia").glob("gpus/*/information")]
    (out / "driver.txt").write_text("\n".join(driver))
    if text is None:
        return
    wanted = ("product_name", "product_brand", "product_architecture", "serial", "uuid", "minor_number", "vbios_version",
              "board_id", "board_part_number", "gpu_part_number", "gpu_fru_part_number", "inforom_version", "img_version",
              "oem_object", "ecc_object", "pwr_object", "gsp_firmware_version", "chassis_serial_number", "slot_number",
              "tray_index", "host_id", "module_id", "gpu_fabric_guid", "memory", "pci_sub_system_id", "pci_bus_id",
              "remapped_row_corr", "remapped_row_unc", "remapped_row_pending", "remapped_row_failure",
              "row_remapper_histogram_max", "row_remapper_histogram_high", "row_remapper_histogram_partial",
              "row_remapper_histogram_low", "row_remapper_histogram_none", "current_ecc", "mem_clock", "sm_clock", "gpu_temp",
              "memory_temp", "current_power_limit", "instant_power_draw", "clocks_event_reason_sw_power_cap", "driver_version",
              "cuda_version")
    with (out / "facts.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["field", "value"])
        for element in ElementTree.fromstring(text).iter():
            value = (element.text or "").strip()
            if element.tag in wanted and value:
                rows.writerow([element.tag, value])


def known_metrics(ncu):
    """The metrics that this ncu knows; all if it doesn't say."""
    listing = call([ncu, "--query-metrics", "--chip", "gh100"], limit=40) or ""
    names = {line.split()[0] for line in listing.splitlines() if line.strip()}
    known = [metric for metric in METRICS if metric.rsplit(".", 1)[0] in names]
    left_out = [metric for metric in METRICS if metric not in known]
    if known and left_out:
        say("ncu doesn't know " + ", ".join(left_out))
    return known or METRICS


def count_with_ncu(ncu, program, lines, out):
    log = out / "ncu.csv"
    told = call([ncu, "--metrics", ",".join(known_metrics(ncu)), "--csv", "--page", "raw", "--print-units", "base",
                 "--cache-control", "none", "--clock-control", "none", "--kernel-name", "regex:read_pieces", "--log-file",
                 str(log), program, "l2", "profile"], stdin="\n".join(lines) + "\n", limit=110)
    if told is None or not log.exists():
        say("no counters: " + (log.read_text()[-400:] if log.exists() else "ncu wrote nothing"))
        return
    names = [row.split(",") for row in told.splitlines() if row.count(",") == 2 and not row.startswith("=")]
    text = [line for line in log.read_text().splitlines() if line.startswith('"')]
    launches = [row for row in csv.DictReader(io.StringIO("\n".join(text))) if (row.get("ID") or "").isdigit()]
    if len(launches) != len(names):
        say(f"{len(launches)} launches counted, {len(names)} made")

    def number(row, metric):
        try:
            return float(row[metric].replace(",", ""))
        except (KeyError, ValueError, AttributeError):
            return None

    def share(a, b, factor=1.0):
        return "" if a is None or not b else f"{a * factor / b:.4f}"

    with (out / "l2_counters.csv").open("w") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "bytes", "footprint", "TBps_under_ncu", "l1_sectors_per_sector", "l1_hit_share", "xbar_bytes_per_byte",
                       "l2_requests_per_KiB", "l2_sectors_per_sector", "l2_hit_share", "fabric_sectors_per_sector",
                       "l2_all_bytes_per_byte", "l2_data_sectors_per_sector", "dram_bytes_per_byte", *METRICS])
        for (name, moved, footprint), row in zip(names, launches):
            moved, get = int(moved), lambda metric: number(row, metric)
            sectors, l1 = moved / 32, get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
            from_l1 = get("lts__t_sectors_srcunit_tex.sum")
            duration = get("gpu__time_duration.sum")  # ns
            rows.writerow([
                name, moved, footprint, share(moved, duration, 1e-3), share(l1, sectors),
                share(get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"), l1),
                share(get("l1tex__m_xbar2l1tex_read_bytes.sum"), moved),
                share(get("lts__t_requests_srcunit_tex.sum"), moved / 1024), share(from_l1, sectors),
                share(get("lts__t_sectors_srcunit_tex_lookup_hit.sum"), from_l1),
                share(get("lts__t_sectors_srcunit_ltcfabric.sum"), sectors), share(get("lts__t_bytes.sum"), moved),
                share(get("lts__d_sectors.sum"), sectors), share(get("dram__bytes_read.sum"), moved),
                *(row.get(metric, "") for metric in METRICS)])
    print((out / "l2_counters.csv").read_text())


def summarize(out):
    """The rows that answer the questions, on the screen."""
    try:
        rows = list(csv.DictReader((out / "l2.csv").open()))
        wrong = [row["name"] for row in rows if row["check"] != "ok"]
        say(f"{len(rows)} configurations of L2, {len(wrong)} with a wrong sum {wrong[:9]}")
        for row in rows:
            if row["name"].startswith(("pattern", "group", "theirs")):
                print(f"{row['name']:10} {row['order']:10} by {row['by']:5} group {row['group']:>3} {row['load']} {row['width']:>2} B x "
                      f"{row['unroll']} {int(row['footprint']) / MIB:6.2f} MiB {row['TBps']} TB/s "
                      f"{row['B_per_cycle_per_sm']} B/cycle/SM")
        memory = list(csv.DictReader((out / "dram.csv").open()))
        placed = [float(row["TBps"]) for row in memory if row["test"] == "placement" and row["arrays_written"] == "0"]
        say(f"memory, {len(placed)} windows: {min(placed)} to {max(placed)}, median {statistics.median(placed)} TB/s")
        for row in memory:
            if row["test"] in ("arrays", "mix"):
                print(f"{row['test']} {row['arrays_read']}:{row['arrays_written']} {row['TBps']} TB/s")
    except (OSError, KeyError, ValueError) as error:
        say(f"no summary: {error}")


def main():
    root = os.environ.get("OUT", ".")
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(root) / "l2_requests"
    out.mkdir(parents=True, exist_ok=True)
    nvcc, ncu = find_tool("nvcc"), find_tool("ncu")
    if nvcc is None:
        sys.exit("nvcc isn't on the PATH, nor in /usr/local/cuda*/bin")
    program = os.path.join("/tmp", f"reads-{os.getpid()}")
    if call([nvcc, "-std=c++17", "-O3", "-arch=native", "-o", program, str(HERE / "reads.cu")], limit=120) is None:
        if call([nvcc, "-std=c++17", "-O3", "-arch=sm_90", "-o", program, str(HERE / "reads.cu")], limit=120) is None:
            sys.exit(1)
    say("compiled")
    write_facts(out)
    say("facts")
    call([program, "dram"], into=out / "dram.csv")
    say("memory")
    call([program, "latency"], into=out / "latency.csv")
    say("latency")
    call(["nvidia-smi", "-q", "-d", "TEMPERATURE,CLOCK,POWER,PERFORMANCE"], into=out / "nvidia-smi-after-memory.txt")
    sms = 132
    listed = call([program, "sms"])
    if listed and listed.strip().isdigit():
        sms = int(listed)
    lines = configurations(sms)
    (out / "configurations.txt").write_text("\n".join(lines) + "\n")
    call([program, "l2"], stdin="\n".join(lines) + "\n", into=out / "l2.csv")
    say("L2")
    if ncu is None:
        say("no counters: ncu isn't on the PATH")
    else:
        count_with_ncu(ncu, program, counted(sms), out)
        say("counters")
    os.remove(program)
    summarize(out)
    say(f"written to {out}")


if __name__ == "__main__":
    main()
