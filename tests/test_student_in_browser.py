"""A student in JupyterLab: opens a chapter, runs it, asks, errs, solves, sees the progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from course_files import COURSE, EXERCISES, find_cell, release, source, variants
from lab_server import TOKEN, copy_course, serve

from helpers.authoring.chapter import notebook_path

pytestmark = [pytest.mark.needs_system("chromium"), pytest.mark.timeout(400)]

CHAPTER = "08-numerical-stability"
FIRST = next(exercise for exercise in EXERCISES if exercise.chapter == CHAPTER)
SCREENSHOTS = COURSE.root / "build" / "screenshots"
RUN_ALL_SECONDS = 150
SECONDS = 30


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
    student = Student(page, lab)
    yield student
    page.close()


class Student:
    """What a person does with a notebook in JupyterLab."""

    def __init__(self, page, address: str) -> None:
        self.page = page
        notebook = notebook_path(Path(), CHAPTER).as_posix()
        page.goto(f"{address}/lab/tree/{notebook}?token={TOKEN}")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for()
        page.locator("#jp-main-statusbar >> text=/Python 3.*Idle/").first.wait_for()

    def run_all(self) -> None:
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_text("Run All Cells", exact=True).click()
        self.page.wait_for_function(
            """() => {
                const cells = jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
                const code = cells.filter(cell => cell.cell_type === 'code' && cell.source.trim());
                return code.every(cell => cell.execution_count !== null);
            }""",
            timeout=RUN_ALL_SECONDS * 1000,
        )
        self.page.locator("#jp-main-statusbar >> text=/Idle/").first.wait_for()

    def go_to(self, cell_id: str):
        """Bring a cell into sight, as scrolling to it would, and return it."""
        self.page.evaluate(
            """async id => {
                const notebook = jupyterapp.shell.currentWidget.content;
                const index = notebook.widgets.findIndex(cell => cell.model.id === id);
                notebook.mode = 'command';
                notebook.deselectAll();
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'center');
                notebook.activeCell.node.focus();
            }""",
            cell_id,
        )
        cell = self.page.locator(".jp-Cell.jp-mod-active")
        cell.wait_for()
        return cell

    def write(self, cell_id: str, code: str) -> None:
        cell = self.go_to(cell_id)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")

    def run(self, cell_id: str):
        cell = self.go_to(cell_id)
        before = cell.locator(".jp-InputPrompt").inner_text()
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(
            """before => {
                const prompt = document.querySelector('.jp-Cell.jp-mod-active .jp-InputPrompt');
                return /\\d/.test(prompt.innerText) && prompt.innerText !== before;
            }""",
            arg=before,
        )
        return self.go_to(cell_id)

    def ask_for_a_hint(self, below: str, line: str):
        self.go_to(below)
        self.page.keyboard.press("b")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(line)
        self.page.keyboard.press("Control+Enter")
        cell = self.page.locator(".jp-Cell.jp-mod-active")
        cell.locator(".jp-OutputArea-output").first.wait_for()
        return cell

    def take_screenshot(self, name: str, of: object = None) -> None:
        """Save what is on the screen, in light and in dark, with ``of`` in sight."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for theme in ("Light", "Dark"):
            self.page.evaluate(
                "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})",
                f"JupyterLab {theme}",
            )
            dark = str(theme == "Light").lower()
            self.page.wait_for_selector(f"body[data-jp-theme-light='{dark}']", state="attached")
            self.page.wait_for_load_state("networkidle")
            if of is not None:
                of.evaluate("box => box.scrollIntoView({block: 'center'})")
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{theme.lower()}.png")


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
