"""What the gradebook holds of all submissions for an assignment, in one query for the class.

nbgrader's own objects would ask the database anew for every cell.
"""

from __future__ import annotations

from collections.abc import Iterable

from nbgrader.api import BaseCell, Comment, Grade, Gradebook, SubmittedAssignment, SubmittedNotebook


def rows_of(
    gradebook: Gradebook, kind: type[Grade] | type[Comment], columns: tuple, assignment: str
) -> Iterable[tuple]:
    """Return for every row of ``kind`` the student, the cell's name, and the ``columns``.

    Args:
        gradebook: nbgrader's, open.
        kind: of row.
        columns: of that kind.
        assignment: its id in the gradebook.
    """
    return (
        gradebook.db.query(SubmittedAssignment.student_id, BaseCell.name, *columns)
        .select_from(kind)
        .join(BaseCell, kind.cell_id == BaseCell.id)
        .join(SubmittedNotebook, kind.notebook_id == SubmittedNotebook.id)
        .join(SubmittedAssignment, SubmittedNotebook.assignment_id == SubmittedAssignment.id)
        .filter(SubmittedAssignment.assignment_id == assignment)
    )
