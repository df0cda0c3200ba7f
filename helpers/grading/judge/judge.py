"""The judge: from a submission's bytes to a verdict on each exercise.

The submission's cells run in a sandboxed process, the test cells in this one. A pure step: what
comes out depends on what goes in, and on the inputs that the tests draw.
"""

from __future__ import annotations

import atexit
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import nbformat
import torch
from nbformat.notebooknode import NotebookNode

from helpers import report
from helpers.calling import Answer
from helpers.catalogue import Exercise, find_exercise
from helpers.checks import Check
from helpers.grading.assignment import Assignment
from helpers.grading.judge import written
from helpers.grading.judge.demos import find_needed_demos
from helpers.grading.judge.plain_code import find_reach
from helpers.grading.judge.sanitize import SKIP, Sanitized, comparable, sanitize
from helpers.grading.judge.session import Session, WarmPool, running
from helpers.grading.judge.trusted import Proxy, TrustedCells, defined_names
from helpers.grading.judge.warm import WarmProcessLostError
from helpers.grading.settings import Settings
from helpers.grading.soundness import MalformedError
from helpers.grading.verdicts import ExerciseResult, Judged, PropertyResult, Verdict

_ATTEMPTS = 3
_TEST = "test-"
_NOTHING_THERE = "none of the chapter's exercises is in the notebook: is it of another chapter?"
# Where IPython says that a cell is no Python, it names a file that the student has never seen.
_IN_FILE = re.compile(r" \((?:<[^<>]*>|[^()]*\.py), line (\d+)\)$")


class JudgingError(Exception):
    """A submission could not be judged, through no fault of its own; the text says why."""


def judge_submission(content: bytes, assignment: Assignment, settings: Settings) -> Judged:
    """Judge one submission; it can be called from several threads.

    Args:
        content: the notebook as it was handed in.
        assignment: what it is held to.
        settings: how it is run.

    Raises:
        SandboxError: there is no sandbox here.
        CourseError: a cell of the course's own failed.
        JudgingError: what it was run in was ended from outside, again and again.
    """
    try:
        sanitized = sanitize(content, assignment)
    except MalformedError as error:
        return _malformed(assignment, str(error))
    trusted = _trusted_cells(assignment.digest, _Kept(assignment))
    for _ in range(_ATTEMPTS):
        try:
            with running(_pool(), assignment, settings) as session:
                return _Judging(assignment, sanitized, trusted, session).judge()
        except WarmProcessLostError:
            continue
    raise JudgingError(
        "the process that students' code runs in was ended three times by something else: make "
        "sure that the machine has memory left and run the same command again"
    )


def prepare(data: Mapping[str, bytes], settings: Settings) -> None:
    """Start a warm process, so that the first submission need not wait for it."""
    pool = _pool()
    pool.give_back(pool.borrow(data, settings))


def close_warm_processes() -> None:
    """End the processes that are kept warm for the next submission."""
    _pool().close()


@functools.cache
def _pool() -> WarmPool:
    # Tests compute little: threads would only get in the way of other submissions' processes.
    torch.set_num_threads(1)
    pool = WarmPool()
    atexit.register(pool.close)
    return pool


@lru_cache(maxsize=4)
def _trusted_cells(digest: str, kept: _Kept) -> TrustedCells:
    return TrustedCells(kept.assignment)


@dataclass(frozen=True)
class _Kept:
    """An assignment that is equal to every other: its digest stands for it."""

    assignment: Assignment = field(compare=False)


class _Judging:
    """The judging of one submission."""

    def __init__(
        self,
        assignment: Assignment,
        sanitized: Sanitized,
        trusted: TrustedCells,
        session: Session,
    ) -> None:
        self._assignment = assignment
        self._missing = sanitized.missing
        self._notes = sanitized.notes
        self._notebook = sanitized.notebook
        self._trusted = trusted
        self._session = session
        self._reach = ""
        # Why a name is not defined, and what ended the cells that should have defined it.
        self._undefined: dict[str, str] = {}
        self._causes: dict[str, str] = {}
        self._results: list[ExerciseResult] = []

    def judge(self) -> Judged:
        self._reach = find_reach(self._code(students=True), self._code(students=False))
        for cell in self._running_cells():
            self._take(cell)
        if all(result.verdict is Verdict.MISSING for result in self._results):
            self._results = [replace(r, for_a_person=_NOTHING_THERE) for r in self._results]
        self._disarm_texts()
        content = nbformat.v4.writes(self._notebook).encode()
        return Judged(tuple(self._results), content, tuple(self._notes))

    def _disarm_texts(self) -> None:
        for cell in self._notebook.cells:
            is_ours = _grading(cell).get("locked") or comparable(cell.source) in self._trusted.texts
            if cell.cell_type != "code" and not is_ours:
                # nbconvert copies raw cells into a page as they are.
                cell.source = written.disarm(cell.source, raw=cell.cell_type == "raw")
                cell.cell_type = "markdown"

    def _running_cells(self) -> list[NotebookNode]:
        code = [cell for cell in self._notebook.cells if cell.cell_type == "code"]
        demos = [cell for cell in code if cell.metadata.get(SKIP)]
        running = [cell.source for cell in code if not (cell.metadata.get(SKIP) or _is_test(cell))]
        needed = find_needed_demos(running, [cell.source for cell in demos])
        left_out = {id(cell) for i, cell in enumerate(demos) if i not in needed}
        return [cell for cell in code if id(cell) not in left_out]

    def _code(self, *, students: bool) -> Iterator[str]:
        for cell in self._notebook.cells:
            is_ours = bool(cell.metadata.get(SKIP) or _grading(cell).get("locked"))
            if cell.cell_type == "code" and is_ours is not students:
                yield cell.source

    def _take(self, cell: NotebookNode) -> None:
        grading = _grading(cell)
        name = grading.get("grade_id", "")
        if _is_test(cell):
            self._judge_test(cell, name)
        elif name not in self._missing:  # a stub that was put back would undo a solution elsewhere
            self._run(cell, name if grading.get("solution") else "")

    def _run(self, cell: NotebookNode, exercise: str) -> None:
        run = self._session.run(cell.source)
        cell.outputs = written.write_outputs(run.outputs)
        if run.cause:
            cell.outputs.append(written.write_end(run.cause, run.message))
        if not exercise:
            return
        problem = run.message
        if run.cause:
            self._causes[exercise] = run.cause
        elif error := next((o for o in cell.outputs if o.output_type == "error"), None):
            said = _IN_FILE.sub(r" (line \1)", error.evalue)
            problem = f"it raised {error.ename}: {said}".rstrip(": ")
        if problem:
            stub = next(c.source for c in self._assignment.cells if c.name == exercise)
            self._undefined |= dict.fromkeys(defined_names(stub), problem)

    def _judge_test(self, cell: NotebookNode, name: str) -> None:
        exercise = find_exercise(name.removeprefix(_TEST))
        trial = _Trial(self._session, self._undefined, self._reach)
        self._session.begin_exercise()
        first_cause = len(self._session.causes)
        points = self._trusted.run_test(
            name, partial(Check, call=trial.call, publish=trial.publish)
        )
        causes = self._session.causes[first_cause:]
        if exercise.name in self._causes:
            causes.insert(0, self._causes[exercise.name])
        cell.outputs = written.write_report(trial.text, trial.html, points)
        is_missing = exercise.name in self._missing
        self._results.append(_conclude(exercise, points, trial, causes, is_missing))


class _Trial:
    """One test cell's way to the student's process, and what it reported."""

    def __init__(self, session: Session, undefined: dict[str, str], reach: str) -> None:
        self._session = session
        self._undefined = undefined
        self._reach = reach
        self.for_a_person = ""
        self.results: list[report.Result] = []
        self.text = self.html = ""

    def call(self, function: Proxy, args: list, kwargs: dict[str, Any]) -> Answer:
        if isinstance(function, Proxy) and function.is_testimony and self._reach:
            self.for_a_person = (
                f"one of the cells has {self._reach!r}, so what a probe saw proves nothing"
            )
            return Answer(
                problem=f"not counted until a person has looked at it: {self.for_a_person}"
            )
        answer = self._session.call(function, args, kwargs)
        for name, reason in self._undefined.items():
            if answer.problem == f"{name} is not defined":
                answer.problem += f": its cell did not get that far ({reason})"
        return answer

    def publish(self, exercise: Exercise, results: list[report.Result], points: float) -> None:
        self.results = results
        self.text = report.as_text(exercise, results, points)
        self.html = report.as_html(exercise, results, points)


def _conclude(
    exercise: Exercise, points: float, trial: _Trial, causes: list[str], is_missing: bool
) -> ExerciseResult:
    properties = tuple(
        PropertyResult(
            claim=result.claim,
            weight=result.weight,
            outcome=result.outcome,
            reason=result.reason,
            details=tuple(result.details()),
            hidden=number >= exercise.visible,
        )
        for number, result in enumerate(trial.results)
    )
    failed = next((result for result in trial.results if result.outcome == "failed"), None)
    is_unwritten = failed is not None and failed.not_written
    return ExerciseResult(
        name=exercise.name,
        verdict=_decide(points, exercise.points, causes, is_missing, is_unwritten),
        points=points,
        most=float(exercise.points),
        message=f"{failed.claim}: {failed.reason}" if failed else "",
        properties=properties,
        for_a_person=trial.for_a_person,
    )


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


def _grading(cell: NotebookNode) -> dict[str, Any]:
    return cell.metadata.get("nbgrader", {})


def _is_test(cell: NotebookNode) -> bool:
    grading = _grading(cell)
    return bool(grading.get("grade")) and not grading.get("solution")


def _malformed(assignment: Assignment, reason: str) -> Judged:
    message = f"the notebook cannot be read: {reason}"
    return Judged(_the_same_for_all(assignment, Verdict.MALFORMED, message), notes=(f"{message}.",))


def _the_same_for_all(
    assignment: Assignment, verdict: Verdict, message: str
) -> tuple[ExerciseResult, ...]:
    exercises = [find_exercise(name) for name in assignment.exercises]
    return tuple(
        ExerciseResult(e.name, verdict, 0.0, float(e.points), message, for_a_person=message)
        for e in exercises
    )
