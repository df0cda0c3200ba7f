"""nbgrader as it comes, on a small class of each chapter: every score is the deserved one."""

from __future__ import annotations

from pathlib import Path

import pytest
from classroom import all_wrong, exercises_of, make_small_class
from course_files import CHAPTERS
from nbgrader_course import LARGE_CLASS, grade_with_nbgrader


@pytest.mark.parametrize("chapter", [c for c in CHAPTERS if c != LARGE_CLASS and exercises_of(c)])
def test_the_chapter_is_graded_as_it_deserves(chapter: str, tmp_path: Path) -> None:
    wrong = all_wrong(chapter)
    submissions = [*make_small_class(chapter), wrong]
    graded = grade_with_nbgrader(chapter, submissions, tmp_path, fails=False)
    scores = graded.scores.pop(wrong.student)
    assert [e.name for e in exercises_of(chapter) if scores[e.name] >= e.points] == []
    del graded.deserved[wrong.student]
    assert graded.scores == graded.deserved
