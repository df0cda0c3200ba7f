"""The instructor's page: everybody, what needs a person, pictures, nearly equal solutions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from urllib.parse import quote

from helpers.grading.report import pages
from helpers.grading.report.alike import FEWEST_WORDS, NEARLY, Pair, Solutions
from helpers.grading.report.class_picture import Picture
from helpers.grading.report.code_words import MOST_CHARACTERS
from helpers.grading.report.feedback import look_of
from helpers.grading.report.lateness import in_words
from helpers.grading.report.marks import Mark
from helpers.grading.report.needs import find_needs
from helpers.grading.report.tables import Row, number
from helpers.grading.report.tally import Tally, WrongAnswer
from helpers.grading.shown import data_address, one_line, visible

_MOST_WRONG = 30
_MOST_PAIRS = 50
_MOST_NAME = 80


def render_overview(
    rows: Sequence[Row],
    tally: Tally,
    picture: Picture | None,
    solutions: Solutions,
    tables: Iterable[tuple[str, str]],
    left_out: Iterable[tuple[str, str]],
    due: datetime | None,
    assignment: str,
    title: str,
    label: Callable[[str], str],
) -> bytes:
    """Return the page.

    Args:
        rows: the students.
        tally: what was counted of them.
        picture: of the class; None if nobody has handed anything in.
        solutions: what they wrote.
        tables: the names of files beside it, and what each is for.
        left_out: who is not in a table to import, and why.
        due: when it is due, in UTC; None if that is not set.
        assignment: its name.
        title: the title that people know.
        label: turns an exercise's name into its title.
    """
    rows = sorted(rows, key=_order)
    names = list(dict.fromkeys(mark.name for row in rows if row.marks for mark in row.marks.each))
    return pages.render(
        "overview.html",
        assignment=assignment,
        title=title,
        summary=summarize_class(rows, tally),
        due=_tell_due(rows, due),
        **_everybody(rows, names, due, label),
        most=number(tally.most),
        tables=list(tables),
        needs=[
            {
                "heading": need.heading,
                "line": need.line,
                "command": need.command,
                "cases": [
                    {
                        "words": case.words,
                        "people": [_person(row) for row in case.students],
                        "command": case.command,
                    }
                    for case in need.cases
                ],
            }
            for need in find_needs(rows, assignment, label)
        ],
        left_out=[(one_line(student), reason) for student, reason in left_out],
        picture=data_address("image/svg+xml", picture.svg) if picture else "",
        alt=visible(picture.alt) if picture else "",
        has_correlations=any(telling.correlation is not None for telling in tally.telling()),
        **_wrong_answers(rows, tally, label),
        **_nearly_equal(rows, solutions, label),
    )


def summarize_class(rows: Sequence[Row], tally: Tally) -> str:
    """Return one sentence on the class."""
    nothing = sum(row.marks is None for row in rows)
    if not tally.count:
        return f"Nothing has been handed in yet by any of {len(rows):,}."
    middle = sorted(tally.totals)[tally.count // 2]
    needing = sum(bool(row.for_a_person) for row in rows)
    return (
        f"{tally.count:,} judged, {nothing:,} with nothing judged, {needing:,} to be looked at by "
        f"a person; scores from {min(tally.totals):g} to {max(tally.totals):g} of {tally.most:g}, "
        f"and half of the class has {middle:g} or more."
    )


def _tell_due(rows: Sequence[Row], due: datetime | None) -> str:
    if due is None:
        return "No due date is set."
    late = sum(bool(row.late) for row in rows)
    return f"Due {due:%Y-%m-%d %H:%M} UTC; {f'{late:,}' if late else 'nothing'} came late."


def _everybody(
    rows: Sequence[Row],
    names: Sequence[str],
    due: datetime | None,
    label: Callable[[str], str],
) -> dict[str, object]:
    return {
        "has_names": any(row.name for row in rows),
        "has_waiting": any(row.marks and row.marks.waiting for row in rows),
        "has_due": due is not None,
        "has_penalty": any(row.marks and row.marks.penalty for row in rows),
        "headings": [label(name) for name in names],
        "rows": [_row(row, names, place) for place, row in enumerate(rows)],
    }


def _order(row: Row) -> tuple[str, ...]:
    """Return what sorts people as a class list does: by last name, first name and id."""
    if row.last_name or row.first_name:
        return (row.last_name.casefold(), row.first_name.casefold(), row.student)
    return ((row.name or row.student).casefold(), "", row.student)


def _row(row: Row, names: Iterable[str], place: int) -> dict[str, object]:
    marks = {mark.name: mark for mark in row.marks.each} if row.marks else {}
    return {
        **_person(row),
        "order": place,
        "student": one_line(row.student, _MOST_NAME),
        "points": number(row.marks.points) if row.marks else "",
        "waiting": f"+ {number(row.marks.waiting)}?" if row.marks and row.marks.waiting else "",
        "cells": [_cell(marks[name]) if name in marks else None for name in names],
        "received": f"{row.received_at:%Y-%m-%d %H:%M}" if row.received_at else "",
        "status": row.status if row.received_at else "not handed in",
        "late": in_words(row.late) if row.late else "",
        "seconds_late": int(row.late.total_seconds()) if row.late else "",
    }


def _cell(mark: Mark) -> dict[str, str]:
    kind, sign, word = look_of(mark)
    waiting = number(mark.waiting) if mark.waiting else ""
    points = number(mark.points)
    return {"kind": kind, "sign": sign, "word": word, "points": points, "waiting": waiting}


def _wrong_answers(
    rows: Sequence[Row], tally: Tally, label: Callable[[str], str]
) -> dict[str, object]:
    people = {row.student: _person(row) for row in rows}
    shared = tally.wrong_answers(fewest=2)
    untouched = [(label(name), tally.unanswered(name)) for name in tally.verdicts()]
    return {
        "wrong": [_wrong_answer(answer, people, label) for answer in shared[:_MOST_WRONG]],
        "more_wrong": max(0, len(shared) - _MOST_WRONG),
        "unanswered": "; ".join(f"{name} by {times:,}" for name, times in untouched if times),
    }


def _wrong_answer(
    answer: WrongAnswer, people: Mapping[str, dict[str, str]], label: Callable[[str], str]
) -> dict[str, object]:
    return {
        "count": answer.count,
        "exercise": label(answer.exercise),
        "kind": answer.kind,
        "failed": answer.failed,
        "example": answer.example,
        "person": people[answer.student],
    }


def _nearly_equal(
    rows: Sequence[Row], solutions: Solutions, label: Callable[[str], str]
) -> dict[str, object]:
    people = {row.student: _person(row) for row in rows}
    pairs = solutions.pairs()
    return {
        "alike": [_pair(pair, people, label) for pair in pairs[:_MOST_PAIRS]],
        "more_alike": max(0, len(pairs) - _MOST_PAIRS),
        "too_long": [(people[student], label(name)) for student, name in solutions.too_long],
        "nearly": f"{100 * NEARLY:.0f}",
        "fewest": FEWEST_WORDS,
        "longest": f"{MOST_CHARACTERS:,}",
    }


def _pair(
    pair: Pair, people: Mapping[str, dict[str, str]], label: Callable[[str], str]
) -> dict[str, object]:
    return {
        "exercise": label(pair.exercise),
        "first": people[pair.first],
        "second": people[pair.second],
        "share": f"{100 * pair.share:.0f}",
        "words": pair.words,
    }


def _person(row: Row) -> dict[str, str]:
    """Return how somebody is called on the page, and where their own page is."""
    name = ", ".join(filter(None, (row.last_name, row.first_name))) or row.name
    page = f"feedback/{quote(row.page)}" if row.page else ""
    return {"shown": one_line(name or row.student, _MOST_NAME), "page": page}
