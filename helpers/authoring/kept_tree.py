"""A tree of files that is kept up to date in a folder where other people write, too.

What was written there is noted, with hashes, in a file of that folder. A file that still is as it
was written is renewed or removed; one that somebody has edited or added never is.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from helpers.files import write_atomically

RECORD = ".published.json"
# Git ignores .bits in a published tree: what a kill leaves there is never committed.
_DRAFTS = ".bits/publishing"
_SHOWN = 10


class TreeError(ValueError):
    """The tree cannot be written; the message says why, and nothing has been written."""


@dataclass(frozen=True)
class Update:
    """What ``write_tree`` did, as paths from the folder's root; ``others`` it found and left."""

    new: tuple[str, ...]
    renewed: tuple[str, ...]
    removed: tuple[str, ...]
    others: tuple[str, ...]


# The hashes that each file may have, and the choices.
_Record = tuple[dict[str, list[str]], dict[str, str]]


@dataclass(frozen=True)
class _Plan:
    new: tuple[str, ...]
    renewed: tuple[str, ...]
    removed: tuple[str, ...]
    in_the_way: tuple[str, ...]

    @property
    def changes(self) -> bool:
        return bool(self.new or self.renewed or self.removed)


def read_choices(folder: Path) -> dict[str, str]:
    """Return the choices with which ``folder`` was written last; none if it was not.

    Raises:
        TreeError: as ``write_tree``.
    """
    with _trouble_told(folder):
        return _read_record(folder)[1]


def write_tree(
    files: Mapping[str, bytes], folder: Path, choices: Mapping[str, str] | None = None
) -> Update:
    """Bring ``folder`` to hold ``files``, beside what others have put there.

    Everything is written beside first and then moved, so that a full disk changes nothing. A run
    that is killed while it moves is finished by the next one.

    Args:
        files: the content of each file by its path from ``folder``, with slashes.
        folder: an empty folder, one with nothing but ``.git``, one written by this function
            before, or one that does not exist yet.
        choices: what is to be remembered there for the next time; what was, if None.

    Raises:
        TreeError: the folder is somebody else's, files in it were edited, or it cannot be written.
    """
    with _trouble_told(folder):
        before = _read_record(folder)
        plan = _plan(files, folder, before[0])
        if plan.in_the_way:
            raise TreeError(_explain(folder, plan.in_the_way))
        hashes = {file: [_digest(content)] for file, content in files.items()}
        after = (hashes, before[1] if choices is None else dict(choices))
        if plan.changes or after != before:
            _carry_out(plan, files, folder, before, after)
    return Update(plan.new, plan.renewed, plan.removed, _others(folder, files))


@contextlib.contextmanager
def _trouble_told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TreeError(
            f"{error.filename or folder} cannot be written ({error.strerror}): make sure that "
            f"you can write there and that the disk has room, and run the same command again."
        ) from error


def _read_record(folder: Path) -> _Record:
    """Return what the last run noted; nothing, if there was none."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise TreeError(f"{folder} is a file: name a folder.")
    record = folder / RECORD
    if not os.path.lexists(record):
        _require_nobodys(folder)
        return {}, {}
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        files = {_inside(file): [*hashes] for file, hashes in content["files"].items()}
        return files, {str(name): str(choice) for name, choice in content["choices"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TreeError(
            f"{record}, the list of what was published, is damaged: restore it (with git, for "
            f"example) and run the same command again."
        ) from error


def _inside(file: str) -> str:
    """Return the path of a file if it lies in the folder: a record may have been tampered with."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(file)
    return str(path)


def _require_nobodys(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    ours = [".bits"] if (folder / _DRAFTS).is_dir() else []
    strangers = [name for name in names if name not in (".git", *ours)]
    if strangers:
        raise TreeError(
            f"{folder} is not empty, and was not published before (there is {_list(strangers)}, "
            f"and no {RECORD}): name a new folder, or an empty one."
        )


def _plan(files: Mapping[str, bytes], folder: Path, known: Mapping[str, list[str]]) -> _Plan:
    new, renewed, removed, in_the_way = [], [], [], []
    for file in sorted({*files, *known}):
        blocked = _blocked_by(folder, file)
        target = folder / file
        if blocked:
            in_the_way.append(blocked)
        elif not os.path.lexists(target):
            new += [file] if file in files else []
        elif target.is_symlink() or not target.is_file():
            in_the_way.append(file)
        elif (content := target.read_bytes()) == files.get(file):
            pass
        elif _digest(content) not in known.get(file, ()):
            in_the_way.append(file)
        else:
            (renewed if file in files else removed).append(file)
    return _Plan(*(tuple(dict.fromkeys(part)) for part in (new, renewed, removed, in_the_way)))


def _blocked_by(folder: Path, file: str) -> str:
    """Return what stands where a folder on the way to ``file`` would, or nothing."""
    above = [str(parent) for parent in reversed(PurePosixPath(file).parents)][1:]
    for path in above:
        if os.path.lexists(folder / path) and (
            (folder / path).is_symlink() or not (folder / path).is_dir()
        ):
            return path
    return ""


def _explain(folder: Path, in_the_way: tuple[str, ...]) -> str:
    return (
        f"Edited or added in {folder} since it was published, and therefore not touched: "
        f"{_list(in_the_way)}. Nothing was written. Move such a file away, or put the published "
        f"one back (git checkout -- FILE), and run the same command again."
    )


def _list(names: tuple[str, ...] | list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _carry_out(
    plan: _Plan,
    files: Mapping[str, bytes],
    folder: Path,
    before: _Record,
    after: _Record,
) -> None:
    drafts = folder / _DRAFTS
    for ours in (drafts.parent, drafts):
        if ours.is_symlink() or (ours.exists() and not ours.is_dir()):
            raise TreeError(f"{ours} is not a folder: move it away and run the same command again.")
    try:
        if drafts.is_dir():
            shutil.rmtree(drafts)
        for file in (*plan.new, *plan.renewed):
            (drafts / file).parent.mkdir(parents=True, exist_ok=True)
            (drafts / file).write_bytes(files[file])
        # From here to the last line, a file may be the old one or the new one.
        either = {f: before[0].get(f, []) + after[0].get(f, []) for f in before[0] | after[0]}
        _write_record(folder, (either, after[1]))
        for file in (*plan.new, *plan.renewed):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            os.replace(drafts / file, folder / file)
        for file in plan.removed:
            (folder / file).unlink()
            _remove_emptied(folder, file)
        _write_record(folder, after)
    finally:
        shutil.rmtree(drafts, ignore_errors=True)
        if drafts.parent.is_dir() and not any(drafts.parent.iterdir()):
            drafts.parent.rmdir()


def _write_record(folder: Path, record: _Record) -> None:
    note = "Written by bits publish: what it put here, and what each file's SHA-256 is."
    content = {"note": note, "choices": record[1], "files": record[0]}
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    write_atomically(folder / RECORD, text.encode())


def _remove_emptied(folder: Path, file: str) -> None:
    for parent in list(PurePosixPath(file).parents)[:-1]:
        if any((folder / parent).iterdir()):
            return
        (folder / parent).rmdir()


def _others(folder: Path, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return what else git would share from ``folder``; nothing where there is no git."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    names = {name for name in listed.stdout.split("\0") if name and (folder / name).exists()}
    return tuple(sorted(names - {*files, RECORD}))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
