"""``bits review``: a person decides whether points that wait count.

A decision is written down first; then the gradebook, the judged notebooks and the report are
brought up to date. Nothing is judged. A run that was stopped in between is finished by the next
``bits grade``, which records every result with what was decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from helpers.grading.errors import GradingError, ReportError
from helpers.grading.locks import sole_holder
from helpers.grading.names import printable
from helpers.grading.records.decisions import Decision, Decisions
from helpers.grading.records.gradebook import GradebookWriter
from helpers.grading.records.recording import Recorder
from helpers.grading.records.registration import register
from helpers.grading.records.results import Records, ResultStore, judged_folder
from helpers.grading.report.report import renew_report
from helpers.grading.review.cases import Case, Cases, Selection, find_cases
from helpers.grading.verdicts import ExerciseResult


class Action(StrEnum):
    """What a person can do with a case."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    REOPEN = "reopen"


@dataclass(frozen=True)
class Change:
    """A case that was decided, or reopened, and what the exercise counts now."""

    case: Case
    now: ExerciseResult


@dataclass(frozen=True)
class Outcome:
    """What deciding came to.

    Attributes:
        action: what was done.
        changes: one for each case.
        cases: all cases, as they are now.
        report: the report's first page, if it was brought up to date; None if there is none.
        problem: why something could not be brought up to date; "" if all could.
    """

    action: Action
    changes: tuple[Change, ...]
    cases: Cases
    report: Path | None
    problem: str


def decide(course: Path, assignment: str, action: Action, selection: Selection) -> Outcome:
    """Do ``action`` with the cases that are meant, and bring everything up to date.

    Args:
        course: the folder with the gradebook.
        assignment: "08-numerical-stability".
        action: what is decided.
        selection: the cases that are meant.

    Raises:
        GradingError: none of them can be decided so, or somebody else is at work in the course.
    """
    busy = "Another bits grade or bits review is running in this course: wait until it ends."
    with sole_holder(course / "judged", GradingError(busy)):
        chosen = _choose(find_cases(course, assignment), action, selection)
        folder = judged_folder(course, assignment)
        withdrawn = {case.decision.about for case in chosen if case.decision}
        made = [] if action is Action.REOPEN else [_decision(case, action) for case in chosen]
        Decisions(folder).change(made, withdrawn)
        results, problem = _record(course, assignment, {case.student for case in chosen})
    report = None
    try:
        summary = renew_report(course, assignment)
        report = summary.index if summary else None
    except ReportError as error:
        problem = problem or f"The report was not updated: {error}"
    changes = tuple(
        Change(case, results.get((case.student, case.result.name), case.result)) for case in chosen
    )
    return Outcome(action, changes, find_cases(course, assignment), report, problem)


def _choose(cases: Cases, action: Action, selection: Selection) -> list[Case]:
    meant = cases.select(selection)
    is_open = action is not Action.REOPEN
    chosen = [case for case in meant if case.is_open is is_open]
    if chosen:
        return chosen
    name = printable(cases.assignment)
    if not meant:
        which = "there" if selection == Selection() else "that fits"
        raise GradingError(f"Nothing waits for a person in {name} {which}: bits review {name}.")
    if is_open:
        raise GradingError(
            f"All of these cases are already decided: bits review {name} --reopen, with the "
            f"same options, takes the decision back."
        )
    raise GradingError("None of these cases is decided yet, so there is nothing to reopen.")


def _decision(case: Case, action: Action) -> Decision:
    return Decision(
        student=case.student,
        exercise=case.result.name,
        code=case.result.code,
        accepted=action is Action.ACCEPT,
        points=case.result.waiting,
        doubts=case.result.doubts,
        decided_at=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
    )


def _record(
    course: Path, assignment: str, students: Iterable[str]
) -> tuple[dict[tuple[str, str], ExerciseResult], str]:
    """Record the students' results anew; return them, and what could not be done."""
    folder = judged_folder(course, assignment)
    store, records = ResultStore(folder), Records(folder / "students")
    bundle = register(course, assignment)
    found, damaged = {}, []
    with GradebookWriter(course, bundle) as writer:
        recorder = Recorder(course, bundle, writer)
        for student in sorted(students):
            recorded = records.find(student)
            judged = store.load(recorded.key) if recorded else None
            if recorded is None or judged is None:
                damaged.append(student)
                continue
            settled, _ = recorder.record(recorded, judged)
            found |= {(student, result.name): result for result in settled.exercises}
    if not damaged:
        return found, ""
    names = ", ".join(map(printable, damaged))
    return found, (
        f"The judged notebook of {names} is missing or damaged: run bits grade "
        f"{printable(assignment)}, which restores it and records the decision."
    )
