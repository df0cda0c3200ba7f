"""What of a class needs a person: which kind of case, what it is, whose, and what settles it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from helpers.grading.report.marks import Mark
from helpers.grading.report.tables import Row
from helpers.grading.shown import visible
from helpers.grading.verdicts import Verdict
from helpers.grading.waiting import count, tell_waiting

_VERDICTS = {
    Verdict.MALFORMED: "Could not be read",
    Verdict.TIMED_OUT: "Took too long",
    Verdict.OUT_OF_MEMORY: "Took too much memory",
    Verdict.CRASHED: "Crashed",
    Verdict.MISSING: "An answer's cell is gone",
}
_WAITING = "Points that wait"
_OTHER = "Another reason"
_PUT_RIGHT = "Put right, or recognized"


@dataclass
class Case:
    """What is the same for some students: the ``words`` for it, and what is typed to settle it."""

    words: str
    students: list[Row] = field(default_factory=list)
    command: str = ""


@dataclass
class Need:
    """A kind of case, with a line on all of them and what is typed to see them all."""

    heading: str
    cases: list[Case]
    line: str = ""
    command: str = ""


def find_needs(rows: Sequence[Row], assignment: str, label: Callable[[str], str]) -> list[Need]:
    """Return what needs a person, the most pressing kind first; students who share a case together.

    Args:
        rows: the students.
        assignment: its name.
        label: turns an exercise's name into its title.
    """
    line, _, command = "".join(tell_waiting(assignment, waiting_of(rows))).rpartition(": ")
    waiting = [_tell_waiting(row, assignment, label) for row in rows if _waits(row)]
    needs = [Need(_WAITING, waiting, line, command)]
    for verdict, heading in _VERDICTS.items():
        needs.append(Need(heading, _merge(_ended_so(rows, verdict, label))))
    others = ((row, words) for row in rows for words in _other_reasons(row))
    needs.append(Need(_OTHER, _merge(others)))
    put_right = ((row, note) for row in rows for note in row.notes)
    needs.append(Need(_PUT_RIGHT, _merge(put_right)))
    return [need for need in needs if need.cases]


def waiting_of(rows: Iterable[Row]) -> dict[str, list[float]]:
    """Return for each student the points that wait, one entry for each exercise."""
    found = {r.student: [m.waiting for m in r.marks.each if m.waiting] for r in rows if r.marks}
    return {student: points for student, points in found.items() if points}


def _marks(row: Row) -> Sequence[Mark]:
    return row.marks.each if row.marks else ()


def _waits(row: Row) -> bool:
    return any(mark.waiting for mark in _marks(row))


def _tell_waiting(row: Row, assignment: str, label: Callable[[str], str]) -> Case:
    told = [
        f"{label(mark.name)}, {count(mark.waiting, 'point')}"
        + "".join(f": {doubt}" for doubt in (mark.result.doubts[:1] if mark.result else ()))
        for mark in _marks(row)
        if mark.waiting
    ]
    # An id that begins with a hyphen would be taken for an option.
    student = shlex.quote(f"--student={row.student}")
    return Case(visible("; ".join(told)), [row], f"bits review {assignment} {student}")


def _ended_so(
    rows: Iterable[Row], verdict: Verdict, label: Callable[[str], str]
) -> Iterator[tuple[Row, str]]:
    for row in rows:
        results = [mark.result for mark in _marks(row) if mark.result]
        found = [result for result in results if result.verdict is verdict]
        words = {result.for_a_person or result.message or str(verdict) for result in found}
        if len(words) == 1 and len(found) == len(results) > 1:  # once for the whole notebook
            yield row, words.pop()
            continue
        for result in found:
            why = result.for_a_person or result.message
            yield row, label(result.name) + (f": {why}" if why else "")


def _other_reasons(row: Row) -> Iterator[str]:
    """Yield why a person should look at a row that no verdict and no waiting points tell."""
    told: set[str] = set()
    for mark in _marks(row):
        if mark.waiting or (mark.result and mark.result.verdict in _VERDICTS):
            reason = mark.for_a_person.rstrip(".")
            own = mark.result.for_a_person or mark.result.message if mark.result else ""
            # What the gradebook says beside it is another reason.
            if mark.waiting or reason == own.rstrip("."):
                told |= {reason, f"{mark.name}: {reason}"}
    yield from (reason for reason in row.for_a_person if reason not in told)


def _merge(told: Iterable[tuple[Row, str]]) -> list[Case]:
    cases: dict[str, Case] = {}
    for row, words in told:
        shown = visible(words.rstrip("."))
        case = cases.setdefault(shown, Case(shown))
        if not case.students or case.students[-1] is not row:
            case.students.append(row)
    return sorted(cases.values(), key=lambda case: -len(case.students))
