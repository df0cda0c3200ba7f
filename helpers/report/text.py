"""The report as lines of text, for a terminal and for notebooks without HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from helpers.catalogue import Exercise
from helpers.report import told
from helpers.report.result import Result

_INDENT = " " * 6
# A row of text with its heading fits on two lines of a terminal.
_WIDEST = 140
_WIDEST_INPUT = 48
_MOST_INPUTS = 5
_RED, _PLAIN = "\x1b[1;31m", "\x1b[0m"


def as_text(
    exercise: Exercise,
    results: Sequence[Result],
    points: float,
    note: str = "",
    *,
    colored: bool = False,
) -> str:
    """Return the report as lines of text; ``colored`` for a terminal, with the problem in red."""
    head, *lines = _lines(exercise, results, points, colored)
    return "\n".join([head, *([f"  Note: {note}"] if note else []), *lines])


def _lines(
    exercise: Exercise, results: Sequence[Result], points: float, colored: bool
) -> Iterator[str]:
    order = told.arrange(map(told.tell, results))
    yield "   ".join(told.heading(exercise, results, points))
    for number, failed in enumerate(order.failures):
        yield from _failure(failed, with_values=number == 0, colored=colored)
    for failed in order.more:
        yield f"{_claim(failed)} ({told.FOLLOWS if failed.follows else told.FAILS_TOO})"
    for reason, waiting in told.waiting_by_reason(order):
        yield from map(_claim, waiting)
        yield f"{_INDENT}{reason}"
    if order.not_tried:
        yield f"  {told.SIGNS['not tried']} {told.not_tried(order)}"
    for passed in order.passed:
        yield _claim(passed)
    yield from _closing(exercise, results, bool(order.failures))


def _failure(failed: told.Told, with_values: bool, colored: bool) -> Iterator[str]:
    yield _claim(failed)
    row = _row("problem", failed.problem) if failed.inputs else f"{_INDENT}{failed.problem}"
    yield f"{_RED}{row}{_PLAIN}" if colored else row
    if not with_values:
        return
    for heading, value in failed.shows:
        yield _row(heading, value)
    if failed.inputs:
        yield _row("fed in", _in_short(failed.inputs))
    for heading, value in failed.values:
        yield _row(heading, _cut(value))


def _closing(exercise: Exercise, results: Sequence[Result], has_failed: bool) -> Iterator[str]:
    if left := told.what_is_left(exercise, results):
        yield left
    for what, lines in told.noise(results):
        yield from (_cut(f"{what}: {line}") for line in lines)
    if again := told.again(exercise, results):
        yield again[0].upper() + again[1:]
    if has_failed:
        yield f'Stuck? Run hint("{exercise.name}") in a cell of your own.'


def _in_short(inputs: told.Rows) -> str:
    shown = [
        _cut(value if heading == "fed in" else f"{heading} {value}", _WIDEST_INPUT)
        for heading, value in inputs[:_MOST_INPUTS]
    ]
    left = len(inputs) - len(shown)
    return ", ".join([*shown, f"and {left} more"] if left else shown)


def _claim(each: told.Told) -> str:
    return f"  {told.SIGNS[each.outcome]} {each.claim}"


def _row(heading: str, value: str) -> str:
    return f"{_INDENT}{heading:<11}{value}"


def _cut(line: str, most: int = _WIDEST) -> str:
    return line if len(line) <= most else line[:most] + "…"
