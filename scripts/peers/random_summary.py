"""Summarises the records of random_cases.py as Markdown."""
import math
import statistics

MIB = 1 << 20
LEAST = 0.98
LAUNCHES = ("plain", "dependent")


def latest(records):
    """the last record of each case"""
    found = {}
    for record in records:
        found[record["key"], record["tuned"], record["device"]] = record
    return list(found.values())


def peer(record):
    return min(record["compile_us"], record["eager_us"])


def ratio(record, launch):
    return peer(record) / record[f"{launch}_us"]


def mean(ratios):
    return math.exp(statistics.fmean(math.log(value) for value in ratios))


def groups(records):
    """(name, its records)"""
    found = [("all", records)]
    for field in ("layout", "types", "family"):
        for name in sorted({record[field] for record in records}):
            found.append((f"{field}: {name}" if field != "layout" else name, [r for r in records if r[field] == name]))
    sizes = [("up to 4 MiB", 0, 4), ("4 to 64 MiB", 4, 64), ("above 64 MiB", 64, 1 << 20)]
    found[1:1] = [(name, [r for r in records if least * MIB < r["bytes"] <= most * MIB]) for name, least, most in sizes]
    return [(name, of) for name, of in found if of]


def cells(ratios):
    return f"{mean(ratios):.3f} | {share(ratios):.1%} | {min(ratios):.3f}"


def share(ratios):
    return sum(value >= LEAST for value in ratios) / len(ratios)


def table(records):
    before = any("before_plain_us" in record for record in records)
    heads = ["cases", "number", "plain: mean", "≥ 0.98", "worst", "dependent: mean", "≥ 0.98", "worst"]
    heads += ["before/now plain: mean", "worst", "dependent: mean", "worst"] if before else []
    text = [row(heads), "|---" * len(heads) + "|"]
    for name, of in groups(records):
        found = [name, len(of), *(cells([ratio(record, launch) for record in of]) for launch in LAUNCHES)]
        if before:
            found += [compared(of, launch) for launch in LAUNCHES]
        text.append(row(found))
    return text


def row(found):
    return "| " + " | ".join(map(str, found)) + " |"


def compared(records, launch):
    """time of the older program over that of the newer one"""
    ratios = [record[f"before_{launch}_us"] / record[f"{launch}_us"] for record in records if f"before_{launch}_us" in record]
    return f"{mean(ratios):.3f} | {min(ratios):.3f}" if ratios else "— | —"


def worst(records, launch, count=10):
    text = [f"\nThe {count} worst of {launch} launches:\n", row(["ratio", "µs", "compile", "eager", "case", ""]), "|---" * 6 + "|"]
    for record in sorted(records, key=lambda record: ratio(record, launch))[:count]:
        times = [f"{record[f'{name}_us']:.2f}" for name in (launch, "compile", "eager")]
        case = f"{record['key']} {record['layout']}, {record['bytes'] / MIB:.1f} MiB"
        text.append(row([f"{ratio(record, launch):.3f}", *times, case, f"`{escape(record['command'])}`"]))
    return text


def escape(command):
    return command.replace("|", "\\|")


def section(device, tuned, records):
    timed = [record for record in records if not record["wrong"] and not record["error"]]
    wrong, failed = (sum(bool(record[field]) for record in records) for field in ("wrong", "error"))
    seeds, versions = (", ".join(sorted({record[field] for record in records})) for field in ("seed", "torch"))
    text = [f"## {device}, {'tuned' if tuned else 'untuned'}, seed {seeds}\n",
            f"{len(timed)} cases timed, {wrong} wrong, {failed} failed, PyTorch {versions}. Ratios are the time of the better of "
            "torch.compile and eager over ours.\n"]
    if timed:
        text += table(timed)
        slower = sum(record["dependent_us"] > 1.01 * record["plain_us"] for record in timed)
        eager = sum(record["eager_us"] < record["compile_us"] for record in timed)
        text.append(f"\nDependent launches are more than 1 % slower than plain ones in {slower} cases. Eager is the better peer in {eager}. "
                    f"A case took {statistics.fmean(record['took'] for record in timed):.1f} s without compiling.")
        text += [line for launch in LAUNCHES for line in worst(timed, launch)]
    for record in records:
        if record["wrong"] or record["error"]:
            what = "Wrong" if record["wrong"] else "Failed"
            text.append(f"\n{what}: {record['key']}: {record['wrong'] or record['error']}: `{record['command']}`")
    return text


def text(records):
    records = latest(records)
    found = []
    for device, tuned in sorted({(record["device"], record["tuned"]) for record in records}):
        found += section(device, tuned, [record for record in records if (record["device"], record["tuned"]) == (device, tuned)])
    return "\n".join(found)
