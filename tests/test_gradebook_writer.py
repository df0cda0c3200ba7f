"""The writer: one transaction for each submission, and nothing of a person's is ever changed."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import nbformat
import pytest
import small_course
from nbgrader.api import Grade
from nbgrader.apps.api import NbGraderAPI
from small_course import ASSIGNMENT, NOTEBOOK, STAMP, STUB, FakeSettings, fake_step, submission
from sqlalchemy import event

from helpers.grading.errors import GradingError
from helpers.grading.records import transactions
from helpers.grading.records.autograded import write_autograded
from helpers.grading.records.gradebook import GradebookWriter, read_students
from helpers.grading.records.registration import open_course
from helpers.grading.records.results import Recorded
from helpers.grading.records.settling import settle
from helpers.grading.records.submissions import Submission, refuse
from helpers.grading.records.transactions import GradebookError
from helpers.grading.verdicts import Judged


@pytest.fixture
def course(tmp_path: Path) -> Path:
    return small_course.make_course(tmp_path)


@pytest.fixture
def writer(course: Path) -> Iterator[GradebookWriter]:
    with GradebookWriter(course, small_course.bundle()) as writer:
        yield writer


def judge(course: Path, answer: str) -> Judged:
    return fake_step(submission(answer), small_course.bundle(), FakeSettings())


def recorded(answer: str, student: str = "ann", stamp: str = STAMP) -> Recorded:
    return Recorded(student, f"key of {answer}", f"hash of {answer}", "", stamp)


def record(writer: GradebookWriter, course: Path, answer: str, before: str | None = None) -> bool:
    """Record an answer of ann's; ``before`` is the answer that an earlier run recorded."""
    earlier = None if before is None else recorded(before)
    return writer.record(recorded(answer), judge(course, answer), earlier)


def dump(course: Path) -> list[str]:
    with sqlite3.connect(course / "gradebook.db") as connection:
        return list(connection.iterdump())


def grades(course: Path, student: str = "ann") -> dict[str, tuple[float | None, bool]]:
    """Return for each graded cell the automatic score, and whether a person is to look."""
    with small_course.open_gradebook(course) as gradebook:
        found = gradebook.find_submission(ASSIGNMENT, student).notebooks[0].grades
        return {grade.name: (grade.auto_score, grade.needs_manual_grade) for grade in found}


def grade_by_hand(course: Path, cell: str = "test-one", score: float | None = 1.5) -> None:
    """Do what formgrader does when a person enters a score, extra credit and a comment."""
    with small_course.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade(cell, "small", ASSIGNMENT, "ann")
        grade.manual_score = score
        grade.extra_credit = 0.5
        grade.needs_manual_grade = False
        gradebook.find_comment("one", "small", ASSIGNMENT, "ann").manual_comment = "see me"
        gradebook.db.commit()


def by_hand(course: Path) -> tuple[float | None, float | None, str | None]:
    with small_course.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann")
        comment = gradebook.find_comment("one", "small", ASSIGNMENT, "ann")
        return grade.manual_score, grade.extra_credit, comment.manual_comment


def test_the_gradebook_holds_what_was_judged(course: Path, writer: GradebookWriter) -> None:
    assert record(writer, course, "points=1")
    assert grades(course) == {
        "test-one": (1.0, False),
        "test-two": (3.0, False),
        "essay": (0, False),  # the stub is as it was: nbgrader gives it 0 by itself
    }
    with small_course.open_gradebook(course) as gradebook:
        found = gradebook.find_submission(ASSIGNMENT, "ann")
        assert found.timestamp == datetime(2026, 1, 31, 12)
        assert (found.score, found.needs_manual_grade) == (4.0, False)
        comments = {c.name: c.auto_comment for c in found.notebooks[0].comments}
    assert comments == {"one": None, "two": "No response.", "essay": "No response."}


def test_recording_the_same_again_changes_nothing(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1")
    before = (course / "gradebook.db").read_bytes()
    assert not record(writer, course, "points=1", before="points=1")
    assert not record(writer, course, "points=1", before=None)
    assert (course / "gradebook.db").read_bytes() == before


def test_nothing_warns(course: Path, writer: GradebookWriter) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record(writer, course, "points=1")
        record(writer, course, "points=2", before="points=1")


def test_what_a_person_entered_stays(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1")
    grade_by_hand(course)
    assert not record(writer, course, "points=1", before="points=1")
    assert grades(course)["test-one"] == (1.0, False)
    assert record(writer, course, "points=2", before="points=1")
    assert by_hand(course) == (1.5, 0.5, "see me")
    assert grades(course)["test-one"] == (2.0, True)  # the score is another one: look again
    assert grades(course)["test-two"] == (3.0, False)


def test_the_same_points_for_another_answer_are_not_listed_again(
    course: Path, writer: GradebookWriter
) -> None:
    record(writer, course, "points=1")
    grade_by_hand(course)
    record(writer, course, "points=1 # better", before="points=1")
    assert grades(course)["test-one"] == (1.0, False)


def test_what_needs_a_person_is_listed_until_a_person_has_looked(
    course: Path, writer: GradebookWriter
) -> None:
    record(writer, course, "points=1 eye")
    assert grades(course)["test-one"] == (1.0, True)
    grade_by_hand(course)
    record(writer, course, "points=1 eye", before="points=1 eye")
    assert grades(course)["test-one"] == (1.0, False)
    record(writer, course, "points=1 eye # again", before="points=1 eye")
    assert grades(course)["test-one"] == (1.0, True)
    assert by_hand(course) == (1.5, 0.5, "see me")


def test_points_that_wait_are_listed_until_it_is_decided_about_them(
    course: Path, writer: GradebookWriter
) -> None:
    key, judged = recorded("points=1 wait=1"), judge(course, "points=1 wait=1")
    about = judged.exercises[0].name, judged.exercises[0].code
    writer.record(key, judged, None)
    assert grades(course)["test-one"] == (1.0, True)
    clear_mark(course)  # as formgrader does when a person saves a comment alone
    writer.record(key, judged, key)
    assert grades(course)["test-one"] == (1.0, True)
    for accepted, points in ((True, 2.0), (False, 1.0)):
        writer.record(key, settle(judged, {about: accepted}), key)
        assert grades(course)["test-one"] == (points, False)
        writer.record(key, judged, key)
        assert grades(course)["test-one"] == (1.0, True)


def clear_mark(course: Path) -> None:
    with small_course.open_gradebook(course) as gradebook:
        grade = gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann")
        grade.needs_manual_grade = False
        gradebook.db.commit()


def test_where_a_person_gave_points_nothing_is_listed_as_waiting(
    course: Path, writer: GradebookWriter
) -> None:
    record(writer, course, "points=1 wait=1")
    grade_by_hand(course)
    record(writer, course, "points=1 wait=1", before="points=1 wait=1")
    assert grades(course)["test-one"] == (1.0, False)
    assert by_hand(course) == (1.5, 0.5, "see me")


def test_what_no_longer_needs_a_person_is_not_listed(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1 eye")
    record(writer, course, "points=1", before="points=1 eye")
    assert grades(course)["test-one"] == (1.0, False)


def test_an_answer_that_a_person_grades_is_listed_when_it_changes(
    course: Path, writer: GradebookWriter
) -> None:
    first, second = ({**judged_essay(course, text)} for text in ("I think", "I rather think"))
    writer.record(first["recorded"], first["judged"], None)
    assert grades(course)["essay"] == (None, True)
    grade_by_hand(course, "essay")
    writer.record(first["recorded"], first["judged"], first["recorded"])
    assert grades(course)["essay"] == (None, False)
    writer.record(second["recorded"], second["judged"], first["recorded"])
    assert grades(course)["essay"] == (None, True)


def judged_essay(course: Path, text: str) -> dict:
    judged = judge(course, "points=1")
    notebook = nbformat.reads(judged.notebook.decode(), as_version=4)
    notebook.cells[-1].source = text
    changed = Judged(judged.exercises, nbformat.writes(notebook).encode())
    return {"judged": changed, "recorded": recorded(text)}


class StopError(BaseException):
    """What stops the writer where it is."""


def test_a_stop_anywhere_leaves_all_or_nothing(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1")
    before, to_go = dump(course), 0

    def count(*_: object) -> None:
        nonlocal to_go
        to_go -= 1
        if to_go == 0:
            raise StopError

    event.listen(writer._gradebook.engine, "before_cursor_execute", count)
    bob, judged, moment = recorded("points=2", "bob"), judge(course, "points=2"), 0
    while to_go <= 0:
        to_go = moment = moment + 1
        with contextlib.suppress(StopError):
            writer.record(bob, judged, None)
        if to_go <= 0:
            assert dump(course) == before
    assert moment > 10
    assert grades(course, "bob")["test-one"] == (2.0, False)


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = [{root!r}, {tests!r}]
import small_course
from test_gradebook_writer import judge, recorded
from helpers.grading.records.gradebook import GradebookWriter
course, moment, calls = Path(sys.argv[1]), int(sys.argv[2]), 0
plain = GradebookWriter._set
def stop(self, *arguments):
    global calls
    calls += 1
    if calls == moment:
        self._gradebook.db.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    plain(self, *arguments)
GradebookWriter._set = stop
with GradebookWriter(course, small_course.bundle()) as writer:
    writer.record(recorded("points=2"), judge(course, "points=2"), None)
"""


def test_a_kill_in_the_middle_leaves_nothing_half_written(tmp_path: Path) -> None:
    tests = Path(__file__).parent
    code = KILLED.format(root=str(tests.parent), tests=str(tests))
    killed = []
    for moment in (2, 5, 9):
        (tmp_path / str(moment)).mkdir()
        course = small_course.make_course(tmp_path / str(moment))
        command = [sys.executable, "-c", code, str(course), str(moment)]
        inside = os.environ | {"TMPDIR": str(tmp_path)}  # what is killed leaves its files behind
        killed.append((course, dump(course), subprocess.Popen(command, env=inside)))
    for course, before, process in killed:
        assert process.wait(120) == -9
        assert dump(course) == before
        with GradebookWriter(course, small_course.bundle()) as writer:
            record(writer, course, "points=2")
        assert grades(course)["test-one"] == (2.0, False)


def test_a_gradebook_that_somebody_else_writes_to_is_told_of(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_SECONDS_TO_WAIT", 0)
    other = sqlite3.connect(course / "gradebook.db", isolation_level=None)
    with GradebookWriter(course, small_course.bundle()) as writer:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(GradebookError, match=r"gradebook\.db cannot be written .*locked"):
            record(writer, course, "points=1")
        other.execute("ROLLBACK")
        other.close()
        assert record(writer, course, "points=1")


def test_a_time_that_is_none_is_told_of_and_nothing_is_written(
    course: Path, writer: GradebookWriter
) -> None:
    before = dump(course)
    with pytest.raises(GradingError, match="timestamp.txt of ann holds no time"):
        writer.record(recorded("points=1", stamp="yesterday?"), judge(course, "points=1"), None)
    assert dump(course) == before


def test_without_a_time_the_gradebooks_stays(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1")
    writer.record(recorded("points=2", stamp=""), judge(course, "points=2"), None)
    with small_course.open_gradebook(course) as gradebook:
        assert gradebook.find_submission(ASSIGNMENT, "ann").timestamp == datetime(2026, 1, 31, 12)


def test_late_work_loses_what_the_courses_plugin_says(course: Path) -> None:
    with (course / "nbgrader_config.py").open("a") as config:
        config.write('c.LateSubmissionPlugin.penalty_method = "zero"\n')
    with small_course.open_gradebook(course) as gradebook:
        gradebook.update_or_create_assignment(ASSIGNMENT, duedate="2026-01-31 11:00:00 UTC")
    with GradebookWriter(course, small_course.bundle()) as writer:
        record(writer, course, "points=1")
        assert penalty(course) == 4.0
        grade_by_hand(course)
        record(writer, course, "points=1", before="points=1")
        assert penalty(course) == 5.0
        assert not record(writer, course, "points=1", before="points=1")
        with small_course.open_gradebook(course) as gradebook:
            gradebook.grant_extension(ASSIGNMENT, "ann", hours=2)
        record(writer, course, "points=1", before="points=1")
        assert penalty(course) is None


def penalty(course: Path) -> float | None:
    with small_course.open_gradebook(course) as gradebook:
        return gradebook.find_submission(ASSIGNMENT, "ann").notebooks[0].late_submission_penalty


def test_a_students_name_stays(course: Path, writer: GradebookWriter) -> None:
    with small_course.open_gradebook(course) as gradebook:
        gradebook.add_student("ann", first_name="A", last_name="B", email="c@d")
    record(writer, course, "points=1")
    assert read_students(course) == {"ann": {"first_name": "A", "last_name": "B", "email": "c@d"}}


def test_a_row_that_is_not_there_is_made(course: Path, writer: GradebookWriter) -> None:
    record(writer, course, "points=1")
    with small_course.open_gradebook(course) as gradebook:
        gradebook.db.delete(gradebook.find_grade("test-one", "small", ASSIGNMENT, "ann"))
        gradebook.db.commit()
        assert gradebook.db.query(Grade).count() == 2
    assert record(writer, course, "points=1", before="points=1")
    assert grades(course)["test-one"] == (1.0, False)


def test_a_refused_submission_has_zero_and_can_be_graded_by_hand(
    course: Path, writer: GradebookWriter
) -> None:
    assignment = small_course.bundle()
    why = "small.ipynb cannot be read as a notebook: <script>alert(1)</script>"
    judged = refuse(why, assignment)
    writer.record(recorded("nothing"), judged, None)
    assert grades(course) == {n: (0.0, True) for n in ("test-one", "test-two", "essay")}
    assert write_autograded(course, assignment, "ann", STAMP, judged)
    file = course / "autograded" / "ann" / ASSIGNMENT / NOTEBOOK
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    assert "could not be graded" in notebook.cells[0].source
    assert "<script>" not in file.read_text()
    names = {c.metadata.nbgrader.grade_id for c in notebook.cells if "nbgrader" in c.metadata}
    assert names == {"test-one", "test-two", "essay"}


def test_formgrader_lists_judged_and_refused_submissions(
    course: Path, writer: GradebookWriter
) -> None:
    assignment = small_course.bundle()
    small_course.hand_in(course, "ann", "points=1")
    refused = refuse(Submission("bob", None, STAMP, "it is empty"), assignment)
    for student, judged in (("ann", judge(course, "points=1")), ("bob", refused)):
        writer.record(recorded("x", student), judged, None)
        write_autograded(course, assignment, student, STAMP, judged)
    api = NbGraderAPI(open_course(course))
    listed = {s["student"]: s for s in api.get_submissions(ASSIGNMENT)}
    assert {name: s["autograded"] for name, s in listed.items()} == {"ann": True, "bob": True}
    assert {n: s["needs_manual_grade"] for n, s in listed.items()} == {"ann": False, "bob": True}
    assert listed["ann"]["score"] == 4.0
    assert len(api.get_notebook_submissions(ASSIGNMENT, "small")) == 2


def test_files_for_formgrader_are_what_was_judged(course: Path) -> None:
    assignment, judged = small_course.bundle(), judge(course, "points=1")
    assert write_autograded(course, assignment, "ann", STAMP, judged)
    folder = course / "autograded" / "ann" / ASSIGNMENT
    assert {f.name: f.read_bytes() for f in folder.iterdir()} == {
        NOTEBOOK: judged.notebook,
        "timestamp.txt": STAMP.encode(),
        "table.csv": b"1,2\n",
    }
    assert not write_autograded(course, assignment, "ann", STAMP, judged)
    (folder / NOTEBOOK).unlink()
    (folder / NOTEBOOK).write_text("edited")
    (folder / f".{NOTEBOOK}.0123abcd.part").write_text("left by a killed run")
    assert write_autograded(course, assignment, "ann", STAMP, judged)
    assert (folder / NOTEBOOK).read_bytes() == judged.notebook
    assert len(list(folder.iterdir())) == 3


def test_asking_for_students_makes_no_gradebook(course: Path) -> None:
    (course / "gradebook.db").unlink()
    assert read_students(course) == {}
    assert not (course / "gradebook.db").exists()


def test_the_stub_is_no_response(course: Path, writer: GradebookWriter) -> None:
    stub = next(c.source for c in small_course.bundle().cells if c.name == "one")
    writer.record(recorded("the stub"), judge_text(course, stub), None)
    with small_course.open_gradebook(course) as gradebook:
        comment = gradebook.find_comment("one", "small", ASSIGNMENT, "ann")
        assert (comment.auto_comment, STUB in stub) == ("No response.", False)


def judge_text(course: Path, text: str) -> Judged:
    assignment = small_course.bundle()
    judged = judge(course, "points=0")
    return Judged(judged.exercises, small_course.judged_notebook(assignment, text))
