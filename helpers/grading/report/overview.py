"""The instructor's page: the picture, who needs a person, the wrong answers, everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote

from helpers.grading.report import pages
from helpers.grading.report.class_picture import Picture
from helpers.grading.report.feedback import look_of
from helpers.grading.report.tables import Row, number
from helpers.grading.report.tally import Tally
from helpers.grading.shown import data_address, one_line, visible
from helpers.grading.waiting import tell_waiting

_MOST_PER_EXERCISE = 5
_MOST_NAME = 80


def render_overview(
    rows: Sequence[Row],
    tally: Tally,
    picture: Picture,
    tables: Iterable[tuple[str, str]],
    left_out: Iterable[tuple[str, str]],
    assignment: str,
    title: str,
    label: Callable[[str], str],
) -> bytes:
    """Return the page.

    Args:
        rows: the students.
        tally: what was counted of them.
        picture: of the class.
        tables: the tables' file names, and what each is for.
        left_out: who is not in a table to import, and why.
        assignment: its name.
        title: the title that people know.
        label: turns an exercise's name into its title.
    """
    names = list(dict.fromkeys(mark.name for row in rows if row.marks for mark in row.marks.each))
    waiting, _, command = "".join(tell_waiting(assignment, waiting_of(rows))).rpartition(": ")
    return pages.render(
        "overview.html",
        assignment=assignment,
        title=title,
        summary=summarize_class(rows, tally),
        tables=list(tables),
        picture=data_address("image/svg+xml", picture.svg),
        alt=visible(picture.alt),
        needing=_told(rows, lambda row: row.for_a_person),
        waiting=waiting,
        command=command,
        notes=_told(rows, lambda row: row.notes),
        left_out=[(one_line(student), reason) for student, reason in left_out],
        wrong=[
            (label(name), answers, tally.unanswered(name))
            for name in names
            if (answers := tally.wrong_answers(name)[:_MOST_PER_EXERCISE]) or tally.unanswered(name)
        ],
        headings=[label(name) for name in names],
        rows=[_row(row, names) for row in rows],
    )


def waiting_of(rows: Iterable[Row]) -> dict[str, list[float]]:
    """Return for each student the points that wait, one entry for each exercise."""
    found = {r.student: [m.waiting for m in r.marks.each if m.waiting] for r in rows if r.marks}
    return {student: points for student, points in found.items() if points}


def summarize_class(rows: Sequence[Row], tally: Tally) -> str:
    """Return one sentence on the class."""
    middle = sorted(tally.totals)[tally.count // 2]
    nothing = sum(row.marks is None for row in rows)
    needing = sum(bool(row.for_a_person) for row in rows)
    return (
        f"{tally.count:,} judged, {nothing:,} with nothing judged, {needing:,} to be looked at by "
        f"a person; scores from {min(tally.totals):g} to {max(tally.totals):g} of {tally.most:g}, "
        f"and half of the class has {middle:g} or more."
    )


def _told(rows: Iterable[Row], of: Callable[[Row], Sequence[str]]) -> list[tuple[str, str, str]]:
    return [(one_line(r.student), _address(r), visible("; ".join(of(r)))) for r in rows if of(r)]


def _row(row: Row, names: Iterable[str]) -> dict[str, object]:
    marks = {mark.name: mark for mark in row.marks.each} if row.marks else {}
    cells = []
    for name in names:
        if name not in marks:
            cells.append(None)
            continue
        kind, sign, word = look_of(marks[name])
        points = number(marks[name].points)
        waiting = number(marks[name].waiting) if marks[name].waiting else ""
        cells.append(
            {"kind": kind, "sign": sign, "word": word, "points": points, "waiting": waiting}
        )
    return {
        "student": one_line(row.student, _MOST_NAME),
        "page": _address(row),
        "name": one_line(row.name, _MOST_NAME),
        "points": number(row.marks.points) if row.marks else "",
        "waiting": number(row.marks.waiting) if row.marks and row.marks.waiting else "",
        "cells": cells,
        "received": f"{row.received_at:%Y-%m-%d %H:%M}" if row.received_at else "",
        "status": row.status,
    }


def _address(row: Row) -> str:
    return f"feedback/{quote(row.page)}" if row.page else ""
