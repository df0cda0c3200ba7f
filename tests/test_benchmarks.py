"""The benchmarks: what they compute, and that a small run of them goes through."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest
from attack_corpus import attacks
from classroom import exercises_of, full_points
from course_files import ROOT
from nbformat import reads
from rich.console import Console

from benchmarks.course import count_graded
from benchmarks.figure import draw_growth
from benchmarks.graders import split_log
from benchmarks.growth import Line, Point, fit_line, sizes_up_to
from benchmarks.memory import Peak, measure
from benchmarks.outcome import Outcome, Times
from benchmarks.scores import compare
from benchmarks.submissions import CHAPTER, HOSTILE, PARTLY, RIGHT, WRONG, Work, make_class
from benchmarks.tables import make_tables

FULL = full_points(exercises_of(CHAPTER))
MIB = 2**20


@pytest.fixture(scope="module")
def usual() -> list[Work]:
    return make_class(60)


def test_the_usual_class_is_mixed_and_no_two_files_are_the_same(usual: list[Work]) -> None:
    assert Counter(w.kind for w in usual) == {RIGHT: 30, PARTLY: 10, WRONG: 12, HOSTILE: 8}
    assert sum(work.waits for work in usual) == 2
    assert len({work.notebook for work in usual}) == 60
    assert len({work.student for work in usual}) == 60
    # Each kind has its share of the first half too.
    assert Counter(work.kind for work in usual[:30]) == {RIGHT: 15, PARTLY: 5, WRONG: 6, HOSTILE: 4}


def test_each_kind_deserves_what_its_name_says(usual: list[Work]) -> None:
    for work in usual:
        lost = [name for name in FULL if work.deserved[name] < FULL[name]]
        assert work.deserved.keys() == FULL.keys()
        assert work.kind != RIGHT or not lost
        assert work.kind != PARTLY or (len(lost) == 1 and work.deserved[lost[0]] > 0)
        assert work.kind != WRONG or len(lost) == 3


def test_a_class_is_the_same_each_time_and_holds_no_demo(usual: list[Work]) -> None:
    assert make_class(60) == usual
    for work in usual:
        cells = reads(work.notebook.decode(), as_version=4).cells
        assert not any("demo" in cell.metadata.get("tags", []) for cell in cells)


def test_a_large_class_repeats_the_work_in_other_files(usual: list[Work]) -> None:
    large = make_class(150, with_waiting=False)
    assert not any(work.waits for work in large)
    assert len({work.notebook for work in large}) == 150
    assert [w.deserved for w in large[58:116]] == [w.deserved for w in large[:58]]


def test_a_signed_attack_is_still_the_attack(usual: list[Work]) -> None:
    whole = [attack for attack in attacks() if attack.kind != "broken_files"]
    corpus = {frozenset(sources(attack.notebook)) for attack in whole}
    hostile = [w for w in usual if w.kind == HOSTILE and not w.waits]
    for work in hostile:
        signature = f"\n# {work.student}\n"
        assert frozenset(s.replace(signature, "") for s in sources(work.notebook)) in corpus


def sources(notebook: bytes) -> list[str]:
    cells = json.loads(notebook)["cells"]
    return ["".join(cell["source"]) for cell in cells]


def test_nbgraders_log_tells_how_long_each_took() -> None:
    line = "[AutogradeApp | INFO] Converting notebook /x/submitted/{}/08-n/n.ipynb\n"
    log = [(1.0, line.format("ada")), (1.5, "[INFO] else\n"), (3.0, line.format("bo")), (3.1, "")]
    assert split_log(log, 10.0) == {"ada": 2.0, "bo": 7.0}


def point(submissions: int, seconds: float, mib: int = 1000, graded: int | None = None) -> Point:
    graded = submissions if graded is None else graded
    return Point(submissions, graded, seconds, Peak(mib * MIB), 0.0)


def test_start_and_growth_are_told_apart() -> None:
    assert fit_line([point(10, 7.0), point(100, 25.0)]) == Line(start=5.0, each=0.2)
    assert fit_line([point(10, 7.0)]) is None


def test_sizes_grow_threefold_up_to_the_largest() -> None:
    assert sizes_up_to(1000) == [10, 30, 100, 300, 1000]
    assert sizes_up_to(5) == [5]
    assert sizes_up_to(40) == [10, 30, 40]


@pytest.mark.parametrize(
    ("kind", "bits", "nbgrader", "told", "wrong"),
    [
        (RIGHT, 4.0, 4.0, False, False),
        (RIGHT, 4.0, None, True, False),
        (RIGHT, 3.0, 3.0, True, True),
        (RIGHT, None, 4.0, True, True),
        (HOSTILE, 3.0, 4.0, True, False),
        (HOSTILE, 5.0, 5.0, True, True),
    ],
)
def test_scores_that_differ_are_told(
    kind: str, bits: float | None, nbgrader: float | None, told: bool, wrong: bool
) -> None:
    work = Work("ada", kind, b"", {"softmax": 4.0})
    reasons = {("ada", "softmax"): "look"}
    found = compare([work], {"ada": {"softmax": bits}}, {"ada": {"softmax": nbgrader}}, reasons)
    assert [(d.nbgrader, d.bits, d.reason, d.is_wrong) for d in found] == (
        [(nbgrader, bits, "look", wrong)] if told else []
    )


def test_who_has_no_scores_does_not_count_as_graded() -> None:
    assert count_graded({"a": {"x": 0.0}, "b": {"x": None}, "c": {}}) == 1


def test_memory_is_that_of_all_processes() -> None:
    code = "block = b'x' * (80 * 2**20); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", f"import os; print(os.getpid(), flush=True); {code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        child.stdout.readline()
        me = psutil.Process(os.getpid())
        while measure(psutil.Process(child.pid))[0] < 80 * MIB:
            assert child.poll() is None
        assert measure(me)[0] > measure(psutil.Process(child.pid))[0]
    finally:
        child.communicate(b"\n")


def make_outcome(**changes: object) -> Outcome:
    settings = {
        "machine": {"date": "2026-01-31T12:00", "cores": 2, "processor": "a", "load": [0.1]},
        "kinds": {RIGHT: 3},
        "whole": Times(4, bits=20.0, limit=10.0, again=2.0, nbgrader=200.0),
        "prompt": Times(3, bits=9.0, limit=6.0, nbgrader=90.0),
        "nbgraders_waits": {"loops when it is called": 80.0},
        "ended": (),
        "nbgrader_graded": 4,
        "bits_graded": 4,
        "growth": (point(10, 7.0), point(100, 25.0, mib=1100)),
    }
    settings["machine"]["versions"] = {"python": "3"}
    return Outcome(**(settings | changes))


def test_the_sums_are_right_and_an_outcome_can_be_kept() -> None:
    plain = json.loads(json.dumps(make_outcome().to_plain()))
    assert plain["whole"]["against_nbgrader"] == 10.0
    assert plain["whole"]["against_limit"] == 2.0
    assert plain["limit_each"] == 2.0
    assert plain["line"] == {"start": 5.0, "each": 0.2}
    assert plain["memory_growth"] == pytest.approx(1.1)
    assert plain["faults"] == []


def test_what_is_missing_or_wrong_is_a_fault() -> None:
    work = Work("ada", RIGHT, b"", {"softmax": 4.0})
    wrong = compare([work], {"ada": {"softmax": 3.0}}, None, {})
    outcome = make_outcome(
        differences=tuple(wrong), growth=(point(10, 7.0, graded=9),), bits_graded=3
    )
    first, second, third = outcome.faults()
    assert "ada (right), softmax: 3.0 points, deserved 4.0" in first
    assert "1 of 10 submissions" in second
    assert "1 of the class" in third


def test_tables_and_picture_show_what_was_measured() -> None:
    work = Work("ada", HOSTILE, b"", {"softmax": 4.0, "safe-log": 3.0}, "it lies")
    bits, nbgrader = {"softmax": 0.0, "safe-log": 2.5}, {"softmax": None, "safe-log": None}
    reasons = {("ada", "softmax"): "it reaches out"}
    outcome = make_outcome(
        differences=tuple(compare([work], {"ada": bits}, {"ada": nbgrader}, reasons))
    )
    written = io.StringIO()
    console = Console(file=written, width=120)
    for part in make_tables(outcome):
        console.print(part)
    text = written.getvalue()
    for words in ("plain nbgrader", "without the 1 that wait", "5.0 s to start", "0.200 s"):
        assert words in text
    (row,) = (line for line in text.splitlines() if line.strip().startswith("ada, it lies"))
    assert row.split()[3:7] == ["2", "7", "–", "2.5"]
    assert "it reaches out" in text
    png, svg = draw_growth(outcome)
    assert png.startswith(b"\x89PNG")
    assert b"<svg" in svg
    assert draw_growth(make_outcome(growth=(point(3, 2.0),), prompt=None))[0] != png


def test_a_small_run_goes_through(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--class-size", "2", "--most", "3"]
    finished = subprocess.run(
        [*command, "--output", str(tmp_path / "bench")], cwd=ROOT, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    told = json.loads((tmp_path / "bench" / "grading.json").read_bytes())
    assert told["faults"] == []
    assert told["nbgrader_graded"] == told["bits_graded"] == 2
    assert 0 < told["whole"]["limit"] < told["whole"]["bits"]
    assert 0 < told["whole"]["limit"] < told["whole"]["nbgrader"]
    (only,) = told["growth"]
    assert only["submissions"] == only["graded"] == 3
    assert only["peak"]["bytes"] > 100 * MIB
    assert (tmp_path / "bench" / "grading.svg").exists()
    assert (tmp_path / "bench" / "grading.png").exists()
