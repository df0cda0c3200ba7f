"""One exercise's test, tried on a student's code in a session, and what it came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from helpers import report
from helpers.calling import Answer
from helpers.catalogue import Exercise, find_exercise
from helpers.checks import Check
from helpers.grading.judge.reaches import Reach
from helpers.grading.judge.session import Session
from helpers.grading.judge.trusted import TrustedCells
from helpers.grading.verdicts import ExerciseResult, PropertyResult, Verdict
from helpers.plain import one_line
from helpers.reading.cells import Cell
from helpers.reading.doubts import Doubt
from helpers.students_process import Reading

_MOST_DOUBTS = 5
_MOST_WARNINGS = 3


@dataclass(frozen=True)
class Judgment:
    """What one exercise came to, and the report that its test wrote.

    Attributes:
        result: what it came to.
        text: the report.
        html: likewise.
        is_mixed: whether the code was read for something that stands in another exercise's cell,
            which ran in the same kernel: then it is to be judged by itself.
        results: what the report was written of.
    """

    result: ExerciseResult
    text: str
    html: str
    is_mixed: bool = False
    results: tuple[report.Result, ...] = ()

    @property
    def fed_hidden_inputs(self) -> bool:
        """Whether the student's code was called with the inputs of a hidden test."""
        return any(result.withheld and result.calls for result in self.results)

    @property
    def has_words_of_the_code(self) -> bool:
        """Whether its report shows what the student's code said, or returned."""
        return any(
            result.outcome == "failed" or result.printed or result.warned
            for result in self.results
            if not result.withheld
        )

    def with_words_of(self, other: Judgment) -> Judgment:
        """Return this one with what the code said as ``other`` was made, before hidden tests.

        A property that came out otherwise then says nothing but how it came out.
        """
        exercise = find_exercise(self.result.name)
        results = tuple(
            theirs if theirs.outcome == ours.outcome and not ours.withheld else _withhold(ours)
            for ours, theirs in zip(self.results, other.results, strict=True)
        )
        return replace(
            self,
            result=replace(
                self.result,
                message=_message(results),
                properties=tuple(_properties(exercise, results)),
            ),
            text=report.as_text(exercise, results, self.result.points),
            html=report.as_html(exercise, results, self.result.points),
            results=results,
        )


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
    tries_hidden: bool = True,
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
        tries_hidden: whether its hidden tests are run, too.

    Raises:
        CourseError: the test itself failed.
    """
    trial = _Trial(exercise, session, undefined, reach, beside)
    session.begin_exercise()
    first_cause = len(session.causes)
    check = partial(Check, process=trial, publish=trial.publish, tries_hidden=tries_hidden)
    cells.run_test(f"test-{exercise.name}", check)
    causes = [cause] * bool(cause) + session.causes[first_cause:]
    result = _conclude(exercise, trial, causes, is_missing)
    is_mixed = bool(trial.reading.mixed)
    return Judgment(result, trial.text, trial.html, is_mixed, tuple(trial.results))


@dataclass(frozen=True)
class _ReadingBesideOthers(Reading):
    """What was read, beside cells that have run as well; ``mixed`` are finds in these alone."""

    beside: Sequence[Cell] = ()
    mixed: list[Doubt] = field(default_factory=list)

    def find(self, patterns: Sequence[str], *, loops: bool, any_text: bool = True) -> Doubt | None:
        """Return the first place in the exercise's own cells; note one in the others."""
        wanted = {"loops": loops, "any_text": any_text}
        found = super().find(patterns, **wanted)
        elsewhere = None if found else Reading(self.beside).find(patterns, **wanted)
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
        message=_message(trial.results),
        properties=tuple(_properties(exercise, trial.results)),
        for_a_person=f"{doubts[0]}: {_what_waits(waiting)}" if waiting else "",
        waiting=waiting,
        doubts=doubts[:_MOST_DOUBTS] if waiting else (),
        code=trial.reach.code,
    )


def _message(results: Sequence[report.Result]) -> str:
    failed = next((result for result in results if result.outcome == "failed"), None)
    return f"{failed.claim}: {failed.reason}" if failed else ""


def _properties(exercise: Exercise, results: Sequence[report.Result]) -> Iterator[PropertyResult]:
    for number, result in enumerate(results):
        yield PropertyResult(
            claim=result.claim,
            weight=result.weight,
            outcome=result.outcome,
            reason=result.reason,
            details=_details(result),
            hidden=number >= exercise.visible,
            told=result.told if result.withheld and result.outcome == "failed" else "",
        )


def _details(result: report.Result) -> tuple[tuple[str, str], ...]:
    seen = result.seen() if result.outcome == "waiting" else []
    rows = [*result.details(), *seen]
    if result.withheld and result.outcome == "failed":  # no report shows these
        rows += [("printed", one_line(result.printed))] if result.printed else []
        rows += [("warned", one_line(warning)) for warning in result.warned[:_MOST_WARNINGS]]
    return tuple(rows)


def _withhold(result: report.Result) -> report.Result:
    told = result.told or "it did not give the same result each time"
    return replace(result, withheld=True, told=told)


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
