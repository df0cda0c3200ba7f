"""Build the notebooks: text → source (run, with outputs) → release, and the catalogue beside."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.notebooknode import NotebookNode

from helpers.authoring.badges import with_badges
from helpers.authoring.chapter import ChapterError, notebook_path, read_chapter
from helpers.authoring.keeping import keep_measured
from helpers.authoring.numbering import find_misnumbered
from helpers.authoring.release import make_release
from helpers.authoring.settings import repository_address
from helpers.files import write_atomically
from helpers.widgets import KEEP_POSITIONS

_SECONDS_PER_CELL = 120
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# A deprecated call in a chapter's own cells is an error, not a line that readers learn to skip.
STRICT_WARNINGS = ",".join(
    f"error::{category}:__main__"
    for category in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")
)


class BuildError(RuntimeError):
    """A chapter that cannot be built; the message says where and why."""


@dataclass(frozen=True)
class Course:
    """Where a course's files lie, below the repository's ``root``."""

    root: Path

    @property
    def chapters(self) -> list[Path]:
        """The chapters' texts, in order."""
        return sorted((self.root / "course" / "chapters").glob("[0-9][0-9]_*.py"))

    @property
    def catalogue(self) -> Path:
        """The folder of the catalogue's files."""
        return self.root / "helpers" / "catalogue"

    @property
    def readme(self) -> Path:
        """The first page of the repository."""
        return self.root / "README.md"

    @property
    def config_file(self) -> Path:
        """nbgrader's configuration."""
        return self.root / "course" / "nbgrader_config.py"

    def source(self, chapter: str) -> Path:
        """Return where the run notebook of ``chapter`` lies."""
        return notebook_path(self.root / "course" / "source", chapter)

    def release(self, chapter: str) -> Path:
        """Return where the student's notebook of ``chapter`` lies."""
        return notebook_path(self.root / "course" / "release", chapter)

    def read(self, text: Path) -> tuple[NotebookNode, dict]:
        """Return the notebook, not yet run, and the catalogue's part of one chapter's text."""
        return read_chapter(text, repository_address(self.root))


def build(
    course: Course,
    only: list[str] | None = None,
    *,
    force: bool = False,
    report: Callable[[str, int, int], None] = lambda chapter, done, cells: None,
) -> list[str]:
    """Build what its text no longer gives, and return the names of the chapters that were run.

    Args:
        course: where the files lie.
        only: names or numbers of chapters to build; all if None.
        force: run a chapter even if its text has not changed, and keep no measured output.
        report: called with a chapter's name, cells run, and cells in all.

    Raises:
        ChapterError: if a text breaks a rule.
        BuildError: if a cell raises or writes to stderr, if figures are numbered wrongly, or if
            ``only`` names no chapter.
    """
    written = _read_all(course)
    chosen = choose_chapters(list(written), only)
    for chapter, (_, catalogue) in written.items():
        _write_text(course.catalogue / f"{chapter}.json", _catalogue_text(catalogue))
    built = []
    for chapter, (notebook, _) in written.items():
        if chapter not in chosen:
            continue
        stored = _read_if_there(course.source(chapter))
        if force or not _same_cells(stored, notebook):
            _run(notebook, chapter, report)
            if stored and not force:
                keep_measured(notebook, stored)
            _write_notebook(course.source(chapter), notebook)
            built.append(chapter)
        release = make_release(notebook, course.config_file)
        if _read_if_there(course.release(chapter)) != release:
            _write_notebook(course.release(chapter), release)
    if course.readme.exists():
        _write_text(course.readme, with_badges(course.root))
    return built


def choose_chapters(known: list[str], only: list[str] | None) -> set[str]:
    """Return those of the ``known`` chapters whose names or numbers are in ``only``; all if None.

    Raises:
        BuildError: if one names no chapter.
    """
    if not only:
        return set(known)
    by_name = {name: name for name in known} | {name.split("-")[0]: name for name in known}
    unknown = sorted(set(only) - by_name.keys())
    if unknown:
        raise BuildError(f"there is no chapter {unknown[0]}; there are: {', '.join(known)}")
    return {by_name[name] for name in only}


def find_stale(course: Course) -> Iterator[str]:
    """Yield one sentence for each committed file that is not what the chapters' text gives.

    Outputs are not looked at here: nbval holds them to the truth.
    """
    written = _read_all(course)
    for chapter, (notebook, catalogue) in written.items():
        file = course.catalogue / f"{chapter}.json"
        if not file.exists() or file.read_text(encoding="utf-8") != _catalogue_text(catalogue):
            yield f"{file.name} is not what the text of {chapter} gives: run make build"
        if not _same_cells(_read_if_there(course.source(chapter)), notebook):
            yield f"the source of {chapter} is not what its text gives: run make build"
        if _read_if_there(course.release(chapter)) != make_release(notebook, course.config_file):
            yield f"the release of {chapter} is not what its source gives: run make build"
    if course.readme.exists() and course.readme.read_text("utf-8") != with_badges(course.root):
        yield "README.md does not have the badges of its chapters: run make build"
    committed = {file.stem for file in course.catalogue.glob("*.json")}
    for folder in ("source", "release"):
        found = (course.root / "course" / folder).glob("*/*.ipynb")
        committed |= {notebook.parent.name for notebook in found}
    for chapter in sorted(committed - written.keys()):
        yield f"{chapter} has notebooks or a catalogue but no text in course/chapters"


def _read_all(course: Course) -> dict[str, tuple[NotebookNode, dict]]:
    written, owners = {}, {}
    for text in course.chapters:
        notebook, catalogue = course.read(text)
        written[catalogue["chapter"]] = (notebook, catalogue)
        for card in catalogue["exercises"]:
            other = owners.setdefault(card["name"], text.name)
            if other != text.name:
                raise ChapterError(
                    f'{text.name}: an exercise "{card["name"]}" is in {other} already'
                )
    return written


def run_cells(
    notebook: NotebookNode,
    chapter: str,
    environment: dict[str, str],
    report: Callable[[str, int, int], None] = lambda chapter, done, cells: None,
) -> None:
    """Run a notebook's cells in a new kernel and an empty folder; their outputs come into it.

    Args:
        notebook: the cells.
        chapter: what messages call it.
        environment: variables for the kernel, beside this process's own.
        report: called with the chapter's name, cells run, and cells in all.

    Raises:
        BuildError: if a cell raises.
    """
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=_SECONDS_PER_CELL,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=[
                "--HistoryManager.hist_file=:memory:",
                "--IPKernelApp.log_level=ERROR",
            ],
            resources={"metadata": {"path": folder}},
            on_cell_executed=lambda cell, cell_index, execute_reply: report(
                chapter, cell_index + 1, len(notebook.cells)
            ),
        )
        try:
            client.execute(env={**os.environ, **environment})
        except Exception as error:
            raise BuildError(f"{chapter}: a cell failed:\n{error}") from error


def _run(notebook: NotebookNode, chapter: str, report: Callable[[str, int, int], None]) -> None:
    strict = {"PYTHONWARNINGS": STRICT_WARNINGS, KEEP_POSITIONS: "1"}
    run_cells(notebook, chapter, strict, report)
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        _require_silent_stderr(chapter, cell)
        _drop_live_form(cell)
        cell.metadata.pop("execution", None)
    if faults := list(find_misnumbered(notebook, chapter)):
        raise BuildError("\n".join(f"{chapter}: {fault}" for fault in faults))


def _require_silent_stderr(chapter: str, cell: NotebookNode) -> None:
    for output in cell.get("outputs", []):
        if output.output_type == "stream" and output.name == "stderr":
            raise BuildError(f"{chapter}: the cell {cell.id} wrote to stderr:\n{output.text}")


def _drop_live_form(cell: NotebookNode) -> None:
    """Leave of a widget what also stands there as HTML: the widget's model is gone by now."""
    for output in cell.get("outputs", []):
        if "text/html" in output.get("data", {}):
            output["data"].pop(_WIDGET_VIEW, None)


def _same_cells(committed: NotebookNode | None, notebook: NotebookNode) -> bool:
    return committed is not None and _without_outputs(committed) == _without_outputs(notebook)


def _without_outputs(notebook: NotebookNode) -> dict:
    content = json.loads(nbformat.writes(notebook))
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return content


def _read_if_there(file: Path) -> NotebookNode | None:
    if not file.exists():
        return None
    try:
        return nbformat.read(file, as_version=4)
    except Exception:
        # A damaged notebook is built anew, as a missing one is: its text has all that counts.
        return None


def _write_notebook(file: Path, notebook: NotebookNode) -> None:
    _write_text(file, nbformat.writes(notebook) + "\n")


def _catalogue_text(catalogue: dict) -> str:
    return json.dumps(catalogue, indent=1, ensure_ascii=False) + "\n"


def _write_text(file: Path, text: str) -> None:
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, text.encode())
