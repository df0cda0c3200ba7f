"""One exercise's test, tried on a student's code in a session, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from helpers import report
from helpers.calling import Answer
from helpers.catalogue import Exercise
from helpers.checks import Check
from helpers.grading.judge.reaches import Reach
from helpers.grading.judge.session import Session
from helpers.grading.judge.trusted import TrustedCells
from helpers.grading.verdicts import ExerciseResult, PropertyResult, Verdict
from helpers.reading.cells import Cell
from helpers.reading.doubts import Doubt
from helpers.students_process import Reading

_MOST_DOUBTS = 5


@dataclass(frozen=True)
class Judgment:
    """What one exercise came to, and the report that its test wrote.

    Attributes:
        result: what it came to.
        text: the report.
        html: likewise.
        is_mixed: whether the code was read for something that stands in another exercise's cell,
            which ran in the same kernel: then it is to be judged by itself.
    """

    result: ExerciseResult
    text: str
    html: str
    is_mixed: bool = False


def try_exercise(
    exercise: Exercise,
    cells: TrustedCells,
    session: Session,
    reach: Reach,
    *,
    beside: Sequence[Cell] = (),
    undefined: Mapping[str, str],
    cause: str = "",
    is_missing: bool = False,
) -> Judgment:
    """Run the test of ``exercise`` against the code in ``session``.

    Args:
        exercise: the one that is judged.
        cells: the course's own, with its tests.
        session: has run what the exercise reaches.
        reach: that.
        beside: what else of the student's has run in it.
        undefined: names that cells should have defined and have not, and why.
        cause: what ended the solution's cell; "" if it got through.
        is_missing: whether the solution's cell is not in the submission.

    Raises:
        CourseError: the test itself failed.
    """
    trial = _Trial(exercise, session, undefined, reach, beside)
    session.begin_exercise()
    first_cause = len(session.causes)
    cells.run_test(f"test-{exercise.name}", partial(Check, process=trial, publish=trial.publish))
    causes = [cause] * bool(cause) + session.causes[first_cause:]
    result = _conclude(exercise, trial, causes, is_missing)
    return Judgment(result, trial.text, trial.html, bool(trial.reading.mixed))


@dataclass(frozen=True)
class _ReadingBesideOthers(Reading):
    """What was read, beside cells that have run as well; ``mixed`` are finds in these alone."""

    beside: Sequence[Cell] = ()
    mixed: list[Doubt] = field(default_factory=list)

    def find(self, patterns: Sequence[str], *, loops: bool) -> Doubt | None:
        """Return the first place in the exercise's own cells; note one in the others."""
        found = super().find(patterns, loops=loops)
        elsewhere = None if found else Reading(self.beside).find(patterns, loops=loops)
        if elsewhere:
            self.mixed.append(elsewhere)
        return found


class _Trial:
    """A test's way to the student's process; ``helpers.students_process`` says what it does."""

    def __init__(
        self,
        exercise: Exercise,
        session: Session,
        undefined: Mapping[str, str],
        reach: Reach,
        beside: Sequence[Cell],
    ) -> None:
        self._session = session
        self._undefined = undefined
        self.reach = reach
        self.reading = _ReadingBesideOthers(reach.cells, reach.doubts, exercise.defines, beside)
        self.results: list[report.Result] = []
        self.text = self.html = ""

    def call(self, function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
        answer = self._session.call(function, args, kwargs)
        for name, reason in self._undefined.items():
            if answer.problem == f"{name} is not defined":
                answer.problem += f": its cell did not get that far ({reason})"
        return answer

    def restart(self) -> None:
        self._session.restart()

    def read(self) -> Reading:
        return self.reading

    def publish(self, exercise: Exercise, results: list[report.Result], points: float) -> None:
        self.results = results
        self.text = report.as_text(exercise, results, points)
        self.html = report.as_html(exercise, results, points)


def _conclude(
    exercise: Exercise, trial: _Trial, causes: list[str], is_missing: bool
) -> ExerciseResult:
    properties = tuple(
        PropertyResult(
            claim=result.claim,
            weight=result.weight,
            outcome=result.outcome,
            reason=result.reason,
            details=_details(result),
            hidden=number >= exercise.visible,
        )
        for number, result in enumerate(trial.results)
    )
    failed = next((result for result in trial.results if result.outcome == "failed"), None)
    is_unwritten = failed is not None and failed.not_written
    points, waiting = report.count_points(exercise, trial.results)
    doubts = tuple(f"{d.label}, line {d.line}: {d.what}" for d in trial.reach.doubts)
    verdict = _decide(points, exercise.points, causes, is_missing, is_unwritten)
    if waiting and points + waiting >= exercise.points:
        verdict = Verdict.WAITING
    return ExerciseResult(
        name=exercise.name,
        verdict=verdict,
        points=points,
        most=float(exercise.points),
        message=f"{failed.claim}: {failed.reason}" if failed else "",
        properties=properties,
        for_a_person=f"{doubts[0]}: {_what_waits(waiting)}" if waiting else "",
        waiting=waiting,
        doubts=doubts[:_MOST_DOUBTS] if waiting else (),
        code=trial.reach.code,
    )


def _details(result: report.Result) -> tuple[tuple[str, str], ...]:
    seen = result.seen() if result.outcome == "waiting" else []
    return (*result.details(), *seen)


def _what_waits(points: float) -> str:
    return "1 point waits" if points == 1 else f"{points:g} points wait"


def _decide(
    points: float, most: float, causes: list[str], is_missing: bool, is_unwritten: bool
) -> Verdict:
    if points >= most:
        return Verdict.PASSED
    if is_missing and points == 0:
        return Verdict.MISSING
    if causes:
        return Verdict(causes[0])
    if points > 0:
        return Verdict.PARTLY
    return Verdict.UNANSWERED if is_unwritten else Verdict.FAILED
