"""The demo's own folder: an nbgrader course that nothing but the demo has written into.

The folder has a mark that says what it was made from. Made from the same again, all that is there
stays, with what an instructor entered in formgrader; made from something else, it begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path

import nbformat

from helpers.files import write_atomically
from helpers.grading.demo.invented_class import InventedClass, Work, invent_class
from helpers.grading.errors import DemoError, GradingError
from helpers.grading.locks import sole_holder
from helpers.grading.records.submissions import find_notebook

CLASS_ZIP, LATE_ZIP = "moodle.zip", "moodle-late.zip"
_MARK = ".bits-demo.json"
_CONFIG = "nbgrader_config.py"
# What the demo and the commands that it calls make in its course.
_MADE = (
    *("source", "release", "received", "submitted", "judged", "autograded", "feedback", "reports"),
    *(_CONFIG, "gradebook.db*", ".nbgrader.log"),
)
_FIRST_NUMBER = 4001  # a learning management system's, of the first student
_TIME = (2026, 1, 31, 12, 0, 0)  # the same in every zip, which is then the same to the last bit


@contextlib.contextmanager
def open_folder(
    folder: Path, course: Path, assignment: str, size: int
) -> Iterator[tuple[Path, InventedClass]]:
    """Make ``folder`` a course of its own for the demo; yield the course and the class.

    Args:
        folder: the demo's.
        course: the folder ``course/`` whose chapter is shown; nothing is written there.
        assignment: a chapter, like ``08-numerical-stability``.
        size: how many students.

    Raises:
        DemoError: the folder is somebody else's, cannot be written or is being written to.
        GradingError: there is no such assignment.
    """
    _check_own(folder, course)
    notebook = find_notebook(course, assignment)
    chapter = _read_chapter(course, assignment)
    invented = _invent(chapter, notebook, assignment, size)
    contents = dict(_contents(course, chapter, invented, notebook))
    busy = DemoError(f"Another bits demo is running in {folder}: wait until it ends and try again.")
    with _told_of(folder):
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _MARK).exists():
            _mark(folder, "")
    with sole_holder(folder, busy):
        with _told_of(folder):
            _write(folder, contents)
        yield folder / "course", invented


@contextlib.contextmanager
def _told_of(folder: Path) -> Iterator[None]:
    """Say in one sentence that the folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise DemoError(
            f"{error.filename or folder} cannot be written ({error.strerror}): make room or choose "
            f"another folder with --output."
        ) from error


def _check_own(folder: Path, course: Path) -> None:
    if (course.parent / _MARK).exists():
        raise DemoError(
            f"{course.parent} is a demo's own folder: change to the folder that you cloned."
        )
    is_taken = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
    is_ours = (folder / _MARK).is_file() and not (folder / "course").is_symlink()
    if folder.resolve().is_relative_to(course.resolve()) or (is_taken and not is_ours):
        raise DemoError(
            f"{folder} was not made by bits demo, which writes into no other folder: choose one "
            f"that is new or empty, with --output."
        )


def _read_chapter(course: Path, assignment: str) -> dict[str, bytes]:
    """Return the chapter's files, by their names relative to the course."""
    files = {}
    for part in ("source", "release"):
        for file in sorted((course / part / assignment).rglob("*")):
            if file.is_file() and not any(p.startswith(".") for p in file.parts[-2:]):
                files[file.relative_to(course).as_posix()] = file.read_bytes()
    return files


def _invent(
    chapter: Mapping[str, bytes], notebook: str, assignment: str, size: int
) -> InventedClass:
    try:
        source, release = (
            nbformat.reads(chapter[f"{part}/{assignment}/{notebook}"].decode(), as_version=4)
            for part in ("source", "release")
        )
    except KeyError as error:
        raise GradingError(
            f"The course has no {error.args[0]}: make it with bits build {assignment}."
        ) from error
    return invent_class(source, release, size)


def _contents(
    course: Path, chapter: Mapping[str, bytes], invented: InventedClass, notebook: str
) -> Iterator[tuple[str, bytes]]:
    """Yield every file that the demo writes, by its name relative to its folder."""
    for name, content in chapter.items():
        yield f"course/{name}", content
    yield f"course/{_CONFIG}", (course / _CONFIG).read_bytes()
    yield CLASS_ZIP, _zip(invented.in_time, notebook)
    yield LATE_ZIP, _zip(invented.late, notebook)


def _zip(works: Iterable[Work], notebook: str) -> bytes:
    """Return a zip as Moodle makes it for download."""
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for work in works:
            number = _FIRST_NUMBER + int(work.student.rpartition("-")[2])
            name = f"{work.student}_{number}_assignsubmission_file_/{notebook}"
            archive.writestr(zipfile.ZipInfo(name, _TIME), work.notebook, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _write(folder: Path, contents: Mapping[str, bytes]) -> None:
    digest = hashlib.sha256()
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    made_from = digest.hexdigest()
    if _read_mark(folder) != made_from:
        # A kill before the end leaves the empty mark: then the next run begins anew.
        _mark(folder, "")
        _remove_made(folder)
    for name, content in contents.items():
        target = folder / name
        if not target.is_file() or target.read_bytes() != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(target, content)
    _mark(folder, made_from)


def _remove_made(folder: Path) -> None:
    for pattern in _MADE:
        for path in (folder / "course").glob(pattern):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _mark(folder: Path, made_from: str) -> None:
    write_atomically(folder / _MARK, json.dumps({"made_from": made_from}).encode())


def _read_mark(folder: Path) -> str:
    try:
        return str(json.loads((folder / _MARK).read_bytes())["made_from"])
    except (ValueError, KeyError, TypeError):
        return ""
