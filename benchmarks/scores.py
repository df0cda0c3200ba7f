"""The scores that both graders gave, beside those that the work deserves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.course import Scores
from benchmarks.submissions import CHAPTER, HOSTILE, Work
from helpers.grading.records.class_list import read_class

_ENOUGH = 1e-9


@dataclass(frozen=True)
class Difference:
    """One exercise of one student, in which not all agree.

    Attributes:
        student: the id.
        kind: right, partly right, wrong or hostile.
        about: what is odd about the work.
        exercise: its name.
        deserved: the points that the work deserves.
        nbgrader: what nbgrader gave; None if nothing, or if it was not asked.
        bits: what ``bits grade`` gave; None if nothing.
        reason: why a person should look at it, as ``bits grade`` says; "" if nobody needs to.
        is_wrong: whether ``bits grade`` gave what it must not: to honest work anything but what it
            deserves, to hostile work more.
    """

    student: str
    kind: str
    about: str
    exercise: str
    deserved: float
    nbgrader: float | None
    bits: float | None
    reason: str
    is_wrong: bool


def compare(
    works: Iterable[Work],
    bits: Scores,
    nbgrader: Scores | None,
    reasons: Mapping[tuple[str, str], str],
) -> list[Difference]:
    """Return where the graders differ from each other, or from what is deserved.

    Args:
        works: the class.
        bits: the scores of ``bits grade``.
        nbgrader: nbgrader's; None if it was not asked.
        reasons: for a student and an exercise, why a person should look at it.
    """
    found = []
    for work in works:
        for exercise, deserved in work.deserved.items():
            ours = bits.get(work.student, {}).get(exercise)
            theirs = (nbgrader or {}).get(work.student, {}).get(exercise)
            wrong = _is_wrong(work, deserved, ours)
            if wrong or not _same(deserved, ours) or (nbgrader and not _same(ours, theirs)):
                reason = reasons.get((work.student, exercise), "")
                about = (work.student, work.kind, work.about, exercise)
                found.append(Difference(*about, deserved, theirs, ours, reason, wrong))
    return found


def read_reasons(course: Path) -> dict[tuple[str, str], str]:
    """Return for each student and exercise why a person should look at it, where one should."""
    return {
        (entry.student, exercise.name): exercise.for_a_person
        for entry in read_class(course, CHAPTER)
        if entry.judged
        for exercise in entry.judged.exercises
        if exercise.for_a_person
    }


def _is_wrong(work: Work, deserved: float, ours: float | None) -> bool:
    if ours is None:
        return True
    if work.kind == HOSTILE:
        return ours > deserved + _ENOUGH
    return not _same(deserved, ours)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < _ENOUGH
