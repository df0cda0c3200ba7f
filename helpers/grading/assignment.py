"""An assignment as judging needs it: our cells in our order, as plain data that can travel."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SCHEMA_VERSION = 3  # nbgrader's, of its cells' metadata


@dataclass(frozen=True)
class SourceCell:
    """One of nbgrader's cells, as it stands in the gradebook.

    Attributes:
        name: nbgrader's grade_id: "needed-1", "softmax", "test-softmax".
        cell_type: "code" or "markdown".
        source: its text; of a solution, the stub; of a test, with the hidden tests.
        checksum: nbgrader's.
        locked: whether a submission's own text is replaced by ``source``.
        grade: whether it gives points.
        solution: whether the student writes in it.
        points: the most it gives; 0 where it gives none.
    """

    name: str
    cell_type: str
    source: str
    checksum: str
    locked: bool
    grade: bool
    solution: bool
    points: float = 0.0

    @property
    def grading(self) -> dict[str, Any]:
        """What nbgrader's release has of it in the cell's metadata."""
        grading = {
            "schema_version": _SCHEMA_VERSION,
            "grade_id": self.name,
            "grade": self.grade,
            "solution": self.solution,
            "locked": self.locked,
            "task": False,
            "cell_type": self.cell_type,
            "checksum": self.checksum,
        }
        return grading | {"points": self.points} if self.grade else grading


@dataclass(frozen=True)
class Assignment:
    """What every submission of one assignment is held to.

    Attributes:
        name: "08-numerical-stability".
        notebook: its notebook's name without ".ipynb": "numerical_stability".
        kernelspec: the source notebook's.
        cells: nbgrader's cells, in our order.
        demos: the texts of the release's other code cells; a submission's cell with such a text
            is not run.
        texts: the texts of its Markdown cells.
        data: the files that come with it, by their names relative to its folder.
    """

    name: str
    notebook: str
    kernelspec: Mapping[str, Any]
    cells: tuple[SourceCell, ...]
    demos: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    data: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A SHA-256 over all of it."""
        plain = dataclasses.asdict(self)
        plain["demos"], plain["texts"] = sorted(self.demos), sorted(self.texts)
        plain["data"] = {n: hashlib.sha256(b).hexdigest() for n, b in sorted(self.data.items())}
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    @property
    def exercises(self) -> tuple[str, ...]:
        """The names of the exercises: those with a cell "x" to solve and a cell "test-x"."""
        names = {cell.name for cell in self.cells}
        return tuple(
            cell.name for cell in self.cells if cell.solution and f"test-{cell.name}" in names
        )
