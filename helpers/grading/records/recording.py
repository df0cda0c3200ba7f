"""The one step in which results become grades: what was judged, and what people decided of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from helpers.grading.assignment import Assignment
from helpers.grading.records.autograded import write_autograded
from helpers.grading.records.decisions import Decisions
from helpers.grading.records.gradebook import GradebookWriter
from helpers.grading.records.results import Recorded, Records, judged_folder
from helpers.grading.records.settling import settle
from helpers.grading.verdicts import Judged


class Recorder:
    """Makes the gradebook and ``autograded/`` agree with the results of one assignment."""

    def __init__(self, course: Path, assignment: Assignment, writer: GradebookWriter) -> None:
        """Read what people have decided so far.

        Raises:
            GradingError: that is damaged.
        """
        folder = judged_folder(course, assignment.name)
        self._course = course
        self._assignment = assignment
        self._writer = writer
        self._decisions = Decisions(folder)
        self._records = Records(folder / "students")

    def record(self, recorded: Recorded, judged: Judged) -> tuple[Judged, bool]:
        """Record a student's result.

        Args:
            recorded: whose it is, and of what; its points are filled in here.
            judged: as the judge left it.

        Returns:
            what counts, and whether the gradebook or a file was different.
        """
        student = recorded.student
        settled = settle(judged, self._decisions.of(student))
        points = {result.name: float(result.points) for result in settled.exercises}
        recorded = dataclasses.replace(recorded, points=points)
        changed = self._writer.record(recorded, settled, self._records.find(student))
        changed |= write_autograded(
            self._course, self._assignment, student, recorded.received_at, settled
        )
        self._records.save(recorded)
        return settled, changed
