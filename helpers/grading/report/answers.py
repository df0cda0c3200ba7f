"""The code in which an exercise is answered: of the course, and of a student's judged notebook."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

from helpers.grading.report.alike import Solutions


def read_answers(notebook: bytes, exercises: Collection[str]) -> dict[str, str]:
    """Return what stands in the cells of ``exercises``, by their names; nothing of no notebook."""
    wanted = set(exercises)
    return {name: code for name, code in _read_cells(notebook) if name in wanted}


def read_course(course: Path, assignment: str, notebook: str) -> Solutions:
    """Return a class without solutions, which knows what the course itself says.

    That is every code cell of the chapter, of the copy with the solutions and of the students'.
    """
    source, release = (
        list(_read_cells(_read(course / part / assignment / notebook)))
        for part in ("source", "release")
    )
    stubs = {name: code for name, code in release if name}
    return Solutions.beyond((code for _, code in (*source, *release)), stubs)


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.is_file() else b""


def _read_cells(notebook: bytes) -> Iterator[tuple[str, str]]:
    """Yield nbgrader's name and the text of every code cell; the name is "" where it has none."""
    try:
        cells = json.loads(notebook)["cells"] if notebook else []
        for cell in cells:
            if cell.get("cell_type") == "code":
                source = cell.get("source", "")
                name = str(cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", ""))
                yield name, "".join(source) if isinstance(source, list) else str(source)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
