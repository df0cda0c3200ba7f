"""`bits mark`: one's own notebook, judged with the hidden tests, and no gradebook."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import nbformat
import pytest
from click.testing import CliRunner
from course_files import COURSE, find_cell, source, variants
from lab_server import copy_course

from helpers.catalogue import find_chapter
from helpers.cli import main
from helpers.grading.own import marking
from helpers.grading.sandbox import sandbox
from helpers.workspace import deliver

CHAPTER = "00-warm-up"
NOTEBOOK = COURSE.release(CHAPTER).name
EXERCISES = find_chapter(CHAPTER).exercises


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = copy_course(tmp_path / "clone")
    deliver(root / "course" / "release", root / "work")
    monkeypatch.chdir(root)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return root


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["mark", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def answer(root: Path, answers: dict[str, str], chapter: str = CHAPTER) -> Path:
    """Write ``answers`` into one's own copy of the chapter, and return the file."""
    file = root / "work" / chapter / COURSE.release(chapter).name
    notebook = nbformat.read(file, as_version=4)
    for name, code in answers.items():
        find_cell(notebook, name).source = code
    nbformat.write(notebook, file)
    return file


def reference(name: str) -> str:
    return find_cell(source(CHAPTER), name).source


def files_of(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_was_saved_last_is_judged_with_the_hidden_tests(
    clone: Path, monkeypatch: pytest.MonkeyPatch, sandboxed: bool
) -> None:
    if sandboxed:
        sandbox.check_available()
    else:
        monkeypatch.setattr(sandbox, "check_available", no_sandbox)
    right, wrong = EXERCISES[0], EXERCISES[1]
    wrong_code = next(v for v in variants(wrong) if not v.right).code
    file = answer(clone, {right.name: reference(right.name), wrong.name: wrong_code})
    before = files_of(clone)
    status, shown = run()
    assert status == 0, shown
    words = " ".join(shown.split())
    assert str(file) in words
    assert ("in the sandbox" in words) is sandboxed
    assert (
        f"of {sum(e.points for e in EXERCISES):g} points; 1 of {len(EXERCISES)} exercises" in words
    )
    page = clone / "build" / "mark" / f"{CHAPTER}.html"
    assert files_of(clone) - before == {str(page.relative_to(clone))}, "and no gradebook"
    text = page.read_text("utf-8")
    assert text.count("tried when graded") >= right.hidden
    assert "nothing written yet" in text
    assert "not right yet" in text
    assert "failing(" not in text, "there is no kernel to have the case in"
    assert "a person will look" not in text.lower()


def no_sandbox() -> None:
    raise sandbox.SandboxError("there is none")


def test_points_that_would_wait_for_a_person_count(clone: Path) -> None:
    right = EXERCISES[0]
    doubtful = "import gc\ngc.get_objects\n" + reference(right.name)
    answer(clone, {right.name: doubtful})
    outcome = marking.mark(clone, None, clone)
    (mark,) = (mark for mark in outcome.marks.each if mark.name == right.name)
    assert (mark.points, mark.waiting) == (right.points, 0.0)


def test_a_chapter_is_chosen_by_its_number_and_the_bar_comes_to_its_end(clone: Path) -> None:
    seen = []
    outcome = marking.mark(clone, "00", clone / "work", seen.append)
    assert outcome.notebook == clone / "work" / CHAPTER / NOTEBOOK
    assert outcome.marks.points == 0
    assert [p.done for p in seen] == sorted(p.done for p in seen)
    assert (seen[0].done, seen[-1].done) == (0, len(EXERCISES))


def test_without_a_copy_in_work_the_released_one_is_judged(clone: Path) -> None:
    shutil.rmtree(clone / "work" / CHAPTER)
    status, shown = run(CHAPTER, "--no-browser")
    assert status == 0
    assert str(clone / "course" / "release" / CHAPTER / NOTEBOOK) in " ".join(shown.split())


def test_the_page_is_opened_where_there_is_a_browser(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    page = clone / "page.html"
    outcome = marking.Outcome(clone / NOTEBOOK, marking.Marks(()), page, sandboxed=True)
    monkeypatch.setattr(marking, "mark", lambda *_: outcome)
    monkeypatch.setattr("click.launch", opened.append)
    run()
    assert opened == []
    monkeypatch.setenv("BROWSER", "true")
    run("--no-browser")
    assert opened == []
    run()
    assert opened == [str(page)]


def test_a_broken_notebook_gets_a_page_that_says_so(clone: Path) -> None:
    (clone / "work" / CHAPTER / NOTEBOOK).write_text("{")
    status, _ = run("00")
    assert status == 0
    assert "cannot be read" in (clone / "build" / "mark" / f"{CHAPTER}.html").read_text("utf-8")


def test_mistakes_are_told_in_one_sentence(clone: Path) -> None:
    assert run("99") == (1, run("99")[1])
    assert 'there is no chapter "99"' in run("99")[1]
    status, shown = run()
    assert status == 1
    assert "name a chapter" in shown
    shutil.rmtree(clone / "course" / "source")
    status, shown = run("00")
    assert status == 1
    assert "has none: use the repository" in " ".join(shown.split())


def test_of_two_the_one_saved_last_is_meant(clone: Path) -> None:
    first = answer(clone, {EXERCISES[0].name: "x = 1"})
    other = find_chapter("03").name
    second = answer(clone, {find_chapter("03").exercises[0].name: "x = 1"}, other)
    found = marking._find_notebook
    os.utime(first, (1, 1))
    assert found(clone / "course" / "release", clone / "work", None) == (other, second)
    os.utime(second, (0, 0))
    assert found(clone / "course" / "release", clone / "work", None) == (CHAPTER, first)


def test_a_students_copy_says_that_it_is_not_there(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "helpers.grading" else find(name)
    )
    status, shown = run("00")
    assert status == 1
    assert "bits mark is not in the students' copy of the course: use the repository" in shown
