"""What a student reads after a check: the problem first, then what shows it.

``Result`` is what one property came to, ``told`` puts what is told of all of them in order,
``text`` and ``page`` write it down.
"""

from __future__ import annotations

from helpers import display
from helpers.catalogue import Exercise
from helpers.report.page import as_html
from helpers.report.result import Result, count_points
from helpers.report.text import as_text

__all__ = ["Result", "as_html", "as_text", "count_points", "show"]


def show(exercise: Exercise, results: list[Result], points: float, note: str = "") -> None:
    """Show the report: text everywhere, HTML where there is a display for it. A ``note`` stands
    above the properties.
    """
    display.show(
        as_text(exercise, results, points, note),
        as_html(exercise, results, points, note),
        terminal=as_text(exercise, results, points, note, colored=True),
    )
