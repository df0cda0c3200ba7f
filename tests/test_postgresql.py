"""A gradebook in PostgreSQL: graded, reported and listed like the one in a file."""

from __future__ import annotations

import csv
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import small_course
from lab_server import free_port
from nbgrader.api import Gradebook
from nbgrader.apps.api import NbGraderAPI
from small_course import ASSIGNMENT, ThreadWorkers, hand_in, run

from helpers.grading.engine import engine
from helpers.grading.errors import RegistrationError
from helpers.grading.records.gradebook import read_students
from helpers.grading.records.registration import open_course
from helpers.grading.report.report import write_report

SECONDS = 120


def find_programs() -> dict[str, str]:
    """Return PostgreSQL's programs, which Debian keeps off the path."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([os.environ["PATH"], *map(str, folders)])
    found = {name: shutil.which(name, path=path) for name in ("initdb", "pg_ctl", "createdb")}
    return {name: program for name, program in found.items() if program}


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, str]]:
    """Yield the address of a PostgreSQL server of this test's own, and its program createdb."""
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
    programs = find_programs()
    if len(programs) < 3:
        pytest.skip("PostgreSQL is not installed")
    # Not below pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="bits-postgresql-") as name:
        folder, port = Path(name), free_port()
        as_whom: dict = {"cwd": folder, "check": True, "timeout": SECONDS}
        if os.geteuid() == 0:  # as whom PostgreSQL does not start
            shutil.chown(folder, "nobody", "nogroup")
            as_whom |= {"user": "nobody", "group": "nogroup", "extra_groups": []}
        control = [programs["pg_ctl"], "-D", "data", "-l", "log", "-w"]
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {folder} -c fsync=off"
        for command in (
            [programs["initdb"], "-D", "data", "-U", "course", "-A", "trust", "--no-sync"],
            [*control, "-o", options, "start"],
        ):
            subprocess.run(command, stdout=subprocess.DEVNULL, **as_whom)
        try:
            yield f"postgresql://course@127.0.0.1:{port}", programs["createdb"]
        finally:
            stop = [*control, "-m", "immediate", "stop"]
            subprocess.run(stop, stdout=subprocess.DEVNULL, **as_whom)


@pytest.fixture
def course(server: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a course that keeps its gradebook on the server; it is empty."""
    address, createdb = server
    name = f"gradebook_{secrets.token_hex(4)}"
    subprocess.run([createdb, "--maintenance-db", f"{address}/postgres", name], check=True)
    monkeypatch.setattr(engine, "LocalWorkers", ThreadWorkers)
    return make_course(tmp_path, f"{address}/{name}")


def make_course(folder: Path, address: str) -> Path:
    course = small_course.make_course(folder)
    (course / "gradebook.db").unlink()
    with (course / "nbgrader_config.py").open("a") as config:
        config.write(f"c.CourseDirectory.db_url = {address!r}\n")
    return course


def test_a_class_is_graded_listed_and_reported(course: Path) -> None:
    hand_in(course, "ann", "points=2")
    hand_in(course, "bob", "points=1 eye")
    assert run(course).judged == ["ann", "bob"]
    assert sorted(read_students(course)) == ["ann", "bob"]
    directory = open_course(course)
    with Gradebook(directory.db_url, "small") as gradebook:
        grade = gradebook.find_grade("test-one", "small", ASSIGNMENT, "bob")
        assert (grade.auto_score, grade.needs_manual_grade) == (1.0, True)
        grade.manual_score = 1.5
        gradebook.db.commit()
    assert run(course, force=True).judged == ["ann", "bob"]
    assert run(course).unchanged == ["ann", "bob"]
    listed = {s["student"]: s["score"] for s in NbGraderAPI(directory).get_submissions(ASSIGNMENT)}
    assert listed == {"ann": 5.0, "bob": 4.5}
    report = write_report(course, ASSIGNMENT).index.with_name("grades.csv")
    rows = csv.DictReader(report.read_text("utf-8-sig").splitlines())
    assert {row["student_id"]: row["total"] for row in rows} == {"ann": "5", "bob": "4.5"}
    assert not (course / "gradebook.db").exists()


def test_a_server_that_does_not_answer_is_told_of_without_the_password(tmp_path: Path) -> None:
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed")
    course = make_course(tmp_path, f"postgresql://course:secret@127.0.0.1:{free_port()}/grades")
    with pytest.raises(RegistrationError, match="The gradebook postgresql://.* cannot be") as told:
        run(course)
    assert "secret" not in str(told.value)


def test_a_driver_that_is_not_installed_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    course = make_course(tmp_path, "postgresql://course:secret@127.0.0.1/grades")
    with pytest.raises(RegistrationError, match="psycopg2.*: install it.*psycopg2-binary") as told:
        run(course)
    assert "secret" not in str(told.value)
