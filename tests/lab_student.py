"""What a student does in JupyterLab, for browser tests."""

from __future__ import annotations

from pathlib import Path

from course_files import COURSE
from lab_server import TOKEN

from helpers.authoring.chapter import notebook_path

SCREENSHOTS = COURSE.root / "build" / "screenshots"
RUN_ALL_SECONDS = 150


class Student:
    """What a person does with a notebook in JupyterLab."""

    def __init__(self, page, address: str, chapter: str) -> None:
        self.page = page
        notebook = notebook_path(Path(), chapter).as_posix()
        # In a workspace of its own: what another test has open would be opened again beside it.
        workspace = f"{address}/lab/workspaces/{chapter}"
        page.goto(f"{workspace}/tree/{notebook}?token={TOKEN}")
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
        # Not read from the screen: a folded cell shows no number.
        count = "jupyterapp.shell.currentWidget.content.activeCell.model.executionCount"
        before = self.page.evaluate(count)
        self.page.keyboard.press("Control+Enter")
        self.page.wait_for_function(f"before => {count} !== null && {count} !== before", arg=before)
        if cell_id.startswith("test-"):  # what a check says comes a moment later
            cell.locator(".jp-OutputArea-output").first.wait_for()
        return self.go_to(cell_id)

    def run_in_a_new_cell(self, below: str, code: str):
        self.go_to(below)
        self.page.keyboard.press("b")
        self.page.keyboard.press("Enter")
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Control+Enter")
        cell = self.page.locator(".jp-Cell.jp-mod-active")
        cell.locator(".jp-OutputArea-output").first.wait_for()
        return cell

    def choose_theme(self, theme: str) -> None:
        """Make JupyterLab "Light" or "Dark"."""
        self.page.evaluate(
            "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})",
            f"JupyterLab {theme}",
        )
        light = str(theme == "Light").lower()
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def take_screenshot(self, name: str, of: object = None) -> None:
        """Save what is on the screen, in light and in dark, with ``of`` in sight."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        for theme in ("Light", "Dark"):
            self.choose_theme(theme)
            self.page.wait_for_load_state("networkidle")
            if of is not None:
                of.evaluate("box => box.scrollIntoView({block: 'center'})")
            self.page.screenshot(path=SCREENSHOTS / f"{name}-{theme.lower()}.png")
