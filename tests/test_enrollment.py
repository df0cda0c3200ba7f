"""The roster's students are in the gradebook, and what people have entered there stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from course_files import CHAPTERS, COURSE
from lab_server import copy_course
from nbgrader.api import Gradebook

from helpers.grading.intake.intake import collect
from helpers.grading.intake.roster import Person
from helpers.grading.records.class_list import read_class
from helpers.grading.records.enrollment import enroll
from helpers.grading.records.gradebook import read_students
from helpers.grading.records.registration import register

CHAPTER = CHAPTERS[0]
ROSTER = """student_id,first_name,last_name,name,email
s1,Jane,Doe,,jane@example.edu
s2,,,Ann Lee,
S 3,,,,
"""


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", "/usr/bin")  # where nothing is that the environment has installed
    return copy_course(tmp_path / "clone") / "course"


def collect_with(roster: str, course: Path) -> list[Person]:
    inbox, file = course.parent / "inbox", course.parent / "roster.csv"
    (inbox / "Ann Lee").mkdir(parents=True, exist_ok=True)
    notebook = COURSE.release(CHAPTER)
    (inbox / "Ann Lee" / notebook.name).write_bytes(notebook.read_bytes())
    file.write_text(roster, encoding="utf-8")
    return collect(inbox, course, CHAPTER, roster=file).expected


def names(first: str = "", last: str = "", email: str = "") -> dict[str, str]:
    return {"first_name": first, "last_name": last, "email": email}


def test_the_roster_is_in_the_gradebook_and_in_the_report(course: Path) -> None:
    assert enroll(course, collect_with(ROSTER, course)) == 3
    known = {"s1": names("Jane", "Doe", "jane@example.edu"), "s2": names(last="Ann Lee")}
    assert read_students(course) == known | {"S-3": names()}
    entries = {entry.student: entry for entry in read_class(course, CHAPTER)}
    assert sorted(entries) == ["S-3", "s1", "s2"]  # who handed in nothing is there as well
    assert (entries["s1"].last_name, entries["s1"].received_at) == ("Doe", None)
    assert entries["s2"].received_at is not None
    register(course, CHAPTER)  # grading begins with this
    assert read_students(course) == known | {"S-3": names()}


def test_what_people_have_entered_stays(course: Path) -> None:
    people = collect_with(ROSTER, course)
    enroll(course, people)
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        gradebook.update_or_create_student("s1", first_name="Joan", email="")
        gradebook.add_student("s9", last_name="Guest")
    changed = "s1,Jane,Dow,,jane@example.org\ns4,Kim,Park,,\n"
    new = enroll(course, collect_with(ROSTER.splitlines()[0] + "\n" + changed, course))
    assert new == 1
    known = read_students(course)
    assert known["s1"] == names("Joan", "Doe", "jane@example.org")
    assert known["s9"] == names(last="Guest")
    assert known["s4"] == names("Kim", "Park")
    assert enroll(course, people) == 0
    assert read_students(course) == known


def test_a_long_name_is_kept_as_far_as_the_gradebook_can(course: Path) -> None:
    enroll(course, [Person("s1", "n" * 500, "", "")])
    assert read_students(course)["s1"]["first_name"] == "n" * 128
