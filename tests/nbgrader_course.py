"""Grade a class with nbgrader's own commands."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from classroom import Submission, hand_in
from course_files import COURSE
from lab_server import run_nbgrader
from nbgrader.api import Gradebook, MissingEntry

# The chapter that a class of many kinds of submissions is graded in.
LARGE_CLASS = "08-numerical-stability"


@dataclass(frozen=True)
class GradedClass:
    """A class after nbgrader's commands: what it deserves, what it got, and the files."""

    chapter: str
    folder: Path
    deserved: dict[str, dict[str, float]]
    scores: dict[str, dict[str, float] | None]


def grade_with_nbgrader(
    chapter: str, submissions: list[Submission], course: Path, *, fails: bool
) -> GradedClass:
    shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
    shutil.copy(COURSE.config_file, course)
    hand_in(submissions, chapter, course)
    run_nbgrader(course, "generate_assignment", chapter)
    # An endless loop outside a function waits for nbgrader's own limit: shorter here than
    # in the course's configuration, so that the test does not wait for long. A function's has
    # 30 seconds by the wall, so that its check ends by itself.
    limit = ["--Execute.timeout=45"] if fails else []
    run_nbgrader(course, "autograde", chapter, *limit, fails=fails)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        scores = {s.student: read_scores(gradebook, chapter, s.student) for s in submissions}
    deserved = {s.student: dict(s.deserved) for s in submissions}
    return GradedClass(chapter, course, deserved, scores)


def read_scores(gradebook: Gradebook, chapter: str, student: str) -> dict[str, float] | None:
    try:
        submission = gradebook.find_submission(chapter, student)
    except MissingEntry:
        return None
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    if all(grade.auto_score is None for grade in grades):
        return None
    return {grade.name.removeprefix("test-"): grade.auto_score for grade in grades}
