"""A submission becomes the notebook that is judged: the student's text in the course's cells.

Nothing of the submission is repaired. A new notebook is made, and only texts, and pictures that
were pasted into them, are carried over: so points, ids, kinds, tags, kernelspec and order can come
from nowhere but the assignment. nbgrader's own sanitizing leaves the result as it is; a test holds
it to that. Which cell is which is found by ``recognition``: by its mark, or by what it says.

What stands where:

- Every cell of the assignment stands once, in the assignment's order. What is locked has the
  assignment's text, what is solved has the student's.
- Any other cell is the student's own. It stays behind the cell of the assignment that it stood
  behind, as a plain cell. A code cell that is still one of the chapter's demos, in whatever layout,
  is marked with ``SKIP``: it is not to be run.
- What is missing is put back directly behind its predecessor. The student's own cells there come
  after it, so that a solution that was written into a new cell is what the test finds.

Of a solution cell that stands several times, what counts is what the student sees on running the
notebook from top to bottom. All copies are run, in the order in which they stand; one of them
keeps the exercise's name, the last one before the test, since its definitions are those that the
test finds. If all stand behind the test, it is the first one, and the others follow it, before
the test. A copy in which nothing was written is left out, as it would undo the solution, and one
that was made into text stays text. If the test was copied too, its first copy behind all the
solutions counts, or else its last one. Of another locked cell the first one counts; its other
copies are the student's own cells, unless they are unchanged.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat.notebooknode import NotebookNode

from helpers.grading import soundness
from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.caps import Caps
from helpers.grading.judge.meaning import comparable
from helpers.grading.judge.recognition import TEST, CourseTexts, Submitted, recognize, released
from helpers.grading.judge.remarks import make_remarks

__all__ = ["SKIP", "Sanitized", "comparable", "sanitize"]

SKIP = "bits_skip"
"""The metadata of a cell that is not to be run; only ``sanitize`` writes it."""

_CAPS = Caps()
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Sanitized:
    """A submission as it is judged.

    Attributes:
        notebook: of nbformat 4.5, without outputs.
        missing: the exercises whose solution cell is not in the submission.
        notes: what had to be put right, a sentence each, for the instructor.
        recognized: the exercises that a cell without its mark answers.
        places: of each of the notebook's cells, the number from 1 that it had in the submission;
            None if it was put back.
    """

    notebook: NotebookNode
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    recognized: tuple[str, ...] = ()
    places: tuple[int | None, ...] = ()


def sanitize(content: bytes, assignment: Assignment, caps: Caps = _CAPS) -> Sanitized:
    """Return the submission ``content`` as it is judged; doing it again changes nothing.

    Raises:
        MalformedError: it is no sound notebook; the text says why.
    """
    soundness.examine(content, caps)
    submission = nbformat.v4.reads(soundness.without_mark(content).decode())
    texts = CourseTexts(assignment)
    cells = recognize(submission.cells, assignment, texts)
    standing, left_out = _choose(cells, assignment, texts)
    assembled = _assemble(cells, standing, left_out, assignment, texts)
    notebook = nbformat.from_dict(
        {
            "cells": [cell for cell, _ in assembled],
            "metadata": {"kernelspec": assignment.kernelspec} if assignment.kernelspec else {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
    _number(notebook.cells)
    return Sanitized(
        notebook,
        missing=tuple(name for name in assignment.exercises if name not in standing),
        notes=tuple(make_remarks(cells, standing, assignment)),
        recognized=tuple(_find_recognized(standing, assignment)),
        places=tuple(place for _, place in assembled),
    )


# Which cells count


def _choose(
    cells: Sequence[Submitted], assignment: Assignment, texts: CourseTexts
) -> tuple[dict[str, Submitted], set[Submitted]]:
    """Return for each name the cell that stands for it, and the copies that are left out."""
    copies: dict[str, list[Submitted]] = defaultdict(list)
    for cell in cells:
        if cell.name is not None:
            copies[cell.name].append(cell)
    present = [cell for cell in assignment.cells if cell.name in copies]
    candidates = {cell.name: _candidates(cell, copies[cell.name]) for cell in present}
    solution_of = {f"{TEST}{name}": name for name in assignment.exercises}
    standing = {}
    for cell in present:
        if cell.locked:
            solutions = candidates.get(solution_of.get(cell.name, ""), [])
            standing[cell.name] = _choose_locked(candidates[cell.name], solutions)
    for cell in present:
        if not cell.locked:
            test = standing.get(f"{TEST}{cell.name}")
            standing[cell.name] = _choose_solution(candidates[cell.name], test)
    ours = {cell.name: cell for cell in assignment.cells}
    left_out = {
        cell
        for cell in cells
        if standing.get(cell.name) is not cell and _is_nothing_new(cell, ours.get(cell.name), texts)
    }
    return standing, left_out


def _candidates(cell: SourceCell, copies: list[Submitted]) -> list[Submitted]:
    """Return those that can count: of a solution, where something was written in a cell to run."""
    if cell.locked:
        return copies
    of_kind = [copy for copy in copies if copy.cell.cell_type == cell.cell_type] or copies
    return [copy for copy in of_kind if not copy.holds(cell.source)] or of_kind


def _choose_locked(copies: list[Submitted], solutions: list[Submitted]) -> Submitted:
    if not solutions:
        return copies[0]
    last = solutions[-1].position
    return next((copy for copy in copies if copy.position > last), copies[-1])


def _choose_solution(copies: list[Submitted], test: Submitted | None) -> Submitted:
    before = [copy for copy in copies if test is None or copy.position < test.position]
    return before[-1] if before else copies[0]


def _is_nothing_new(cell: Submitted, ours: SourceCell | None, texts: CourseTexts) -> bool:
    """Return whether a copy has the text of the cell that it is of, or of a stub or a test."""
    if ours is not None and cell.holds(ours.source, released(ours)):
        return True
    return texts.find_name(cell) in texts.only_once


def _find_recognized(standing: Mapping[str, Submitted], assignment: Assignment) -> Iterator[str]:
    stubs = {cell.name: cell.source for cell in assignment.cells if cell.solution}
    for name in assignment.exercises:
        answer = standing.get(name)
        if answer is not None and not answer.is_marked and not answer.holds(stubs[name]):
            yield name


# The new notebook


_Placed = tuple[dict[str, Any], int | None]


def _assemble(
    cells: Iterable[Submitted],
    standing: Mapping[str, Submitted],
    left_out: set[Submitted],
    assignment: Assignment,
    texts: CourseTexts,
) -> list[_Placed]:
    """Return the new notebook's cells, each with its number in the submission."""
    behind: dict[str | None, list[_Placed]] = defaultdict(list)
    predecessor = None
    for cell in cells:
        if cell.name is not None and standing[cell.name] is cell:
            predecessor = cell.name
        elif cell not in left_out:
            behind[predecessor].append((_own_cell(cell, texts), cell.position + 1))
    assembled, waiting = [], behind[None]
    for cell in assignment.cells:
        submitted = standing.get(cell.name)
        if submitted is not None:
            assembled += waiting
            waiting = behind[cell.name]
        place = None if submitted is None else submitted.position + 1
        assembled.append((_course_cell(cell, submitted), place))
    return assembled + waiting


def _own_cell(submitted: Submitted, texts: CourseTexts) -> dict[str, Any]:
    cell, demo = submitted.cell, texts.find_demo(submitted)
    if demo is not None:
        return _make_cell(cell.cell_type, demo, {SKIP: True})
    return _make_cell(cell.cell_type, cell.source, {}, _pictures(cell))


def _course_cell(cell: SourceCell, submitted: Submitted | None) -> dict[str, Any]:
    """Return the assignment's cell, with what nbgrader's release has in its metadata."""
    metadata: dict[str, Any] = {"deletable": False, "nbgrader": cell.grading}
    if cell.locked:
        metadata["editable"] = False
    if submitted is None:
        return _make_cell(cell.cell_type, cell.source, metadata)
    text = cell.source if cell.locked else submitted.cell.source
    return _make_cell(cell.cell_type, text, metadata, _pictures(submitted.cell))


def _make_cell(
    cell_type: str,
    source: str,
    metadata: dict[str, Any],
    pictures: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": cell_type, "metadata": metadata, "source": source}
    if cell_type == "code":
        return cell | {"execution_count": None, "outputs": []}
    return cell | {"attachments": pictures} if pictures else cell


def _pictures(cell: NotebookNode) -> Mapping[str, Any] | None:
    """Return what was pasted into a text; elsewhere nothing has held it to the format."""
    return None if cell.cell_type == "code" else cell.get("attachments")


def _number(cells: list[NotebookNode]) -> None:
    """Give every cell an id of ours: its name, or a number for the student's own."""
    names = [cell.metadata.get("nbgrader", {}).get("grade_id") for cell in cells]
    taken = {_as_id(name) for name in names if name is not None}
    free = (f"own-{number}" for number in itertools.count(1))
    own = (cell_id for cell_id in free if cell_id not in taken)
    for cell, name in zip(cells, names, strict=True):
        cell.id = next(own) if name is None else _as_id(name)


def _as_id(name: str) -> str:
    return name if _ID.fullmatch(name) else hashlib.sha256(name.encode()).hexdigest()[:32]
