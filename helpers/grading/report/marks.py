"""The marks that count: what was judged, with what the gradebook and people say on top of it.

nbgrader's rules hold: a person's score stands before the automatic one, extra credit comes on top,
a late submission's penalty is taken off, and nobody ends below zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from nbgrader.api import (
    Comment,
    Grade,
    Gradebook,
    GradeCell,
    MissingEntry,
    SubmittedAssignment,
    TaskCell,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from helpers.grading.errors import ReportError
from helpers.grading.records.registration import open_course
from helpers.grading.records.rows import rows_of
from helpers.grading.records.transactions import is_there
from helpers.grading.report.lateness import Due
from helpers.grading.verdicts import ExerciseResult, Judged, Verdict

_TEST = "test-"
_SAME = 0.005  # points are rounded to two decimals


@dataclass(frozen=True)
class Score:
    """What the gradebook has of one graded cell; ``points`` is None where nothing is recorded.

    ``by_a_person`` is true of extra credit, too, ``is_replaced`` where a person's score counts
    instead of the automatic one.
    """

    points: float | None
    automatic: float | None = None
    by_a_person: bool = False
    needs_a_person: bool = False
    is_replaced: bool = False


@dataclass(frozen=True)
class Record:
    """What the gradebook has of one submission.

    ``scores`` are by the graded cell's name, ``comments``, a person's, by the answered cell's.
    """

    scores: Mapping[str, Score] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    penalty: float = 0.0


@dataclass(frozen=True)
class Mark:
    """What one exercise, or one answer that a person grades, counts.

    Attributes:
        name: the exercise's or the cell's.
        points: those that count.
        most: the most it gives without extra credit.
        result: what judging came to; None for what is not judged.
        by_a_person: whether a person gave points.
        comment: a person's.
        for_a_person: why a person should look at it; "" if nobody needs to.
        waiting: points that are not counted before a person has looked.
    """

    name: str
    points: float
    most: float
    result: ExerciseResult | None = None
    by_a_person: bool = False
    comment: str = ""
    for_a_person: str = ""
    waiting: float = 0.0


@dataclass(frozen=True)
class Marks:
    """What one submission counts; ``comments`` are a person's on other cells, by their names."""

    each: tuple[Mark, ...]
    penalty: float = 0.0
    comments: Mapping[str, str] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """All points, with the penalty taken off."""
        total = sum(mark.points for mark in self.each) - self.penalty
        return max(0.0, round(total, 2))

    @property
    def waiting(self) -> float:
        """All points that wait for a person; they are not among ``points``."""
        return round(sum(mark.waiting for mark in self.each), 2)

    @property
    def most(self) -> float:
        """All points that there are."""
        return round(sum(mark.most for mark in self.each), 2)


class GradebookView:
    """What the gradebook has of one assignment; ``due`` is when it is due."""

    def __init__(
        self,
        records: Mapping[str, Record] | None = None,
        most: Mapping[str, float] | None = None,
        due: Due | None = None,
    ) -> None:
        """Take the students' ``records`` and ``most``, the points of every graded cell."""
        self._records = records or {}
        self._most = most or {}
        self.due = due or Due()

    def marks(self, student: str, judged: Judged) -> Marks:
        """Return what the student's submission counts."""
        record = self._records.get(student, Record())
        each = [self._mark(record, result) for result in judged.exercises]
        taken = {f"{_TEST}{mark.name}" for mark in each}
        each += [
            self._mark_by_hand(record, name, most)
            for name, most in self._most.items()
            if name not in taken
        ]
        names = {mark.name for mark in each}
        others = {name: text for name, text in record.comments.items() if name not in names}
        return Marks(tuple(each), record.penalty, others)

    def _mark(self, record: Record, result: ExerciseResult) -> Mark:
        score = record.scores.get(f"{_TEST}{result.name}", Score(None))
        # Who has given points by hand has looked at it.
        waiting = 0.0 if score.is_replaced else result.waiting
        is_done = score.is_replaced and result.waiting > 0
        reasons = [result.for_a_person] if result.for_a_person and not is_done else []
        if not reasons and result.verdict is Verdict.MALFORMED:
            reasons.append(result.message or "it cannot be read")
        if score.points is None:
            reasons.append("its points are not in the gradebook: run bits grade again")
        elif score.automatic is not None and abs(score.automatic - result.points) > _SAME:
            reasons.append(
                f"the gradebook has {score.automatic:g} points for what was judged "
                f"{result.points:g}: run bits grade again"
            )
        elif score.needs_a_person and not reasons:
            reasons.append("the gradebook asks for a person")
        points = result.points if score.points is None else score.points
        comment = record.comments.get(result.name, "")
        return Mark(
            result.name,
            round(points, 2),
            result.most,
            result,
            score.by_a_person,
            comment,
            "; ".join(reasons),
            waiting,
        )

    def _mark_by_hand(self, record: Record, name: str, most: float) -> Mark:
        score = record.scores.get(name, Score(None, needs_a_person=True))
        reason = "to be graded by a person" if score.needs_a_person else ""
        points = round(score.points or 0.0, 2)
        comment = record.comments.get(name, "")
        return Mark(name, points, most, None, score.by_a_person, comment, reason)


def read_gradebook(course: Path, assignment: str) -> GradebookView:
    """Return what the gradebook of ``course`` has of ``assignment``; nothing if there is none.

    Raises:
        ReportError: the gradebook cannot be read.
    """
    directory = open_course(course)
    if not is_there(directory.db_url):
        return GradebookView()
    try:
        with Gradebook(directory.db_url, directory.course_id) as gradebook:
            return _read(gradebook, assignment)
    except SQLAlchemyError as error:
        raise ReportError(
            f"The gradebook {make_url(directory.db_url).database} cannot be read: close the "
            f"programs that use it, or restore it from a backup ({str(error).splitlines()[0]})."
        ) from error


def _read(gradebook: Gradebook, assignment: str) -> GradebookView:
    try:
        entry = gradebook.find_assignment(assignment)
    except MissingEntry:
        return GradebookView()
    most: dict[str, float] = {}
    for notebook in entry.notebooks:
        cells: Iterable[GradeCell | TaskCell] = (*notebook.grade_cells, *notebook.task_cells)
        most |= {cell.name: cell.max_score or 0.0 for cell in cells}
    scores = _read_scores(gradebook, entry.id)
    comments = _read_comments(gradebook, entry.id)
    penalties, extensions = _read_submissions(gradebook, entry.id)
    records = {
        student: Record(scores[student], comments[student], penalty)
        for student, penalty in penalties.items()
    }
    return GradebookView(records, most, Due(entry.duedate, extensions))


def _read_scores(gradebook: Gradebook, assignment: str) -> dict[str, dict[str, Score]]:
    columns = (
        Grade.auto_score,
        Grade.manual_score,
        Grade.extra_credit,
        Grade.score,
        Grade.needs_manual_grade,
    )
    scores: dict[str, dict[str, Score]] = defaultdict(dict)
    rows = rows_of(gradebook, Grade, columns, assignment)
    for student, cell, automatic, manual, extra, points, needs in rows:
        is_recorded = automatic is not None or manual is not None
        by_a_person = manual is not None or bool(extra)
        scores[student][cell] = Score(
            points if is_recorded else None, automatic, by_a_person, bool(needs), manual is not None
        )
    return scores


def _read_comments(gradebook: Gradebook, assignment: str) -> dict[str, dict[str, str]]:
    comments: dict[str, dict[str, str]] = defaultdict(dict)
    for student, cell, text in rows_of(gradebook, Comment, (Comment.manual_comment,), assignment):
        if text and text.strip():
            comments[student][cell] = text.strip()
    return comments


def _read_submissions(
    gradebook: Gradebook, assignment: str
) -> tuple[dict[str, float], dict[str, timedelta]]:
    """Return the students' penalties, and how much longer than others some had time."""
    rows = gradebook.db.query(
        SubmittedAssignment.student_id,
        SubmittedAssignment.late_submission_penalty,
        SubmittedAssignment.extension,
    ).filter(SubmittedAssignment.assignment_id == assignment)
    found = rows.all()
    penalties = {student: float(penalty or 0.0) for student, penalty, _ in found}
    return penalties, {student: longer for student, _, longer in found if longer}
