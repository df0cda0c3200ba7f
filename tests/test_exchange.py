"""nbgrader's exchange: what it collects is graded, and feedback goes back through it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import default as exchange
from small_course import (
    ASSIGNMENT,
    NOTEBOOK,
    ThreadWorkers,
    judgements,
    make_course,
    run,
    scores,
    submission,
)
from traitlets.config import Config

from helpers.grading.engine import engine
from helpers.grading.records.class_list import read_class
from helpers.grading.report.report import write_report

STUDENTS = ("one", "two")


@dataclass(frozen=True)
class Exchanging:
    """A course and its students' folders, with one exchange between them."""

    course: Path
    act: Callable[..., None]

    def folder_of(self, student: str) -> Path:
        return self.course.parent / student / ASSIGNMENT

    def hand_in(self, student: str, answer: str) -> None:
        (self.folder_of(student) / NOTEBOOK).write_bytes(submission(answer))
        self.act(exchange.ExchangeSubmit, student)


@pytest.fixture
def exchanging(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Exchanging:
    """Return a course whose assignment was released and fetched by two students."""
    course = make_course(tmp_path)
    # As `nbgrader generate_assignment` leaves it.
    shutil.copytree(course / "source", course / "release")

    def act(kind: type, who: str | None = None, **options: object) -> None:
        """Do what an nbgrader command does, as a student or as the instructor."""
        config = Config()
        config.CourseDirectory.course_id = "small"
        config.CourseDirectory.root = str(course)
        config.CourseDirectory.assignment_id = ASSIGNMENT
        config.Exchange.root = str(tmp_path / "exchange")
        config[kind.__name__].update(options)
        if who:
            config.CourseDirectory.student_id = who
            config.Exchange.cache = str(tmp_path / who / "cache")
            config.Exchange.assignment_dir = str(tmp_path / who)
            (tmp_path / who).mkdir(exist_ok=True)
        done = kind(
            coursedir=CourseDirectory(config=config),
            authenticator=Authenticator(config=config),
            config=config,
        )
        done.start()

    monkeypatch.setattr(engine, "LocalWorkers", ThreadWorkers)
    monkeypatch.chdir(course)
    act(exchange.ExchangeReleaseAssignment)
    for student in STUDENTS:
        act(exchange.ExchangeFetchAssignment, student)
    return Exchanging(course, act)


def collect(exchanging: Exchanging) -> None:
    # Every student of this test is the user who runs it.
    exchanging.act(exchange.ExchangeCollect, check_owner=False, update=True)


def test_what_nbgrader_collects_is_graded_and_a_later_one_counts(exchanging: Exchanging) -> None:
    exchanging.hand_in("one", "points=2")
    exchanging.hand_in("two", "points=1")
    collect(exchanging)
    run(exchanging.course)
    assert {s: given["test-one"] for s, given in scores(exchanging.course).items()} == {
        "one": 2.0,
        "two": 1.0,
    }
    judgements(exchanging.course)
    exchanging.hand_in("two", "points=2 # better")
    collect(exchanging)
    assert run(exchanging.course).judged == ["two"]
    assert scores(exchanging.course)["two"]["test-one"] == 2.0
    stamps = {
        student: (exchanging.course / "submitted" / student / ASSIGNMENT / "timestamp.txt")
        for student in STUDENTS
    }
    for entry in read_class(exchanging.course, ASSIGNMENT):
        said = stamps[entry.student].read_text()
        assert entry.received_at.strftime("%Y-%m-%d %H:%M:%S.%f UTC") == said


def test_feedback_goes_back_to_who_handed_in(exchanging: Exchanging) -> None:
    exchanging.hand_in("one", "points=2 # of the first")
    exchanging.hand_in("two", "points=1 # of the second")
    collect(exchanging)
    run(exchanging.course)
    write_report(exchanging.course, ASSIGNMENT)
    exchanging.act(exchange.ExchangeReleaseFeedback)
    for student, other in (("one", "second"), ("two", "first")):
        exchanging.act(exchange.ExchangeFetchFeedback, student)
        (page,) = exchanging.folder_of(student).glob("feedback/*/*.html")
        assert f"of the {other}" not in page.read_text()
        assert page.read_bytes() == own_page(exchanging, student).read_bytes()


def own_page(exchanging: Exchanging, student: str) -> Path:
    return exchanging.course / "reports" / ASSIGNMENT / "feedback" / f"{student}.html"
