"""The course's files as the tests see them, and how an exercise's cells are run."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from nbformat.notebooknode import NotebookNode

from helpers.authoring.build import Course
from helpers.authoring.chapter import chapter_name
from helpers.catalogue import Exercise, load_chapters
from helpers.grading.judge.trusted import Cell as CompiledCell
from helpers.reading.cells import Cell
from helpers.reading.history import reading

ROOT = Path(__file__).resolve().parent.parent
COURSE = Course(ROOT)
CHAPTERS = [chapter_name(text) for text in COURSE.chapters]
EXERCISES = [exercise for chapter in load_chapters() for exercise in chapter.exercises]


@dataclass(frozen=True)
class Variant:
    """A right or a wrong solution: its code, and what it stands for."""

    exercise: str
    right: bool
    meaning: str
    code: str


@dataclass(frozen=True)
class Outcome:
    """What a test cell came to: its value, the report that the student reads, and whether all that
    the students' copy of the cell tries holds.
    """

    points: float
    report: str
    holds_visibly: bool


@cache
def source(chapter: str) -> NotebookNode:
    return nbformat.read(COURSE.source(chapter), as_version=4)


@cache
def release(chapter: str) -> NotebookNode:
    return nbformat.read(COURSE.release(chapter), as_version=4)


def grade_id(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def without_marks(code: str) -> str:
    """Return a solution as a student writes it: without the marks of what is cut out."""
    return re.sub(r"^ *### (?:BEGIN|END) SOLUTION\n?", "", code, flags=re.MULTILINE).rstrip()


def find_cell(notebook: NotebookNode, name: str) -> NotebookNode:
    """Return the nbgrader cell called ``name``."""
    (cell,) = (cell for cell in notebook.cells if grade_id(cell) == name)
    return cell


@cache
def variants(exercise: Exercise) -> tuple[Variant, ...]:
    """Return the right and the wrong solutions of ``exercise``, beside the reference."""
    folder = ROOT / "tests" / "exercises" / exercise.chapter.replace("-", "_")
    file = folder / f"{exercise.name}.py"
    if not file.exists():
        return ()
    _, *cells = re.split(
        r"^# %% (right|wrong): (.+)\n", file.read_text("utf-8"), flags=re.MULTILINE
    )
    found = [
        Variant(exercise.name, kind == "right", meaning.strip(), code.strip("\n"))
        for kind, meaning, code in zip(*(cells[part::3] for part in range(3)), strict=True)
    ]
    return tuple(found)


def run_exercise(
    exercise: Exercise, solution: str | None = None, *, hidden: bool = True
) -> Outcome:
    """Run one exercise's test on ``solution`` (the reference, if None), without any demo cell.

    What stands before it runs first: needed cells, and the references of earlier exercises.
    ``hidden`` tells whether the hidden tests run too, as they do when work is graded.
    """
    replaced = {} if solution is None else {exercise.name: solution}
    test = f"test-{exercise.name}"
    namespace = define(exercise.chapter, before=test, replaced=replaced)
    cells = [
        Cell(code, f"cell [{number}]")
        for number, code in enumerate(cells_before(exercise.chapter, test, replaced), 1)
    ]
    tests = source(exercise.chapter) if hidden else release(exercise.chapter)
    written = io.StringIO()
    with contextlib.redirect_stdout(written), reading(cells):
        points = run_cell(find_cell(tests, f"test-{exercise.name}").source, namespace)
    visible = namespace["check"].results[: exercise.visible]
    holds = all(result.outcome == "passed" for result in visible)
    return Outcome(points, written.getvalue(), holds)


def define(chapter: str, *, before: str = "", replaced: Mapping[str, str] | None = None) -> dict:
    """Return what a chapter's needed cells and references define, up to the cell ``before``.

    ``replaced`` holds other code for exercises, by name.
    """
    namespace: dict = {"__name__": "__main__"}
    for code in cells_before(chapter, before, replaced or {}):
        run_cell(code, namespace)
    return namespace


def cells_before(chapter: str, before: str, replaced: Mapping[str, str]) -> Iterator[str]:
    """Yield the code of the needed cells and of the references, or what replaces them."""
    for cell in source(chapter).cells:
        name = grade_id(cell)
        if before and name == before:
            break
        if cell.cell_type != "code" or name.startswith("test-"):
            continue
        if {"needed", "exercise"} & set(cell.metadata.get("tags", [])):
            yield replaced.get(name, cell.source)


def run_cell(code: str, namespace: dict) -> object:
    """Run a cell's code as a kernel would and return the value of its last expression."""
    return CompiledCell(code).run(namespace)
