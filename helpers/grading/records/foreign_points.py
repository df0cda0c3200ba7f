"""Points in the gradebook that somebody else's automatic grading has put in place of ours."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Grade, Gradebook, MissingEntry

from helpers.grading.names import printable
from helpers.grading.records.registration import open_course
from helpers.grading.records.results import Recorded
from helpers.grading.records.rows import rows_of
from helpers.grading.records.transactions import is_there

_TEST = "test-"
_SAME = 0.005  # points are rounded to two decimals
_MOST_SHOWN = 5


@dataclass(frozen=True, order=True)
class ForeignPoints:
    """An automatic score that is not the one that we wrote last."""

    student: str
    exercise: str
    found: float
    written: float


def find_foreign_points(
    course: Path, assignment: str, records: Mapping[str, Recorded]
) -> list[ForeignPoints]:
    """Return what another automatic grading, like ``nbgrader autograde``, has changed.

    Args:
        course: the folder with the gradebook.
        assignment: "08-numerical-stability".
        records: what we recorded last, of each student to look at.
    """
    directory = open_course(course)
    if not is_there(directory.db_url):
        return []
    with Gradebook(directory.db_url, directory.course_id) as gradebook:
        try:
            entry = gradebook.find_assignment(assignment)
        except MissingEntry:
            return []
        rows = list(rows_of(gradebook, Grade, (Grade.auto_score,), entry.id))
    found = []
    for student, cell, score in rows:
        written = records[student].points if student in records else {}
        exercise = cell.removeprefix(_TEST)
        is_ours = exercise in written and cell != exercise and score is not None
        if is_ours and abs(score - written[exercise]) > _SAME:
            found.append(ForeignPoints(student, exercise, score, written[exercise]))
    return sorted(found)


def tell_foreign_points(found: Collection[ForeignPoints]) -> list[str]:
    """Return the lines that list them before they are replaced; none if there are none."""
    if not found:
        return []
    lines = [
        "Something else (nbgrader autograde?) has written points into the gradebook since the last "
        "bits grade. They are replaced now; points entered by hand are kept:"
    ]
    lines += [
        f"  {printable(each.student)}, {each.exercise}: {each.found:g} points, where bits grade "
        f"had written {each.written:g}"
        for each in sorted(found)[:_MOST_SHOWN]
    ]
    if len(found) > _MOST_SHOWN:
        lines.append(f"  and {len(found) - _MOST_SHOWN:,} more, {len(found):,} in all")
    return lines
