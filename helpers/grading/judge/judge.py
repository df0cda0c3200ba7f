"""The judge: from a submission's bytes to a verdict on each exercise.

The submission's cells run in a sandboxed process, the test cells in this one. A pure step: what
comes out depends on what goes in, and on the inputs that the tests draw.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import nbformat
import torch
from nbformat import from_dict
from nbformat.notebooknode import NotebookNode

from helpers.catalogue import find_exercise
from helpers.grading.assignment import Assignment
from helpers.grading.judge import written
from helpers.grading.judge.clock import Budget
from helpers.grading.judge.reaches import Notebook, Reach, digest_of
from helpers.grading.judge.sanitize import Sanitized, comparable, sanitize
from helpers.grading.judge.session import Session, WarmPool, running
from helpers.grading.judge.shown_code import CodeRoom
from helpers.grading.judge.trial import Judgment, try_exercise
from helpers.grading.judge.trusted import TrustedCells, defined_names
from helpers.grading.judge.warm import WarmProcessLostError
from helpers.grading.settings import Settings
from helpers.grading.soundness import MalformedError
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict
from helpers.reading.cells import Cell

_ATTEMPTS = 3
_MOST_NOTES = 5
_RECOGNIZED = "its cell had lost its mark, and was recognized by what it defines"
_STOPPED_BY_THE_WALL = (
    "it was stopped because it took too long by the clock, not because it used too much CPU "
    "time: was the machine busy, or did the code wait for something?"
)
_NOTHING_THERE = "the notebook has none of the chapter's exercises: is it of another chapter?"
# Where IPython says that a cell is no Python, it names a file that the student has never seen.
_IN_FILE = re.compile(r" \((?:<[^<>]*>|[^()]*\.py), line (\d+)\)$")


class JudgingError(Exception):
    """A submission could not be judged, through no fault of its own; the text says why."""


def judge_submission(
    content: bytes,
    assignment: Assignment,
    settings: Settings,
    tell: Callable[[str], None] = lambda exercise: None,
) -> Judged:
    """Judge one submission; it can be called from several threads.

    Args:
        content: the notebook as it was handed in.
        assignment: what it is held to.
        settings: how it is run.
        tell: called with an exercise's name each time that it has been judged, which may be again.

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
        total = Budget(settings.total_seconds)
        open_session = functools.partial(running, _pool(), assignment, settings, total)
        try:
            return _Judging(assignment, sanitized, trusted, open_session, tell).judge()
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
    """The judging of one submission.

    Every exercise is judged with what it reaches. Where that is not all of the points and there is
    more in the notebook, it is tried once more with everything: what is gained by that waits for a
    person, who may see that the reach was read too narrowly.
    """

    def __init__(
        self,
        assignment: Assignment,
        sanitized: Sanitized,
        trusted: TrustedCells,
        open_session: Callable[[], contextlib.AbstractContextManager[Session]],
        tell: Callable[[str], None],
    ) -> None:
        self._assignment = assignment
        self._sanitized = sanitized
        self._cells = sanitized.notebook.cells
        self._trusted = trusted
        self._open_session = open_session
        self._tell = tell
        stubs = {cell.name: cell.source for cell in assignment.cells if cell.solution}
        self._defines = {name: defined_names(stubs[name]) for name in assignment.exercises}
        self._notebook = Notebook(self._cells, self._defines, sanitized.missing, sanitized.places)
        self._judgments: dict[str, Judgment] = {}
        self._notes = list(sanitized.notes)
        self._waited = False
        self._room = written.OutputRoom()

    def judge(self) -> Judged:
        reaches = {name: self._notebook.find_reach(name) for name in self._assignment.exercises}
        together = [name for name, reach in reaches.items() if not reach.doubts]
        alone = [name for name in reaches if name not in together]
        ran = {}
        if together:
            ran |= self._run_group(together, reaches)
            # What was read must be all that ran: another exercise's cell could hide a function.
            alone += [name for name in together if self._judgments[name].is_mixed]
        for name in alone:
            ran |= self._run_group([name], reaches)
        self._try_with_everything(reaches, ran)
        for name, judgment in self._judgments.items():
            points = judgment.result.points
            cell = self._cells[self._notebook.tests[name]]
            cell.outputs = written.write_report(judgment.text, judgment.html, points)
        results = [self._told(self._judgments[name].result) for name in self._assignment.exercises]
        if all(result.verdict is Verdict.MISSING for result in results):
            results = [replace(r, for_a_person=_NOTHING_THERE) for r in results]
        self._disarm_texts()
        self._shorten_code()
        self._notes += self._room.notes()
        content = nbformat.v4.writes(self._sanitized.notebook).encode()
        return Judged(tuple(results), content, tuple(self._notes), self._waited)

    def _told(self, result: ExerciseResult) -> ExerciseResult:
        if self._waited and result.verdict is Verdict.TIMED_OUT and not result.for_a_person:
            return replace(result, for_a_person=_STOPPED_BY_THE_WALL)
        if result.name not in self._sanitized.recognized or result.for_a_person:
            return result
        return replace(result, for_a_person=_RECOGNIZED)

    def _run_group(
        self, names: Sequence[str], reaches: Mapping[str, Reach]
    ) -> dict[str, list[int]]:
        """Judge exercises in one kernel, with what they reach; return what ran for each."""
        reached = {place for name in names for place in reaches[name].places}
        places = self._notebook.with_courses_cells(reached)
        self._judgments |= self._run(places, {name: reaches[name] for name in names})
        return dict.fromkeys(names, places)

    def _run(self, places: Sequence[int], reaches: Mapping[str, Reach]) -> dict[str, Judgment]:
        """Run the cells at ``places``, and the tests of ``reaches`` where they stand."""
        run = self._run_once(places, reaches)
        # What code says once it has seen a hidden test's inputs could be these. So whatever is
        # shown of it is what it says in a kernel in which no hidden test has run.
        if run.has_late_cells:
            open_run = self._run_once(places, reaches, tries_hidden=False)
        elif run.late:
            late = {name: reaches[name] for name in run.late}
            reached = {place for reach in late.values() for place in reach.places}
            needed = self._notebook.with_courses_cells(reached & set(places))
            open_run = self._run_once(needed, late, tries_hidden=False)
        for name in run.late:
            run.judgments[name] = run.judgments[name].with_words_of(open_run.judgments[name])
        return run.judgments

    def _run_once(
        self, places: Sequence[int], reaches: Mapping[str, Reach], *, tries_hidden: bool = True
    ) -> _Run:
        tests = {self._notebook.tests[name]: name for name in reaches}
        run = _Run(self._assignment, self._room)
        with self._open_session() as session:
            for place in sorted({*places, *tests}):
                if place > max(tests):
                    break
                if place in tests:
                    name = tests[place]
                    judgment = try_exercise(
                        find_exercise(name),
                        self._trusted,
                        session,
                        reaches[name],
                        beside=self._notebook.students_cells(
                            p for p in places if p < place and p not in reaches[name].places
                        ),
                        undefined=run.undefined,
                        cause=run.causes.get(name, ""),
                        is_missing=name in self._sanitized.missing,
                        tries_hidden=tries_hidden,
                    )
                    run.add(name, judgment)
                    self._tell(name)
                else:
                    run.take(session, self._cells[place], self._notebook.cell(place))
            self._waited |= session.waited
        return run

    def _try_with_everything(
        self, reaches: Mapping[str, Reach], ran: Mapping[str, Sequence[int]]
    ) -> None:
        short = {
            name: reaches[name]
            for name, judgment in self._judgments.items()
            if _could_be_more(judgment.result) and self._notebook.has_more(name, ran[name])
        }
        if not short:
            return
        everything = self._notebook.all_places()
        code = digest_of(map(self._notebook.python, everything))
        for name, whole in self._run(everything, short).items():
            before = self._judgments[name]
            more = whole.result.points + whole.result.waiting
            gained = round(more - before.result.points - before.result.waiting, 2)
            if gained > 0:
                self._judgments[name] = _with_more_to_look_at(before, whole, gained, code)

    def _disarm_texts(self) -> None:
        from helpers.grading import markdown  # nbconvert is loaded where there is a text to show

        room = markdown.Room()
        notes: list[str] = []
        for cell in self._cells:
            if cell.cell_type == "code" or self._is_ours(cell):
                continue
            if cell.cell_type == "raw":  # nbconvert copies it into a page as it is
                shown = markdown.disarm_raw(cell.source, room)
            else:
                shown = markdown.disarm(cell.source, cell.get("attachments"), room)
            cell.cell_type, cell.source = "markdown", shown.text
            cell.pop("attachments", None)
            if shown.pictures:
                cell.attachments = from_dict(shown.pictures)
            notes += shown.notes
        told = list(dict.fromkeys(notes))
        self._notes += [f"in its texts, {note}" for note in told[:_MOST_NOTES]]
        if len(told) > _MOST_NOTES:
            self._notes.append(f"in its texts, {len(told) - _MOST_NOTES} more are left out")

    def _shorten_code(self) -> None:
        room = CodeRoom()
        for cell in self._cells:
            if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("locked"):
                cell.source = room.shorten(cell.source)
        self._notes += room.notes()

    def _is_ours(self, cell: NotebookNode) -> bool:
        """Return whether a text is the course's, which may hold what a student's may not."""
        if "attachment:" in cell.source:  # whether the picture is there is the submission's doing
            return False
        is_locked = cell.metadata.get("nbgrader", {}).get("locked")
        return bool(is_locked) or comparable(cell.source) in self._trusted.texts


class _Run:
    """What running the cells of one session came to.

    Attributes:
        undefined: names that solution cells should have defined and have not, and why.
        causes: what ended the solution cells of exercises.
        judgments: of the tests.
        late: the exercises whose code said something after a hidden test had run.
        has_late_cells: whether a cell did.
    """

    def __init__(self, assignment: Assignment, room: written.OutputRoom) -> None:
        self._room = room
        self._stubs = {cell.name: cell.source for cell in assignment.cells if cell.solution}
        self.undefined: dict[str, str] = {}
        self.causes: dict[str, str] = {}
        self.judgments: dict[str, Judgment] = {}
        self.late: list[str] = []
        self.has_late_cells = False
        self._has_seen_hidden = False

    def add(self, name: str, judgment: Judgment) -> None:
        """Write down what the test of ``name`` came to."""
        self.judgments[name] = judgment
        if self._has_seen_hidden and judgment.has_words_of_the_code:
            self.late.append(name)
        self._has_seen_hidden |= judgment.fed_hidden_inputs

    def take(self, session: Session, cell: NotebookNode, read: Cell) -> None:
        """Run ``cell``, which is ``read`` as Python, and write down its outputs."""
        run = session.run(read)
        outputs = written.write_outputs(run.outputs)
        if run.cause:
            outputs.append(written.write_end(run.cause, run.message))
        cell.outputs = self._room.keep(cell.id, outputs)
        self.has_late_cells |= self._has_seen_hidden and bool(outputs)
        grading = cell.metadata.get("nbgrader", {})
        exercise = grading.get("grade_id", "") if grading.get("solution") else ""
        if not exercise:
            return
        problem = run.message
        if run.cause:
            self.causes[exercise] = run.cause
        elif error := next((o for o in outputs if o.output_type == "error"), None):
            said = _IN_FILE.sub(r" (line \1)", error.evalue)
            problem = f"it raised {error.ename}: {said}".rstrip(": ")
        if problem:
            self.undefined |= dict.fromkeys(defined_names(self._stubs[exercise]), problem)


def _could_be_more(result: ExerciseResult) -> bool:
    """Return whether other cells of the notebook may be what an exercise lacks."""
    is_short = result.points + result.waiting < result.most
    return is_short and result.verdict is not Verdict.UNANSWERED


def _with_more_to_look_at(before: Judgment, whole: Judgment, gained: float, code: str) -> Judgment:
    waiting = round(before.result.waiting + gained, 2)
    told = (
        f"with all cells of the notebook it comes to {whole.result.points:g} points, with those "
        f"that it uses to {before.result.points:g}"
    )
    result = replace(
        whole.result,
        points=before.result.points,
        waiting=waiting,
        verdict=Verdict.WAITING,
        for_a_person=told,
        doubts=(told, *before.result.doubts),
        code=code,
    )
    return replace(before, result=result)


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
