"""What a class comes to, counted one submission after another."""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from dataclasses import dataclass

from helpers.grading.report.kinds import kind_of_problem
from helpers.grading.report.marks import Marks
from helpers.grading.shown import one_line
from helpers.grading.verdicts import ExerciseResult, Verdict

_ENOUGH_FOR_A_CORRELATION = 20
_ENOUGH_FOR_CHANCE = 10  # in a larger class, one who fails alone is chance


@dataclass(frozen=True)
class WrongAnswer:
    """One way to fail an exercise.

    Attributes:
        exercise: its name.
        failed: the claims of the properties that failed; none if the code did not get that far.
        kind: what the first of them describes, as ``kind_of_problem`` calls it.
        example: what one student was told.
        student: the id of that one.
        count: how many gave it.
    """

    exercise: str
    failed: tuple[str, ...]
    kind: str
    example: str
    student: str
    count: int


@dataclass(frozen=True)
class Share:
    """How many of the submissions passed an exercise, and of how many that waits."""

    exercise: str
    passed: int
    waiting: int = 0


@dataclass(frozen=True)
class Telling:
    """How a property divides those with whom it was tried, and who do not wait for a person.

    ``correlation`` is the point-biserial one of passing it with the points in the other exercises,
    from -1 to 1; None if it was tried with fewer than 20, or if all have the same points.
    """

    exercise: str
    claim: str
    hidden: bool
    passed: int
    failed: int
    correlation: float | None = None

    @property
    def pairs(self) -> int:
        """How many pairs of students it tells apart: one passes, the other fails."""
        return self.passed * self.failed


class Tally:
    """Counts; it keeps a few numbers of each submission and none of its text but reasons."""

    def __init__(self) -> None:
        """Start with nothing counted; ``waiting`` counts the submissions with points that wait."""
        self.totals: list[float] = []
        self.most = 0.0
        self.waiting = 0
        self._verdicts: dict[str, Counter[Verdict]] = {}
        # For each property and student: whether it holds, and the points of the other exercises.
        self._tried: dict[tuple[str, str, bool], list[tuple[bool, float]]] = {}
        self._wrong: Counter[tuple[str, tuple[str, ...], str]] = Counter()
        self._examples: dict[tuple[str, tuple[str, ...], str], tuple[str, str]] = {}

    @property
    def count(self) -> int:
        """How many submissions were counted."""
        return len(self.totals)

    def add(self, marks: Marks, student: str = "") -> None:
        """Count one submission; ``student`` is whose it is."""
        self.totals.append(marks.points)
        self.waiting += marks.waiting > 0
        self.most = max(self.most, marks.most)
        total = sum(mark.points for mark in marks.each)
        for mark in marks.each:
            if mark.result is not None:
                self._add_result(mark.result, total - mark.points, student)

    def _add_result(self, result: ExerciseResult, elsewhere: float, student: str) -> None:
        self._verdicts.setdefault(result.name, Counter())[result.verdict] += 1
        if result.verdict is Verdict.UNANSWERED:
            return
        for tried in result.properties:
            key = (result.name, one_line(tried.claim), tried.hidden)
            outcomes = self._tried.setdefault(key, [])
            if tried.outcome in ("passed", "failed"):
                outcomes.append((tried.outcome == "passed", elsewhere))
        failed, told = _find_fault(result)
        if told:
            wrong = (result.name, failed, one_line(kind_of_problem(told)))
            self._wrong[wrong] += 1
            self._examples.setdefault(wrong, (one_line(told), student))

    def verdicts(self) -> dict[str, Counter[Verdict]]:
        """Return for each exercise how often it ended in which way."""
        return self._verdicts

    def exercises(self) -> list[Share]:
        """Return for each exercise how many passed it."""
        return [
            Share(name, found[Verdict.PASSED], found[Verdict.WAITING])
            for name, found in self._verdicts.items()
        ]

    def telling(self) -> list[Telling]:
        """Return the properties that tell students apart, those that tell most apart first."""
        found = []
        for (exercise, claim, hidden), outcomes in self._tried.items():
            passed = sum(holds for holds, _ in outcomes)
            failed = len(outcomes) - passed
            if min(passed, failed) >= (2 if len(outcomes) >= _ENOUGH_FOR_CHANCE else 1):
                correlation = _correlate(outcomes)
                found.append(Telling(exercise, claim, hidden, passed, failed, correlation))
        return sorted(found, key=lambda telling: -telling.pairs)

    def unanswered(self, exercise: str) -> int:
        """Return how many left an exercise as it was."""
        return self._verdicts.get(exercise, Counter())[Verdict.UNANSWERED]

    def wrong_answers(self, fewest: int = 1) -> list[WrongAnswer]:
        """Return the wrong answers that at least ``fewest`` gave, the most frequent first."""
        return [
            WrongAnswer(*wrong, *self._examples[wrong], count)
            for wrong, count in self._wrong.most_common()
            if count >= fewest
        ]


def _correlate(outcomes: list[tuple[bool, float]]) -> float | None:
    if len(outcomes) < _ENOUGH_FOR_A_CORRELATION:
        return None
    passed, points = zip(*outcomes, strict=True)
    with contextlib.suppress(statistics.StatisticsError):
        return statistics.correlation([float(holds) for holds in passed], points)
    return None


def _find_fault(result: ExerciseResult) -> tuple[tuple[str, ...], str]:
    """Return which properties fail, and what is said of the first: mostly it is the same fault.

    The second is "" where nothing is wrong, or where the submission cannot be read and holds no
    answer.
    """
    if result.verdict in (Verdict.PASSED, Verdict.WAITING, Verdict.MALFORMED):
        return (), ""
    failed = [tried for tried in result.properties if tried.outcome == "failed"]
    if not failed:
        # What holds, and waits for a person, is no wrong answer.
        is_held = any(tried.outcome == "waiting" for tried in result.properties)
        return (), "" if is_held else result.message or str(result.verdict)
    claims = tuple(one_line(tried.claim) for tried in failed)
    return claims, failed[0].reason or str(result.verdict)
