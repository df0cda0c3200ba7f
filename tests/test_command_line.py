"""The command `bits`, as a shell sees it."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from course_files import CHAPTERS, COURSE
from lab_server import copy_course

import helpers
from helpers import __version__
from helpers.cli import main
from helpers.grading.records.gradebook import read_students

CHAPTER = CHAPTERS[0]


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = copy_course(tmp_path / "clone")
    monkeypatch.chdir(root)
    return root


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_help_names_every_command_and_says_what_it_does() -> None:
    status, shown = run("--help")
    assert status == 0
    assert sorted(main.commands) == sorted(main.list_commands(click.Context(main)))
    for command in main.commands:
        assert f"  {command} " in shown
    assert "..." not in shown.split("As a student")[1], "a command's line is cut off"


def test_collect_takes_in_a_folder_and_changes_nothing_the_second_time(clone: Path) -> None:
    inbox = clone / "inbox" / "student-one"
    inbox.mkdir(parents=True)
    notebook = COURSE.release(CHAPTER)
    (inbox / notebook.name).write_bytes(notebook.read_bytes())
    status, shown = run("collect", "inbox", "--assignment", CHAPTER)
    assert (status, "1 collected" in shown) == (0, True)
    placed = clone / "course" / "submitted" / "student-one" / CHAPTER / notebook.name
    assert placed.read_bytes() == notebook.read_bytes()
    assert (
        "0 collected, 0 replaced by later ones, 1 unchanged"
        in run("collect", "inbox", "-A", CHAPTER)[1]
    )


def test_a_roster_fills_the_gradebook(clone: Path) -> None:
    (clone / "inbox" / "s1").mkdir(parents=True)
    notebook = COURSE.release(CHAPTER)
    (clone / "inbox" / "s1" / notebook.name).write_bytes(notebook.read_bytes())
    (clone / "class.csv").write_text("student_id,last_name\ns1,Doe\ns2,Lee\n", encoding="utf-8")
    command = ("collect", "inbox", "-A", CHAPTER, "--roster", "class.csv")
    status, shown = run(*command)
    assert (status, "New in the gradebook: 2 of the 2 on the roster." in shown) == (0, True)
    status, shown = run(*command)
    assert (status, "gradebook" in shown) == (0, False)
    assert read_students(clone / "course")["s2"]["last_name"] == "Lee"


@pytest.mark.parametrize("command", ["grade", "report", "review", "demo", "collect"])
def test_a_chapters_number_stands_for_its_name(
    clone: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    given = {}
    monkeypatch.setattr(main.commands[command], "callback", lambda **options: given.update(options))
    (clone / "course" / "source" / "02").mkdir(parents=True)
    for name, meant in (("00", CHAPTER), (CHAPTER, CHAPTER), ("week-1", "week-1"), ("02", "02")):
        asked = {"demo": ["-A", name], "collect": ["inbox", "-A", name]}.get(command, [name])
        assert run(command, *asked)[0] == 0
        assert given["assignment"] == meant


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("collect", "nowhere", "-A", CHAPTER), "no folder, zip or notebook at nowhere"),
        (("collect", ".", "-A", "99-other"), "There is no assignment 99-other"),
        (("lab", "--port", "70000"), "70000 is not a usable port"),
        (("build", "99-other"), "there is no chapter 99-other"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(
    clone: Path, arguments: tuple[str, ...], told: str
) -> None:
    (clone / "book.toml").write_bytes((COURSE.root / "book.toml").read_bytes())
    status, shown = run(*arguments)
    assert status == 1
    assert told in shown
    assert "Traceback" not in shown


def test_outside_a_clone_it_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, shown = run("build")
    assert status == 1
    assert "this folder is not inside a copy of the course" in shown


def test_the_installed_command_answers() -> None:
    command = Path(sys.executable).with_name("bits")
    shown = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=180)
    assert shown.returncode == 0
    assert shown.stdout == f"bits, version {__version__}\n"


OURS = ("helpers.grading", "helpers.authoring")


@contextlib.contextmanager
def unloaded(package: str) -> Iterator[None]:
    """Have our modules loaded anew, without ``package``; afterwards all are the same as before: of
    a module that is there twice, tests would patch the wrong one.
    """
    modules, parts = dict(sys.modules), dict(vars(helpers))
    for name in modules:
        if name.startswith(OURS) or name.split(".")[0] == package:
            del sys.modules[name]
    sys.modules[package] = None
    try:
        yield
    finally:
        sys.modules.clear()
        sys.modules.update(modules)
        for name in {each.split(".")[1] for each in OURS}:
            vars(helpers).pop(name, None)
            vars(helpers).update({name: parts[name]} if name in parts else {})


def test_modules_are_the_same_again() -> None:
    from helpers.grading.judge import clock

    with unloaded("nbgrader"):
        assert importlib.import_module("helpers.grading.judge.clock") is not clock
        assert helpers.grading.judge.clock is not clock
    assert importlib.import_module("helpers.grading.judge.clock") is clock
    assert helpers.grading.judge.clock is clock


@pytest.mark.parametrize(
    ("command", "package", "set_up_by"),
    [
        (["grade", CHAPTER], "nbgrader", "make staff"),
        (["demo"], "nbgrader", "make staff"),
        (["mark", CHAPTER], "nbgrader", "make staff"),
        (["build", "--check"], "jupytext", "make setup"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_what_installs_it(
    clone: Path, command: list[str], package: str, set_up_by: str
) -> None:
    with unloaded(package):
        status, shown = run(*command)
    assert status == 1
    assert (
        f"bits {command[0]} needs {package}, which is not installed here: run {set_up_by}" in shown
    )
