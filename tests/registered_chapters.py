"""A pytest plugin: chapters as the judge needs them, each registered once in a run."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from course_files import COURSE
from run_folder import sole_process

from helpers.files import write_atomically
from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import close_warm_processes
from helpers.grading.records.registration import register

Register = Callable[[str], Assignment]


@pytest.fixture(scope="session")
def registered(run_folder: Path) -> Iterator[Register]:
    """Return what gives a chapter's assignment; what is judged shares one warm process."""
    courses = run_folder / "registered"
    courses.mkdir(exist_ok=True)

    @cache
    def register_chapter(chapter: str) -> Assignment:
        kept = courses / f"{chapter}.pickle"
        with sole_process(courses / f"{chapter}.lock"):
            if not kept.exists():
                assignment = register_in(courses / chapter, chapter)
                write_atomically(kept, pickle.dumps(assignment), at_once=False)
        return pickle.loads(kept.read_bytes())

    yield register_chapter
    close_warm_processes()


def register_in(course: Path, chapter: str) -> Assignment:
    """Copy a chapter's source to an empty ``course``, and register it there."""
    shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
    shutil.copy(COURSE.config_file, course)
    return register(course, chapter)
