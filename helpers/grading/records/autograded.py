"""The files that nbgrader's formgrader and feedback expect: ``autograded/STUDENT/ASSIGNMENT/``."""

from __future__ import annotations

import html
from pathlib import Path

import nbformat
from nbformat import v4

from helpers.files import remove_drafts, write_atomically
from helpers.grading.assignment import Assignment
from helpers.grading.names import printable
from helpers.grading.verdicts import Judged

_STAMP = "timestamp.txt"
# As nbgrader leaves them: what was graded is not to be edited by accident.
_MODE = 0o444


def write_autograded(
    course: Path, assignment: Assignment, student: str, received_at: str, judged: Judged
) -> bool:
    """Make the files be what was judged; return whether any was different."""
    folder = course / "autograded" / student / assignment.name
    files = {name: content for name, content in assignment.data.items() if name != _STAMP}
    files[f"{assignment.notebook}.ipynb"] = judged.notebook or _explanation(assignment, judged)
    if received_at:
        files[_STAMP] = received_at.encode()
    different = {n: c for n, c in files.items() if not _holds(folder / n, c)}
    if different:
        remove_drafts(folder)
    for name, content in different.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content, _MODE, at_once=False)
    return bool(different)


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.stat().st_size == len(content) and file.read_bytes() == content
    except OSError:
        return False


def _explanation(assignment: Assignment, judged: Judged) -> bytes:
    """Return what stands in place of a notebook that could not be judged.

    The graded cells are there without their text, so that a person can give points.
    """
    reasons = dict.fromkeys([*judged.notes, *(e.message for e in judged.exercises if e.message)])
    told = "\n".join(f"- {html.escape(printable(reason))}" for reason in reasons)
    text = f"**This submission could not be graded; a person has to look at it.**\n\n{told}"
    cells = [v4.new_markdown_cell(text, id="explanation")]
    for number, cell in enumerate((c for c in assignment.cells if c.grade), 1):
        node = v4.new_code_cell(f"# {cell.name}: was not run", id=f"cell-{number}")
        node.metadata["nbgrader"] = {
            "schema_version": 3,
            "grade": True,
            "solution": cell.solution,
            "locked": True,
            "task": False,
            "grade_id": cell.name,
            "points": cell.points,
            "cell_type": "code",
            "checksum": cell.checksum,
        }
        cells.append(node)
    notebook = v4.new_notebook(cells=cells, metadata={"kernelspec": dict(assignment.kernelspec)})
    return nbformat.writes(notebook).encode()
