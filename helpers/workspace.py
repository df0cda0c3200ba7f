"""The student's own copy of the chapters: put into ``work/``, kept up to date, never overwritten.

``deliver(release, work)`` copies every chapter of ``release`` that is new, and replaces what
has not been touched since it was delivered. A file that the student has edited stays as it is;
the new version is put beside it. ``find_workspace(start)`` finds ``work/`` again from within.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from helpers.files import create, write_atomically

_RECORD = Path(".bits") / "delivered.json"
# What JupyterLab rewrites when a notebook is opened and saved, and what folding a cell or looking
# into one leaves; everything else is work.
_VOLATILE_NOTEBOOK_METADATA = ("kernelspec", "language_info")
_VOLATILE_CELL_METADATA = (
    "cellView",
    "collapsed",
    "execution",
    "jp-MarkdownHeadingCollapsed",
    "jupyter",
    "scrolled",
    "trusted",
)


class WorkspaceError(Exception):
    """The student's copy cannot be made; the text is the one sentence that the student reads."""


class Kind(Enum):
    """What ``deliver`` did about one file of the release."""

    NEW = "new"  # copied for the first time, or again after the student removed it
    CURRENT = "current"  # nothing to do
    UPDATED = "updated"  # untouched, so replaced by the new version
    BESIDE = "beside"  # edited, so kept; the new version lies beside it
    DAMAGED = "damaged"  # not readable as a notebook, so kept; a fresh copy lies beside it
    BLOCKED = "blocked"  # something else is where the file's folder should be


@dataclass(frozen=True)
class Outcome:
    """What was done about ``file`` (relative to ``work``), with a sentence if it matters."""

    file: Path
    kind: Kind
    sentence: str = ""


def find_workspace(start: Path) -> Path | None:
    """Return the nearest folder, ``start`` or above, that ``deliver`` has filled; else None."""
    start = start.absolute()
    return next((f for f in (start, *start.parents) if (f / _RECORD).is_file()), None)


def deliver(release: Path, work: Path) -> list[Outcome]:
    """Bring the student's copy up to date without touching anything the student wrote.

    Args:
        release: the folder of released chapters, one folder each.
        work: the student's folder; it is made if it does not exist.

    Returns:
        one outcome for each released file, in the order of their names.

    Raises:
        WorkspaceError: nothing can be delivered; the text says why and what to do.
    """
    files = list(_released_files(release))
    _make_folder(work)
    delivery = _Delivery(release, work)
    try:
        return [delivery.deliver(file) for file in files]
    except OSError as error:
        raise WorkspaceError(_cannot_write(error.filename or work, error)) from error
    finally:
        delivery.save_record()


def summarize(outcomes: list[Outcome]) -> list[str]:
    """Return the lines that say to a student what ``deliver`` did; none if it did nothing."""
    chapters = {kind: [] for kind in Kind}
    for outcome in outcomes:
        chapter = outcome.file.parts[0]
        if chapter not in chapters[outcome.kind]:
            chapters[outcome.kind].append(chapter)
    lines = []
    if chapters[Kind.NEW]:
        lines.append(f"New in your copy: {', '.join(chapters[Kind.NEW])}.")
    if chapters[Kind.UPDATED]:
        lines.append(f"Brought up to date: {', '.join(chapters[Kind.UPDATED])}.")
    return lines + [outcome.sentence for outcome in outcomes if outcome.sentence]


def _released_files(release: Path) -> Iterator[Path]:
    """Yield the files of all chapters, relative to ``release``, each known to be whole."""
    if not any(release.glob("*/*.ipynb")):
        raise WorkspaceError(
            f"There are no chapters in {release}: restore that folder with git and run the same "
            f"command again."
        )
    for path in sorted(release.glob("*/**/*")):
        file = path.relative_to(release)
        if not path.is_file() or any(part.startswith(".") for part in file.parts):
            continue
        if file.suffix == ".ipynb" and _cells_of(path.read_bytes()) is None:
            raise WorkspaceError(
                f"The released notebook {path} is damaged: restore it with git and run the same "
                f"command again."
            )
        yield file


def _make_folder(work: Path) -> None:
    """Make ``work`` and its record folder."""
    if os.path.lexists(work) and not work.is_dir():
        what = "a link to nowhere" if work.is_symlink() else "a file"
        raise WorkspaceError(
            f"Your copy of the chapters belongs in the folder {work}, but that is {what}: "
            f"rename it and run the same command again."
        )
    try:
        (work / _RECORD).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WorkspaceError(_cannot_write(error.filename or work, error)) from error


def _cannot_write(where: Path | str, error: OSError) -> str:
    return (
        f"Your copy of the chapters cannot be written to {where} ({error.strerror}): make sure "
        f"that you can write there and that the disk has room, and run the same command again."
    )


class _Delivery:
    """One run of ``deliver``: what was delivered before, and what is done about each file."""

    def __init__(self, release: Path, work: Path) -> None:
        self._release = release
        self._work = work
        self._delivered = _read_record(work / _RECORD)

    def deliver(self, file: Path) -> Outcome:
        """Bring one file up to date."""
        target = self._work / file
        new = (self._release / file).read_bytes()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            return Outcome(file, Kind.BLOCKED, self._blocked(file))
        if not os.path.lexists(target):
            create(target, new)
            self._note(file, new)
            return Outcome(file, Kind.NEW)
        mine = _read(target)
        if mine is None or (file.suffix == ".ipynb" and _cells_of(mine) is None):
            return self._replace_damaged(file, new)
        if _digest(file, mine) == _digest(file, new):
            self._note(file, new)
            return Outcome(file, Kind.CURRENT)
        if self._is_untouched(file, mine) and not target.is_symlink():
            write_atomically(target, new)
            self._note(file, new)
            return Outcome(file, Kind.UPDATED)
        return self._put_beside(file, new)

    def save_record(self) -> None:
        """Write down what the student has been given. Losing this loses no work."""
        path = self._work / _RECORD
        text = json.dumps({"files": self._delivered}, indent=1, sort_keys=True) + "\n"
        if _read(path) == text.encode():
            return
        try:
            write_atomically(path, text.encode())
        except OSError as error:
            raise WorkspaceError(_cannot_write(path, error)) from error

    def _note(self, file: Path, content: bytes) -> None:
        self._delivered[file.as_posix()] = {"content": _digest(file, content)}

    def _entry(self, file: Path) -> dict:
        return self._delivered.get(file.as_posix(), {})

    def _is_untouched(self, file: Path, content: bytes) -> bool:
        return self._entry(file).get("content") == _digest(file, content)

    def _put_beside(self, file: Path, new: bytes) -> Outcome:
        digest = _digest(file, new)
        if digest in (self._entry(file).get("content"), self._entry(file).get("offered")):
            return Outcome(file, Kind.CURRENT)  # edited, and this version is known to them
        beside = self._offer(file, new)
        sentence = (
            f"There is a new version of {self._show(file)}, which you have edited: yours stays "
            f"unchanged, and the new one is beside it as {beside.name}."
        )
        return Outcome(file, Kind.BESIDE, sentence)

    def _replace_damaged(self, file: Path, new: bytes) -> Outcome:
        entry = self._entry(file)
        beside = file.with_name(entry.get("beside", "") or file.name)
        # The student may be at work in the fresh copy already: one is enough.
        has_copy = beside != file and (self._work / beside).is_file()
        if not has_copy or entry.get("offered") != _digest(file, new):
            beside = self._offer(file, new)
        sentence = (
            f"{self._show(file)} cannot be read (it is damaged or cut off) and stays "
            f"unchanged; work in the new copy beside it, {beside.name}, or remove the damaged file."
        )
        return Outcome(file, Kind.DAMAGED, sentence)

    def _offer(self, file: Path, new: bytes) -> Path:
        beside = self._write_beside(file, new)
        entry = self._delivered.setdefault(file.as_posix(), {})
        entry.update(offered=_digest(file, new), beside=beside.name)
        return beside

    def _write_beside(self, file: Path, new: bytes) -> Path:
        """Put ``new`` under the first name beside ``file`` that holds no work of the student's."""
        for beside in _names_beside(file):
            target = self._work / beside
            mine = _read(target)
            if not os.path.lexists(target):
                create(target, new)
            elif mine is None or target.is_symlink():
                continue
            elif _digest(beside, mine) == _digest(beside, new):
                pass
            elif self._is_untouched(beside, mine):
                write_atomically(target, new)
            else:
                continue
            self._note(beside, new)
            return beside
        raise AssertionError("the names beside a file never end")

    def _blocked(self, file: Path) -> str:
        return (
            f"{self._show(file)} cannot be delivered, because {self._show(file.parent)} is not a "
            f"folder: rename it and run the same command again."
        )

    def _show(self, file: Path) -> str:
        return str(Path(self._work.name) / file)


def _names_beside(file: Path) -> Iterator[Path]:
    yield file.with_name(f"{file.stem}.new{file.suffix}")
    number = 2
    while True:
        yield file.with_name(f"{file.stem}.new-{number}{file.suffix}")
        number += 1


def _read_record(path: Path) -> dict[str, dict]:
    """Return what was delivered; nothing if that is lost, so that every file counts as edited."""
    try:
        files = json.loads(path.read_text(encoding="utf-8"))["files"]
        return {str(file): dict(entry) for file, entry in files.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _read(path: Path) -> bytes | None:
    """Return a file's bytes, None if it is no file or cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _digest(file: Path, content: bytes) -> str:
    """Return a hash of what a student could have written into a file.

    Of a notebook that is everything but what JupyterLab rewrites by itself on saving.
    """
    notebook = _cells_of(content) if file.suffix == ".ipynb" else None
    if notebook is None:
        return hashlib.sha256(content).hexdigest()
    cells = [_essence(cell) for cell in notebook["cells"]]
    metadata = _without(notebook.get("metadata"), _VOLATILE_NOTEBOOK_METADATA)
    text = json.dumps({"cells": cells, "metadata": metadata}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _cells_of(content: bytes) -> dict | None:
    """Return the notebook in ``content``, None if it is not one."""
    try:
        notebook = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        return None
    return notebook if all(isinstance(cell, dict) for cell in notebook["cells"]) else None


def _essence(cell: dict) -> dict:
    essence = _without(cell, ("id", "execution_count", "metadata"))
    source = cell.get("source")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        essence["source"] = "".join(source)
    essence["metadata"] = _without(cell.get("metadata"), _VOLATILE_CELL_METADATA)
    return essence


def _without(mapping: object, keys: tuple[str, ...]) -> object:
    if not isinstance(mapping, dict):
        return mapping
    return {key: value for key, value in mapping.items() if key not in keys}
