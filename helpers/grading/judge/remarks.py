"""What the instructor is told of a submission whose cells had to be put right, a sentence each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.judge.recognition import Submitted, released
from helpers.grading.names import printable

# What a submission's metadata can say of a cell's grading that would matter if it counted.
_TELLING = ("grade", "solution", "locked", "task", "points", "cell_type")
_MOST_NAMES = 5


def make_remarks(
    cells: Sequence[Submitted], standing: Mapping[str, Submitted], assignment: Assignment
) -> Iterator[str]:
    """Yield what was found in a submission's ``cells``, of which ``standing`` are those that count.

    Nothing is said where all is as the course handed it out.
    """
    counts = Counter(cell.name for cell in cells)
    for cell in assignment.cells:
        if cell.name in standing:
            yield from _remark_on_one(cell, standing[cell.name], counts[cell.name])
        else:
            yield f"the cell {cell.name} had been deleted, or its mark was lost; it was put back"
    marked = {cell.name for cell in cells if cell.is_marked}
    lost = len(standing.keys() - marked)
    if lost == 1:
        yield "the mark of 1 cell was lost; it was recognized by what it says"
    elif lost:
        yield f"the marks of {lost} cells were lost; they were recognized by what they say"
    positions = [standing[cell.name].position for cell in assignment.cells if cell.name in standing]
    if positions != sorted(positions):
        yield "the course's cells were in another order; the course's order was restored"
    yield from _remark_on_strangers(cells)


def _remark_on_strangers(cells: Sequence[Submitted]) -> Iterator[str]:
    claims = (
        cell.claims["grade_id"]
        for cell in cells
        if not cell.is_marked and "grade_id" in cell.claims
    )
    strangers = list(dict.fromkeys(map(str, claims)))
    if strangers:
        shown = ", ".join(printable(name) for name in strangers[:_MOST_NAMES])
        more = ", and others" if len(strangers) > _MOST_NAMES else ""
        yield f"cells were marked as {shown}{more}, which the course does not have"


def _remark_on_one(cell: SourceCell, submitted: Submitted, count: int) -> Iterator[str]:
    kind = submitted.cell.cell_type
    if count > 1 and cell.locked:
        yield f"the cell {cell.name} was there {count} times; it counts once"
    elif count > 1:
        yield (
            f"the cell {cell.name} was there {count} times; cell {submitted.position + 1} of the "
            f"submission counts as the answer, the others as the student's own cells"
        )
    if kind != cell.cell_type:
        yield f"the cell {cell.name} had been made a {kind} cell; it is {cell.cell_type} again"
    if cell.locked and not submitted.holds(cell.source, released(cell)):
        yield f"the text of the cell {cell.name} had been changed; the course's was restored"
    changed = [
        key
        for key in _TELLING
        if key in submitted.claims and submitted.claims[key] != cell.grading.get(key)
    ]
    if changed:
        yield f"the cell {cell.name} had other grading data ({', '.join(changed)}); ours count"
