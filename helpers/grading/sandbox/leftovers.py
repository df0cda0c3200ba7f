"""Files that a sandboxed kernel has written into its working folder, brought out before its end.

Its disk is RAM and ends with it, but a notebook's files belong beside the notebook. What is brought
out is small, plain, and new: regular files of moderate size, and never over a file that is there.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CHUNK = 2**20


@dataclass(frozen=True)
class Allowance:
    """How much is brought out: files, bytes of all of them together, folders within folders."""

    files: int = 100
    total_bytes: int = 16 * 2**20
    depth: int = 3


@dataclass
class _Left:
    files: int
    total_bytes: int


def bring_out(
    pid: int, inside: Path, outside: Path, allowance: Allowance | None = None
) -> list[Path]:
    """Copy the files in ``inside`` to ``outside``; return what was written.

    Args:
        pid: a process that sees ``inside``; whatever it does meanwhile, only files in there are
            read.
        inside: an absolute path as that process sees it; no part of it can be replaced by it.
        outside: a folder that is there.
        allowance: how much; what is beyond stays behind.
    """
    allowance = allowance or Allowance()
    left = _Left(allowance.files, allowance.total_bytes)
    try:
        root = os.open(f"/proc/{pid}/root{inside}", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:  # it has ended, and its disk with it
        return []
    try:
        return list(_copy_folder(root, outside, allowance.depth, left))
    finally:
        os.close(root)


def _copy_folder(folder: int, target: Path, depth: int, left: _Left) -> Iterator[Path]:
    device = os.fstat(folder).st_dev
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(folder))
        for name in names[: _most_names(left)]:
            with _opened(folder, name) as descriptor:
                if descriptor is None:
                    continue
                status = os.fstat(descriptor)
                if status.st_dev != device:  # something of ours that is mounted there
                    continue
                if stat.S_ISDIR(status.st_mode) and depth > 1:
                    yield from _copy_folder(descriptor, target / name, depth - 1, left)
                elif stat.S_ISREG(status.st_mode) and _copy_file(descriptor, target / name, left):
                    yield target / name


def _most_names(left: _Left) -> int:
    # More than can be brought out, since there may be links among them, but not a million.
    return 10 * left.files


@contextlib.contextmanager
def _opened(folder: int, name: str) -> Iterator[int | None]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError:  # a link, or a file that must not be read
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _copy_file(descriptor: int, target: Path, left: _Left) -> bool:
    if left.files <= 0 or os.fstat(descriptor).st_size > left.total_bytes:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with target.open("xb") as stream:
            left.files -= 1
            # It may grow while it is read.
            while left.total_bytes > 0 and (
                chunk := os.read(descriptor, min(_CHUNK, left.total_bytes))
            ):
                left.total_bytes -= len(chunk)
                stream.write(chunk)
    except OSError:  # there is one already, or no room
        return False
    return True
