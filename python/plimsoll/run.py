"""The verbs of the command `plimsoll` as functions.

Each runs the command in a child process and reads its JSON: a hung device or a crash can't take this process with it, and Ctrl-C
stops the command, which keeps what was measured.
"""

from __future__ import annotations

import base64
import html
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ._plimsoll import format_figure

__all__ = ["CommandError", "Run", "bench", "check", "explain", "load", "measure", "predict", "report"]

# The verdict of a check or a comparison: an answer rather than an error.
_ANSWERS = (0, 1, 4)
# How much of a run a notebook shows.
_MOST_ROWS = 20
_MOST_PICTURES = 4


class CommandError(RuntimeError):
    """The command failed. `code` is its exit code: 2 for wrong usage, 3 for a device that is missing or was lost."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Run(Mapping[str, Any]):
    """A run: devices, points and findings. A mapping with the content of the command's JSON."""

    def __init__(self, content: dict[str, Any], folder: Path | None = None) -> None:
        self._content = content
        #: The folder of the record; None if there is none.
        self.folder = folder

    def __getitem__(self, key: str) -> Any:
        return self._content[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What was found: a dict each, with the probe, the value and its unit."""
        return [finding for run in self._content["runs"] for finding in run["findings"]]

    @property
    def points(self) -> list[dict[str, Any]]:
        """What was measured: a dict each, with the probe, the coordinates by the names of their axes, the flags, and of each metric its
        value and interval. Units are in `run["series"]`."""
        rows = []
        for series in self._content["series"]:
            common = {key: series[key] for key in ("run", "device", "probe", "case", "figure", "cache")}
            names = [axis["name"] for axis in series["axes"]]
            for row in series["rows"]:
                rest = {key: value for key, value in row.items() if key not in ("at", "metrics")}
                rows.append({**common, **dict(zip(names, row["at"])), **row["metrics"], **rest})
        return rows

    def to_pandas(self, rows: Literal["findings", "points"] = "findings") -> Any:
        """The findings or the points as a pandas DataFrame."""
        import pandas

        return pandas.json_normalize(self.points if rows == "points" else self.findings)

    def __repr__(self) -> str:
        place = f", folder={str(self.folder)!r}" if self.folder else ""
        return f"<plimsoll.Run with {len(self.findings)} findings{place}>"

    @property
    def pictures(self) -> dict[str, str]:
        """The pictures of the series by their names, as SVG; none if nothing was measured that can be drawn. Needs the record."""
        with tempfile.TemporaryDirectory() as place:
            try:
                _command(["report", str(_folder(self)), "--format", "svg", "--output", place + "/pictures"])
            except CommandError as error:
                if "can be drawn" not in str(error):
                    raise
            return {path.stem: path.read_text(encoding="utf-8") for path in sorted(Path(place, "pictures").glob("*.svg"))}

    def _repr_html_(self) -> str:
        """The findings as a table, then the pictures, for notebooks: without scripts and frames, which many viewers remove."""
        try:
            pictures = self.pictures if self.folder else {}
        except CommandError:
            # The record was moved or deleted; the findings are here.
            pictures = {}
        names = [device["name"] for run in self._content["runs"] for device in run["devices"]]
        head = html.escape(", ".join(names))
        if self._content["simulated"]:
            head += " <b>(simulated: these figures describe no real machine)</b>"
        parts = [f"<p>{head}</p>", _table(self.findings[:_MOST_ROWS]), *itertools.starmap(_image, itertools.islice(pictures.items(), _MOST_PICTURES))]
        left = [(len(self.findings) - _MOST_ROWS, "findings"), (len(pictures) - _MOST_PICTURES, "pictures")]
        left_out = " and ".join(f"{count} more {what}" for count, what in left if count > 0)
        if left_out:
            parts.append(f'<p>{left_out}: <code>plimsoll.report(run, "report.html")</code> writes a page with all of them.</p>')
        return "\n".join(parts)


def _table(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "<p>no findings</p>"
    rows = ["<tr><th>probe</th><th>finding</th><th>measured</th><th>flags</th></tr>"]
    for each in findings:
        figure = format_figure(each["value"], each["interval"], each["unit"])
        cells = [each["probe"], each["name"], figure, ", ".join(each["flags"])]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(rows)}</table>"


def _image(name: str, picture: str) -> str:
    data = base64.b64encode(picture.encode()).decode()
    return f'<img alt="{html.escape(name)}" src="data:image/svg+xml;base64,{data}" style="width: 40em; max-width: 100%">'


def measure(probes: Iterable[str] = (), *, device: str | None = None, effort: str = "quick", out: str | os.PathLike[str] | None = None, **options: Any) -> Run:
    """Runs probes, by default all of them outside the group lab, and returns the run. Its record is kept in `run.folder`.

    `options` are those of the command, with underscores: `measure(["copy"], bytes="64MiB")`.
    """
    return _measured(["measure", *probes], device=device, effort=effort, out=out, no_report=True, **options)


def check(*, device: str | None = None, **options: Any) -> dict[str, Any]:
    """Measures the figures that summarise a device and returns the verdict on each: `check()["devices"][0]["verdict"]`."""
    verdict: dict[str, Any] = _json(["check"], device=device, no_record=options.pop("no_record", "out" not in options), **options)
    return verdict


def bench(expression: str, **options: Any) -> list[dict[str, Any]]:
    """Times an expression over a range of sizes, next to what memory can do: a dict per size and plan."""
    rows: list[dict[str, Any]] = _json(["bench", expression], **options)
    return rows


def predict(expression: str, *, machine: str, **options: Any) -> list[dict[str, Any]]:
    """Predicts the time of an expression on a machine, term by term, without the machine."""
    terms: list[dict[str, Any]] = _json(["predict", expression], machine=machine, **options)
    return terms


def explain(expression: str | None = None, **options: Any) -> Any:
    """Explains the time of an expression or of a kernel of yours: prediction, measurement and what is left."""
    return _json(["explain", *([] if expression is None else [expression])], **options)


def report(run: Run | str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *, format: str | None = None, **options: Any) -> str:
    """Writes the report of a run to a file, in the format of its ending, or returns it as text in `format`."""
    arguments = ["report", str(_folder(run))]
    return _command([*arguments, *_options({"output": output, "format": format, **options})]).stdout


def load(run: str | os.PathLike[str]) -> Run:
    """Reads the record of a run: its folder, or its run.jsonl."""
    content = json.loads(_command(["report", str(run), "--format", "json"]).stdout)
    return Run(content, _existing(run))


def _folder(run: Run | str | os.PathLike[str]) -> str | os.PathLike[str]:
    if not isinstance(run, Run):
        return run
    if run.folder is None:
        raise ValueError("the run has no record: measure it without no_record")
    return run.folder


def _existing(place: str | os.PathLike[str]) -> Path | None:
    path = Path(place)
    return path if path.exists() else None


def _measured(arguments: Sequence[str], **options: Any) -> Run:
    done = _command([*arguments, "--format", "json", *_options(options)])
    # The command says on stderr where the record is.
    places = [line.split(":", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("record:")]
    return Run(json.loads(done.stdout), _existing(Path(places[-1]).parent) if places else None)


def _json(arguments: Sequence[str], **options: Any) -> Any:
    return json.loads(_command([*arguments, "--format", "json", *_options(options)]).stdout)


def _options(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as the command's options: `dtype="bf16"`, `hot=True`, `scalar=["a=1", "b=2"]`."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-").strip("-")
        if value is True:
            words.append(option)
        elif value is None or value is False:
            continue
        elif isinstance(value, (list, tuple)):
            words += [word for each in value for word in (option, str(each))]
        else:
            words += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return words


def _command(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "plimsoll", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        stdout, stderr = process.communicate()
    except KeyboardInterrupt:
        # The terminal sent the signal to the command too, which now writes what it has.
        stdout, stderr = process.communicate()
        raise
    if process.returncode not in _ANSWERS or not stdout and process.returncode != 0:
        raise CommandError(stderr.strip() or f"plimsoll ended with {process.returncode}", process.returncode)
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
