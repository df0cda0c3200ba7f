"""The exercises of a class with points that wait, or have waited, for a person."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.grading.errors import GradingError
from helpers.grading.names import printable
from helpers.grading.records.class_list import ClassEntry, read_class
from helpers.grading.records.decisions import About, Decision, Decisions
from helpers.grading.records.results import judged_folder
from helpers.grading.records.settling import waits
from helpers.grading.records.submissions import find_notebook
from helpers.grading.report.marks import read_gradebook
from helpers.grading.report.senders import Sender, read_senders
from helpers.grading.report.tables import Row
from helpers.grading.verdicts import ExerciseResult

# How the judge says where something stands.
PLACE = re.compile(r"cell (\d+), line (\d+): ")


@dataclass(frozen=True)
class Case:
    """One student's exercise with points that wait, or have waited.

    Attributes:
        student: the id.
        name: the person's, where it is known.
        result: what judging came to, without what people have decided.
        decision: a person's; None as long as there is none.
        lines: for each doubt the line of code that it is about; "" where that is not known.
        given: the points that a person has given by hand; None if nobody has.
    """

    student: str
    name: str
    result: ExerciseResult
    decision: Decision | None = None
    lines: tuple[str, ...] = ()
    given: float | None = None

    @property
    def about(self) -> About:
        """What a decision on it is about: whose code for which exercise."""
        return self.student, self.result.name, self.result.code

    @property
    def is_open(self) -> bool:
        """Whether it waits for a decision."""
        return self.decision is None


@dataclass(frozen=True)
class Selection:
    """Which cases are meant; what is empty leaves nothing out.

    Attributes:
        students: ids.
        exercises: names.
        reason: a part of what is to be looked at, like "sys._getframe".
    """

    students: Collection[str] = ()
    exercises: Collection[str] = ()
    reason: str = ""

    def holds(self, case: Case) -> bool:
        """Return whether ``case`` is meant."""
        doubts = [doubt.casefold() for doubt in case.result.doubts]
        return (
            (not self.students or case.student in self.students)
            and (not self.exercises or case.result.name in self.exercises)
            and (not self.reason or any(self.reason.casefold() in doubt for doubt in doubts))
        )


@dataclass(frozen=True)
class Cases:
    """All cases of one assignment.

    Attributes:
        assignment: its name.
        all: the cases, by student and in the exercises' order.
        students: the ids of all students whose work was judged.
        exercises: the names of all exercises.
    """

    assignment: str
    all: tuple[Case, ...]
    students: tuple[str, ...]
    exercises: tuple[str, ...]

    @property
    def open(self) -> list[Case]:
        """Those that wait for a decision."""
        return [case for case in self.all if case.is_open]

    def select(self, selection: Selection) -> list[Case]:
        """Return the cases that are meant.

        Raises:
            GradingError: there is no such student or exercise.
        """
        where = f"in {printable(self.assignment)}"
        for student in selection.students:
            _require(
                student,
                self.students,
                f"Nothing of a student {printable(student)} was judged {where}",
            )
        for exercise in selection.exercises:
            _require(
                exercise, self.exercises, f"There is no exercise {printable(exercise)} {where}"
            )
        return [case for case in self.all if selection.holds(case)]


def find_cases(course: Path, assignment: str) -> Cases:
    """Return the cases of ``assignment``.

    Raises:
        GradingError: there is no such assignment, or nothing of it was judged.
    """
    entries = [entry for entry in read_class(course, assignment) if entry.as_judged]
    if not entries:
        raise GradingError(
            f"Nothing of {assignment} has been graded yet: run bits grade {assignment} first."
        )
    decisions = Decisions(judged_folder(course, assignment))
    senders = read_senders(course / "received" / assignment)
    notebook = find_notebook(course, assignment)
    view = read_gradebook(course, assignment)
    found: list[Case] = []
    for entry in entries:
        waiting = [result for result in entry.as_judged.exercises if waits(result)]
        if not waiting:
            continue
        marks = {mark.name: mark for mark in view.marks(entry.student, entry.as_judged).each}
        lines = _Lines(course / "submitted" / entry.student / assignment / notebook, entry)
        for result in waiting:
            # A score by hand stands before the judged one, and leaves nothing that waits.
            mark = marks[result.name]
            given = mark.points if result.waiting and not mark.waiting else None
            found.append(
                Case(
                    entry.student,
                    _name(entry, senders),
                    result,
                    decisions.find(entry.student, result.name, result.code),
                    tuple(map(lines.find, result.doubts)),
                    given,
                )
            )
    exercises = dict.fromkeys(e.name for entry in entries for e in entry.as_judged.exercises)
    return Cases(assignment, tuple(found), tuple(e.student for e in entries), tuple(exercises))


class _Lines:
    """The lines of code in what a student has handed in."""

    def __init__(self, file: Path, entry: ClassEntry) -> None:
        self._cells: list[list[str]] = []
        if entry.is_current:
            self._cells = list(_read_cells(file))

    def find(self, doubt: str) -> str:
        """Return the line that ``doubt`` is about; "" if it is not known."""
        place = PLACE.match(doubt)
        if not place:
            return ""
        cell, line = (int(number) - 1 for number in place.groups())
        try:
            return self._cells[cell][line].strip()
        except IndexError:
            return ""


def _read_cells(file: Path) -> Iterator[list[str]]:
    try:
        cells = json.loads(file.read_bytes())["cells"]
        for cell in cells:
            source = cell["source"]
            yield ("".join(source) if isinstance(source, list) else source).splitlines()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return


def _name(entry: ClassEntry, senders: dict[str, Sender]) -> str:
    sender = senders.get(entry.student, Sender())
    return Row(entry.student, entry.first_name, entry.last_name, sender=sender).name


def _require(name: str, known: Sequence[str], problem: str) -> None:
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=3)
    hint = f": did you mean {_either(close)}?" if close else "."
    raise GradingError(f"{problem}{hint}")


def _either(names: Iterable[str]) -> str:
    return " or ".join(map(printable, names))
