"""Which of a submission's cells is which of the course's.

The course's cells carry marks: nbgrader's metadata. Copying cells into a new notebook can lose
them. A cell without its mark is recognized by what it says:

- A cell that says what a locked cell or a stub says is that cell, in whatever layout. Beside a
  marked one it is another copy. Only of a locked cell that gives no points such a copy is the
  student's own: its author may have wanted to run it once more.
- Where an exercise has no marked cell for its solution, each cell that defines at its top a
  function or a class of the stub's is a copy of that cell. Which copy counts is decided as for
  marked ones.
- Where a test has no cell at all, each cell that makes its ``Check`` at its top is a copy of it,
  unless it defines an exercise's function.

So a student's text can only ever be taken for a solution: what is taken for a locked cell has the
course's text from there on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from nbformat.notebooknode import NotebookNode

from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.judge.meaning import Meaning, comparable, has_address, read_meaning

TEST = "test-"
_HIDDEN = re.compile(
    r"^[^\n]*### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS[^\n]*\n?", re.MULTILINE | re.DOTALL
)
_read_ours = lru_cache(maxsize=2000)(read_meaning)  # the same cells for every submission


@dataclass(frozen=True, eq=False)
class Submitted:
    """A cell of a submission.

    Attributes:
        position: where it stands, from 0.
        cell: as it was handed in.
        name: the assignment's cell that it is; None if it is the student's own.
        is_marked: whether its mark says so, and not its text.
    """

    position: int
    cell: NotebookNode
    name: str | None = None
    is_marked: bool = False

    @property
    def claims(self) -> Mapping[str, Any]:
        """What its metadata says of its grading."""
        return self.cell.metadata.get("nbgrader", {})

    @property
    def is_code(self) -> bool:
        """Whether it is a cell to run."""
        return self.cell.cell_type == "code"

    @cached_property
    def meaning(self) -> Meaning:
        """What its code says."""
        return read_meaning(self.cell.source) if self.is_code else Meaning()

    def holds(self, *texts: str) -> bool:
        """Return whether it says what one of the course's ``texts`` says."""
        if comparable(self.cell.source) in map(comparable, texts):
            return True
        digest = self.meaning.digest
        return bool(digest) and digest in (_read_ours(text).digest for text in texts)


class CourseTexts:
    """What an assignment's cells say, to be looked up.

    Attributes:
        only_once: the names of the stubs and the tests, which nobody wants to run once more.
    """

    def __init__(self, assignment: Assignment) -> None:
        """Know the cells of ``assignment``."""
        self._cells = assignment.cells
        self.only_once = frozenset(
            cell.name for cell in assignment.cells if cell.solution or cell.grade
        )
        self._names = {
            (cell.cell_type, comparable(text)): cell.name
            for cell in assignment.cells
            for text in (released(cell), cell.source)
        }
        self._demos = {comparable(text): text for text in assignment.demos}

    def find_name(self, cell: Submitted) -> str | None:
        """Return the name of the locked cell or the stub that ``cell`` says."""
        text = comparable(cell.cell.source)
        if (cell.cell.cell_type, text) in self._names:
            return self._names[cell.cell.cell_type, text]
        return None if text in self._demos else self._names_by_meaning.get(cell.meaning.digest)

    def find_demo(self, cell: Submitted) -> str | None:
        """Return the text of the demo that ``cell`` is: its own, or ours; None if it is none."""
        text = cell.cell.source
        if not cell.is_code:
            return None
        if comparable(text) in self._demos:
            return text
        ours = self._demos_by_meaning.get(cell.meaning.digest)
        # The address is no part of what a cell says, so the text is another program.
        return ours if ours is None or has_address(ours) else text

    def find_exercises(self, cell: Submitted) -> list[str]:
        """Return the exercises that ``cell`` defines a function or a class of, in our order."""
        names = cell.meaning.defines
        return [exercise for exercise, stub in self._defined.items() if names & stub]

    @cached_property
    def _names_by_meaning(self) -> dict[str, str]:
        code = [cell for cell in self._cells if cell.cell_type == "code"]
        texts = ((cell.name, text) for cell in code for text in (released(cell), cell.source))
        return _by_meaning((text, name) for name, text in texts)

    @cached_property
    def _demos_by_meaning(self) -> dict[str, str]:
        return _by_meaning((text, text) for text in self._demos.values())

    @cached_property
    def _defined(self) -> dict[str, frozenset[str]]:
        solutions = (cell for cell in self._cells if cell.solution and cell.cell_type == "code")
        return {cell.name: _read_ours(cell.source).defines for cell in solutions}


def released(cell: SourceCell) -> str:
    """Return a cell's text as students have it: without hidden tests."""
    return _HIDDEN.sub("", cell.source) if cell.locked else cell.source


def recognize(
    cells: Sequence[NotebookNode], assignment: Assignment, texts: CourseTexts
) -> list[Submitted]:
    """Return a submission's cells, each with the name of the assignment's cell that it is."""
    ours = {cell.name: cell for cell in assignment.cells}
    found = [_by_mark(position, cell, ours) for position, cell in enumerate(cells)]
    marked = {cell.name for cell in found if cell.is_marked}
    open_to = texts.only_once | (ours.keys() - marked)
    names = {cell.position: texts.find_name(cell) for cell in found if not cell.is_marked}
    names = {at: name for at, name in names.items() if name in open_to}
    strangers = [
        cell
        for cell in found
        if not cell.is_marked and cell.position not in names and texts.find_demo(cell) is None
    ]
    names |= _find_solutions(strangers, ours.keys() - marked, texts)
    names |= _find_tests(strangers, ours.keys() - marked - set(names.values()), texts)
    return [
        replace(cell, name=names[cell.position]) if cell.position in names else cell
        for cell in found
    ]


def _by_mark(position: int, cell: NotebookNode, ours: Mapping[str, SourceCell]) -> Submitted:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    is_marked = isinstance(grade_id, str) and grade_id in ours
    return Submitted(position, cell, grade_id if is_marked else None, is_marked)


def _find_solutions(
    cells: Sequence[Submitted], lost: set[str], texts: CourseTexts
) -> dict[int, str]:
    defined = {cell.position: texts.find_exercises(cell) for cell in cells}
    defined = {at: [name for name in names if name in lost] for at, names in defined.items()}
    # Of a cell that answers several exercises, the first: behind it all of them are defined. But
    # whoever used an earlier answer again may have copied it to where it was used.
    alone = {names[0] for names in defined.values() if len(names) == 1}
    return {
        at: next((name for name in names if name not in alone), names[0])
        for at, names in defined.items()
        if names
    }


def _find_tests(cells: Sequence[Submitted], lost: set[str], texts: CourseTexts) -> dict[int, str]:
    found = {}
    for cell in cells:
        name = f"{TEST}{cell.meaning.checks}"
        if name in lost and not texts.find_exercises(cell):
            found[cell.position] = name
    return found


def _by_meaning(known: Iterator[tuple[str, str]]) -> dict[str, str]:
    digests = {_read_ours(text).digest: name for text, name in known}
    return {digest: name for digest, name in digests.items() if digest}
