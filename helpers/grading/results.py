"""Judged work, kept in ``judged/ASSIGNMENT/``: ``read_class`` is how the other parts read it.

``read_class(course, assignment)`` returns one ``ClassEntry`` per student, sorted by id. An entry is
small: its ``judged`` has everything but the notebook, which ``entry.read_notebook()`` reads from
the disk. Students who are on the gradebook's list but handed nothing in have ``judged=None`` and
``received_at=None``; a submission that has not been judged yet has ``judged=None`` and a time.

A result is two files, ``KEY.json`` and ``KEY.ipynb``. The key is a hash of all that went into the
judging, so what is stored under it stays true for ever; what is cut off or was edited is found out
and judged again. Which result a student's grade comes from stands in ``students/``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from helpers.files import remove_drafts, write_atomically
from helpers.grading.errors import GradingError
from helpers.grading.submissions import Submission, find_notebook, find_submissions
from helpers.grading.verdicts import Judged, from_plain, to_plain

_FORMAT = 1


class ResultStore:
    """The results of one assignment, each under its key."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, ``judged/ASSIGNMENT``; it is made when something is saved."""
        self.folder = folder

    def save(self, key: str, judged: Judged) -> None:
        """Keep a result; the notebook comes first, so that no KEY.json is without it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "format": _FORMAT,
            "key": key,
            "notebook": hashlib.sha256(judged.notebook).hexdigest(),
            "judged": to_plain(judged),
        }
        text = json.dumps({**content, "seal": _seal(content)}, indent=1)
        write_atomically(self._notebook(key), judged.notebook)
        write_atomically(self._result(key), text.encode())

    def load(self, key: str) -> Judged | None:
        """Return a result with its notebook; None if there is none or it is damaged."""
        judged = self.load_without_notebook(key)
        if judged is None:
            return None
        with contextlib.suppress(GradingError):
            return dataclasses.replace(judged, notebook=self.read_notebook(key))
        return None

    def load_without_notebook(self, key: str) -> Judged | None:
        """Return a result with an empty notebook; None if there is none or it is damaged."""
        try:
            return from_plain(self._read(key)["judged"], b"")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def read_notebook(self, key: str) -> bytes:
        """Return a result's notebook.

        Raises:
            GradingError: it is not there, or not what was kept.
        """
        try:
            notebook = self._notebook(key).read_bytes()
            if hashlib.sha256(notebook).hexdigest() == self._read(key)["notebook"]:
                return notebook
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise GradingError(
            f"{self._notebook(key)} is missing or damaged: run bits grade again, which mends it."
        )

    def remove(self, key: str) -> None:
        """Forget a result."""
        # In this order a kill leaves a notebook that nothing speaks of.
        self._result(key).unlink(missing_ok=True)
        self._notebook(key).unlink(missing_ok=True)

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget all other results, and what killed runs have left half-written."""
        remove_drafts(self.folder)
        for suffix in (".json", ".ipynb"):
            for file in self.folder.glob(f"*{suffix}"):
                if file.stem not in keys:
                    file.unlink(missing_ok=True)

    def _read(self, key: str) -> dict[str, Any]:
        content = json.loads(self._result(key).read_bytes())
        seal = content.pop("seal")
        if (content["format"], content["key"], seal) != (_FORMAT, key, _seal(content)):
            raise ValueError(f"{key} is not what was kept")
        return content

    def _result(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _notebook(self, key: str) -> Path:
        return self.folder / f"{key}.ipynb"


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Recorded:
    """Which result a student's grade comes from.

    Attributes:
        student: the student's id.
        key: the result's.
        submission: the SHA-256 of what was handed in; "" if there is no notebook at all.
        refusal: why it was not judged; "" if it was.
        received_at: as timestamp.txt or the receipt tells it; "" if neither does.
    """

    student: str
    key: str
    submission: str
    refusal: str
    received_at: str


class Records:
    """For each student of an assignment, which result was recorded last."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, ``judged/ASSIGNMENT/students``."""
        self._folder = folder

    def find(self, student: str) -> Recorded | None:
        """Return what was recorded for ``student``; None if nothing was."""
        return _read_record(self._file(student), student)

    def all(self) -> dict[str, Recorded]:
        """Return every student's."""
        found = (_read_record(file) for file in self._folder.glob("*.json"))
        return {recorded.student: recorded for recorded in found if recorded}

    def save(self, recorded: Recorded) -> None:
        """Write down that this is now the student's, if it is not there already."""
        if self.find(recorded.student) != recorded:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(dataclasses.asdict(recorded), indent=1)
            write_atomically(self._file(recorded.student), text.encode(), at_once=False)

    def remove_drafts(self) -> None:
        """Remove what killed runs have left half-written."""
        remove_drafts(self._folder)

    def _file(self, student: str) -> Path:
        # An id may differ from another in upper and lower case alone, or be as long as names get.
        name = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{name}.json"


def _read_record(file: Path, student: str | None = None) -> Recorded | None:
    try:
        recorded = Recorded(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    fields = dataclasses.astuple(recorded)
    if not all(isinstance(value, str) for value in fields):
        return None
    return recorded if student in (None, recorded.student) else None


def judged_folder(course: Path, assignment: str) -> Path:
    """Return where the results of ``assignment`` are kept."""
    return course / "judged" / assignment


# --- The class, for whoever reports on it ----------------------------------------------------


@dataclass(frozen=True)
class ClassEntry:
    """One student of the class.

    Attributes:
        student: the id.
        first_name, last_name, email: the gradebook's; "" where it has none.
        received_at: when the submission was received, in UTC; None if that is not known.
        judged: what it came to, with an empty notebook; None if it was not judged.
        submission: the SHA-256 of what was handed in and judged; "" if nothing was.
        is_current: whether ``judged`` is of what counts now; False if a later submission has come
            since, or none was judged.
    """

    student: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    received_at: datetime | None = None
    judged: Judged | None = None
    submission: str = ""
    is_current: bool = False
    _store: ResultStore | None = field(default=None, repr=False, compare=False)
    _key: str = field(default="", repr=False, compare=False)

    def read_notebook(self) -> bytes:
        """Return the judged notebook; b"" where there is none, as of a malformed submission.

        Raises:
            GradingError: it is missing or damaged.
        """
        return self._store.read_notebook(self._key) if self._store and self.judged else b""


def read_class(course: Path, assignment: str) -> list[ClassEntry]:
    """Return what is known of every student, sorted by id.

    Args:
        course: the folder that holds source, submitted and the gradebook.
        assignment: "08-numerical-stability".

    Raises:
        GradingError: there is no such assignment.
    """
    from helpers.grading.gradebook import read_students

    folder = judged_folder(course, assignment)
    store, records = ResultStore(folder), Records(folder / "students").all()
    notebook = find_notebook(course, assignment)
    handed_in = {s.student: s for s in find_submissions(course, assignment, notebook)}
    people = read_students(course)
    entries = []
    for student in sorted({*people, *handed_in, *records}):
        names = people.get(student, {})
        entry = ClassEntry(student, **names)
        entries.append(_fill(entry, handed_in.get(student), records.get(student), store))
    return entries


def _fill(
    entry: ClassEntry,
    submission: Submission | None,
    recorded: Recorded | None,
    store: ResultStore,
) -> ClassEntry:
    if recorded is None:
        said = submission.received_at if submission else ""
        return dataclasses.replace(entry, received_at=_as_time(said))
    judged = store.load_without_notebook(recorded.key)
    is_current = submission is not None and (
        (submission.sha256(), submission.refusal) == (recorded.submission, recorded.refusal)
    )
    return dataclasses.replace(
        entry,
        received_at=_as_time(recorded.received_at),
        judged=judged,
        submission=recorded.submission,
        is_current=is_current and judged is not None,
        _store=store,
        _key=recorded.key,
    )


def _as_time(text: str) -> datetime | None:
    from nbgrader.utils import parse_utc

    try:
        return parse_utc(text).replace(tzinfo=UTC) if text else None
    except (ValueError, OverflowError):
        return None
