"""The class list: which student somebody is, by what a learning management system calls them."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from helpers.grading.errors import IntakeError
from helpers.grading.intake.origins import Origin
from helpers.grading.names import fold

_MAX_SIZE = 16 * 2**20
# What the lists of nbgrader, Moodle and others call the same.
_OTHER_NAMES = {
    "full_name": "name",
    "email_address": "email",
    "identifier": "lms_id",
    "id_number": "student_id",
}


@dataclass(frozen=True)
class Person:
    """One student as the class list has them; a name that is not divided is a last name."""

    student: str
    first_name: str
    last_name: str
    email: str


class Roster:
    """The students of a course, and what they are called elsewhere."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        """Take the rows, each with a ``student_id``."""
        self.people = [_person(row) for row in rows]
        # Each index maps to a set: what two students share tells neither.
        self._by_lms_id: dict[str, set[str]] = defaultdict(set)
        self._by_id: dict[str, set[str]] = defaultdict(set)
        self._by_name: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            number = row.get("lms_id", "").removeprefix("Participant ")
            self._by_lms_id[number].add(row["student_id"])
            for column in ("student_id", "email"):
                self._by_id[row.get(column, "").casefold()].add(row["student_id"])
            both = f"{row.get('first_name', '')} {row.get('last_name', '')}"
            for name in (row.get("lms_name", ""), row.get("name", ""), both):
                for spelling in _spellings(name):
                    self._by_name[spelling].add(row["student_id"])

    def find(self, origin: Origin) -> str | None:
        """Return the id of the one student that ``origin`` can be; None if none or several."""
        # A system's own number may by chance be another student's id: it counts as lms_id alone.
        tries = (
            (self._by_lms_id, origin.lms_id),
            (self._by_id, origin.name.casefold()),
            (self._by_name, fold(origin.name)),
        )
        for index, key in tries:
            if key and len(index.get(key, ())) == 1:
                return next(iter(index[key]))
        return None


def read_roster(path: Path) -> Roster:
    """Read a class list.

    Args:
        path: a CSV file, separated by commas, semicolons or tabs, whose header has ``student_id``
            and any of ``name`` (or ``first_name`` and ``last_name``), ``email``, ``lms_id`` and
            ``lms_name``; Moodle's own titles of these are understood. ``lms_id`` is Canvas's number
            of the user or, for one assignment, Moodle's of the participant, as its grading
            worksheet has it.

    Raises:
        IntakeError: it cannot be read, or lacks what it needs.
    """
    try:
        if path.stat().st_size > _MAX_SIZE:
            raise IntakeError(f"The roster {path} is too large: give a CSV file of the class.")
        text = path.read_text(encoding="utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator)
        columns = _columns(table.fieldnames or [])
        table.fieldnames = columns
        rows = [{k: (v or "").strip() for k, v in row.items() if k} for row in table]
    except OSError as error:
        raise IntakeError(f"The roster {path} cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise IntakeError(
            f"The roster {path} is not a CSV file in UTF-8: save it as one and try again."
        ) from error
    if "student_id" not in columns:
        raise IntakeError(f"The roster {path} has no column student_id: name it in the first line.")
    rows = [row for row in rows if any(row.values())]
    _check_ids(path, rows)
    return Roster(rows)


def _person(row: dict[str, str]) -> Person:
    first, last = row.get("first_name", ""), row.get("last_name", "")
    return Person(
        row["student_id"],
        first,
        last or ("" if first else row.get("name", "")),
        row.get("email", ""),
    )


def _columns(titles: Iterable[str | None]) -> list[str]:
    names = ["_".join((title or "").lower().split()) for title in titles]
    usual = [_OTHER_NAMES.get(name, name) for name in names]
    return [name if other in names else other for name, other in zip(names, usual, strict=True)]


def _check_ids(path: Path, rows: list[dict[str, str]]) -> None:
    seen: set[str] = set()
    for row in rows:
        student = row["student_id"]
        if not student:
            raise IntakeError(f"The roster {path} has a line without a student_id: fill it in.")
        if student.casefold() in seen:
            raise IntakeError(f"The roster {path} has the student_id {student!r} twice.")
        seen.add(student.casefold())


def _spellings(name: str) -> set[str]:
    """Return the foldings of a name, with every word order that keeps a last name together."""
    words = name.replace(",", " ").split()
    return {fold("".join(words[at:] + words[:at])) for at in range(len(words))} - {""}
