"""The first stage of grading: what students handed in becomes what nbgrader grades.

``collect`` reads a folder, a zip from a learning management system or one notebook. It keeps every
notebook as it came, in ``received/``, writes a receipt for each, and puts the one that counts where
nbgrader looks for it: ``submitted/STUDENT/ASSIGNMENT/NOTEBOOK``, with the time of its receipt.

The one that counts is the last one received that can be graded. Of several that one source holds
of a student, the last is the one with the greatest number of Canvas's attachment, then with the
greatest number behind its name ("-1", " (1)"), then the one that stands last in the source. Times
that students or zips claim count for nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from helpers.files import write_atomically
from helpers.grading import soundness
from helpers.grading.caps import Caps
from helpers.grading.errors import IntakeError
from helpers.grading.intake.archive import Entry, RefusedError, Source, open_source
from helpers.grading.intake.origins import (
    Layout,
    Origin,
    is_called,
    match_pattern,
    split_repetition,
)
from helpers.grading.intake.receipts import (
    Receipt,
    ReceiptBook,
    Status,
    sha256,
    sole_writer,
)
from helpers.grading.intake.roster import Person, Roster, read_roster
from helpers.grading.intake.students import Students
from helpers.grading.names import printable

_STAMP = "timestamp.txt"
_CAPS = Caps()


@dataclass
class Summary:
    """What became of everything that one source held.

    ``collected``, ``replaced`` and ``unchanged`` hold students' ids; ``expected`` the people on the
    roster, and ``missing`` the ids of those of whom nothing that can be graded has been received
    yet. The others hold pairs: who or which file, and a sentence.
    """

    assignment: str
    collected: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    malformed: list[tuple[str, str]] = field(default_factory=list)
    unclear: list[tuple[str, str]] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    expected: list[Person] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _File:
    """A notebook in the source, and what its name says."""

    entry: Entry
    origin: Origin
    position: int

    @property
    def arrival(self) -> tuple[int, int, int]:
        return self.origin.order, split_repetition(self.origin.file)[1], self.position


def utc_now() -> datetime:
    """Return the time, which is when something counts as received."""
    return datetime.now(UTC)


def collect(
    path: Path,
    course: Path,
    assignment: str,
    *,
    roster: Path | None = None,
    pattern: str | None = None,
    student: str | None = None,
    caps: Caps = _CAPS,
    clock: Callable[[], datetime] = utc_now,
) -> Summary:
    """Collect the submissions in ``path``; doing it again, or after a kill, does the rest.

    Args:
        path: a folder, a zip or one notebook.
        course: the folder ``course/``, which has ``release/`` and gets ``received/`` and
            ``submitted/``.
        assignment: a chapter, like ``08-numerical-stability``.
        roster: the class list, see ``read_roster``.
        pattern: a regular expression for the names in ``path``, with the group ``student`` and,
            if they are there, ``name`` (the person's) and ``file`` (the notebook's).
        student: the one student whose work ``path`` is.
        caps: what is too much.
        clock: returns the time.

    Raises:
        IntakeError: nothing, or nothing more, can be collected; the text says why.
    """
    expected = _find_notebook(course, assignment)
    compiled = _compile(pattern)
    if pattern is not None and student is not None:
        raise IntakeError("Give --student or --pattern, not both.")
    if student is not None and not student.strip():
        raise IntakeError("The student's id is empty: give it after --student.")
    class_list = read_roster(roster) if roster else None
    received = course / "received" / assignment
    if path.resolve().is_relative_to((course / "received").resolve()):
        raise IntakeError(f"{path} is where received work is kept: it has been collected already.")
    with open_source(path, caps) as source:
        try:
            with sole_writer(received):
                book = ReceiptBook(received, clock)
                run = _Run(course, assignment, expected, book, class_list, caps)
                if student is None and compiled is None:
                    run.check_whose(path, source)
                files = run.find_files(source, compiled, student)
                return run.receive(files, source)
        except OSError as error:
            raise IntakeError(
                f"{error.filename or received} cannot be written ({error.strerror}): make room, "
                f"and run the same command again."
            ) from error


def _find_notebook(course: Path, assignment: str) -> str:
    """Return the name of the assignment's notebook."""
    released = sorted(file.parent.name for file in course.glob("release/*/*.ipynb"))
    if assignment not in released:
        known = ", ".join(dict.fromkeys(released)) or "none"
        raise IntakeError(
            f"There is no assignment {printable(assignment)} in {course / 'release'}; there are: "
            f"{known}."
        )
    return min(file.name for file in (course / "release" / assignment).glob("*.ipynb"))


def _compile(pattern: str | None) -> re.Pattern[str] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise IntakeError(f"The pattern is not a regular expression: {error}.") from error
    if "student" not in compiled.groupindex:
        raise IntakeError("The pattern has no group for the student: write (?P<student>...).")
    return compiled


class _Run:
    """One run of ``collect``."""

    def __init__(
        self,
        course: Path,
        assignment: str,
        expected: str,
        book: ReceiptBook,
        roster: Roster | None,
        caps: Caps,
    ) -> None:
        self._release, self._submitted = course / "release", course / "submitted"
        self._assignment = assignment
        self._expected = expected
        self._book = book
        self._caps = caps
        self._students = Students(roster, book.receipts)
        self._summary = Summary(assignment)

    def check_whose(self, path: Path, source: Source) -> None:
        """Make sure that nothing is one student's folder, with names in it as a class has them.

        Raises:
            IntakeError: it is, or may be; a person has to say.
        """
        owner = self._students.find(unicodedata.normalize("NFC", path.resolve().stem))
        layout = self._lay_out(source)
        strangers = {
            origin.identity
            for entry in source.entries
            if (origin := layout.origin(entry.name)) and self._students.find(origin.name) != owner
        }
        if owner is not None and strangers:
            raise IntakeError(
                f"{path} is named after the student {owner}, but files in it are named after "
                f"others: give --student {owner} if all of them belong to that student, or "
                f"rename the folder."
            )
        lone_of_class = bool(layout.lone) and self._students.find(layout.lone) is None
        # It is one of several folders if another one holds at least something that was refused.
        folders = {name.split("/")[0] for name, _ in source.refused if "/" in name}
        if lone_of_class and folders <= {layout.lone}:
            raise IntakeError(
                f"Everything is in one folder, {printable(layout.lone)}, under the names of "
                f"several students: if it is one student's work, name the student with "
                f"--student; if it "
                f"is a class's, give that folder itself (if {path.name} is a zip, unpack it first)."
            )

    def _lay_out(self, source: Source) -> Layout:
        names = [entry.name for entry in source.entries]
        assignments = {folder.name for folder in self._release.iterdir()}
        return Layout(names, self._expected, self._assignment, assignments)

    def find_files(
        self,
        source: Source,
        pattern: re.Pattern[str] | None,
        student: str | None,
    ) -> dict[str, list[_File]]:
        """Return each student's notebooks; what is nobody's is refused."""
        layout = self._lay_out(source)
        files: dict[str, list[_File]] = {}
        for position, entry in enumerate(source.entries):
            identify = self._students.identify
            if student is not None:
                own = entry.name.split("/")[-1]
                origin = Origin(student.strip(), student.strip(), "", own)
                identify = self._students.identify_named
            elif pattern is not None:
                origin = match_pattern(pattern, entry.name)
            elif layout.is_of_another_assignment(entry.name):
                continue
            else:
                origin = layout.origin(entry.name)
            if origin is None:
                self._refuse(entry.name, _nobodys(pattern))
                continue
            files.setdefault(identify(origin), []).append(_File(entry, origin, position))
        return files

    def receive(self, files: dict[str, list[_File]], source: Source) -> Summary:
        """Receive all of them, put what counts into place, and report."""
        for name, reason in source.refused:
            self._refuse(name, reason)
        for student, group in files.items():
            self._receive_from(student, sorted(group, key=lambda file: file.arrival))
        placed = self._place()
        summary = self._summary
        counting = self._book.counting()
        summary.unchanged = [s for s in files if s in counting and s not in placed]
        summary.unknown = self._students.unknown
        summary.notes += self._students.notes
        summary.expected = self._students.expected
        summary.missing = [p.student for p in summary.expected if p.student not in counting]
        return summary

    def _receive_from(self, student: str, files: list[_File]) -> None:
        """Receive one student's notebooks, the earliest first."""
        versions = self._versions(files)
        for file in files:
            if not versions:
                self._keep(student, file, Status.UNCLEAR)
            elif file not in versions:
                self._keep(student, file, Status.EXTRA)
        if not versions:
            names = ", ".join(printable(file.origin.file) for file in files)
            sentence = f"which one? {names}: none has the name {self._expected}"
            self._summary.unclear.append((student, sentence))
        last = None
        for file in versions:
            last = self._receive_version(student, file) or last
        counting = self._book.counting().get(student)
        if last is not None and counting is not None and counting.sha256 != last:
            sentence = (
                "the same bytes had been received before the notebook that counts, so nothing "
                "changes; to make them count, give them another file name"
            )
            self._summary.notes.append((student, sentence))

    def _versions(self, files: list[_File]) -> list[_File]:
        """Return those that are the assignment's notebook; none if that cannot be told."""
        named = [file for file in files if is_called(file.origin.file, self._expected)]
        if named:
            return named
        names = {split_repetition(file.origin.file)[0].casefold() for file in files}
        return files if len(names) == 1 else []

    def _receive_version(self, student: str, file: _File) -> str | None:
        """Receive one; return its hash if it can be graded."""
        content = self._read(file)
        if content is None:
            return None
        if self._book.has(student, file.origin.file, content, Status.ACCEPTED):
            return sha256(content)
        try:
            chapter = soundness.examine(content, self._caps)
        except soundness.MalformedError as error:
            self._enter(student, file, content, Status.MALFORMED, str(error))
            self._summary.malformed.append((student, self._about_malformed(student, file, error)))
            return None
        self._enter(student, file, content, Status.ACCEPTED)
        if chapter and chapter != self._assignment:
            sentence = f"their notebook is of chapter {printable(chapter)}"
            self._summary.notes.append((student, sentence))
        return sha256(content)

    def _keep(self, student: str, file: _File, status: Status) -> None:
        content = self._read(file)
        if content is not None:
            self._enter(student, file, content, status)

    def _read(self, file: _File) -> bytes | None:
        try:
            return file.entry.read()
        except RefusedError as error:
            self._refuse(file.entry.name, str(error))
            return None

    def _enter(
        self, student: str, file: _File, content: bytes, status: Status, reason: str = ""
    ) -> None:
        own = file.origin.file
        if not self._book.has(student, own, content, status):
            sender = file.origin.identity
            self._book.enter(student, sender, own, file.entry.name, content, status, reason)

    def _about_malformed(self, student: str, file: _File, error: Exception) -> str:
        counting = self._book.counting().get(student)
        sentence = f"{printable(file.origin.file)}: {error}"
        if counting:
            return f"{sentence}; what was received at {_minute(counting)} still counts"
        return f"{sentence}; nothing else has been received"

    def _refuse(self, name: str, reason: str) -> None:
        self._summary.refused.append((printable(name), reason))

    def _place(self) -> set[str]:
        """Put what counts where nbgrader looks, also what a killed run has left; return whose."""
        placed = set()
        for student, receipt in self._book.counting().items():
            folder = self._submitted / student / self._assignment
            target, stamp = folder / self._expected, folder / _STAMP
            # The stamp is written last: with it in place, a changed notebook is the instructor's.
            if target.is_file() and _text(stamp) == receipt.received_at:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            had_one = target.is_file()
            if had_one:
                self._save_strangers(student, target)
            write_atomically(target, soundness.without_mark(self._book.content(receipt)))
            write_atomically(stamp, receipt.received_at.encode())
            (self._summary.replaced if had_one else self._summary.collected).append(student)
            placed.add(student)
        return placed

    def _save_strangers(self, student: str, target: Path) -> None:
        """Keep a notebook that is about to be replaced and did not come by a receipt."""
        content = target.read_bytes()
        known = {r.sha256 for r in self._book.receipts if r.student == student}
        if known.isdisjoint({sha256(content), sha256(soundness.BOM + content)}):
            source = f"submitted/{student}/{self._assignment}/{target.name}"
            receipt = self._book.enter(student, student, target.name, source, content, Status.FOUND)
            sentence = f"{source} had been changed by hand; that version is kept as {receipt.id}"
            self._summary.notes.append((student, sentence))


def summarize(summary: Summary) -> list[str]:
    """Return the lines that say to the instructor what became of the submissions."""
    lines = [
        f"{summary.assignment}: {len(summary.collected)} collected, {len(summary.replaced)} "
        f"replaced by later ones, {len(summary.unchanged)} unchanged."
    ]
    for title, pairs in (
        ("Cannot be graded", summary.malformed),
        ("Not clear", summary.unclear),
        ("Refused", summary.refused),
        ("Not on the roster", summary.unknown),
        ("Note", summary.notes),
    ):
        lines += [f"{title}: {printable(who)}: {sentence}." for who, sentence in pairs]
    if summary.missing:
        lines.append(f"Nothing yet from: {', '.join(map(printable, summary.missing))}.")
    return lines


def _nobodys(pattern: re.Pattern[str] | None) -> str:
    if pattern is not None:
        return "its name does not match the pattern"
    return "its name does not identify the student; give --student or --pattern"


def _minute(receipt: Receipt) -> str:
    return f"{receipt.received_at[:16]} UTC"


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else ""
