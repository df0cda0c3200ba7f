"""nbgrader as it comes, on a whole class: every score is the one that the work deserves.

Where it is not, the fault is nbgrader's own and known; it stands in the table below.
"""

from __future__ import annotations

import pytest
from classroom import exercises_of, full_points, make_class
from course_files import EXERCISES
from lab_server import run_nbgrader
from nbgrader_course import LARGE_CLASS, GradedClass, grade_with_nbgrader

# What nbgrader 0.9 does with these submissions, and why it is not what they deserve.
NBGRADER_FAULTS = {
    "deleted-test": "a deleted test cell is not restored: its exercise counts nothing",
    "kills-its-kernel": "a kernel that dies takes the whole submission with it",
    "damaged": "a notebook that is not valid JSON is not graded and has no entry of its own",
}
NOT_GRADED = ("kills-its-kernel", "damaged")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> GradedClass:
    # Some of this class cannot be graded, which nbgrader says at the end.
    course = tmp_path_factory.mktemp("course")
    graded = grade_with_nbgrader(LARGE_CLASS, make_class(LARGE_CLASS), course, fails=True)
    run_nbgrader(course, "generate_feedback", LARGE_CLASS)
    return graded


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
