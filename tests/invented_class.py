"""A graded class that nobody taught: results as judging keeps them, and a gradebook with them."""

from __future__ import annotations

import copy
import hashlib
import random
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from course_files import COURSE, EXERCISES, find_cell, release, source
from nbformat import v4
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook

from helpers.catalogue import Exercise
from helpers.grading.records.gradebook import GradebookWriter
from helpers.grading.records.registration import register
from helpers.grading.records.results import Recorded, Records, ResultStore, judged_folder
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

CHAPTER = "08-numerical-stability"
RECEIVED_AT = "2026-01-31 12:00:00.000000 UTC"
_WRONG = (
    "returned nan in 3 of 28 places, expected numbers",
    "shape (5, 3) came back, expected (3, 5)",
    "raised RuntimeError: The size of tensor a (5) must match the size of tensor b (3)",
    "the largest difference is 0.0312 at [2, 4]: 0.5312 came back, expected 0.5",
    "these operators ran: aten::logsumexp",
    "float32 came back, expected float64",
)
_STUB = "nothing is written here yet: replace the line that raises NotImplementedError"


@dataclass
class Student:
    """One student and what becomes of the work; ``judged`` is None where nothing came."""

    student: str
    judged: Judged | None = None
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    change: Callable[[NotebookNode], None] = field(default=lambda notebook: None)


def exercises() -> list[Exercise]:
    return [exercise for exercise in EXERCISES if exercise.chapter == CHAPTER]


def claims_of(exercise: Exercise) -> list[tuple[str, bool]]:
    """Return the claims of an exercise's properties, and whether each is hidden."""
    test = find_cell(source(CHAPTER), f"test-{exercise.name}").source
    shown, _, hidden = test.partition("BEGIN HIDDEN TESTS")
    pattern = r'check\.property\(\s*"((?:[^"\\]|\\.)*)"'
    return [(c, False) for c in re.findall(pattern, shown)] + [
        (c, True) for c in re.findall(pattern, hidden)
    ]


def hidden_lines() -> set[str]:
    """Return the lines of the chapter's hidden tests that tell something."""
    lines = set()
    for exercise in exercises():
        test = find_cell(source(CHAPTER), f"test-{exercise.name}").source
        hidden = test.partition("### BEGIN HIDDEN TESTS")[2].partition("### END")[0]
        lines |= {line.strip() for line in hidden.splitlines() if len(line.strip()) > 12}
    return lines


def judge_exercise(exercise: Exercise, outcomes: Iterable[str], reason: str = "") -> ExerciseResult:
    """Return the result of an exercise whose properties come to ``outcomes``."""
    tried = []
    for (claim, hidden), outcome in zip(claims_of(exercise), outcomes, strict=True):
        failed = outcome == "failed"
        details = (
            (("fed in", "logits = tensor of shape (3, 5)"), ("came back", "nan")) if failed else ()
        )
        tried.append(PropertyResult(claim, 1.0, outcome, reason if failed else "", details, hidden))
    share = sum(t.outcome == "passed" for t in tried) / len(tried)
    points = round(exercise.points * share, 2)
    none = Verdict.UNANSWERED if reason == _STUB else Verdict.FAILED
    verdict = {0.0: none, 1.0: Verdict.PASSED}.get(share, Verdict.PARTLY)
    message = "" if share == 1 else "Look at the properties marked ✗."
    most = float(exercise.points)
    return ExerciseResult(exercise.name, verdict, points, most, message, tuple(tried))


def all_right() -> Judged:
    return Judged(tuple(judge_exercise(e, ["passed"] * len(claims_of(e))) for e in exercises()))


def invent(seed: int) -> Judged:
    """Return results as a student may have them: mostly right, some wrong, some broken."""
    rng = random.Random(seed)
    skill = rng.random()
    return Judged(tuple(_invent_exercise(exercise, skill, rng) for exercise in exercises()))


def _invent_exercise(exercise: Exercise, skill: float, rng: random.Random) -> ExerciseResult:
    count, luck = len(claims_of(exercise)), rng.random()
    most = float(exercise.points)
    if luck < 0.45 + 0.4 * skill:
        return judge_exercise(exercise, ["passed"] * count)
    if luck < 0.90:
        outcomes = ["passed"] + [rng.choice(["passed", "failed"]) for _ in range(count - 1)]
        return judge_exercise(exercise, outcomes, _vary(rng.choice(_WRONG), rng))
    if luck < 0.95:
        reason = rng.choice((_STUB, _vary(_WRONG[0], rng)))
        return judge_exercise(exercise, ["failed"] + ["not tried"] * (count - 1), reason)
    verdict = rng.choice((Verdict.CRASHED, Verdict.TIMED_OUT, Verdict.OUT_OF_MEMORY))
    message = f"The code of this exercise {verdict}."
    looked_at = "the kernel ended by itself" if verdict is Verdict.CRASHED else ""
    return ExerciseResult(exercise.name, verdict, 0.0, most, message, (), looked_at)


def _vary(reason: str, rng: random.Random) -> str:
    return re.sub(r"\d", lambda _: str(rng.randint(1, 9)), reason)


def judged_notebook(change: Callable[[NotebookNode], None] = lambda notebook: None) -> bytes:
    """Return what judging keeps: our tests with all they hold, the student's answers, outputs."""
    notebook = copy.deepcopy(source(CHAPTER))
    for exercise in exercises():
        cell = find_cell(notebook, exercise.name)
        cell.source = cell.source.replace("### BEGIN SOLUTION", "# mine").replace(
            "### END SOLUTION", "# done"
        )
        cell.outputs = [v4.new_output("stream", name="stdout", text="it ran\n")]
        test = find_cell(notebook, f"test-{exercise.name}")
        test.outputs = [v4.new_output("stream", name="stdout", text=f"seen: {test.source}")]
    change(notebook)
    return nbformat.writes(notebook).encode()


def make_course(folder: Path, students: Iterable[Student]) -> Path:
    """Return a course in ``folder`` in which the students' work has been graded."""
    course = folder / "course"
    shutil.copytree(COURSE.source(CHAPTER).parent, course / "source" / CHAPTER)
    shutil.copytree(COURSE.release(CHAPTER).parent, course / "release" / CHAPTER)
    shutil.copy(COURSE.config_file, course)
    assignment = register(course, CHAPTER)
    place = judged_folder(course, CHAPTER)
    store, records = ResultStore(place), Records(place / "students")
    handed_in = nbformat.writes(release(CHAPTER)).encode()
    file_name = COURSE.release(CHAPTER).name
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for s in students:
            names = {"first_name": s.first_name, "last_name": s.last_name, "email": s.email}
            gradebook.update_or_create_student(s.student, **names)
    with GradebookWriter(course, assignment) as writer:
        for student in students:
            if student.judged is None:
                continue
            if "/" not in student.student:
                inbox = course / "submitted" / student.student / CHAPTER
                inbox.mkdir(parents=True)
                (inbox / file_name).write_bytes(handed_in)
                (inbox / "timestamp.txt").write_text(RECEIVED_AT)
            key = hashlib.sha256(student.student.encode()).hexdigest()
            notebook = judged_notebook(student.change)
            judged = Judged(student.judged.exercises, notebook, student.judged.notes)
            store.save(key, judged)
            digest = hashlib.sha256(handed_in).hexdigest()
            recorded = Recorded(student.student, key, digest, "", RECEIVED_AT)
            writer.record(recorded, judged, None)
            records.save(recorded)
    return course
