"""A folder, a zip or one notebook that an instructor points at, as entries to be read safely.

Nothing is unpacked. An entry's name is a text and never a path; its bytes are counted while they
are read; links and special files are reported and not opened.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import stat
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from helpers.grading.caps import Caps
from helpers.grading.errors import IntakeError
from helpers.grading.names import find_fault

_CHUNK = 2**20
_JUNK = ("__macosx", ".ds_store", ".ipynb_checkpoints", "desktop.ini", "thumbs.db", "timestamp.txt")
_LINK, _SPECIAL = "it is a link", "it is a device, a pipe or a socket"
_ENCRYPTED = "it is encrypted"


class RefusedError(Exception):
    """An entry is not taken; the text is what a sentence about it ends with."""


@dataclass(frozen=True)
class Entry:
    """A notebook in a source: its name there, with slashes, and a way to read it once."""

    name: str
    read: Callable[[], bytes]


@dataclass
class Source:
    """The notebooks that were found, in the source's order, and what was refused, with reasons."""

    entries: list[Entry] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, fault: str | None, read: Callable[[], bytes], caps: Caps) -> None:
        """Take an entry, or note why not."""
        fault = find_fault(name, caps) or fault
        if fault is None and _is_junk(name):
            return
        if fault is None and not name.lower().endswith(".ipynb"):
            fault = "it is not a notebook: its name does not end in .ipynb"
        if fault is None:
            self.entries.append(Entry(name, read))
        else:
            self.refused.append((name, fault))

    def unify_spellings(self) -> None:
        """Write names with the accents that most systems write; but two folders, or files, that
        look the same are two, and so keep their own.
        """
        spelled: dict[str, set[str]] = {}
        for entry in self.entries:
            top = entry.name.split("/")[0]
            spelled.setdefault(_usual(top), set()).add(top)
        self.entries = [
            entry
            if len(spelled[_usual(entry.name.split("/")[0])]) > 1
            else dataclasses.replace(entry, name=_usual(entry.name))
            for entry in self.entries
        ]


def _usual(name: str) -> str:
    return unicodedata.normalize("NFC", name)


@contextlib.contextmanager
def open_source(path: Path, caps: Caps) -> Iterator[Source]:
    """Open a folder, a zip or a single notebook.

    Raises:
        IntakeError: it is none of these, it is damaged as a whole, or it holds too many entries.
    """
    with contextlib.ExitStack() as stack:
        try:
            source = _open(path, caps, stack)
        except OSError as error:
            raise IntakeError(
                f"{error.filename or path} cannot be read ({error.strerror})."
            ) from error
        source.unify_spellings()
        yield source


def _open(path: Path, caps: Caps, stack: contextlib.ExitStack) -> Source:
    budget = _Budget(caps)
    if path.is_dir():
        return _read_folder(path, budget)
    if not path.is_file():
        raise IntakeError(f"There is no folder, zip or notebook at {path}: check the path.")
    if path.suffix.lower() != ".ipynb":
        return _read_zip(stack.enter_context(_open_zip(path, caps)), path, budget)
    source = Source()
    source.add(path.name, None, _reader(budget.read_file, path.resolve()), caps)
    return source


class _Budget:
    """Reads entries and counts: what one may have, and what all of them may."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self._left = caps.total

    def read_file(self, path: Path) -> bytes:
        # Not to follow a link, nor to wait for a pipe's other end.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            with open(os.open(path, flags), "rb") as stream:
                if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                    raise RefusedError(_SPECIAL)
                return self._read(stream)
        except OSError as error:
            raise RefusedError(f"it cannot be read ({error.strerror})") from error

    def read_zipped(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
        try:
            with archive.open(entry) as stream:
                return self._read(stream, packed=entry.compress_size)
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError) as error:
            raise RefusedError("it is damaged within the zip") from error
        except (NotImplementedError, RuntimeError) as error:
            raise RefusedError("it is packed in a way that is not supported") from error

    def _read(self, stream: BinaryIO, packed: int | None = None) -> bytes:
        caps, content = self.caps, bytearray()
        while chunk := stream.read(_CHUNK):
            content += chunk
            self._left -= len(chunk)
            if len(content) > caps.notebook:
                raise RefusedError(f"it is larger than {_mebibytes(caps.notebook)}")
            if self._left < 0:
                raise RefusedError(f"all together is larger than {_mebibytes(caps.total)}")
            is_bomb = packed is not None and len(content) > caps.ratio * max(packed, 1)
            if is_bomb and len(content) > caps.ratio_from:
                raise RefusedError(f"it unpacks to more than {caps.ratio} times its size")
        return bytes(content)


def _read_folder(folder: Path, budget: _Budget) -> Source:
    source = Source()
    caps = budget.caps
    seen = 0
    waiting = [(folder.resolve(), "")]
    while waiting:
        at, prefix = waiting.pop()
        children = []
        for child in os.scandir(at):
            seen += 1
            if seen > caps.entries:
                raise IntakeError(_too_many(folder, caps))
            children.append(child)
        folders = []
        for child in sorted(children, key=lambda child: child.name):
            name = prefix + child.name
            if child.is_dir(follow_symlinks=False) and not find_fault(name, caps):
                folders.append((Path(child.path), f"{name}/"))
                continue
            fault = _fault_of_file(child)
            read = _reader(budget.read_file, Path(child.path))
            source.add(name, fault, read, caps)
        # Folders after files, and in the order of their names.
        waiting += reversed([f for f in folders if not _is_junk(f[1].rstrip("/"))])
    return source


def _fault_of_file(child: os.DirEntry[str]) -> str | None:
    if child.is_symlink():
        return _LINK
    if child.is_dir(follow_symlinks=False) or child.is_file(follow_symlinks=False):
        return None
    return _SPECIAL


class _BoundedReads(io.FileIO):
    """A file that gives no more than ``most`` bytes at once, so that no header can ask for more."""

    most = 0

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > self.most:
            raise zipfile.BadZipFile("a part is too large")
        return super().read(size)


@contextlib.contextmanager
def _open_zip(path: Path, caps: Caps) -> Iterator[zipfile.ZipFile]:
    with _BoundedReads(path) as stream:
        stream.most = caps.table_of_contents
        try:
            archive = zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError) as error:
            raise IntakeError(
                f"{path} is not a zip, or is damaged: download it again and retry."
            ) from error
        with archive:
            if len(archive.infolist()) > caps.entries:
                raise IntakeError(_too_many(path, caps))
            yield archive


def _read_zip(archive: zipfile.ZipFile, path: Path, budget: _Budget) -> Source:
    source = Source()
    for entry in archive.infolist():
        name = _name_in_zip(entry)
        if name.endswith("/") and not find_fault(name, budget.caps):
            continue
        read = _reader(budget.read_zipped, archive, entry)
        source.add(name, _fault_in_zip(entry), read, budget.caps)
    if not source.entries and any(reason == _ENCRYPTED for _, reason in source.refused):
        raise IntakeError(f"{path} is encrypted: unpack it with its password and give the folder.")
    return source


def _name_in_zip(entry: zipfile.ZipInfo) -> str:
    """Return the name as it stands there; zipfile's own is cut at a NUL."""
    name = entry.orig_filename
    if not entry.flag_bits & 0x800:
        # Without the mark for UTF-8, zipfile reads the name as DOS did. Many write UTF-8 anyway.
        with contextlib.suppress(UnicodeError):
            return name.encode("cp437").decode("utf-8")
    return name


def _fault_in_zip(entry: zipfile.ZipInfo) -> str | None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return _LINK
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return _SPECIAL
    if entry.flag_bits & 0x1:
        return _ENCRYPTED
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "it is packed in a way that is not supported"
    return None


def _is_junk(name: str) -> bool:
    """Return whether systems and editors put it there, and no person."""
    return any(part.startswith("._") or part.lower() in _JUNK for part in name.split("/"))


def _reader(read: Callable[..., bytes], *arguments: object) -> Callable[[], bytes]:
    return lambda: read(*arguments)


def _too_many(path: Path, caps: Caps) -> str:
    return f"{path} holds more than {caps.entries} entries: give only the submissions."


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size} bytes"
