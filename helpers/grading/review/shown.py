"""The cases and decisions of ``bits review``, for a terminal and for a program."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from helpers.catalogue import find_exercise
from helpers.grading.names import printable
from helpers.grading.review.cases import PLACE, Case, Cases
from helpers.grading.review.review import Action, Outcome
from helpers.grading.shown import one_line
from helpers.grading.verdicts import PropertyResult
from helpers.grading.waiting import count, tell_waiting

_MOST_ROWS = 4
_MOST_VALUE = 120
_DONE = {Action.ACCEPT: "accepted", Action.REFUSE: "refused", Action.REOPEN: "reopened"}
_WHY = {
    True: "because this code could change what the judge observes",
    False: "because they come with cells that the exercise does not seem to use",
}


def show_cases(cases: Cases, shown: Iterable[Case]) -> Iterator[RenderableType]:
    """Yield what is printed about the cases in ``shown``, and how to decide them."""
    shown = list(shown)
    waiting = [case for case in shown if case.is_open]
    if not waiting:
        yield Text(f"Nothing waits for a person in {printable(cases.assignment)}.")
    for line in tell_waiting(cases.assignment, _points(waiting)):
        yield Text(line.rpartition(": ")[0] + ".", style="bold")
    for case in waiting:
        yield Text("")
        yield _show(case)
    for line in _closing_lines(cases, waiting):
        yield _whole(line) if line.startswith("  bits") else Text(line)


def show_outcome(outcome: Outcome) -> Iterator[RenderableType]:
    """Yield what is printed after cases were decided."""
    for change in outcome.changes:
        case, now = change.case, change.now
        yield Text.assemble(
            (f"{_DONE[outcome.action]}: ", "bold"),
            f"{_whose(case)} · {_label(case.result.name)}: {now.points:g} of {now.most:g} points",
            f", {count(now.waiting, 'more point')} waiting" if now.waiting else "",
            f" (but {case.given:g} by hand)" if case.given is not None else "",
        )
    if outcome.problem:
        yield Text(outcome.problem, style="red")
    else:
        report = ", the feedback and the report" if outcome.report else ""
        yield Text(f"The gradebook, the judged notebooks{report} are up to date.")
    if outcome.report:
        yield _whole(f"The report: {outcome.report}")
    yield from map(_whole, tell_waiting(outcome.cases.assignment, _points(outcome.cases.open)))


def _whole(line: str) -> RenderableType:
    """Return a line with a command or a path, which could not be copied if it were wrapped."""
    # rich joins bare texts into new ones, and forgets what they say of wrapping.
    return Group(Text(line, no_wrap=True, overflow="ignore"))


def to_plain(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Return the cases as what JSON can hold."""
    return [
        {
            "student": case.student,
            "name": case.name,
            "exercise": case.result.name,
            "points": case.result.points,
            "waiting": case.result.waiting,
            "most": case.result.most,
            "doubts": list(case.result.doubts),
            "lines": list(case.lines),
            "decision": _word(case),
            "decided_at": case.decision.decided_at if case.decision else "",
            "points_by_hand": case.given,
        }
        for case in cases
    ]


def _word(case: Case) -> str:
    if case.decision is None:
        return "open"
    return "accepted" if case.decision.accepted else "refused"


def _points(cases: Iterable[Case]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for case in cases:
        found.setdefault(case.student, []).append(case.result.waiting)
    return found


def _show(case: Case) -> RenderableType:
    result = case.result
    held = [tried for tried in result.properties if tried.outcome == "waiting"]
    heading = Text.assemble(
        (_whose(case), "bold cyan"),
        (f" · {_label(result.name)}", "bold"),
    )
    wait = "waits" if result.waiting == 1 else "wait"
    why = f"{result.waiting:g} of {result.most:g} points {wait}, {_WHY[bool(held)]}:"
    parts = [heading, _indent(Text(why), 2)]
    for doubt, line in zip(result.doubts, case.lines, strict=True):
        parts.append(_indent(Text(one_line(doubt), style="yellow"), 4))
        if line:
            parts.append(_indent(Text(f"│ {one_line(line, _MOST_VALUE)}"), 6))
    parts += [_indent(_show_property(tried), 2) for tried in held]
    if case.given is not None:
        told = f"It has {case.given:g} points by hand, which count regardless of the decision."
        parts.append(_indent(Text(told), 2))
    return Group(*parts)


def _indent(what: RenderableType, columns: int) -> RenderableType:
    return Padding(what, (0, 0, 0, columns), expand=False)


def _show_property(tried: PropertyResult) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    rows = [(heading, value) for heading, value in tried.details if heading]
    for heading, value in rows[:_MOST_ROWS]:
        table.add_row(Text(one_line(heading)), Text(one_line(value, _MOST_VALUE)))
    if len(rows) > _MOST_ROWS:
        table.add_row("", Text(f"and {len(rows) - _MOST_ROWS} more rows", style="dim"))
    tag = " (hidden test)" if tried.hidden else ""
    claim = Text.assemble(("? ", "bold blue"), one_line(tried.claim), (tag, "dim"))
    return Group(claim, _indent(table, 2)) if rows else claim


def _closing_lines(cases: Cases, waiting: list[Case]) -> Iterator[str]:
    name = shlex.quote(printable(cases.assignment))
    if waiting:
        first = waiting[0]
        student = shlex.quote(printable(first.student))
        yield ""
        yield "Read the code in formgrader or in submitted/. Then decide one case, or many at once:"
        yield f"  bits review {name} --accept --student {student} --exercise {first.result.name}"
        if reason := _reason(waiting):
            yield f"  bits review {name} --refuse --reason {shlex.quote(reason)}"
        yield f"  bits review {name} --accept --all"
    decided = [case for case in cases.all if not case.is_open]
    if decided:
        accepted = sum(case.decision.accepted for case in decided if case.decision)
        yield ""
        refused = len(decided) - accepted
        yield f"Decided: {accepted} accepted, {refused} refused. To take decisions back:"
        yield f"  bits review {name} --reopen --all"


def _reason(cases: Iterable[Case]) -> str:
    """Return what can be given as ``--reason`` for one of the cases; "" if nothing can."""
    doubts = (doubt for case in cases for doubt in case.result.doubts if PLACE.match(doubt))
    return printable(next(doubts, "").partition(": ")[2]).strip("`")


def _whose(case: Case) -> str:
    name = f" ({one_line(case.name)})" if case.name else ""
    return f"{one_line(case.student)}{name}"


def _label(exercise: str) -> str:
    try:
        card = find_exercise(exercise)
    except KeyError:
        return printable(exercise)
    return f"Exercise {card.number} · {card.title} ({exercise})"
