"""The command and its verbs, on a simulated device."""

import subprocess
import sys

import pytest

import plimsoll


def test_the_command_runs_and_returns_its_exit_code() -> None:
    done = subprocess.run([sys.executable, "-m", "plimsoll", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and plimsoll.__version__ in done.stdout
    assert subprocess.run([sys.executable, "-m", "plimsoll", "nothing"], capture_output=True).returncode == 2


def test_a_run_is_measured_kept_and_read_again(tmp_path) -> None:
    run = plimsoll.measure(["launch"], device="sim", out=tmp_path / "run")
    assert run.folder == tmp_path / "run" and run.findings
    finding = run.findings[0]
    assert finding["probe"] == "launch" and isinstance(finding["value"], float) and finding["unit"]
    point = next(point for point in run.points if point["case"] == "empty")
    assert point["mode"] == "stream" and point["time"]["value"] > 0 and point["n"] > 0
    again = plimsoll.load(run.folder)
    assert again.findings == run.findings and again.points == run.points
    assert "## Simulated device" in plimsoll.report(run, format="markdown")
    plimsoll.report(run, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000
    pictures = run.pictures
    assert pictures and all(text.startswith("<svg") for text in pictures.values())
    page = run._repr_html_()
    assert page.count("<tr>") == min(len(run.findings), 20) + 1 and f"<td>{finding['name']}</td>" in page
    assert page.count("data:image/svg+xml;base64,") == min(len(pictures), 4) and "<script" not in page
    assert "simulated: these figures describe no real machine" in page
    assert plimsoll.Run({"runs": [], "series": [], "simulated": False})._repr_html_() == "<p></p>\n<p>no findings</p>"


def test_a_long_run_says_how_much_of_it_is_not_shown() -> None:
    finding = {"probe": "p", "name": "<b>", "value": 2e-6, "interval": [1.9e-6, 2.1e-6], "unit": "s", "flags": ["DRIFT"]}
    run = {"devices": [{"name": "a & b"}], "findings": [finding] * 23}
    page = plimsoll.Run({"runs": [run], "series": [], "simulated": False})._repr_html_()
    assert page.startswith("<p>a &amp; b</p>\n<table>")
    assert "<p>3 more findings: " in page and page.count("<tr>") == 21
    assert "<tr><td>p</td><td>&lt;b&gt;</td><td>2.00 µs ± 0.10</td><td>DRIFT</td></tr>" in page


def test_a_run_without_pictures_or_without_its_record_is_shown(tmp_path) -> None:
    with pytest.raises(plimsoll.CommandError):
        plimsoll.measure(["launch"], device="sim:lost-after=1", out=tmp_path / "lost")
    lost = plimsoll.load(tmp_path / "lost")
    assert lost.pictures == {} and "no findings" in lost._repr_html_()
    run = plimsoll.measure(["launch"], device="sim", out=tmp_path / "run")
    run.folder.rename(tmp_path / "elsewhere")
    assert "<table>" in run._repr_html_() and "svg" not in run._repr_html_()


def test_a_device_gets_a_verdict() -> None:
    assert plimsoll.check(device="sim")["devices"][0]["figures"]


def test_an_expression_is_timed(tmp_path) -> None:
    rows = plimsoll.bench("x + y", device="sim", bytes="1MiB", out=tmp_path / "run")
    assert rows and all(isinstance(row, dict) for row in rows)
    assert (tmp_path / "run" / "run.jsonl").exists()


def test_a_prediction_needs_no_device() -> None:
    (prediction, *_) = plimsoll.predict("x + y", machine="h200", bytes="1GiB", estimate=True)
    assert prediction["answer"] == "prediction"


def test_errors_of_the_command_are_exceptions_with_its_words() -> None:
    with pytest.raises(plimsoll.CommandError, match="nonsense") as failed:
        plimsoll.measure(["nonsense"], device="sim")
    assert failed.value.code == 2


def test_import_takes_no_other_package_along() -> None:
    program = "import sys; before = set(sys.modules); import plimsoll; print(*(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"numpy", "torch", "pandas", "jax"} & set(done.stdout.split())
