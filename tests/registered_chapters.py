"""A pytest plugin: chapters as the judge needs them, registered once in each process of a run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from course_files import COURSE

from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import close_warm_processes
from helpers.grading.records.registration import register

Register = Callable[[str], Assignment]


@pytest.fixture(scope="session")
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Register]:
    """Return what gives a chapter's assignment; what is judged shares one warm process."""

    @cache
    def register_chapter(chapter: str) -> Assignment:
        course = tmp_path_factory.mktemp("course")
        shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
        shutil.copy(COURSE.config_file, course)
        return register(course, chapter)

    yield register_chapter
    close_warm_processes()
