"""The one writer: what was judged becomes grades in nbgrader's gradebook.

A submission is recorded in one transaction. What a person has entered (scores, extra credit,
comments) is never changed. Nothing here relies on what an earlier run may have got done: what the
gradebook holds is compared with the result, and what differs is mended.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbformat.notebooknode import NotebookNode, from_dict
from nbformat.v4.rwbase import rejoin_lines
from nbgrader.api import (
    Assignment as AssignmentRow,
)
from nbgrader.api import (
    BaseCell,
    Comment,
    Grade,
    Gradebook,
    Notebook,
    Student,
    SubmittedAssignment,
    SubmittedNotebook,
    new_uuid,
)
from nbgrader.preprocessors import AssignLatePenalties
from nbgrader.utils import compute_checksum, determine_grade, parse_utc
from sqlalchemy import Row, select

from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.errors import GradingError
from helpers.grading.names import printable
from helpers.grading.records.registration import open_course
from helpers.grading.records.results import Recorded
from helpers.grading.records.settling import waits
from helpers.grading.records.transactions import TransactionalGradebook, is_there
from helpers.grading.verdicts import Judged, Verdict

_TEST = "test-"
# Of which types of cells nbgrader keeps a grade, and of which a comment.
_TYPES = {Grade: ("GradeCell", "TaskCell"), Comment: ("SolutionCell", "TaskCell")}
_NO_RESPONSE = "No response."  # nbgrader's words for a stub that nobody touched


@dataclass(frozen=True)
class _Entry:
    """What the gradebook is to hold of one graded cell.

    Attributes:
        points: the automatic score; None where only a person can give one.
        for_a_person: whether a person should look at it all the same.
        waits: whether points wait for a person; they are not among ``points``.
    """

    points: float | None
    for_a_person: bool
    waits: bool = False


class GradebookWriter:
    """Writes what was judged of one assignment; use it in a ``with`` statement."""

    def __init__(self, course: Path, assignment: Assignment) -> None:
        """Open the gradebook of ``course``, which knows ``assignment`` already."""
        directory = open_course(course)
        self._assignment = assignment
        self._penalties = _LatePenalties(config=directory.config)
        self._penalties.init_plugin()
        self._gradebook = TransactionalGradebook(directory.db_url, directory.course_id)
        self._changed = False

    def __enter__(self) -> GradebookWriter:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the gradebook."""
        self._gradebook.close()

    def record(self, recorded: Recorded, judged: Judged, before: Recorded | None) -> bool:
        """Make the gradebook hold what was judged; return whether anything was different.

        Args:
            recorded: whose submission it is, when it was received, and its result's key.
            judged: the result, with what people have decided.
            before: what was recorded of the student by an earlier run.

        Raises:
            GradingError: the time of the receipt is no time, or the gradebook cannot be written.
        """
        received_at = _parse_time(recorded)
        cells = _cells_by_name(judged)
        entries = _entries(self._assignment, judged, cells)
        comments = _automatic_comments(self._assignment, cells)
        self._changed = False
        with self._gradebook.transaction():
            submission = self._find_submission(recorded.student)
            if received_at is not None:
                self._set(submission, "timestamp", received_at)
            notebook = self._find_notebook(submission)
            cells = self._find_cells(notebook)
            for name, grade in self._rows(notebook, Grade, cells, entries).items():
                self._enter(grade, entries[name], recorded, before)
            for name, row in self._rows(notebook, Comment, cells, comments).items():
                self._set(row, "auto_comment", comments[name])
            self._gradebook.db.flush()
            penalty = self._penalties.for_submission(submission, notebook)
            self._set(notebook, "late_submission_penalty", penalty)
        return self._changed

    # By nbgrader's own methods it is five times as many statements: each row asks for its cell.

    def _find_submission(self, student: str) -> SubmittedAssignment:
        db = self._gradebook.db
        name = self._assignment.name
        wanted = select(SubmittedAssignment).join(AssignmentRow).where(AssignmentRow.name == name)
        wanted = wanted.where(SubmittedAssignment.student_id == student)
        found = db.scalars(wanted).one_or_none()
        if found is None:
            self._changed = True
            self._gradebook.update_or_create_student(student)
            assignment = db.scalars(
                select(AssignmentRow.id).where(AssignmentRow.name == name)
            ).one()
            found = SubmittedAssignment(id=new_uuid(), assignment_id=assignment, student_id=student)
            db.add(found)
        return found

    def _find_notebook(self, submission: SubmittedAssignment) -> SubmittedNotebook:
        db = self._gradebook.db
        named = select(Notebook.id).where(Notebook.name == self._assignment.notebook)
        id_ = db.scalars(named.where(Notebook.assignment_id == submission.assignment_id)).one()
        wanted = select(SubmittedNotebook).where(SubmittedNotebook.notebook_id == id_)
        wanted = wanted.where(SubmittedNotebook.assignment_id == submission.id)
        found = db.scalars(wanted).one_or_none()
        if found is None:
            self._changed = True
            found = SubmittedNotebook(id=new_uuid(), notebook_id=id_, assignment_id=submission.id)
            db.add(found)
        return found

    def _find_cells(self, notebook: SubmittedNotebook) -> list[Row]:
        """Return type, name and id of each cell that nbgrader knows of the notebook."""
        about = select(BaseCell.type, BaseCell.name, BaseCell.id)
        about = about.where(BaseCell.notebook_id == notebook.notebook_id)
        return self._gradebook.db.execute(about).all()

    def _rows(
        self,
        notebook: SubmittedNotebook,
        kind: type[Grade] | type[Comment],
        cells: Collection[Row],
        wanted: Collection[str],
    ) -> dict[str, Grade | Comment]:
        """Return the rows of the cells in ``wanted``; a cell may be younger than the submission."""
        db = self._gradebook.db
        rows = select(kind).where(kind.notebook_id == notebook.id)
        by_cell = {row.cell_id: row for row in db.scalars(rows)}
        ids = {name: id_ for type_, name, id_ in cells if type_ in _TYPES[kind]}
        found = {}
        for name in sorted(wanted):
            row = by_cell.get(ids[name])
            if row is None:
                self._changed = True
                row = kind(cell_id=ids[name], notebook_id=notebook.id)
                if kind is Grade:
                    row.needs_manual_grade = True  # until it is known that nobody need look
                db.add(row)
            found[name] = row
        return found

    def _enter(
        self, grade: Grade, entry: _Entry, recorded: Recorded, before: Recorded | None
    ) -> None:
        needed = _needs_a_person(grade, entry, recorded, before)
        self._set(grade, "auto_score", entry.points)
        self._set(grade, "needs_manual_grade", needed)

    def _set(self, row: object, column: str, value: object) -> None:
        if getattr(row, column) != value:
            setattr(row, column, value)
            self._changed = True


class _LatePenalties(AssignLatePenalties):
    """nbgrader's late penalties, by the plugin that the course has configured."""

    def for_submission(
        self, submission: SubmittedAssignment, notebook: SubmittedNotebook
    ) -> float | None:
        """Return the penalty; None if there is none."""
        late = submission.total_seconds_late
        if late <= 0:
            return None
        penalty = self.plugin_inst.late_submission_penalty(
            submission.student.id, notebook.score, late
        )
        return None if penalty is None else self._check_late_penalty(notebook, penalty)


def _parse_time(recorded: Recorded) -> object:
    try:
        return parse_utc(recorded.received_at) if recorded.received_at else None
    except (ValueError, OverflowError, TypeError) as error:
        raise GradingError(
            f"the timestamp.txt of {printable(recorded.student)} holds no time "
            f"({printable(recorded.received_at)!r}): correct or remove it and run the same command "
            f"again"
        ) from error


def _needs_a_person(
    grade: Grade, entry: _Entry, recorded: Recorded, before: Recorded | None
) -> bool:
    """Return whether formgrader should list a grade as one that a person has to look at.

    What a person has seen stays seen until something is different: the score, or, where a person
    has to look at the answer in any case, the answer. Points that wait do so until it is decided
    about them, or a person has given others.
    """
    wanted = entry.for_a_person or entry.waits or entry.points is None
    by_hand = grade.manual_score is not None
    if entry.waits and not by_hand:
        return True
    if grade.auto_score != entry.points:
        return wanted or by_hand
    if wanted and before is not None and before.submission != recorded.submission:
        return True
    judged_anew = before is None or before.key != recorded.key
    if (judged_anew or not wanted) and not by_hand and entry.points is not None:
        return wanted
    return bool(grade.needs_manual_grade)


def _cells_by_name(judged: Judged) -> dict[str, NotebookNode]:
    """Return nbgrader's cells of the judged notebook; none of a malformed submission."""
    if not judged.notebook:
        return {}
    cells = json.loads(judged.notebook)["cells"]
    ours = [c for c in cells if type(c["metadata"].get("nbgrader", {}).get("grade_id")) is str]
    cells = rejoin_lines(from_dict({"cells": ours})).cells  # only these: it takes its time
    return {cell.metadata.nbgrader.grade_id: cell for cell in cells}


def _entries(
    assignment: Assignment, judged: Judged, cells: Mapping[str, NotebookNode]
) -> dict[str, _Entry]:
    """Return what the gradebook is to hold of every graded cell."""
    results = {_TEST + result.name: result for result in judged.exercises}
    entries = {}
    for cell in assignment.cells:
        if not cell.grade:
            continue
        result = results.get(cell.name)
        if result is not None:
            looked_at = bool(result.for_a_person) or result.verdict is Verdict.MALFORMED
            entries[cell.name] = _Entry(float(result.points), looked_at, waits(result))
        elif cell.name in cells:
            points, _ = determine_grade(cells[cell.name])
            entries[cell.name] = _Entry(points, False)
        else:
            entries[cell.name] = _Entry(0.0, True)
    return entries


def _automatic_comments(
    assignment: Assignment, cells: Mapping[str, NotebookNode]
) -> dict[str, str | None]:
    """Return nbgrader's own comment on every cell that a student writes in."""
    solutions = [cell for cell in assignment.cells if cell.solution]
    return {c.name: _NO_RESPONSE if _is_untouched(c, cells) else None for c in solutions}


def _is_untouched(cell: SourceCell, cells: Mapping[str, NotebookNode]) -> bool:
    return cell.name in cells and compute_checksum(cells[cell.name]) == cell.checksum


def read_students(course: Path) -> dict[str, dict[str, str]]:
    """Return the gradebook's students: for each id the first_name, last_name and email it has."""
    directory = open_course(course)
    if not is_there(directory.db_url):
        return {}
    columns = ("first_name", "last_name", "email")
    with Gradebook(directory.db_url, directory.course_id) as gradebook:
        rows = gradebook.db.query(Student.id, *(getattr(Student, c) for c in columns)).all()
    return {row[0]: {c: v or "" for c, v in zip(columns, row[1:], strict=True)} for row in rows}
