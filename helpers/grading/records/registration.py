"""Registration: the gradebook knows an assignment as ``source/`` has it, and so does judging.

nbgrader's own ``generate_assignment`` says what the assignment's cells are, and writes them into
the gradebook if it has others or none. Its release goes into a temporary folder: the course's own
``release/`` is left alone, as is ``source/``. If the gradebook has these cells already, nothing at
all is written.

Once there are submissions, nbgrader still changes the texts and the points of cells, and keeps
every grade, score and comment. It does not add or remove cells then, and neither is it made to.
"""

from __future__ import annotations

import copy
import json
import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat.notebooknode import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.api import Notebook as RecordedNotebook
from nbgrader.converters import GenerateAssignment
from nbgrader.converters.base import NbGraderException
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor, SaveCells
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from traitlets.config import Config, PyFileConfigLoader

from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.errors import RegistrationError
from helpers.grading.judge.sanitize import comparable
from helpers.grading.names import printable
from helpers.grading.records.transactions import schema_version_without_program

_CONFIG = "nbgrader_config.py"


def register(course: Path, assignment: str) -> Assignment:
    """Make sure that the gradebook knows ``assignment``, and return it.

    The cells' order is the source notebook's. nbgrader keeps none of its own, and cannot change
    the one in which it wrote the cells once there are submissions.

    Args:
        course: the folder ``course/``, with ``source/`` and ``nbgrader_config.py``.
        assignment: a chapter, like ``08-numerical-stability``.

    Raises:
        RegistrationError: it cannot be; the text says why. What was recorded is still there.
    """
    directory = open_course(course)
    _check_source(directory, assignment)
    wanted = _generate(directory, assignment)
    recorded = _read(directory, assignment)
    if recorded.is_as(wanted):
        return wanted
    if recorded.has_submissions:
        _check_cells_stay(directory, wanted, recorded)
    _record(directory, assignment)
    if not _read(directory, assignment).holds(wanted):
        raise RegistrationError(
            f"{_shown(directory)} does not have the cells of {assignment} although nbgrader wrote "
            f"them: make sure that nobody else writes there, and run the same command again."
        )
    return wanted


def read_assignment(course: Path, assignment: str) -> Assignment:
    """Return ``assignment`` as ``source/`` has it; no gradebook is made, read or written.

    Raises:
        RegistrationError: there is no such assignment, or it cannot be read.
    """
    directory = open_course(course)
    _check_source(directory, assignment)
    return _generate(directory, assignment)


def open_course(course: Path) -> CourseDirectory:
    """Return nbgrader's view of ``course``: its folders, its ``ignore``, its gradebook's address.

    Its ``nbgrader_config.py`` counts, and no other; the current directory does not matter.

    Raises:
        RegistrationError: the configuration cannot be read.
    """
    course, config = course.resolve(), Config()
    if (course / _CONFIG).exists():
        try:
            config = PyFileConfigLoader(_CONFIG, path=str(course)).load_config()
        except Exception as error:  # it is a program: it can raise anything
            raise RegistrationError(
                f"{course / _CONFIG} cannot be read ({type(error).__name__}: {error})."
            ) from error
    if "root" not in config.CourseDirectory:
        config.CourseDirectory.root = str(course)
    directory = CourseDirectory(config=config)
    url = make_url(directory.db_url)
    _check_driver(url)
    if url.get_backend_name() == "sqlite" and url.database:
        # As nbgrader reads it, whose commands are run in the course's folder.
        url = url.set(database=str(course / url.database))
        config.CourseDirectory.db_url = url.render_as_string(hide_password=False)
        directory = CourseDirectory(config=config)
    return directory


def _check_driver(url: URL) -> None:
    """Check that there is what SQLAlchemy speaks to the database with."""
    try:
        url.get_dialect().import_dbapi()
    except (ImportError, ArgumentError) as error:
        raise RegistrationError(
            f"The gradebook {url} needs a database driver that is not here ({error}): install it "
            f"(for PostgreSQL: pip install psycopg2-binary), or correct the address."
        ) from error


def _shown(directory: CourseDirectory) -> str:
    url = make_url(directory.db_url)
    return url.database or str(url) if url.get_backend_name() == "sqlite" else str(url)


# What source/ has


def _check_source(directory: CourseDirectory, assignment: str) -> None:
    """Check that there is the assignment, and that it is one notebook."""
    source = Path(directory.format_path(directory.source_directory, ".", "."))
    notebooks: dict[str, list[str]] = {}
    for file in sorted(source.glob("*/*.ipynb")):
        notebooks.setdefault(file.parent.name, []).append(file.name)
    if assignment not in notebooks:
        known = ", ".join(notebooks) or "none"
        raise RegistrationError(
            f"There is no assignment {printable(assignment)} in {source.resolve()}; there are: "
            f"{known}."
        )
    if len(notebooks[assignment]) > 1:
        raise RegistrationError(
            f"{(source / assignment).resolve()} holds several notebooks, and an assignment is one: "
            f"{', '.join(notebooks[assignment])}."
        )


class _NothingRecorded:
    """A gradebook in which nothing is found, whatever is looked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("find_"):
            return self._find_nothing
        raise AttributeError(name)

    def _find_nothing(self, *_: str) -> Any:
        raise MissingEntry


class _CollectCells(SaveCells):
    """Takes the cells that nbgrader would save, and saves them nowhere."""

    def preprocess(
        self, nb: NotebookNode, resources: Mapping[str, Any]
    ) -> tuple[NotebookNode, Mapping[str, Any]]:
        self.gradebook = _NothingRecorded()
        self.notebook_id = resources["nbgrader"]["notebook"]
        self.assignment_id = resources["nbgrader"]["assignment"]
        self.new_grade_cells: dict[str, dict] = {}
        self.new_solution_cells: dict[str, dict] = {}
        self.new_task_cells: dict[str, dict] = {}
        self.new_source_cells: dict[str, dict] = {}
        return NbGraderPreprocessor.preprocess(self, nb, resources)

    def cells(self) -> tuple[SourceCell, ...]:
        if self.new_task_cells:
            raise RegistrationError(
                f"{self.assignment_id} has nbgrader's task cells ({', '.join(self.new_task_cells)})"
                f", which cannot be judged: make them cells that are answered and graded by hand."
            )
        points = {name: cell["max_score"] for name, cell in self.new_grade_cells.items()}
        return tuple(
            SourceCell(
                name=name,
                cell_type=cell["cell_type"],
                source=cell["source"],
                checksum=cell["checksum"],
                locked=cell["locked"],
                grade=name in points,
                solution=name in self.new_solution_cells,
                points=points.get(name, 0.0),
            )
            for name, cell in self.new_source_cells.items()
        )


def _generate(directory: CourseDirectory, assignment: str) -> Assignment:
    """Return the assignment as nbgrader makes it from its source, writing into no gradebook."""
    collected = _CollectCells()
    with tempfile.TemporaryDirectory() as folder:
        converter = _converter(directory, assignment, Path(folder))
        converter.no_database = True
        # In the place of the one that saves them.
        converter.preprocessors = [
            collected if kind is SaveCells else kind for kind in converter.preprocessors
        ]
        _run(converter, assignment)
        cells = collected.cells()
        release = Path(folder) / assignment
        files = {file: file.read_bytes() for file in sorted(release.rglob("*")) if file.is_file()}
    (notebook_file,) = (file for file in files if file.suffix == ".ipynb")
    notebook = nbformat.reads(files.pop(notebook_file).decode(), as_version=4)
    names = {cell.name for cell in cells}
    others = [
        cell
        for cell in notebook.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") not in names
    ]
    return Assignment(
        name=assignment,
        notebook=notebook_file.stem,
        kernelspec=dict(notebook.metadata.get("kernelspec", {})),
        cells=cells,
        demos=frozenset(comparable(cell.source) for cell in others if cell.cell_type == "code"),
        texts=frozenset(comparable(cell.source) for cell in others if cell.cell_type != "code"),
        data={file.relative_to(release).as_posix(): content for file, content in files.items()},
    )


# What the gradebook has


@dataclass(frozen=True)
class _Recorded:
    """What the gradebook has of one assignment: its notebooks by name, with their cells."""

    notebooks: Mapping[str, tuple[SourceCell, ...]] = field(default_factory=dict)
    kernelspecs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    has_submissions: bool = False

    def holds(self, wanted: Assignment) -> bool:
        """Return whether it has the assignment's cells and no others."""
        by_notebook = {name: frozenset(cells) for name, cells in self.notebooks.items()}
        return by_notebook == {wanted.notebook: frozenset(wanted.cells)}

    def is_as(self, wanted: Assignment) -> bool:
        """Return whether nbgrader would change nothing of it."""
        if self.has_submissions or not self.holds(wanted):
            return self.holds(wanted)
        name = wanted.notebook
        return (self.notebooks[name], self.kernelspecs[name]) == (wanted.cells, wanted.kernelspec)


def _read(directory: CourseDirectory, assignment: str) -> _Recorded:
    url = make_url(directory.db_url)
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        return _Recorded()
    try:
        with (
            schema_version_without_program(),
            Gradebook(directory.db_url, directory.course_id) as gradebook,
        ):
            found = gradebook.find_assignment(assignment)
            return _Recorded(
                {notebook.name: _cells_of(notebook) for notebook in found.notebooks},
                {
                    notebook.name: json.loads(notebook.kernelspec or "{}")
                    for notebook in found.notebooks
                },
                bool(found.submissions),
            )
    except MissingEntry:
        return _Recorded()
    except SQLAlchemyError as error:
        reason = str(error).splitlines()[0]
        raise RegistrationError(
            f"The gradebook {_shown(directory)} cannot be read ({reason}): if it is an older "
            f"nbgrader's, keep a copy of it and run `nbgrader db upgrade` in {directory.root}."
        ) from error


def _cells_of(notebook: RecordedNotebook) -> tuple[SourceCell, ...]:
    points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    solutions = {cell.name for cell in notebook.solution_cells}
    return tuple(
        SourceCell(
            name=cell.name,
            cell_type=cell.cell_type,
            source=cell.source,
            checksum=cell.checksum,
            locked=cell.locked,
            grade=cell.name in points,
            solution=cell.name in solutions,
            points=points.get(cell.name, 0.0),
        )
        for cell in notebook.source_cells
    )


def _check_cells_stay(directory: CourseDirectory, wanted: Assignment, recorded: _Recorded) -> None:
    """Check what nbgrader will check, to say it in one sentence."""
    old = {
        (notebook, cell.name, cell.grade, cell.solution)
        for notebook, cells in recorded.notebooks.items()
        for cell in cells
    }
    new = {(wanted.notebook, cell.name, cell.grade, cell.solution) for cell in wanted.cells}
    if old != new:
        changed = ", ".join(sorted({name for _, name, _, _ in old ^ new}))
        raise RegistrationError(
            f"{_shown(directory)} has submissions of {wanted.name} whose cells differ from "
            f"those that its source has now ({changed}), and nbgrader cannot add or remove any "
            f"of them: undo the change in the source, or move the gradebook away to begin a new "
            f"one."
        )


def _record(directory: CourseDirectory, assignment: str) -> None:
    with tempfile.TemporaryDirectory() as folder, schema_version_without_program():
        _run(_converter(directory, assignment, Path(folder)), assignment)


# nbgrader's generate_assignment


def _converter(directory: CourseDirectory, assignment: str, release: Path) -> GenerateAssignment:
    config = copy.deepcopy(directory.config)
    config.CourseDirectory.assignment_id = assignment
    config.CourseDirectory.release_directory = str(release)
    log = logging.Logger("registration")
    log.addHandler(_Kept(logging.ERROR))
    return GenerateAssignment(CourseDirectory(config=config, log=log), config=config, log=log)


class _Kept(logging.Handler):
    """Keeps what is logged, off the terminal."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def _run(converter: GenerateAssignment, assignment: str) -> None:
    try:
        converter.start()
    except NbGraderException as error:
        (kept,) = converter.log.handlers
        traces = [text for text in kept.messages if text.startswith("Traceback")]
        # nbgrader's own words refer to a trace that it logged.
        reason = traces[-1].rstrip().splitlines()[-1] if traces else " ".join(str(error).split())
        source = Path(converter.coursedir.root) / converter.coursedir.source_directory / assignment
        raise RegistrationError(
            f"nbgrader cannot make the assignment from {source} ({reason.rstrip('.')}): correct it "
            f"there, and run the same command again."
        ) from error
