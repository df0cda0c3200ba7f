"""The book of what was received: ``received/ASSIGNMENT/receipts.jsonl`` and the bytes beside it.

A submission is official once its line stands in the book. The bytes are on disk before that, so a
line never speaks of bytes that are not there; bytes without a line were being received when
something was killed, and are received again by the next run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from helpers.grading.errors import IntakeError

_BOOK = "receipts.jsonl"
_KEPT_AS = "received.ipynb"


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
        """Tell whether the student's same bytes have come under the same name, to the same end."""
        return _key(student, file, sha256(content), status) in self._known

    def counting(self) -> dict[str, Receipt]:
        """Return for every student the receipt that counts: the last one accepted."""
        return {r.student: r for r in self.receipts if r.status is Status.ACCEPTED}

    def content(self, receipt: Receipt) -> bytes:
        """Return what was received."""
        path = self.folder / receipt.id / _KEPT_AS
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
            kept = folder / _KEPT_AS
            folder.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                write_atomically(kept, content)
                _sync_folder(self.folder)
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


@contextlib.contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Make sure that nobody else writes into the book in ``folder``; a kill lets go of it.

    Raises:
        IntakeError: somebody else is at it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IntakeError(
                f"Another run is collecting into {folder}: wait for its end and try again."
            ) from None
        yield


def write_atomically(target: Path, content: bytes) -> None:
    """Write a file in one step: a reader, or a kill, finds the old one or the new one."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk: a new name is not safe before that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append(book: Path, line: bytes) -> None:
    is_new = not book.exists()
    with book.open("ab") as stream:
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    if is_new:
        _sync_folder(book.parent)


def _read(book: Path) -> list[Receipt]:
    """Return the receipts; a last line that was cut off was never official, and is taken out."""
    if not book.exists():
        return []
    content = book.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        write_atomically(book, whole)
    return [_parse(book, number, line) for number, line in enumerate(whole.splitlines(), 1)]


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
