"""Files that we write beside other people's: replaced while they are ours, and left where not.

A file is ours if it holds what we last wrote under its name. What we write is told to a journal
first, so that a kill at any moment leaves nothing that we do not know again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from helpers.files import write_atomically
from helpers.grading.errors import ReportError
from helpers.grading.locks import sole_holder

_JOURNAL = ".bits-report.jsonl"


class OwnFiles:
    """Our files in one folder, by their names relative to it."""

    def __init__(self, folder: Path) -> None:
        """Look at what was written into ``folder`` before."""
        self.folder = folder
        self.written: set[str] = set()
        self._journal = folder / _JOURNAL
        self._known: dict[str, set[str]] = defaultdict(set)
        for name, digest in _read_journal(self._journal):
            self._known[name].add(digest)

    def is_strange(self, name: str) -> bool:
        """Return whether something is there that we did not write, or that somebody changed."""
        target = self.folder / name
        if target.is_symlink():
            return True
        return target.exists() and not self._is_ours(name)

    def require_own(self, *names: str) -> None:
        """Make sure that nothing of somebody else's stands where we write.

        Raises:
            ReportError: it does.
        """
        for name in names:
            if self.is_strange(name):
                raise ReportError(
                    f"{self.folder / name} has changed since bits report wrote it: move "
                    f"it away, or write the report elsewhere with --output."
                )

    def write(self, name: str, content: bytes) -> None:
        """Write ``content``.

        Raises:
            ReportError: something of somebody else's is there.
        """
        target, digest = self.folder / name, hashlib.sha256(content).hexdigest()
        self.require_own(name)
        self.written.add(name)
        if target.exists() and _digest(target) == digest:
            return
        if digest not in self._known[name]:
            self._known[name].add(digest)
            with self._journal.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps([name, digest]) + "\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content)

    def remove_others(self, below: str = "") -> None:
        """Remove what we wrote before and not now, of the names that hold ``below``."""
        for name in [name for name in self._known if below in name and name not in self.written]:
            if not self.is_strange(name):
                (self.folder / name).unlink(missing_ok=True)
                del self._known[name]
        entries = []
        for name, digests in self._known.items():
            target = self.folder / name
            current = _digest(target) if name in self.written else None
            entries += [[name, digest] for digest in digests if current in (None, digest)]
        write_atomically(self._journal, "".join(json.dumps(e) + "\n" for e in entries).encode())

    def _is_ours(self, name: str) -> bool:
        target = self.folder / name
        return name in self._known and target.is_file() and _digest(target) in self._known[name]


@contextlib.contextmanager
def own_files(folder: Path) -> Iterator[OwnFiles]:
    """Open ``folder``, which is made if there is none, for one writer.

    Raises:
        ReportError: somebody else is writing there, or it cannot be written.
    """
    refusal = ReportError(
        f"Another run is writing into {folder}: wait until it ends and try again."
    )
    try:
        with sole_holder(folder, refusal):
            yield OwnFiles(folder)
    except OSError as error:
        raise ReportError(
            f"{error.filename or folder} cannot be written ({error.strerror}): make room or give "
            f"another --output."
        ) from error


def _read_journal(journal: Path) -> Iterator[tuple[str, str]]:
    if not journal.is_file():
        return
    for line in journal.read_text(encoding="utf-8", errors="replace").splitlines():
        # A line that a kill cut off tells of a file that was not written.
        with contextlib.suppress(ValueError, TypeError):
            name, digest = json.loads(line)
            yield str(name), str(digest)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
