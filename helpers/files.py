"""Files written in one step: a reader, or a kill, finds the old one or the new one whole."""

from __future__ import annotations

import errno
import os
import re
import secrets
from pathlib import Path

_DRAFT = re.compile(r"\..+\.[0-9a-f]{8}\.part", re.DOTALL)
_LONGEST_NAME = 200
# What Windows, and some network disks, answer where other systems sync a folder.
_CANNOT_SYNC_FOLDERS = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENOTSUP)


def write_atomically(
    target: Path, content: bytes, mode: int | None = None, *, at_once: bool = True
) -> None:
    """Write a file, over an older one if there is one; a link is replaced, not followed.

    Args:
        target: the file; its folder must be there.
        content: all that it will hold.
        mode: its permissions; those that new files have, if None.
        at_once: whether it must be on the disk on return. What is compared and mended anyway, if
            the machine should lose its power, can be left to the system, which is faster.
    """
    draft = _write_draft(target, content, mode, at_once)
    try:
        os.replace(draft, target)
    except (Exception, KeyboardInterrupt):
        draft.unlink(missing_ok=True)
        raise
    if at_once:
        sync_folder(target.parent)


def create(target: Path, content: bytes) -> None:
    """Write a file that does not exist yet; never over one that has appeared meanwhile.

    Raises:
        FileExistsError: there is something already, if only a link to nowhere.
    """
    draft = _write_draft(target, content, None, True)
    try:
        os.link(draft, target)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        with target.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk: a new name is not safe before that."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC_FOLDERS:
            raise


def remove_drafts(folder: Path) -> None:
    """Remove what killed runs have left half-written; nobody else may be writing there."""
    for path in list(folder.iterdir()) if folder.is_dir() else []:
        if _DRAFT.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def _write_draft(target: Path, content: bytes, mode: int | None, at_once: bool) -> Path:
    # A name may be as long as the disk allows; its draft's must not be longer.
    start = target.name if len(os.fsencode(target.name)) <= _LONGEST_NAME else "long"
    draft = target.with_name(f".{start}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            if at_once:
                os.fsync(stream.fileno())
        if mode is not None:
            draft.chmod(mode)
    except (Exception, KeyboardInterrupt):
        draft.unlink(missing_ok=True)
        raise
    return draft
