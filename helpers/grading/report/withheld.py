"""What students' code said in hidden tests: a page for the instructor, and for nobody else.

A student reads of a hidden test what it tries and that it failed. What the code said there could
hold the test's inputs; but whoever grades has to be able to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from helpers.grading.report import pages
from helpers.grading.report.tables import Row
from helpers.grading.shown import one_line, visible
from helpers.grading.verdicts import PropertyResult

_MOST_ROWS = 12
_MOST_WORDS = 500
_MOST_STUDENTS = 1_000


def render_withheld(
    rows: Sequence[Row], assignment: str, title: str, label: Callable[[str], str]
) -> bytes | None:
    """Return the page; None if nothing was withheld from anybody.

    Args:
        rows: the students.
        assignment: its name.
        title: the title that people know.
        label: turns an exercise's name into its title.
    """
    found = [(row, list(_tell_exercises(row, label))) for row in rows]
    told = [(row, exercises) for row, exercises in found if exercises]
    if not told:
        return None
    return pages.render(
        "withheld.html",
        assignment=assignment,
        title=title,
        students=[
            {
                "shown": one_line(" · ".join(filter(None, (row.name, row.student)))),
                "page": f"feedback/{quote(row.page)}" if row.page else "",
                "exercises": exercises,
            }
            for row, exercises in told[:_MOST_STUDENTS]
        ],
        more=max(0, len(told) - _MOST_STUDENTS),
    )


def _tell_exercises(row: Row, label: Callable[[str], str]) -> Iterator[dict[str, Any]]:
    for mark in row.marks.each if row.marks else ():
        tried = mark.result.properties if mark.result else ()
        properties = list(_tell_properties(tried))
        if properties:
            yield {"title": label(mark.name), "properties": properties}


def _tell_properties(tried: Iterable[PropertyResult]) -> Iterator[dict[str, Any]]:
    for each in tried:
        if each.outcome == "failed" and each.is_withheld:
            yield {
                "claim": one_line(each.claim, _MOST_WORDS),
                "reason": visible(each.reason, _MOST_WORDS),
                "details": [
                    (one_line(heading) or "seen", visible(value, _MOST_WORDS))
                    for heading, value in each.details[:_MOST_ROWS]
                    if value != each.reason
                ],
            }
