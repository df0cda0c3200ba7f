"""A course of its own for each run, and what its gradebook says afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from course_files import COURSE
from nbgrader.api import Gradebook, MissingEntry

from benchmarks.submissions import CHAPTER, Work

# For each student the points of each exercise; None where there are none.
Scores = dict[str, dict[str, float | None]]


def make_course(root: Path, works: Iterable[Work]) -> Path:
    """Make a course below ``root`` to which ``works`` were handed in, and return its folder."""
    course = root / "course"
    shutil.copytree(COURSE.source(CHAPTER).parent, course / "source" / CHAPTER)
    shutil.copy(COURSE.config_file, course)
    for work in works:
        folder = course / "submitted" / work.student / CHAPTER
        folder.mkdir(parents=True)
        (folder / COURSE.release(CHAPTER).name).write_bytes(work.notebook)
    return course


def read_scores(course: Path, works: Iterable[Work]) -> Scores:
    """Return what the gradebook has of each student; those without an entry are left out."""
    scores: Scores = {}
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        for work in works:
            try:
                submission = gradebook.find_submission(CHAPTER, work.student)
            except MissingEntry:
                continue
            scores[work.student] = {
                grade.name.removeprefix("test-"): grade.auto_score
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
    return scores


def count_graded(scores: Scores) -> int:
    """Return how many have a score for each of their exercises."""
    return sum(bool(points) and None not in points.values() for points in scores.values())
