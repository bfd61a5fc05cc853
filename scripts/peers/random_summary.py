"""Summarises the records of random_cases.py as Markdown."""
import math
import statistics

MIB = 1 << 20
LEAST = 0.98


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
    text = ["| cases | number | plain: mean | ≥ 0.98 | worst | dependent: mean | ≥ 0.98 | worst |" + (" of before: plain | worst | dependent | worst |" if before else ""),
            "|---|---|---|---|---|---|---|---|" + ("---|---|---|---|" if before else "")]
    for name, of in groups(records):
        row = f"| {name} | {len(of)} | " + " | ".join(cells([ratio(record, launch) for record in of]) for launch in ("plain", "dependent")) + " |"
        if before:
            for launch in ("plain", "dependent"):
                old = [record[f"before_{launch}_us"] / record[f"{launch}_us"] for record in of if f"before_{launch}_us" in record]
                row += f" {mean(old):.3f} | {min(old):.3f} |" if old else " | |"
        text.append(row)
    return text


def worst(records, launch, count=10):
    text = [f"\nThe {count} worst of {launch} launches:\n", "| ratio | µs | compile | eager | case | |", "|---|---|---|---|---|---|"]
    for record in sorted(records, key=lambda record: ratio(record, launch))[:count]:
        command = record["command"].replace("|", "\\|")
        text.append(f"| {ratio(record, launch):.3f} | {record[f'{launch}_us']:.2f} | {record['compile_us']:.2f} | {record['eager_us']:.2f} | "
                    f"{record['key']} {record['layout']}, {record['bytes'] / MIB:.1f} MiB | `{command}` |")
    return text


def text(records):
    records = latest(records)
    text = []
    for device, tuned in sorted({(record["device"], record["tuned"]) for record in records}):
        of = [record for record in records if (record["device"], record["tuned"]) == (device, tuned)]
        timed = [record for record in of if not record["wrong"] and not record["error"]]
        seeds = sorted({record["seed"] for record in of})
        text.append(f"## {device}, {'tuned' if tuned else 'untuned'}, seed {', '.join(seeds)}\n")
        text.append(f"{len(timed)} cases timed, {sum(bool(r['wrong']) for r in of)} wrong, {sum(bool(r['error']) for r in of)} failed, "
                    f"PyTorch {', '.join(sorted({r['torch'] for r in of}))}. Ratios are the time of the better of torch.compile and eager over ours.\n")
        if timed:
            text += table(timed)
            slower = [r for r in timed if r["dependent_us"] > 1.01 * r["plain_us"]]
            eager = sum(r["eager_us"] < r["compile_us"] for r in timed)
            text.append(f"\nDependent launches are more than 1 % slower than plain ones in {len(slower)} cases. Eager is the better peer in {eager}. "
                        f"A case took {statistics.fmean(r['took'] for r in timed):.1f} s without compiling.")
            text += worst(timed, "plain") + worst(timed, "dependent")
        for record in of:
            if record["wrong"] or record["error"]:
                text.append(f"\n{'Wrong' if record['wrong'] else 'Failed'}: {record['key']}: {record['wrong'] or record['error']}: `{record['command']}`")
        text.append("")
    return "\n".join(text)
