"""`bits grade` as an instructor types it, with the real judge, on work of a real chapter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom import (
    Submission,
    exercises_of,
    full_points,
    hand_in,
    release,
    solved,
    submit,
    to_bytes,
    without_demos,
    wrong_in_one,
)
from lab_server import copy_course, run_nbgrader
from nbgrader.api import Gradebook
from small_course import snapshot

from helpers.grading.records.class_list import read_class

pytestmark = pytest.mark.needs_system("bubblewrap")
CHAPTER = "08-numerical-stability"
BITS = str(Path(sys.executable).with_name("bits"))


def bits(root: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess:
    environment = os.environ | ({"PATH": path} if path else {})
    return subprocess.run(
        [BITS, *arguments], cwd=root, env=environment, capture_output=True, text=True, timeout=500
    )


@dataclass(frozen=True)
class Graded:
    """A course after `bits grade`, what it printed, and what the class deserves."""

    root: Path
    finished: subprocess.CompletedProcess
    deserved: dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    root = copy_course(tmp_path_factory.mktemp("clone"))
    exercises = exercises_of(CHAPTER)
    nothing = dict.fromkeys(full_points(exercises), 0.0)
    right = without_demos(solved(CHAPTER))
    submissions = [
        submit("all-right", right, full_points(exercises)),
        submit("blank", without_demos(release(CHAPTER)), nothing),
        wrong_in_one(CHAPTER, exercises[0]),
        Submission("damaged", to_bytes(right)[:2000], nothing),
    ]
    hand_in(submissions, CHAPTER, root / "course")
    finished = bits(root, "grade", CHAPTER, "--json")
    return Graded(root, finished, {s.student: dict(s.deserved) for s in submissions})


def test_everybody_gets_what_the_work_deserves(graded: Graded) -> None:
    assert graded.finished.returncode == 0, graded.finished.stderr
    told = json.loads(graded.finished.stdout)  # and nothing else stands there
    points = {
        student: {name: e["points"] for name, e in result["exercises"].items()}
        for student, result in told["results"].items()
    }
    assert points == graded.deserved
    assert [entry["student"] for entry in told["for_a_person"]] == ["damaged"]
    with Gradebook(f"sqlite:///{graded.root / 'course' / 'gradebook.db'}") as gradebook:
        scores = {
            s.student.id: {
                g.name.removeprefix("test-"): g.auto_score for g in s.notebooks[0].grades
            }
            for s in gradebook.find_assignment(CHAPTER).submissions
        }
    assert scores == graded.deserved


def test_the_sandbox_is_named_and_there_is_no_bar_without_a_terminal(graded: Graded) -> None:
    (line,) = graded.finished.stderr.splitlines()
    assert line.startswith("Sandbox: 2048 MiB of memory and 128 processes")


def test_a_second_run_says_that_nothing_changed(graded: Graded) -> None:
    before = snapshot(graded.root)
    finished = bits(graded.root, "grade", CHAPTER)
    assert finished.returncode == 0
    assert f"{CHAPTER}: 0 judged, 0 recorded again, 4 unchanged." in finished.stdout
    assert "  damaged: the notebook cannot be read" in finished.stdout
    assert snapshot(graded.root) == before


def test_the_command_itself_loads_neither_torch_nor_the_grammar_of_addresses() -> None:
    """They take a second each. Only processes that judge need torch."""
    code = (
        "import sys\n"
        "from helpers.grading.startup import leave_out_address_grammar\n"
        "leave_out_address_grammar()\n"
        "import helpers.grading.engine.engine, helpers.grading.engine.summary\n"
        "print(*(name for name in ('torch', 'rfc3987_syntax') if sys.modules.get(name)))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []


def test_the_report_finds_the_whole_class(graded: Graded) -> None:
    entries = read_class(graded.root / "course", CHAPTER)
    assert {e.student: e.judged.points for e in entries} == {
        student: sum(points.values()) for student, points in graded.deserved.items()
    }
    assert all(entry.is_current for entry in entries)


def test_nbgraders_feedback_comes_on_top(graded: Graded, tmp_path: Path) -> None:
    root = shutil.copytree(graded.root, tmp_path / "clone")
    run_nbgrader(root / "course", "generate_feedback", CHAPTER)
    pages = {p.parts[-3]: p.read_text("utf-8") for p in root.glob("course/feedback/*/*/*.html")}
    assert set(pages) == set(graded.deserved)
    most = sum(exercise.points for exercise in exercises_of(CHAPTER))
    assert f"Score: {most:.1f} / {most:.1f}" in pages["all-right"]
    assert "could not be graded" in pages["damaged"]


def test_what_cannot_be_graded_is_one_sentence(graded: Graded, tmp_path: Path) -> None:
    unknown = bits(graded.root, "grade", "99-nothing")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "There is no assignment 99-nothing" in unknown.stderr
    assert "Traceback" not in unknown.stderr
    (tmp_path / "empty").mkdir()
    without = bits(graded.root, "grade", CHAPTER, path=str(tmp_path / "empty"))
    assert without.returncode == 1
    assert "bubblewrap, which is not installed here" in without.stderr
