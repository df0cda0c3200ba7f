"""What is known of every student: who they are, what they handed in and what it came to.

``read_class(course, assignment)`` returns one ``ClassEntry`` per student, sorted by id. An entry is
small: its ``judged`` has everything but the notebook, which ``entry.read_notebook()`` reads from
the disk. Students who are on the gradebook's list but handed nothing in have ``judged=None`` and
``received_at=None``; a submission that has not been judged yet has ``judged=None`` and a time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from nbgrader.utils import parse_utc

from helpers.grading.records.decisions import Decisions
from helpers.grading.records.gradebook import read_students
from helpers.grading.records.results import Recorded, Records, ResultStore, judged_folder
from helpers.grading.records.settling import settle
from helpers.grading.records.submissions import Submission, find_notebook, find_submissions
from helpers.grading.verdicts import Judged


@dataclass(frozen=True)
class ClassEntry:
    """One student of the class.

    Attributes:
        student: the id.
        first_name, last_name, email: the gradebook's; "" where it has none.
        received_at: when the submission was received, in UTC; None if that is not known.
        judged: what it came to, with what people have decided and an empty notebook; None if it
            was not judged.
        as_judged: the same without what people have decided.
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
    as_judged: Judged | None = field(default=None, repr=False)
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
        GradingError: there is no such assignment, or what people have decided is damaged.
    """
    folder = judged_folder(course, assignment)
    store, records = ResultStore(folder), Records(folder / "students").all()
    decisions = Decisions(folder)
    notebook = find_notebook(course, assignment)
    handed_in = {s.student: s for s in find_submissions(course, assignment, notebook)}
    people = read_students(course)
    entries = []
    for student in sorted({*people, *handed_in, *records}):
        names = people.get(student, {})
        entry = ClassEntry(student, **names)
        filled = _fill(entry, handed_in.get(student), records.get(student), store)
        if filled.as_judged is not None:
            settled = settle(filled.as_judged, decisions.of(student))
            filled = dataclasses.replace(filled, judged=settled)
        entries.append(filled)
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
        as_judged=judged,
        submission=recorded.submission,
        is_current=is_current and judged is not None,
        _store=store,
        _key=recorded.key,
    )


def _as_time(text: str) -> datetime | None:
    try:
        return parse_utc(text).replace(tzinfo=UTC) if text else None
    except (ValueError, OverflowError):
        return None
