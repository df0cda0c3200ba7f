"""A tree of files that is kept up to date in a folder where other people write, too.

What was written there is noted, with hashes, in a file of that folder. A file that still is as it
was written is renewed or removed; one that somebody has edited or added never is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
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


@dataclass(frozen=True)
class _Plan:
    new: tuple[str, ...]
    renewed: tuple[str, ...]
    removed: tuple[str, ...]
    in_the_way: tuple[str, ...]


def write_tree(files: Mapping[str, bytes], folder: Path) -> Update:
    """Bring ``folder`` to hold ``files``, beside what others have put there.

    Everything is written beside first and then moved, so that a full disk changes nothing. A run
    that is killed while it moves is finished by the next one.

    Args:
        files: the content of each file by its path from ``folder``, with slashes.
        folder: an empty folder, one with nothing but ``.git``, one written by this function
            before, or one that does not exist yet.

    Raises:
        TreeError: the folder is somebody else's, files in it were edited, or it cannot be written.
    """
    try:
        known = _read_record(folder)
        plan = _plan(files, folder, known)
        if plan.in_the_way:
            raise TreeError(_explain(folder, plan.in_the_way))
        _carry_out(plan, files, folder, known)
    except OSError as error:
        raise TreeError(
            f"{error.filename or folder} cannot be written ({error.strerror}): make sure that you "
            f"may write there and that the disk has room, and run the same command again."
        ) from error
    return Update(plan.new, plan.renewed, plan.removed, _others(folder, files))


def _read_record(folder: Path) -> dict[str, list[str]]:
    """Return the hashes that each file may have, if it is as it was written."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise TreeError(f"{folder} is a file: name a folder.")
    record = folder / RECORD
    if not os.path.lexists(record):
        _require_nobodys(folder)
        return {}
    try:
        content = json.loads(record.read_text(encoding="utf-8"))["files"]
        return {str(PurePosixPath(file)): [*hashes] for file, hashes in content.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TreeError(
            f"{record}, the list of what was published, is damaged: restore it (with git, for "
            f"example) and run the same command again."
        ) from error


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
    plan: _Plan, files: Mapping[str, bytes], folder: Path, known: Mapping[str, list[str]]
) -> None:
    drafts = folder / _DRAFTS
    for ours in (drafts.parent, drafts):
        if ours.is_symlink() or (ours.exists() and not ours.is_dir()):
            raise TreeError(f"{ours} is not a folder: move it away and run the same command again.")
    after = {file: [_digest(content)] for file, content in files.items()}
    if not (plan.new or plan.renewed or plan.removed) and after == known:
        return
    try:
        if drafts.is_dir():
            shutil.rmtree(drafts)
        for file in (*plan.new, *plan.renewed):
            (drafts / file).parent.mkdir(parents=True, exist_ok=True)
            (drafts / file).write_bytes(files[file])
        # From here to the last line, a file may be the old one or the new one.
        _write_record(folder, {f: [*known.get(f, ()), *after.get(f, ())] for f in known | after})
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


def _write_record(folder: Path, hashes: Mapping[str, list[str]]) -> None:
    note = "Written by bits publish: what it put here, and what each file's SHA-256 is."
    text = json.dumps({"note": note, "files": hashes}, indent=1, sort_keys=True) + "\n"
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
