"""Compares the elementwise engine with an oracle that shares no code with it.

    run.py --subject target/debug/examples/09_evaluate --device cpu --cases 2000

Kernels are numbered; each depends only on the seed and its number. Progress is saved, so that the same command continues an
interrupted run. Exit status 1 if any result is wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import pathlib
import sys
import time
import traceback

import numpy as np

from cases import case_of
from generator import Generator
from judge import judge
from oracle import Oracle
from shrink import described, shrink
from subject import Subject

if np.finfo(np.longdouble).nmant < 63:
    sys.exit("this machine has no floats with more than 64 bits, which the oracle for f64 needs")


LEAST_JUDGED = 90.0
"""Minimum per cent of judged elements, so that an oracle that judges little doesn't pass. Usually 96 to 98 are judged."""


class Worker:
    """One process: an oracle and a subject."""

    def __init__(self, options: argparse.Namespace, place: int):
        self.options = options
        self.oracle = Oracle(options.device != "cpu")
        self.subject = Subject(options.subject, options.device, place)

    def kernel(self, number: int) -> dict:
        """The record of one kernel on all of its data sets."""
        seed = f"{self.options.seed}/{number}"
        kernel = Generator(seed).kernel()
        record = {"number": number, "sets": 0, "elements": 0, "judged": 0, "wrong": 0}
        for place in range(self.options.sets):
            case = case_of(kernel, f"{seed}/{place}")
            verdict = judge(self.oracle, self.subject, kernel, case)
            record["sets"] += 1
            record["elements"] += verdict.elements
            record["judged"] += verdict.judged
            if verdict.wrong:
                record["wrong"] += 1
                if "failure" not in record:
                    small = shrink(self.oracle, self.subject, kernel, case, verdict)
                    record["failure"] = {"set": place, "kernel": kernel.text, "first": verdict.wrong, **described(small)}
        return record


worker: Worker


def start(options: argparse.Namespace, places) -> None:
    global worker
    with places.get_lock():
        place = places.value
        places.value += 1
    worker = Worker(options, place)


def run_one(number: int) -> dict:
    try:
        return worker.kernel(number)
    except Exception as error:
        # An error in the test itself must neither pass nor end the run.
        text = "".join(traceback.format_exception(error))
        failure = {"text": f"kernel {number} of seed {worker.options.seed}", "wrong": ["the test failed: " + text]}
        return {"number": number, "sets": 0, "elements": 0, "judged": 0, "wrong": 1, "failure": failure}


class State:
    """The saved progress: a file with a line per kernel, and a readable file of failures."""

    def __init__(self, options: argparse.Namespace):
        self.folder = pathlib.Path(options.state)
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{options.device.replace(':', '')}-{options.seed}-{options.sets}-{fingerprint(options.subject)}"
        self.file = self.folder / f"{name}.jsonl"
        self.failures = self.folder / f"{name}.failures.json"
        if options.anew:
            self.file.unlink(missing_ok=True)
            self.failures.unlink(missing_ok=True)
        self.records: dict[int, dict] = {}
        for line in self.file.read_text().splitlines() if self.file.exists() else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # The line that was being written when the run was interrupted.
            self.records[record["number"]] = record

    def add(self, record: dict) -> None:
        self.records[record["number"]] = record
        with self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")
        if "failure" in record:
            with self.failures.open("a") as file:
                file.write(json.dumps({"number": record["number"], **record["failure"]}, indent=1) + "\n")


def fingerprint(subject: str) -> str:
    """A digest of the program and of this test: results of another version don't count."""
    digest = hashlib.blake2b(pathlib.Path(subject).read_bytes(), digest_size=4)
    for file in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subject", required=True, help="the compiled example '09_evaluate'")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:N, or program: kernels as the interpreter computes them")
    parser.add_argument("--cases", type=int, default=2000, help="number of kernels")
    parser.add_argument("--sets", type=int, help="layouts and data sets per kernel; default: 10 on GPUs, else 3")
    parser.add_argument("--seed", default="1", help="seed of kernels and data")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="number of processes")
    parser.add_argument("--state", default="target/differential", help="folder of the saved progress")
    parser.add_argument("--anew", action="store_true", help="discard the saved progress")
    parser.add_argument("--only", type=int, help="run only the kernel with this number and print its text")
    options = parser.parse_args()
    if options.sets is None:
        options.sets = 10 if options.device.startswith("cuda") else 3
    return options


def total(records, name: str) -> int:
    return sum(record[name] for record in records)


def main() -> int:
    options = arguments()
    places = multiprocessing.Value("i", 0)
    if options.only is not None:
        start(options, places)
        print(Generator(f"{options.seed}/{options.only}").kernel().text)
        record = run_one(options.only)
        print(json.dumps(record, indent=1))
        return 1 if record["wrong"] else 0
    state = State(options)
    waiting = [number for number in range(options.cases) if number not in state.records]
    began = shown = time.monotonic()
    with multiprocessing.Pool(min(options.jobs, max(1, len(waiting))), start, (options, places)) as pool:
        for record in pool.imap_unordered(run_one, waiting, chunksize=4):
            state.add(record)
            if "failure" in record:
                print(f"kernel {record['number']}: {record['failure']['text']!r}: {record['failure']['wrong']}", flush=True)
            if time.monotonic() - shown > 15:
                shown = time.monotonic()
                print(f"{len(state.records)} of {options.cases} kernels after {shown - began:.0f} s", file=sys.stderr, flush=True)
    records = [record for number, record in state.records.items() if number < options.cases]
    elements, wrong = total(records, "elements"), total(records, "wrong")
    share = 100 * total(records, "judged") / max(elements, 1)
    print(
        f"{len(records)} kernels, {total(records, 'sets')} data sets, {elements} elements, {share:.2f} % judged, {wrong} wrong "
        f"({options.device}, seed {options.seed}, {time.monotonic() - began:.0f} s)"
    )
    if share < LEAST_JUDGED:
        print(f"too few elements were judged: at least {LEAST_JUDGED} % are required")
    return 1 if wrong or share < LEAST_JUDGED else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command continues from here")
