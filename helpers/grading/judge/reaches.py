"""What of a notebook each exercise is judged with: its own cell, and what that uses.

A stray cell costs nobody a point: it is not run. Exercises whose reach is plain share one kernel,
in the notebook's order; one whose reach is not has a kernel of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nbformat.notebooknode import NotebookNode

from helpers.grading.judge.demos import find_needed_demos
from helpers.grading.judge.recognition import TEST
from helpers.grading.judge.sanitize import SKIP
from helpers.reading.cells import Cell, as_python, parse
from helpers.reading.plain_code import Doubt, find_doubts
from helpers.reading.reach import binds, find_reach


@dataclass(frozen=True)
class Reach:
    """What one exercise is judged with.

    Attributes:
        places: of its cells in the notebook, in order; the course's are not among them.
        cells: these cells.
        doubts: what in them is not plain.
        code: a SHA-256 of their text.
    """

    places: tuple[int, ...]
    cells: tuple[Cell, ...]
    doubts: tuple[Doubt, ...]
    code: str


@dataclass(frozen=True)
class _Code:
    """A cell of code in the notebook."""

    place: int
    cell: Cell
    name: str  # nbgrader's, "" for the student's own
    is_demo: bool
    is_test: bool
    is_left_out: bool = field(default=False)


class Notebook:
    """The cells of code of a sanitized notebook, as the judge runs them."""

    def __init__(
        self,
        cells: Sequence[NotebookNode],
        stubs: Mapping[str, Iterable[str]],
        missing: Iterable[str],
        numbers: Sequence[int | None],
    ) -> None:
        """Read the cells; nothing is run.

        Args:
            cells: the notebook's.
            stubs: the names that each exercise's stub defines.
            missing: exercises whose solution cell was put back: a stub that is not to be run, as it
                would undo a solution elsewhere.
            numbers: which cell of the submission each was, from 1; None for one that was put back.
        """
        self._stubs = stubs
        missing = set(missing)
        self._code = [
            _read(place, cell, numbers[place], missing)
            for place, cell in enumerate(cells)
            if cell.cell_type == "code"
        ]
        self._by_place = {code.place: code.cell for code in self._code}
        self.tests = {c.name.removeprefix(TEST): c.place for c in self._code if c.is_test}

    def python(self, place: int) -> str:
        """Return the cell at ``place`` as Python, without magics and shell lines."""
        return self.cell(place).code

    def cell(self, place: int) -> Cell:
        """Return the cell at ``place``, as ``python`` gives it, with what people call it."""
        return self._by_place[place]

    def students_cells(self, places: Iterable[int]) -> tuple[Cell, ...]:
        """Return the student's own cells among those at ``places``."""
        wanted = set(places)
        return tuple(c.cell for c in self._code if c.place in wanted and not c.cell.is_course)

    def find_reach(self, exercise: str) -> Reach:
        """Return what ``exercise`` is judged with."""
        before = [code for code in self._code if code.place < self.tests[exercise]]
        candidates = [c for c in before if not (c.is_test or c.is_demo or c.is_left_out)]
        cells = [code.cell for code in candidates]
        names = set(self._stubs[exercise])
        own = [i for i, code in enumerate(candidates) if code.name == exercise]
        own = own or [i for i, c in enumerate(cells) if not c.is_course and binds(c, names)]
        chosen = find_reach(cells, own[-1], names) if own else []
        reached = tuple(cells[i] for i in chosen if not cells[i].is_course)
        places = tuple(candidates[i].place for i in chosen if not cells[i].is_course)
        given = [c.cell for c in before if c.cell.is_course and not (c.is_demo or c.is_test)]
        doubts = tuple(find_doubts(reached, given))
        return Reach(places, reached, doubts, digest_of(cell.code for cell in reached))

    def with_courses_cells(self, places: Iterable[int]) -> list[int]:
        """Return ``places`` with the course's cells, and with those demos that are needed."""
        wanted = set(places)
        wanted |= {c.place for c in self._code if c.cell.is_course and not c.is_test}
        demos = [code for code in self._code if code.is_demo]
        wanted -= {code.place for code in demos}
        running = [code.cell.code for code in self._code if code.place in wanted]
        needed = find_needed_demos(running, [code.cell.code for code in demos])
        return sorted(wanted | {demos[i].place for i in needed})

    def all_places(self) -> list[int]:
        """Return the places of all that runs when the whole notebook is run."""
        return self.with_courses_cells(
            c.place for c in self._code if not (c.is_test or c.is_demo or c.is_left_out)
        )

    def has_more(self, exercise: str, ran: Iterable[int]) -> bool:
        """Return whether more than ``ran`` stands before the test of ``exercise``."""
        ran = set(ran)
        more = (p for p in self.all_places() if p not in ran and p < self.tests[exercise])
        trees = (parse(self.python(place)) for place in more)
        return any(tree is not None and tree.body for tree in trees)


def digest_of(texts: Iterable[str]) -> str:
    """Return a SHA-256 over cells' texts."""
    return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


def _read(place: int, cell: NotebookNode, number: int | None, missing: set[str]) -> _Code:
    grading = cell.metadata.get("nbgrader", {})
    name = grading.get("grade_id", "")
    is_demo = bool(cell.metadata.get(SKIP))
    is_test = bool(grading.get("grade")) and not grading.get("solution")
    is_course = is_demo or bool(grading.get("locked"))
    label = f"cell {number}" if number else f"the cell {name}"
    read = Cell(as_python(cell.source), label, is_course)
    return _Code(place, read, name, is_demo, is_test, name in missing and not is_course)
