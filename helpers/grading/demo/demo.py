"""``bits demo``: an invented class, collected, graded and reported on as a real one is.

It calls what the commands call, in a folder of its own, and says which command each step is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.api import Gradebook

from helpers.grading.demo.folder import CLASS_ZIP, LATE_ZIP, open_folder
from helpers.grading.engine import engine
from helpers.grading.engine.summary import Summary
from helpers.grading.intake.intake import collect
from helpers.grading.names import printable
from helpers.grading.progress import Progress
from helpers.grading.records.registration import open_course, register
from helpers.grading.report.report import Summary as Report
from helpers.grading.report.report import write_report
from helpers.grading.settings import Settings


@dataclass(frozen=True)
class Outcome:
    """What the demo came to.

    Attributes:
        folder: the demo's.
        graded: what grading came to.
        report: what was written; None if grading was stopped before the end.
        special: the students whose work is special, and what it is.
    """

    folder: Path
    graded: Summary
    report: Report | None
    special: tuple[tuple[str, str], ...]


def run_demo(
    course: Path,
    assignment: str,
    folder: Path,
    size: int,
    *,
    say: Callable[[str], None] = lambda line: None,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Let an invented class hand in ``assignment``, and grade it.

    Args:
        course: the folder ``course/``; nothing is written there.
        assignment: a chapter, like ``08-numerical-stability``.
        folder: where the class's own course is made.
        size: how many students.
        say: called with each command before what it does is done.
        report: called after each submission that is graded.

    Raises:
        SandboxError: there is no sandbox to judge in.
        DemoError: the folder cannot be used.
        GradingError, RegistrationError, IntakeError, ReportError: a step cannot be done.
    """
    engine.describe_sandbox(Settings())
    with open_folder(folder, course, assignment, size) as (own, invented):
        say(f"bits collect {CLASS_ZIP} --assignment {assignment}")
        if collect(folder / CLASS_ZIP, own, assignment).collected:
            _make_due(own, assignment)
        say(f"bits collect {LATE_ZIP} --assignment {assignment}")
        collect(folder / LATE_ZIP, own, assignment)
        say(f"bits grade {assignment}")
        graded = engine.grade(own, assignment, report=report)
        special = tuple((work.student, work.about) for work in invented.in_time if work.about)
        if graded.interrupted:
            return Outcome(folder, graded, None, special)
        say(f"bits report {assignment}")
        return Outcome(folder, graded, write_report(own, assignment), special)


def _make_due(course: Path, assignment: str) -> None:
    """Let the assignment be due now: what is collected later is late."""
    register(course, assignment)
    directory = open_course(course)
    # nbgrader keeps times in UTC, without saying so.
    now = datetime.now(UTC).replace(tzinfo=None)
    with Gradebook(directory.db_url, directory.course_id) as gradebook:
        gradebook.update_or_create_assignment(assignment, duedate=now)


def summarize(outcome: Outcome) -> list[str]:
    """Return the lines that say what was done, and where to look."""
    if outcome.report is None:
        left = len(outcome.graded.left)
        return [f"Stopped before the end: {left} are left; run the same command again."]
    course = outcome.folder / "course"
    lines = ["", outcome.report.sentence, "Special among them:"]
    lines += [f"  {student} {about}" for student, about in outcome.special]
    for student, why in outcome.graded.failed:
        lines.append(f"Not graded, through no fault of the student: {student}: {printable(why)}")
    lines += outcome.report.waiting
    lines += [
        f"The report:     {outcome.report.index}",
        f"Feedback pages: {outcome.report.index.parent / 'feedback'}",
        f"The gradebook:  {course / 'gradebook.db'}",
        f"Formgrader:     cd {shlex.quote(str(outcome.folder))} && bits staff",
        "The commands above can be typed there, too.",
    ]
    return lines
