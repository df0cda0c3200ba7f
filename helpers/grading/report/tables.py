"""The class as tables: one for people, and those that Moodle and Canvas import.

A spreadsheet runs what looks like a formula. So a cell of text has an apostrophe before a character
that would start one, also behind what some spreadsheets take for a separator or a quote; numbers
are ours and stay numbers. The table for people is UTF-8 with a mark in front: without it, Excel
reads another encoding. The learning management systems' have none: Canvas would take it for a part
of the first column's name. They find a student by an exact identifier, which must not be changed:
who has one that a spreadsheet would run is left out of them, and named.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from helpers.grading.report.marks import Mark, Marks
from helpers.grading.report.senders import Sender
from helpers.grading.shown import one_line

_STARTS_FORMULA = re.compile(r"""((?:^|[;,|"])\s*)([=+\-@＝＋－＠])""")
_NOTHING = "nothing received"
_NOT_JUDGED = "not judged yet"
_POINTS_POSSIBLE = "Points Possible"


@dataclass(frozen=True)
class Row:
    """One student.

    Attributes:
        student: the id.
        first_name, last_name, email: the gradebook's; "" where it has none.
        sender: whom the source of the submission names.
        received_at: when the submission came; None if none did.
        marks: what it counts; None if nothing was judged.
        for_a_person: why a person should look at it, a sentence each.
        notes: what else the instructor should know, a sentence each.
        page: the feedback page's file name; "" if there is none.
        late: by how much it came after the due date.
    """

    student: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    sender: Sender = field(default_factory=Sender)
    received_at: datetime | None = None
    marks: Marks | None = None
    for_a_person: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    page: str = ""
    late: timedelta = timedelta()

    @property
    def name(self) -> str:
        """The person's name for people to read; "" if nothing tells more than the id does."""
        known = f"{self.first_name} {self.last_name}".strip()
        return known or (self.sender.name if self.sender.name != self.student else "")

    @property
    def status(self) -> str:
        """What there is instead of marks."""
        if self.marks is not None:
            return ""
        return _NOT_JUDGED if self.received_at else _NOTHING


@dataclass
class ImportTable:
    """A table that a learning management system imports; ``left_out`` names a student and why."""

    content: bytes = b""
    left_out: list[tuple[str, str]] = field(default_factory=list)


def grades_table(rows: Sequence[Row]) -> bytes:
    """Return everybody's points and verdicts as CSV."""
    names = list(dict.fromkeys(mark.name for row in rows if row.marks for mark in row.marks.each))
    header = ["student_id", "last_name", "first_name", "email", "sender", "received_at_utc"]
    header += ["total", "most", "waiting", "late_penalty", "needs_a_person", "notes"]
    header += [column for name in names for column in (name, f"{name} verdict")]
    table = [header]
    for row in rows:
        told = (row.student, row.last_name, row.first_name, row.email, row.sender.name)
        cells = [guard(text) for text in told]
        cells.append(f"{row.received_at:%Y-%m-%d %H:%M:%S}" if row.received_at else "")
        if row.marks:
            marks = row.marks
            cells += [number(v) for v in (marks.points, marks.most, marks.waiting, marks.penalty)]
        else:
            cells += ["", "", "", ""]
        cells += [guard("; ".join(told), 1000) for told in (row.for_a_person, row.notes)]
        by_name = {mark.name: mark for mark in row.marks.each} if row.marks else {}
        for name in names:
            mark = by_name.get(name)
            cells += [number(mark.points) if mark else "", _verdict(mark) or row.status]
        table.append(cells)
    return _as_csv(table, "utf-8-sig")


def moodle_table(rows: Iterable[Row], column: str | None = None) -> ImportTable:
    """Return the table for Moodle: for its gradebook, or for one assignment's grading worksheet.

    The gradebook's import (docs.moodle.org, "Grade import") lets one choose which column tells the
    student, ``ID number`` or ``Email address``, and which is the grade. It stops at the first
    student whom the course does not know, and an empty grade takes an earlier one away: so who
    has handed in nothing is not in it.

    An assignment's "Upload grading worksheet" (plugin ``assignfeedback_offline``) wants the columns
    ``Identifier``, ``Grade`` and ``Last modified (grade)``, by their English names. The identifier,
    "Participant 12345", is known of those whose work came in a zip from Moodle. The last column is
    empty, so that a grade that is in Moodle already stays, unless one ticks that it be replaced.
    """
    header = ["Identifier", "Full name", "ID number", "Email address", "Grade", "Maximum Grade"]
    lines = [[*header, "Last modified (grade)", *([guard(column)] if column else [])]]
    table = ImportTable()
    for row in rows:
        if row.marks is None or not _can_be_imported(row, table):
            continue
        is_known = row.sender.system == "Moodle"
        participant = f"Participant {row.sender.number}" if is_known else ""
        name = guard(f"{row.first_name} {row.last_name}")
        points, most = number(row.marks.points), number(row.marks.most)
        cells = [participant, name, row.student, row.email, points, most, ""]
        lines.append([*cells, *([points] if column else [])])
    table.content = _as_csv(lines, "utf-8")
    return table


def canvas_table(rows: Iterable[Row], assignment: str, column: str | None = None) -> ImportTable:
    """Return the table for Canvas's gradebook.

    Its import (guide "How do I import grades in the Gradebook?", and instructure/canvas-lms,
    ``lib/gradebook_importer.rb``) wants the columns Student, ID, SIS User ID, SIS Login ID and
    Section, then one for each assignment, called like ``Title (4711)`` with Canvas's number or by
    its exact title; and a row with the points that are possible. It finds a student by Canvas's
    number, which is known of those whose work came in a zip from Canvas, then by the two other
    identifiers, and at last by the name: so a name that two have is not told.
    """
    present = [row for row in rows if row.marks is not None]
    names = {
        row.student: guard(f"{row.last_name}, {row.first_name}".strip(", ")) for row in present
    }
    shared = Counter(name.casefold() for name in names.values())
    most = max((row.marks.most for row in present if row.marks), default=0.0)
    lines = [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", guard(column or assignment)],
        [f"    {_POINTS_POSSIBLE}", "", "", "", "", number(most)],
    ]
    table = ImportTable()
    for row in present:
        if row.marks is None or not _can_be_imported(row, table):
            continue
        if _POINTS_POSSIBLE in row.student:
            table.left_out.append((row.student, "Canvas would take it for the points possible"))
            continue
        name = names[row.student]
        if not name or shared[name.casefold()] > 1 or _POINTS_POSSIBLE in name:
            name = row.student
        number_in_canvas = row.sender.number if row.sender.system == "Canvas" else ""
        login = row.email or row.student
        lines.append([name, number_in_canvas, row.student, login, "", number(row.marks.points)])
    table.content = _as_csv(lines, "utf-8")
    return table


def read_column(file: Path) -> str | None:
    """Return what the assignment is called in a table for Canvas; None if it cannot be read."""
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            return next(csv.reader(stream))[5]
    except (OSError, ValueError, StopIteration, IndexError, csv.Error):
        return None


def guard(text: str, most: int = 200) -> str:
    """Return ``text`` as a cell that no spreadsheet takes for a formula."""
    return _STARTS_FORMULA.sub(r"\1'\2", one_line(text, most))


def number(value: float) -> str:
    """Return points as a table has them: at most two decimals, and a point before them."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _can_be_imported(row: Row, table: ImportTable) -> bool:
    for what, identifier in (("id", row.student), ("email address", row.email)):
        if guard(identifier) != identifier:
            reason = f"a spreadsheet would run the {what}, or it holds characters that do not show"
            table.left_out.append((row.student, reason))
            return False
    return True


def _verdict(mark: Mark | None) -> str:
    if mark is None:
        return ""
    verdict = str(mark.result.verdict) if mark.result else ""
    return f"{verdict}, points by a person".lstrip(", ") if mark.by_a_person else verdict


def _as_csv(table: Iterable[Iterable[str]], encoding: str) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(table)
    return text.getvalue().encode(encoding)
