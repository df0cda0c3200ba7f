"""A student in JupyterLab: opens a chapter, runs it, asks, errs, solves, sees the progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from course_files import EXERCISES, find_cell, release, source, variants
from lab_server import copy_course, serve
from lab_student import Student

pytestmark = [pytest.mark.needs_system("chromium"), pytest.mark.timeout(400)]

CHAPTER = "08-numerical-stability"
FIRST = next(exercise for exercise in EXERCISES if exercise.chapter == CHAPTER)
SECONDS = 90


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_course(tmp_path_factory.mktemp("clone"))


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve("lab", root, tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="module")
def student(browser, lab: str) -> Iterator[Student]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(SECONDS * 1000)
    student = Student(page, lab, CHAPTER)
    yield student
    page.close()


def test_a_student_works_through_an_exercise(student: Student, root: Path) -> None:
    test, last = f"test-{FIRST.name}", release(CHAPTER).cells[-1]
    student.take_screenshot("chapter-opened")
    student.run_all()

    report = student.go_to(test).locator(".bits-report")
    assert "nothing is written here yet" in report.inner_text()
    assert f"0 of {FIRST.points:g} points" in report.inner_text()
    student.take_screenshot("stub", report)

    hint = student.ask_for_a_hint(test, f'hint("{FIRST.name}")')
    assert "Hint 1 of 3" in hint.inner_text()
    student.take_screenshot("hint", hint)

    wrong = next(variant for variant in variants(FIRST) if not variant.right)
    student.write(FIRST.name, wrong.code)
    report = student.run(test).locator(".bits-report")
    assert "✗" in report.inner_text()
    assert "fed in" in report.inner_text()
    student.take_screenshot("wrong-answer", report)

    student.write(FIRST.name, find_cell(source(CHAPTER), FIRST.name).source)
    report = student.run(test).locator(".bits-report")
    assert f"{FIRST.points:g} of {FIRST.points:g} points" in report.inner_text()
    assert "✗" not in report.inner_text()
    student.take_screenshot("right-answer", report)

    exercises = [exercise for exercise in EXERCISES if exercise.chapter == CHAPTER]
    progress = student.run(last.id).locator(".bits-progress")
    assert f"1 of {len(exercises)} exercises solved" in progress.inner_text()
    student.take_screenshot("progress", progress)
    assert (root / "work" / ".bits" / "progress.json").exists()


def test_a_check_is_folded_and_opens_by_a_click(student: Student) -> None:
    cell = student.go_to(f"test-{FIRST.name}")
    line = cell.locator(".jp-Placeholder-content")
    assert line.inner_text().startswith(f"# @title Check: {FIRST.title}")
    assert cell.locator(".cm-content").count() == 0
    line.click()
    assert f'Check("{FIRST.name}")' in cell.locator(".cm-content").inner_text()


def test_every_figure_has_its_alternative_text(student: Student) -> None:
    shown = student.page.evaluate(
        """() => {
            const model = jupyterapp.shell.currentWidget.content.model.sharedModel;
            const html = model.cells.flatMap(cell => cell.outputs || [])
                .map(output => [(output.data || {})['text/html'] || ''].flat().join(''));
            return html.filter(text => text.includes('<img'));
        }"""
    )
    assert len(shown) >= 3
    assert all('alt="' in text and 'alt=""' not in text for text in shown)


def test_nothing_of_the_staffs_is_in_a_students_lab(student: Student) -> None:
    menus = student.page.locator(".lm-MenuBar-item").all_inner_texts()
    assert "File" in menus
    assert "Nbgrader" not in menus
    assert student.page.locator(".Toastify__toast").count() == 0
