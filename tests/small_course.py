"""A course with one small assignment, and a step that judges without running anything.

What a submission's answer says is what happens to it: "points=2", "sleep=0.5", "die" (the process
that judges it is killed), "raise" (a fault of our own), "eye" (a person should look at it),
"wait=1" (a point waits for a person).
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import nbformat
from nbformat import v4
from nbgrader.api import Gradebook
from nbgrader.utils import compute_checksum

from helpers.grading.assignment import Assignment
from helpers.grading.engine.engine import grade
from helpers.grading.engine.summary import Summary
from helpers.grading.engine.workers import LocalWorkers
from helpers.grading.records.registration import register
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict

ASSIGNMENT = "01-small"
NOTEBOOK = "small.ipynb"
STAMP = "2026-01-31 12:00:00.000000 UTC"
STUB = 'raise NotImplementedError("nothing is written here yet")'
_CONFIG = """
c = get_config()
c.CourseDirectory.course_id = "small"
"""


@dataclass(frozen=True)
class FakeSettings:
    """What the fake step takes for settings."""

    sandboxed: bool = False
    log: str = ""


def fake_step(content: bytes, assignment: Assignment, settings: FakeSettings) -> Judged:
    """Judge by what the answer to "one" says; ``settings.log`` is told who judged what."""
    answer = answer_of(content)
    if settings.log:
        with open(settings.log, "a") as stream:
            stream.write(f"{os.getpid()} {answer}\n")
    pause = re.search(r"sleep=([\d.]+)", answer)
    if pause:
        time.sleep(float(pause[1]))
    if "die" in answer:
        os.kill(os.getpid(), signal.SIGKILL)
    while "spin" in answer:
        continue
    if "memory" in answer:
        raise MemoryError
    if "raise" in answer:
        raise RuntimeError("the judge has a fault")
    points = re.search(r"points=([\d.]+)", answer)
    won = float(points[1]) if points else 0.0
    eye = "it looks odd" if "eye" in answer else ""
    verdict = Verdict.PASSED if won == 2 else Verdict.FAILED
    one = ExerciseResult("one", verdict, won, 2.0, for_a_person=eye)
    wait = re.search(r"wait=([\d.]+)", answer)
    if wait:
        doubt = "cell 1, line 1: gc"
        one = replace(
            one,
            verdict=Verdict.WAITING,
            waiting=float(wait[1]),
            doubts=(doubt,),
            code=f"code of {answer}",
            for_a_person=f"{doubt}: {wait[1]} points wait",
        )
    results = (one, ExerciseResult("two", Verdict.PASSED, 3.0, 3.0))
    notebook = judged_notebook(assignment, answer)
    return Judged(results, notebook, ("a note",), short_of_time="short" in answer)


def answer_of(content: bytes) -> str:
    (cell,) = (
        cell
        for cell in json.loads(content)["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == "one"
    )
    return "".join(cell["source"])


def judged_notebook(assignment: Assignment, answer: str) -> bytes:
    """Return our cells with the answer to "one" in its place."""
    cells = []
    for number, ours in enumerate(assignment.cells):
        text = answer if ours.name == "one" else ours.source
        new = v4.new_code_cell if ours.cell_type == "code" else v4.new_markdown_cell
        cell = new(text, id=f"c{number}")
        cell.metadata["nbgrader"] = _metadata(ours.name, ours.solution, ours.grade, ours.points)
        cell.metadata["nbgrader"]["checksum"] = ours.checksum
        cells.append(cell)
    return nbformat.writes(v4.new_notebook(cells=cells)).encode()


def _metadata(name: str, solution: bool, grade: bool, points: float = 0.0) -> dict:
    metadata = {
        "schema_version": 3,
        "grade_id": name,
        "grade": grade,
        "solution": solution,
        "locked": not solution,
        "task": False,
    }
    return metadata | ({"points": points} if grade else {})


def _source() -> bytes:
    marks = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION"
    plan = (
        ("needed-1", "import math", False, False, 0, v4.new_code_cell),
        ("one", marks, True, False, 0, v4.new_code_cell),
        ("test-one", "assert x == 1", False, True, 2, v4.new_code_cell),
        ("two", marks.replace("x", "y"), True, False, 0, v4.new_code_cell),
        ("test-two", "assert y == 1", False, True, 3, v4.new_code_cell),
        ("essay", "Write here.", True, True, 4, v4.new_markdown_cell),
    )
    cells = []
    for number, (name, text, solution, graded, points, new) in enumerate(plan):
        cell = new(text, id=f"s{number}")
        cell.metadata["nbgrader"] = _metadata(name, solution, graded, points)
        cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)
        cells.append(cell)
    kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = v4.new_notebook(cells=cells, metadata={"kernelspec": kernelspec})
    return nbformat.writes(notebook).encode()


@cache
def _template() -> Path:
    """Return a course whose gradebook knows the assignment; made once."""
    folder = Path(mkdtemp(prefix="small-course-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    course = folder / "course"
    (course / "source" / ASSIGNMENT).mkdir(parents=True)
    (course / "source" / ASSIGNMENT / NOTEBOOK).write_bytes(_source())
    (course / "source" / ASSIGNMENT / "table.csv").write_text("1,2\n")
    (course / "nbgrader_config.py").write_text(_CONFIG)
    register(course, ASSIGNMENT)
    return course


def make_course(folder: Path) -> Path:
    """Return a course of its own in ``folder``."""
    return shutil.copytree(_template(), folder / "course")


@cache
def bundle() -> Assignment:
    """Return the assignment, which is the same in every course made here."""
    return register(_template(), ASSIGNMENT)


def submission(answer: str, essay: str = "") -> bytes:
    """Return a notebook in which "one" is answered."""
    one = v4.new_code_cell(answer, id="one")
    one.metadata["nbgrader"] = _metadata("one", True, False)
    cells = [one, v4.new_markdown_cell(essay, id="essay")]
    return nbformat.writes(v4.new_notebook(cells=cells)).encode()


def hand_in(course: Path, student: str, answer: str, stamp: str = STAMP) -> Path:
    folder = course / "submitted" / student / ASSIGNMENT
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NOTEBOOK).write_bytes(submission(answer))
    (folder / "timestamp.txt").write_text(stamp)
    return folder / NOTEBOOK


def run(course: Path, **options: object) -> Summary:
    """Grade with the fake step."""
    settings = FakeSettings(log=str(log_of(course)))
    return grade(
        course, ASSIGNMENT, **{"settings": settings, "step": fake_step, "jobs": 2} | options
    )


class ThreadWorkers(LocalWorkers):
    """Judges in threads of this process, where nothing can die: so most tests take no time."""

    def __init__(self, jobs: int) -> None:
        self._threads = ThreadPoolExecutor(jobs)
        self._count = jobs

    @property
    def slots(self) -> int:
        return self._count

    def submit(self, function: Callable[..., object], *arguments: object) -> Future:
        return self._threads.submit(function, *arguments)

    def end_overdue(self) -> dict[Future, str]:
        return {}

    def close(self, *, at_once: bool) -> None:
        self._threads.shutdown(wait=not at_once, cancel_futures=True)


def log_of(course: Path) -> Path:
    return course.parent / "judged.log"


def judgements(course: Path) -> list[list[str]]:
    """Return the process and the answer of everything that was judged, and forget it."""
    log = log_of(course)
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return [line.split(" ", 1) for line in lines]


def scores(course: Path) -> dict[str, dict[str, float | None]]:
    """Return every student's automatic scores, as the gradebook has them."""
    with open_gradebook(course) as gradebook:
        return {
            s.student.id: {g.name: g.auto_score for n in s.notebooks for g in n.grades}
            for s in gradebook.find_assignment(ASSIGNMENT).submissions
        }


def open_gradebook(course: Path) -> Gradebook:
    return Gradebook(f"sqlite:///{course / 'gradebook.db'}", "small")


def snapshot(course: Path) -> dict[str, tuple[int, bytes]]:
    """Return the time and the content of every file below ``course``."""
    return {
        file.relative_to(course).as_posix(): (file.stat().st_mtime_ns, file.read_bytes())
        for file in sorted(course.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }
