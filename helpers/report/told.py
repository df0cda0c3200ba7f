"""What is told of a check's properties, and in which order: what failed first, then the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from helpers.catalogue import Exercise
from helpers.plain import one_line
from helpers.report.result import Result, count_points

SIGNS = {"passed": "✓", "failed": "✗", "not tried": "–", "waiting": "?"}
FOLLOWS = "fails with a similar message"
FAILS_TOO = "fails, too"
# Failures that are told with their problem; a screen has no room for more.
MOST_FAILURES = 4
_MOST_NOISE = 5
# What stands under the problem; everything else is folded.
_OPEN = ("", "at", "called at", "bits", "not", "right")
_VALUES = ("came back", "expected")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|\b(?:nan|inf)\b")

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Told:
    """What is told of one property.

    Attributes:
        claim: what it says.
        outcome: how it came out.
        problem: what is wrong, in one line; "" if nothing is.
        shows: rows that show the cause, a heading and a value each.
        inputs: rows of what was fed in.
        values: rows of what came back and what was expected.
        hidden: whether it is tried only when work is graded.
        follows: whether a failure above it is of the same kind.
    """

    claim: str
    outcome: str
    problem: str = ""
    shows: Rows = field(default_factory=list)
    inputs: Rows = field(default_factory=list)
    values: Rows = field(default_factory=list)
    hidden: bool = False
    follows: bool = False

    @property
    def input_names(self) -> str:
        """Return the names of what was fed in, in one line."""
        fed = [value.partition(" = ")[0] for heading, value in self.inputs if heading == "fed in"]
        return one_line(", ".join(fed))

    @property
    def values_named(self) -> str:
        """Return what the values are."""
        has_expected = any(heading == "expected" for heading, _ in self.values)
        return "what came back, and what was expected" if has_expected else "what came back"


@dataclass(frozen=True)
class Order:
    """All properties, in the order in which they are told.

    Attributes:
        failures: those that are told with their problem, the first one with all that shows it.
        more: those that failed as well, as claims.
        waiting: those whose points wait for a person.
        not_tried: as claims.
        passed: likewise.
    """

    failures: Sequence[Told] = ()
    more: Sequence[Told] = ()
    waiting: Sequence[Told] = ()
    not_tried: Sequence[Told] = ()
    passed: Sequence[Told] = ()


def tell(result: Result) -> Told:
    """Return what a student is told of ``result``."""
    return tell_rows(result.claim, result.outcome, result.shown())


def tell_rows(
    claim: str, outcome: str, rows: Iterable[tuple[str, str]], *, hidden: bool = False
) -> Told:
    """Return what is told of a property whose ``rows`` are those of ``Result.shown``."""
    rows = list(rows)
    problem = next((value for heading, value in rows if heading in ("problem", "")), "")
    values = [row for row in rows if row[0] in _VALUES]
    if all(value in problem for _, value in values):  # the problem says them both
        values = []
    return Told(
        claim,
        outcome,
        one_line(problem),
        shows=[row for row in rows if row[0] in _OPEN and row[1] != problem],
        inputs=[row for row in rows if row[0] not in (*_OPEN, *_VALUES, "problem")],
        values=values,
        hidden=hidden,
    )


def arrange(told: Iterable[Told]) -> Order:
    """Return the properties in the order in which they are told.

    One that fails with the message of one before, but for its numbers, is marked: it may be the
    same mistake.
    """
    by_outcome: dict[str, list[Told]] = {outcome: [] for outcome in SIGNS}
    kinds = set()
    for each in told:
        if each.outcome == "failed":
            shown = [value for heading, value in each.shows[:1] if heading != "right"]
            kind = (_NUMBER.sub("N", each.problem), *shown)
            if kind in kinds:
                each = _following(each)
            elif each.inputs or each.shows:  # what is withheld has one sentence for many failures
                kinds.add(kind)
        by_outcome[each.outcome].append(each)
    own = [each for each in by_outcome["failed"] if not each.follows]
    following = [each for each in by_outcome["failed"] if each.follows]
    return Order(
        failures=own[:MOST_FAILURES],
        more=own[MOST_FAILURES:] + following,
        waiting=by_outcome["waiting"],
        not_tried=by_outcome["not tried"],
        passed=by_outcome["passed"],
    )


def _following(told: Told) -> Told:
    return Told(told.claim, told.outcome, FOLLOWS, hidden=told.hidden, follows=True)


def waiting_by_reason(order: Order) -> list[tuple[str, list[Told]]]:
    """Return why points wait for a person: each reason with the properties that wait for it."""
    by_reason: dict[str, list[Told]] = {}
    for each in order.waiting:
        by_reason.setdefault(each.problem, []).append(each)
    return list(by_reason.items())


def more_fail(order: Order) -> str:
    """Return how many fail beside those that are told with their problem."""
    same = sum(each.follows for each in order.more)
    others = len(order.more) - same
    parts = [f"{others} more fail"] if others else []
    fail = "fails" if same == 1 else "fail"
    parts += [f"{same} more {fail} with a similar message"] if same else []
    return ", ".join(parts)


def not_tried(order: Order) -> str:
    """Return how many wait for the first property."""
    return f"not tried until this holds: {len(order.not_tried)} more"


def heading(exercise: Exercise, results: Sequence[Result], points: float) -> tuple[str, str]:
    """Return the exercise's name, and its points."""
    so_far = " so far" if is_students_copy(exercise, results) else ""
    _, waiting = count_points(exercise, results)
    wait = f", {waiting:g} more wait for a person" if waiting else ""
    return (
        f"Exercise {exercise.number} · {exercise.title}",
        f"{points:g} of {exercise.points:g} points{so_far}{wait}",
    )


def is_students_copy(exercise: Exercise, results: Sequence[Result]) -> bool:
    """Return whether hidden tests are left to be tried."""
    return bool(exercise.hidden) and len(results) == exercise.visible


def again(exercise: Exercise, results: Sequence[Result]) -> str:
    """Return how the first case that failed is tried again; "" if that cannot be, or if hidden
    tests have run: then the report is a grader's, and who reads it has no such kernel.
    """
    if len(results) > exercise.visible:
        return ""
    call = next((r.again for r in results if r.outcome == "failed" and not r.withheld), "")
    return f"try this case again: {call}" if call else ""


def what_is_left(exercise: Exercise, results: Sequence[Result]) -> str:
    """Return what a student whose work holds should know; "" if there is nothing."""
    is_whole = not any(result.outcome == "failed" for result in results)
    if not (is_whole and is_students_copy(exercise, results)):
        return ""
    return (
        f"Every property shown here holds; {exercise.hidden} more will be tried "
        "when your work is graded."
    )


def noise(results: Iterable[Result]) -> list[tuple[str, list[str]]]:
    """Return what the student's code warned of and printed: what it did, and lines of it."""
    open_ones = [result for result in results if not result.withheld]
    warned = list(dict.fromkeys(warning for result in open_ones for warning in result.warned))
    printed = [line for result in open_ones for line in result.printed.splitlines() if line]
    said = (("Your code warned (no points lost)", warned), ("Your code printed", printed))
    return [(what, _first(lines)) for what, lines in said if lines]


def _first(lines: list[str]) -> list[str]:
    left = len(lines) - _MOST_NOISE
    first = [one_line(line) for line in lines[:_MOST_NOISE]]
    return [*first, f"… and {left} more"] if left > 0 else first
