"""What a class comes to, counted one submission after another."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from helpers.grading.report.marks import Marks
from helpers.grading.shown import one_line
from helpers.grading.verdicts import ExerciseResult, Verdict

# What differs from one drawn input to the next: numbers, and the indices in brackets.
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|\d*\.\d+(?:e[-+]?\d+)?)(?!\w)", re.IGNORECASE
)
_LIST = re.compile(r"N(?:\s*[,×x]\s*N)+")


@dataclass(frozen=True)
class WrongAnswer:
    """One way to fail an exercise: what is said of it, and how many were told so.

    ``example`` is what one of them was told, ``reason`` the same without its numbers.
    """

    exercise: str
    reason: str
    example: str
    count: int


@dataclass(frozen=True)
class Share:
    """How many of the submissions passed what ``label`` says, and of how many that waits."""

    exercise: str
    label: str
    passed: int
    hidden: bool = False
    waiting: int = 0


class Tally:
    """Counts; it keeps a few numbers of each submission and none of its text but reasons."""

    def __init__(self) -> None:
        """Start with nothing counted; ``waiting`` counts the submissions with points that wait."""
        self.totals: list[float] = []
        self.most = 0.0
        self._verdicts: dict[str, Counter[Verdict]] = {}
        self._properties: dict[tuple[str, str, bool], Counter[str]] = {}
        self.waiting = 0
        self._reasons: Counter[tuple[str, str]] = Counter()
        self._examples: dict[tuple[str, str], str] = {}

    @property
    def count(self) -> int:
        """How many submissions were counted."""
        return len(self.totals)

    def add(self, marks: Marks) -> None:
        """Count one submission."""
        self.totals.append(marks.points)
        self.waiting += marks.waiting > 0
        self.most = max(self.most, marks.most)
        for mark in marks.each:
            if mark.result is not None:
                self._add_result(mark.result)

    def _add_result(self, result: ExerciseResult) -> None:
        self._verdicts.setdefault(result.name, Counter())[result.verdict] += 1
        for tried in result.properties:
            key = (result.name, one_line(tried.claim), tried.hidden)
            self._properties.setdefault(key, Counter())[tried.outcome] += 1
        claim, told = _first_fault(result)
        if told and result.verdict is not Verdict.UNANSWERED:
            key = (result.name, one_line(claim + without_numbers(told)))
            self._reasons[key] += 1
            self._examples.setdefault(key, one_line(claim + told))

    def verdicts(self) -> dict[str, Counter[Verdict]]:
        """Return for each exercise how often it ended in which way."""
        return self._verdicts

    def exercises(self) -> list[Share]:
        """Return for each exercise how many passed it."""
        return [
            Share(name, name, found[Verdict.PASSED], waiting=found[Verdict.WAITING])
            for name, found in self._verdicts.items()
        ]

    def properties(self) -> list[Share]:
        """Return for each property how many passed it, in the exercises' order."""
        found = [
            Share(exercise, claim, outcomes["passed"], hidden, outcomes["waiting"])
            for (exercise, claim, hidden), outcomes in self._properties.items()
        ]
        order = {name: place for place, name in enumerate(self._verdicts)}
        return sorted(found, key=lambda share: (order[share.exercise], share.hidden))

    def unanswered(self, exercise: str) -> int:
        """Return how many left an exercise as it was."""
        return self._verdicts.get(exercise, Counter())[Verdict.UNANSWERED]

    def wrong_answers(self, exercise: str | None = None) -> list[WrongAnswer]:
        """Return the wrong answers, of one exercise or of all, the most frequent first."""
        return [
            WrongAnswer(name, reason, self._examples[name, reason], count)
            for (name, reason), count in self._reasons.most_common()
            if exercise in (None, name)
        ]


def without_numbers(reason: str) -> str:
    """Return ``reason`` with N in the place of every number, and of every row of numbers."""
    return _LIST.sub("N", _NUMBER.sub("N", reason))


def _first_fault(result: ExerciseResult) -> tuple[str, str]:
    """Return which property fails first, and why: what fails after it is mostly the same fault.

    Both are "" where nothing is wrong, or where the submission cannot be read and holds no answer.
    """
    if result.verdict in (Verdict.PASSED, Verdict.WAITING, Verdict.MALFORMED):
        return "", ""
    failed = [tried for tried in result.properties if tried.outcome == "failed"]
    if not failed:
        # What holds, and waits for a person, is no wrong answer.
        is_held = any(tried.outcome == "waiting" for tried in result.properties)
        return "", "" if is_held else result.message or str(result.verdict)
    return f"{failed[0].claim}: ", failed[0].reason
