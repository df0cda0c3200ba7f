"""Grading a class: every submission is judged by a worker, and recorded by one writer.

A result is kept as soon as it is there, under a key that is a hash of all that went into it; then
it goes into the gradebook and into ``autograded/``. So a run that was stopped anywhere has lost
nothing: the next one judges what has no result, and mends what is not as the results say.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from pathlib import Path
from typing import Any

from helpers.grading.assignment import Assignment
from helpers.grading.engine.cluster import DaskWorkers
from helpers.grading.engine.keys import describe_environment, make_key
from helpers.grading.engine.order import longest_first
from helpers.grading.engine.steps import judge_submission, prepare
from helpers.grading.engine.summary import Summary
from helpers.grading.engine.workers import LocalWorkers, Workers, judge_here
from helpers.grading.errors import GradingError
from helpers.grading.locks import sole_holder
from helpers.grading.names import printable
from helpers.grading.progress import Progress
from helpers.grading.records.foreign_points import find_foreign_points, tell_foreign_points
from helpers.grading.records.gradebook import GradebookWriter, read_students
from helpers.grading.records.recording import Recorder
from helpers.grading.records.registration import register
from helpers.grading.records.results import Recorded, Records, ResultStore, judged_folder
from helpers.grading.records.submissions import Submission, find_submissions, refuse
from helpers.grading.records.transactions import GradebookError
from helpers.grading.sandbox import sandbox
from helpers.grading.settings import Settings
from helpers.grading.soundness import without_mark
from helpers.grading.verdicts import Judged

_FAULTS = "faults.txt"
_SANDBOX_TRIES = 3
_SECONDS_BETWEEN_LOOKS = 2.0

Step = Callable[[bytes, Assignment, Any], Judged]


def grade(
    course: Path,
    assignment: str,
    *,
    settings: Any = None,
    scheduler: str | None = None,
    jobs: int | None = None,
    force: bool = False,
    students: Collection[str] = (),
    report: Callable[[Progress], None] = lambda progress: None,
    say: Callable[[str], None] = lambda line: None,
    step: Step = judge_submission,
) -> Summary:
    """Grade what was handed in for ``assignment``; doing it again changes nothing.

    Args:
        course: the folder with source, submitted and the gradebook.
        assignment: "08-numerical-stability".
        settings: the judge's.
        scheduler: the address of a Dask scheduler; processes of this machine judge if None.
        jobs: how many processes; one for each core if None.
        force: judge again what has been judged.
        students: the ids of those to grade; all if empty.
        report: called after each submission.
        say: called with what the instructor should know before anything is written.
        step: what judges; a function that another process can import.

    Raises:
        SandboxError: there is no sandbox to judge in.
        GradingError, RegistrationError, IntakeError: nothing, or nothing more, can be graded.
    """
    settings = settings or Settings()
    if settings.sandboxed and scheduler is None:
        sandbox.check_available()
    busy = "Another bits grade is running in this course: wait until it ends and try again."
    with (
        sole_holder(course / "judged", GradingError(busy)),
        _open_workers(scheduler, jobs, settings) as workers,
    ):
        is_first = not judged_folder(course, assignment).exists()
        if step is judge_submission and is_first and (course / "submitted").is_dir():
            # There is sure to be work: workers start while the gradebook is made.
            workers.prepare(prepare, {}, settings)
        bundle = register(course, assignment)
        found = find_submissions(course, assignment, f"{bundle.notebook}.ipynb")
        chosen = _choose(found, students, assignment)
        with GradebookWriter(course, bundle) as writer:
            run = _Run(course, bundle, settings, step, workers, writer, report)
            for line in run.find_what_others_wrote(chosen):
                say(line)
            run.go(chosen, force=force)
        if not (run.summary.interrupted or students):
            run.tidy()
        known = read_students(course).keys() if not students else ()
    run.summary.missing = sorted(set(known) - {submission.student for submission in found})
    return run.summary.in_order()


def describe_sandbox(settings: Settings) -> str:
    """Return one line that says what student code runs in on this machine.

    Raises:
        SandboxError: it is to be a sandbox, and there is none.
    """
    if not settings.sandboxed:
        return "No sandbox: student code runs with your rights on this machine."
    sandbox.check_available()
    limits = sandbox.Limits(memory_bytes=settings.memory_mib * 2**20, processes=settings.processes)
    return sandbox.describe_limits(limits)


def _choose(
    found: list[Submission], students: Collection[str], assignment: str
) -> list[Submission]:
    unknown = sorted(set(students) - {submission.student for submission in found})
    if unknown:
        raise GradingError(
            f"{printable(unknown[0])} has handed in nothing for {printable(assignment)}: give "
            f"the id as it appears in course/submitted."
        )
    return [submission for submission in found if not students or submission.student in students]


@contextlib.contextmanager
def _open_workers(scheduler: str | None, jobs: int | None, settings: Any) -> Iterator[Workers]:
    workers: Workers
    if scheduler is not None:
        workers = DaskWorkers(scheduler, sandboxed=settings.sandboxed)
    else:
        workers = LocalWorkers(jobs or len(os.sched_getaffinity(0)))
    try:
        yield workers
    except BaseException:
        workers.close(at_once=True)
        raise
    workers.close(at_once=False)


class _Run:
    """One run over a class."""

    def __init__(
        self,
        course: Path,
        assignment: Assignment,
        settings: Any,
        step: Step,
        workers: Workers,
        writer: GradebookWriter,
        report: Callable[[Progress], None],
    ) -> None:
        self.summary = Summary(assignment.name)
        self._course = course
        self._assignment = assignment
        self._digest = assignment.digest
        self._settings = settings
        self._step = step
        self._workers = workers
        self._recorder = Recorder(course, assignment, writer)
        self._report = report
        self._environment = describe_environment()
        self._folder = judged_folder(course, assignment.name)
        self._store = ResultStore(self._folder)
        self._records = Records(self._folder / "students")
        self._keys: set[str] = set()
        self._tries: Counter[str] = Counter()
        self._short_of_time: list[Submission] = []
        self._is_alone = False
        self._overdue: dict[Future, str] = {}
        self._in_flight: dict[Future, tuple[Submission, str]] = {}
        self._progress = Progress(0)

    def find_what_others_wrote(self, submissions: list[Submission]) -> list[str]:
        """Return the lines that list points in the gradebook that are neither ours nor a
        person's.
        """
        chosen = {submission.student for submission in submissions}
        records = {s: recorded for s, recorded in self._records.all().items() if s in chosen}
        self.summary.replaced = find_foreign_points(self._course, self._assignment.name, records)
        return tell_foreign_points(self.summary.replaced)

    def go(self, submissions: list[Submission], *, force: bool) -> None:
        """Bring every submission to its end, or as many as there are until Ctrl-C."""
        (self._folder / _FAULTS).unlink(missing_ok=True)
        if force:
            self._forget(submissions)
        self._progress = Progress(len(submissions))
        self._report(self._progress)
        try:
            unknown = [s for s in submissions if not self._settle(s)]
            self._judge(deque(longest_first(unknown)))
            self._judge_alone()
        except KeyboardInterrupt:
            self._stop()
        reached = {*self.summary.results, *(student for student, _ in self.summary.failed)}
        self.summary.left = [s.student for s in submissions if s.student not in reached]

    def tidy(self) -> None:
        """Remove what is nobody's any more, once a whole class was gone through."""
        self._records.remove_drafts()
        recorded = {recorded.key for recorded in self._records.all().values()}
        self._store.keep_only(recorded | self._keys)

    def _forget(self, submissions: list[Submission]) -> None:
        for submission in submissions:
            with contextlib.suppress(OSError):  # told of when it is read
                self._store.remove(self._key(submission, submission.sha256()))

    def _settle(self, submission: Submission) -> bool:
        """Record what is known without judging; return whether it was."""
        try:
            digest = submission.sha256()
            key = self._key(submission, digest)
            judged = self._store.load(key)
            if judged is None and submission.refusal:
                judged = refuse(submission.refusal, self._assignment)
                self._store.save(key, judged)
            if judged is None:
                return False
            changed = self._write(submission, digest, judged)
        except GradebookError:
            raise
        except Exception as error:
            self._fail(submission, error)
            return True
        (self.summary.mended if changed else self.summary.unchanged).append(submission.student)
        self._advance(known=1)
        return True

    # --- Judging

    def _judge(self, waiting: deque[Submission]) -> None:
        while waiting or self._in_flight:
            done = [future for future in self._in_flight if future.done()]
            # Workers get their next submission before what they did is written down.
            while waiting and len(self._in_flight) - len(done) < self._workers.slots:
                self._submit(waiting.popleft())
            for future in done:
                self._take(future, waiting)
                del self._in_flight[future]
            if not done:
                wait(self._in_flight, _SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
                self._overdue |= self._workers.end_overdue()

    def _judge_alone(self) -> None:
        """Try again, one by one, what was stopped by the wall's clock beside others' work."""
        self._is_alone = True
        for submission in self._short_of_time:
            self._judge(deque([submission]))

    def _submit(self, submission: Submission) -> None:
        try:
            content = submission.read()
        except OSError as error:
            self._fail(submission, error)
            return
        arguments = (without_mark(content), self._assignment, self._settings)
        future = self._workers.submit(judge_here, self._step, self._environment, *arguments)
        self._in_flight[future] = submission, hashlib.sha256(content).hexdigest()

    def _take(self, future: Future, waiting: deque[Submission]) -> None:
        """Take in what a worker has done, or try again."""
        submission, digest = self._in_flight[future]
        error = CancelledError() if future.cancelled() else future.exception()
        if error is None and future.result().short_of_time and not self._is_alone:
            self._short_of_time.append(submission)
        elif error is None:
            self._keep(submission, digest, future.result())
        elif isinstance(error, sandbox.SandboxError):
            # One that does not start on a busy machine may start later.
            if not self._may_try_again(submission, _SANDBOX_TRIES):
                raise error
            waiting.append(submission)
        elif isinstance(error, GradingError):
            raise error
        elif isinstance(error, self._workers.deaths):
            reason = self._overdue.pop(future, "")
            if reason or not self._may_try_again(submission, self._workers.patience):
                self._give_up(submission, digest, reason or "each process that judged it has died")
            else:
                waiting.append(submission)
        elif isinstance(error, MemoryError | RecursionError):
            self._give_up(submission, digest, f"the judge ended with a {type(error).__name__}")
        else:
            lost = self._workers.explain_loss(error)
            if lost is not None:
                raise lost
            self._fail(submission, error)

    def _may_try_again(self, submission: Submission, most: int) -> bool:
        self._tries[submission.student] += 1
        return self._tries[submission.student] < most

    def _keep(self, submission: Submission, digest: str, judged: Judged) -> None:
        """Keep a result, then record it."""
        key = self._key(submission, digest)
        try:
            # The same bytes of another student's may have been judged meanwhile: once is enough.
            known = self._store.load(key)
            if known is None:
                self._store.save(key, judged)
            self._write(submission, digest, known or judged)
        except GradebookError:
            raise
        except Exception as error:
            self._fail(submission, error)
            return
        self.summary.judged.append(submission.student)
        self._advance()

    def _give_up(self, submission: Submission, digest: str, reason: str) -> None:
        """Record that a submission is more than the judge can take: that is no fault of others'."""
        told = f"{reason}; a person has to look at it"
        self._keep(submission, digest, refuse(told, self._assignment))

    def _stop(self) -> None:
        """Let go of what is at work, and keep what is done."""
        self.summary.interrupted = True
        self._workers.close(at_once=True)
        for future, (submission, digest) in self._in_flight.items():
            is_whole = future.done() and not future.cancelled() and future.exception() is None
            is_whole = is_whole and not future.result().short_of_time
            if is_whole and submission.student not in self.summary.results:
                self._keep(submission, digest, future.result())

    # --- Writing down

    def _key(self, submission: Submission, digest: str) -> str:
        key = make_key(digest, submission.refusal, self._digest, self._settings, self._environment)
        self._keys.add(key)
        return key

    def _write(self, submission: Submission, digest: str, judged: Judged) -> bool:
        """Record a result; return whether the gradebook or a file was different."""
        recorded = Recorded(
            student=submission.student,
            key=self._key(submission, digest),
            submission=digest,
            refusal=submission.refusal,
            received_at=submission.received_at,
        )
        settled, changed = self._recorder.record(recorded, judged)
        self.summary.add(submission.student, settled)
        return changed

    def _fail(self, submission: Submission, error: BaseException) -> None:
        """Note a fault of ours; what was recorded before stays."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / _FAULTS).open("a", encoding="utf-8") as stream:
            trace = "".join(traceback.format_exception(error))
            stream.write(f"{printable(submission.student)}:\n{trace}\n")
        sentence = str(error)
        if not isinstance(error, GradingError):
            where = Path("judged") / self._assignment.name / _FAULTS
            sentence = f"{type(error).__name__}: {error} (more in {where})"
        self.summary.failed.append((submission.student, sentence))
        self._advance()

    def _advance(self, known: int = 0) -> None:
        so_far = self._progress
        self._progress = Progress(so_far.all, so_far.done + 1, so_far.known + known)
        self._report(self._progress)
