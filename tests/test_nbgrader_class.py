"""nbgrader as it comes, on a whole class: every score is the one that the work deserves.

Where it is not, the fault is nbgrader's own and known; it stands in the table below.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom import (
    Submission,
    exercises_of,
    full_points,
    hand_in,
    make_class,
    make_small_class,
    wrong_in_other_ways,
)
from course_files import CHAPTERS, COURSE, EXERCISES
from lab_server import run_nbgrader
from nbgrader.api import Gradebook, MissingEntry

# What nbgrader 0.9 does with these submissions, and why it is not what they deserve.
NBGRADER_FAULTS = {
    "deleted-test": "a deleted test cell is not restored: its exercise counts nothing",
    "kills-its-kernel": "a kernel that dies takes the whole submission with it",
    "damaged": "a notebook that is not valid JSON is not graded and has no entry of its own",
}
NOT_GRADED = ("kills-its-kernel", "damaged")

pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True)
class GradedClass:
    """A class after nbgrader's commands: what it deserves, what it got, and the files."""

    chapter: str
    folder: Path
    deserved: dict[str, dict[str, float]]
    scores: dict[str, dict[str, float] | None]


CHAPTER = "08-numerical-stability"


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    # Some of this class cannot be graded, which nbgrader says at the end.
    course = tmp_path_factory.mktemp("course")
    graded = grade_with_nbgrader(CHAPTER, make_class(CHAPTER), course, fails=True)
    run_nbgrader(course, "generate_feedback", CHAPTER)
    return graded


def grade_with_nbgrader(
    chapter: str, submissions: list[Submission], course: Path, *, fails: bool
) -> GradedClass:
    shutil.copytree(COURSE.source(chapter).parent, course / "source" / chapter)
    shutil.copy(COURSE.config_file, course)
    hand_in(submissions, chapter, course)
    run_nbgrader(course, "generate_assignment", chapter)
    # An endless loop outside a function waits for nbgrader's own limit: shorter here than
    # in the course's configuration, so that the test does not wait for long.
    run_nbgrader(course, "autograde", chapter, "--Execute.timeout=25", fails=fails)
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


def test_every_score_is_the_deserved_one(graded: GradedClass) -> None:
    assert len(graded.scores) >= 14
    for student, scores in graded.scores.items():
        if student not in NBGRADER_FAULTS:
            assert scores == graded.deserved[student], student


def test_a_wrong_answer_costs_its_own_exercise_alone(graded: GradedClass) -> None:
    full = full_points(exercises_of(graded.chapter))
    for name, points in full.items():
        scores = graded.scores[f"wrong-{name}"]
        assert scores[name] < points
        assert {n: s for n, s in scores.items() if n != name} == {
            n: p for n, p in full.items() if n != name
        }


def test_nbgraders_known_faults_are_still_as_the_table_says(graded: GradedClass) -> None:
    full = full_points(exercises_of(graded.chapter))
    first = exercises_of(graded.chapter)[0].name
    without_first = graded.scores["deleted-test"]
    assert without_first[first] in (None, 0.0)
    assert {n: s for n, s in without_first.items() if n != first} == {
        n: p for n, p in full.items() if n != first
    }
    for student in NOT_GRADED:
        assert graded.scores[student] is None


def test_feedback_pages_show_the_report_and_run_no_script(graded: GradedClass) -> None:
    pages = sorted(graded.folder.glob(f"feedback/*/{graded.chapter}/*.html"))
    assert len(pages) == len(graded.scores) - len(NOT_GRADED)
    titles = [e.title for e in EXERCISES if e.chapter == graded.chapter]
    for page in pages:
        text = page.read_text("utf-8")
        assert all(title in text for title in titles), page


@pytest.mark.parametrize("chapter", [c for c in CHAPTERS if c != CHAPTER and exercises_of(c)])
def test_the_other_chapters_are_graded_as_they_deserve(chapter: str, tmp_path: Path) -> None:
    also_wrong = wrong_in_other_ways(chapter)
    submissions = [*make_small_class(chapter), *also_wrong]
    graded = grade_with_nbgrader(chapter, submissions, tmp_path, fails=False)
    for submission in also_wrong:
        scores = graded.scores.pop(submission.student)
        assert {e.name for e in exercises_of(chapter) if scores[e.name] >= e.points} == set()
        del graded.deserved[submission.student]
    assert graded.scores == graded.deserved
