"""A submission becomes the notebook that is judged: the student's text in the course's cells.

Nothing of the submission is repaired. A new notebook is made, and only texts, and pictures that
were pasted into them, are carried over: so points, ids, kinds, tags, kernelspec and order can come
from nowhere but the assignment. nbgrader's own sanitizing leaves the result as it is; a test holds
it to that.

What stands where:

- Every cell of the assignment stands once, in the assignment's order. What is locked has the
  assignment's text, what is solved has the student's.
- Any other cell is the student's own. It stays behind the cell of the assignment that it stood
  behind, as a plain cell. A code cell that is still one of the chapter's demos is marked with
  ``SKIP``: it is not to be run.
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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import nbformat
from nbformat.notebooknode import NotebookNode

from helpers.grading import soundness
from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.caps import Caps
from helpers.grading.names import printable

SKIP = "bits_skip"
"""The metadata of a cell that is not to be run; only ``sanitize`` writes it."""

_CAPS = Caps()
_SCHEMA_VERSION = 3  # nbgrader's, of its cells' metadata
_HIDDEN = re.compile(
    r"^[^\n]*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS[^\n]*\n?", re.MULTILINE | re.DOTALL
)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What a submission's metadata can say of a cell's grading that would matter if it counted.
_TELLING = ("grade", "solution", "locked", "task", "points", "cell_type")
_MOST_NAMES = 5


@dataclass(frozen=True)
class Sanitized:
    """A submission as it is judged.

    Attributes:
        notebook: of nbformat 4.5, without outputs.
        missing: the exercises whose solution cell is not in the submission.
        notes: what had to be put right, a sentence each, for the instructor.
    """

    notebook: NotebookNode
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def sanitize(content: bytes, assignment: Assignment, caps: Caps = _CAPS) -> Sanitized:
    """Return the submission ``content`` as it is judged; doing it again changes nothing.

    Raises:
        MalformedError: it is no sound notebook; the text says why.
    """
    soundness.examine(content, caps)
    submission = nbformat.v4.reads(soundness.without_mark(content).decode())
    ours = {cell.name: cell for cell in assignment.cells}
    cells = [_Submitted.read(n, cell, ours) for n, cell in enumerate(submission.cells)]
    standing, left_out = _choose(cells, assignment)
    notebook = nbformat.from_dict(
        {
            "cells": _assemble(cells, standing, left_out, assignment),
            "metadata": {"kernelspec": assignment.kernelspec} if assignment.kernelspec else {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
    _number(notebook.cells)
    missing = tuple(name for name in assignment.exercises if name not in standing)
    return Sanitized(notebook, missing, tuple(_notes(cells, standing, assignment)))


def comparable(text: str) -> str:
    """Return ``text`` without what editors change by themselves: white space at ends of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip()


@dataclass(frozen=True, eq=False)
class _Submitted:
    """A cell of the submission; ``name`` is the assignment's cell that it says it is, or None."""

    position: int
    cell: NotebookNode
    claims: Mapping[str, Any]
    name: str | None

    @classmethod
    def read(cls, position: int, cell: NotebookNode, ours: Mapping[str, SourceCell]) -> _Submitted:
        claims = cell.metadata.get("nbgrader", {})
        grade_id = claims.get("grade_id")
        name = grade_id if isinstance(grade_id, str) and grade_id in ours else None
        return cls(position, cell, claims, name)

    def holds(self, *texts: str) -> bool:
        return comparable(self.cell.source) in map(comparable, texts)


# Which cells count


def _choose(
    cells: Iterable[_Submitted], assignment: Assignment
) -> tuple[dict[str, _Submitted], set[_Submitted]]:
    """Return for each name the cell that stands for it, and the copies that are left out."""
    copies: dict[str, list[_Submitted]] = defaultdict(list)
    for cell in cells:
        if cell.name is not None:
            copies[cell.name].append(cell)
    present = [cell for cell in assignment.cells if cell.name in copies]
    candidates = {cell.name: _candidates(cell, copies[cell.name]) for cell in present}
    solution_of = {f"test-{name}": name for name in assignment.exercises}
    standing = {}
    for cell in present:
        if cell.locked:
            solutions = candidates.get(solution_of.get(cell.name, ""), [])
            standing[cell.name] = _choose_locked(candidates[cell.name], solutions)
    for cell in present:
        if not cell.locked:
            test = standing.get(f"test-{cell.name}")
            standing[cell.name] = _choose_solution(candidates[cell.name], test)
    left_out = {
        copy
        for cell in present
        for copy in copies[cell.name]
        if copy is not standing[cell.name] and copy.holds(cell.source, _released(cell))
    }
    return standing, left_out


def _candidates(cell: SourceCell, copies: list[_Submitted]) -> list[_Submitted]:
    """Return those that can count: of a solution, where something was written in a cell to run."""
    if cell.locked:
        return copies
    of_kind = [copy for copy in copies if copy.cell.cell_type == cell.cell_type] or copies
    return [copy for copy in of_kind if not copy.holds(cell.source)] or of_kind


def _choose_locked(copies: list[_Submitted], solutions: list[_Submitted]) -> _Submitted:
    if not solutions:
        return copies[0]
    last = solutions[-1].position
    return next((copy for copy in copies if copy.position > last), copies[-1])


def _choose_solution(copies: list[_Submitted], test: _Submitted | None) -> _Submitted:
    before = [copy for copy in copies if test is None or copy.position < test.position]
    return before[-1] if before else copies[0]


def _released(cell: SourceCell) -> str:
    """Return a test's text as students have it."""
    return _HIDDEN.sub("", cell.source) if cell.locked else cell.source


# The new notebook


def _assemble(
    cells: Iterable[_Submitted],
    standing: Mapping[str, _Submitted],
    left_out: set[_Submitted],
    assignment: Assignment,
) -> list[dict[str, Any]]:
    demos = frozenset(map(comparable, assignment.demos))
    behind: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    predecessor = None
    for cell in cells:
        if cell.name is not None and standing[cell.name] is cell:
            predecessor = cell.name
        elif cell not in left_out:
            behind[predecessor].append(_own_cell(cell.cell, demos))
    assembled, waiting = [], behind[None]
    for cell in assignment.cells:
        if cell.name in standing:
            assembled += waiting
            waiting = behind[cell.name]
        assembled.append(_course_cell(cell, standing.get(cell.name)))
    return assembled + waiting


def _own_cell(cell: NotebookNode, demos: frozenset[str]) -> dict[str, Any]:
    is_demo = cell.cell_type == "code" and comparable(cell.source) in demos
    metadata = {SKIP: True} if is_demo else {}
    return _make_cell(cell.cell_type, cell.source, metadata, _pictures(cell))


def _course_cell(cell: SourceCell, submitted: _Submitted | None) -> dict[str, Any]:
    """Return the assignment's cell, with what nbgrader's release has in its metadata."""
    metadata: dict[str, Any] = {"deletable": False, "nbgrader": _grading(cell)}
    if cell.locked:
        metadata["editable"] = False
    if cell.locked or submitted is None:
        return _make_cell(cell.cell_type, cell.source, metadata)
    text, pictures = submitted.cell.source, _pictures(submitted.cell)
    return _make_cell(cell.cell_type, text, metadata, pictures)


def _grading(cell: SourceCell) -> dict[str, Any]:
    grading = {
        "schema_version": _SCHEMA_VERSION,
        "grade_id": cell.name,
        "grade": cell.grade,
        "solution": cell.solution,
        "locked": cell.locked,
        "task": False,
        "cell_type": cell.cell_type,
        "checksum": cell.checksum,
    }
    return grading | {"points": cell.points} if cell.grade else grading


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


# What the instructor is told


def _notes(
    cells: list[_Submitted], standing: Mapping[str, _Submitted], assignment: Assignment
) -> Iterator[str]:
    counts = Counter(cell.name for cell in cells)
    for cell in assignment.cells:
        if cell.name in standing:
            yield from _notes_on_one(cell, standing[cell.name], counts[cell.name])
        else:
            yield f"the cell {cell.name} had been deleted, or its mark was lost; it was put back"
    positions = [standing[cell.name].position for cell in assignment.cells if cell.name in standing]
    if positions != sorted(positions):
        yield "the course's cells stood in another order; theirs was restored"
    claims = (
        cell.claims["grade_id"] for cell in cells if not cell.name and "grade_id" in cell.claims
    )
    strangers = list(dict.fromkeys(map(str, claims)))
    if strangers:
        shown = ", ".join(printable(name) for name in strangers[:_MOST_NAMES])
        more = ", and others" if len(strangers) > _MOST_NAMES else ""
        yield f"cells were marked as {shown}{more}, which the course does not have"


def _notes_on_one(cell: SourceCell, submitted: _Submitted, count: int) -> Iterator[str]:
    kind = submitted.cell.cell_type
    if count > 1 and cell.locked:
        yield f"the cell {cell.name} stood there {count} times; it counts once"
    elif count > 1:
        yield (
            f"the cell {cell.name} stood there {count} times; cell {submitted.position + 1} of the "
            f"submission counts as the answer, the others as the student's own cells"
        )
    if kind != cell.cell_type:
        yield f"the cell {cell.name} had been made a {kind} cell; it is {cell.cell_type} again"
    if cell.locked and not submitted.holds(cell.source, _released(cell)):
        yield f"the text of the cell {cell.name} was not the course's; the course's was put there"
    grading = _grading(cell)
    changed = [
        key
        for key in _TELLING
        if key in submitted.claims and submitted.claims[key] != grading.get(key)
    ]
    if changed:
        yield f"the cell {cell.name} had other grading data ({', '.join(changed)}); ours count"
