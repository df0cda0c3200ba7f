"""The book of what was received: ``received/ASSIGNMENT/receipts.jsonl`` and the bytes beside it.

A submission is official once its line stands in the book. The bytes are on disk before that, so a
line never speaks of bytes that are not there; bytes without a line were being received when
something was killed, and are received again by the next run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from helpers.files import sync_folder, write_atomically
from helpers.grading.errors import IntakeError
from helpers.grading.locks import sole_holder

_BOOK = "receipts.jsonl"
KEPT_AS = "received.ipynb"


class Status(StrEnum):
    """What became of a received notebook."""

    ACCEPTED = "accepted"  # sound; a student's last accepted one is the one that counts
    MALFORMED = "malformed"  # kept, but it cannot be graded
    EXTRA = "extra"  # kept, beside the student's notebook of the assignment
    UNCLEAR = "unclear"  # kept; one of several, none of which has the assignment's name
    FOUND = "found"  # was in submitted/ already, changed by somebody; kept before it is replaced


@dataclass(frozen=True)
class Receipt:
    """One received notebook.

    ``sender`` is what the source called the student, ``file`` the notebook's own name, ``source``
    its whole name there. ``received_at`` is ours, in UTC as ``2026-01-31 12:00:00.000000 UTC``.
    """

    id: str
    student: str
    sender: str
    file: str
    source: str
    sha256: str
    size: int
    received_at: str
    status: Status
    reason: str = ""


class ReceiptBook:
    """The receipts of one assignment, in the order in which they were received."""

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        """Read the book in ``folder``, ``received/ASSIGNMENT``; there may be none yet."""
        self.folder = folder
        self._clock = clock
        self.receipts = _read(folder / _BOOK)
        self._known = {_key(r.student, r.file, r.sha256, r.status) for r in self.receipts}

    def has(self, student: str, file: str, content: bytes, status: Status) -> bool:
        """Return whether the same bytes of the student came under this name, to the same end."""
        return _key(student, file, sha256(content), status) in self._known

    def counting(self) -> dict[str, Receipt]:
        """Return for every student the receipt that counts: the last one accepted."""
        return {r.student: r for r in self.receipts if r.status is Status.ACCEPTED}

    def content(self, receipt: Receipt) -> bytes:
        """Return what was received."""
        path = self.folder / receipt.id / KEPT_AS
        content = path.read_bytes()
        if sha256(content) != receipt.sha256:
            raise IntakeError(f"{path} has been changed since it was received: restore it.")
        return content

    def enter(
        self,
        student: str,
        sender: str,
        file: str,
        source: str,
        content: bytes,
        status: Status,
        reason: str = "",
    ) -> Receipt:
        """Keep ``content`` and write the line that makes it official."""
        digest = sha256(content)
        identifier = self._keep(content, digest)
        at = self._now()
        receipt = Receipt(
            identifier, student, sender, file, source, digest, len(content), at, status, reason
        )
        line = json.dumps(dataclasses.asdict(receipt)) + "\n"
        _append(self.folder / _BOOK, line.encode())
        self.receipts.append(receipt)
        self._known.add(_key(student, file, digest, status))
        return receipt

    def _keep(self, content: bytes, digest: str) -> str:
        """Write the bytes under the next free number; return the receipt's id."""
        number = len(self.receipts) + 1
        while True:
            folder = self.folder / f"{number:05}-{digest[:8]}"
            kept = folder / KEPT_AS
            folder.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                write_atomically(kept, content)
                sync_folder(self.folder)
            if kept.read_bytes() == content:
                return folder.name
            number += 1

    def _now(self) -> str:
        """Return the time, later than all receipts even if the clock was set back."""
        now = self._clock().astimezone(UTC)
        if self.receipts:
            last = datetime.strptime(self.receipts[-1].received_at, "%Y-%m-%d %H:%M:%S.%f UTC")
            now = max(now, last.replace(tzinfo=UTC) + timedelta(microseconds=1))
        return now.strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def sha256(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def sole_writer(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Make sure that nobody else writes into the book in ``folder``; a kill lets go of it.

    Raises:
        IntakeError: somebody else is at it.
    """
    sentence = f"Another run is collecting into {folder}: wait until it ends and try again."
    return sole_holder(folder, IntakeError(sentence))


def _append(book: Path, line: bytes) -> None:
    is_new = not book.exists()
    with book.open("ab") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    if is_new:
        sync_folder(book.parent)


def read_receipts(folder: Path) -> list[Receipt]:
    """Return the receipts in ``folder``, and write nothing: a run may be adding to the book."""
    book = folder / _BOOK
    return _parse_book(book, _official(book.read_bytes())) if book.exists() else []


def _read(book: Path) -> list[Receipt]:
    """Return the receipts; a last line that was cut off was never official, and is taken out."""
    if not book.exists():
        return []
    content = book.read_bytes()
    whole = _official(content)
    if whole != content:
        write_atomically(book, whole)
    return _parse_book(book, whole)


def _official(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _parse_book(book: Path, content: bytes) -> list[Receipt]:
    return [_parse(book, number, line) for number, line in enumerate(content.splitlines(), 1)]


def _parse(book: Path, number: int, line: bytes) -> Receipt:
    try:
        fields = json.loads(line)
        return Receipt(**{**fields, "status": Status(fields["status"])})
    except (ValueError, TypeError, KeyError) as error:
        raise IntakeError(
            f"Line {number} of {book} is damaged: restore that file from a backup."
        ) from error


def _key(student: str, file: str, digest: str, status: Status) -> tuple[str, str, str, str]:
    return student, file, digest, status.value
