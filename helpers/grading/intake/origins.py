"""Whose a file is, told from where it lies and how a learning management system named it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

# With "download submissions in folders" and without it; some versions leave out the last
# underscore. What follows the first mark is the student's own, whatever it looks like.
_MOODLE_FOLDER = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?")
_MOODLE_FILE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_(?P<file>.+)")
# sortable name in small letters, LATE, user's number, attachment's number, the student's file name.
_CANVAS = re.compile(r"(?P<name>.+?)(?:_LATE)?_(?P<id>\d+)_(?P<order>\d+)_(?P<file>.+)")
_CANVAS_ANONYMOUS = re.compile(
    r"(?:LATE_)?(?P<name>anon_(?P<id>[A-Za-z0-9]+))_(?P<order>\d+)_(?P<file>.+)"
)
# What Canvas and browsers put behind a name that was there already.
_AGAIN = re.compile(r"(?:-(?P<canvas>\d{1,6})| ?\((?P<browser>\d{1,6})\))$")


@dataclass(frozen=True)
class Origin:
    """What the name of a file says.

    ``identity`` is the sender as the system calls them, the same for all of their files; ``name``
    and ``lms_id`` are what a roster may know them by. Of two files, the one with the greater
    ``order`` came later.
    """

    identity: str
    name: str
    lms_id: str
    file: str
    order: int = 0


class Layout:
    """How the files of one source are arranged.

    Attributes:
        lone: the one folder that holds everything, where it may be a class's or a student's: what
            lies in a student's folder has names that the student chose. "" where that is clear.
    """

    def __init__(
        self, names: Iterable[str], expected: str, assignment: str, assignments: set[str]
    ) -> None:
        """Look at the ``names`` of all notebooks; ``expected`` is the assignment's notebook."""
        self._expected = expected
        self._others = assignments - {assignment}
        paths = [name.split("/") for name in names]
        self._wrapped = _is_as_nbgrader_has_it(paths, assignments)
        self.lone = "" if self._wrapped else _find_lone_folder(paths, assignments)

    def origin(self, name: str) -> Origin | None:
        """Return whose the file ``name`` is, None if the name does not say."""
        parts = self._parts(name)
        if len(parts) == 1:
            return _from_flat_name(parts[0]) or _from_plain_name(parts[0], self._expected)
        moodle = _MOODLE_FOLDER.fullmatch(parts[0])
        if moodle:
            return _of_moodle(moodle, parts[-1])
        return Origin(parts[0], parts[0], "", parts[-1])

    def is_of_another_assignment(self, name: str) -> bool:
        """Return whether ``name`` is STUDENT/ASSIGNMENT/... of another assignment."""
        parts = self._parts(name)
        return len(parts) > 2 and parts[1] in self._others

    def _parts(self, name: str) -> list[str]:
        parts = name.split("/")
        return parts[1:] if self._wrapped and len(parts) > 1 else parts


def match_pattern(pattern: re.Pattern[str], name: str) -> Origin | None:
    """Return whose the file is by the instructor's own pattern, None if it does not match.

    Its group ``student`` is the sender; ``name`` is the person's name, ``file`` the file's own.
    """
    found = pattern.search(unicodedata.normalize("NFC", name))
    if found is None or not (found["student"] or "").strip():
        return None
    groups = {key: text or "" for key, text in found.groupdict().items()}
    student, file = groups["student"].strip(), groups.get("file") or name.split("/")[-1]
    return Origin(student, groups.get("name") or student, student, file)


def split_repetition(file: str) -> tuple[str, int]:
    """Return a notebook's name without "-1" or " (1)" behind its stem, and that number."""
    stem, dot, suffix = file.rpartition(".")
    found = _AGAIN.search(stem)
    if not dot or not found:
        return file, 0
    return f"{stem[: found.start()]}.{suffix}", int(found["canvas"] or found["browser"])


def is_called(file: str, expected: str) -> bool:
    """Return whether ``file`` has the name ``expected``, maybe as a repeated upload."""
    names = (file.casefold(), split_repetition(file)[0].casefold())
    return expected.casefold() in names


def _is_as_nbgrader_has_it(paths: list[list[str]], assignments: set[str]) -> bool:
    """Return whether all is ``submitted/STUDENT/ASSIGNMENT/...``."""
    return bool(paths) and all(
        parts[0] == "submitted" and len(parts) > 3 and parts[2] in assignments for parts in paths
    )


def _find_lone_folder(paths: list[list[str]], assignments: set[str]) -> str:
    """Return the one folder that holds everything, if what is in it could be several students'.

    One that holds an assignment, or that Moodle has named, is a student's.
    """
    tops = {parts[0] for parts in paths}
    if len(tops) != 1 or any(len(parts) < 2 for parts in paths):
        return ""
    (top,) = tops
    if top == "submitted":
        return top
    if _MOODLE_FOLDER.fullmatch(top) or any(parts[1] in assignments for parts in paths):
        return ""
    are_folders = all(len(parts) > 2 for parts in paths)
    senders = {parts[1] if are_folders else _sender(parts[1]) for parts in paths}
    return top if None not in senders and len(senders) > 1 else ""


def _sender(part: str) -> str | None:
    """Return whom a system means by a name that it gave; None if it did not."""
    moodle = _MOODLE_FOLDER.fullmatch(part)
    origin = _of_moodle(moodle, "") if moodle else _from_flat_name(part)
    return origin.identity if origin else None


def _from_flat_name(file: str) -> Origin | None:
    """Return whose a file is by the mark that stands first: what follows is the student's own."""
    moodle = _MOODLE_FILE.fullmatch(file)
    canvas = _CANVAS_ANONYMOUS.fullmatch(file) or _CANVAS.fullmatch(file)
    if canvas and len(canvas["order"]) > 18:
        canvas = None
    if moodle and not (canvas and canvas.start("file") < moodle.start("file")):
        return _of_moodle(moodle, moodle["file"])
    if canvas is None:
        return None
    identity = f"{canvas['name']}_{canvas['id']}"
    return Origin(identity, canvas["name"], canvas["id"], canvas["file"], int(canvas["order"]))


def _of_moodle(found: re.Match[str], file: str) -> Origin:
    identity = f"{found['name']}_{found['id']}"
    # An anonymous download says "Participant" of everybody: only the number tells them apart.
    name = identity if found["name"] == "Participant" else found["name"]
    return Origin(identity, name, found["id"], file)


def _from_plain_name(file: str, expected: str) -> Origin | None:
    """Return the sender of a file like ``jane_numerical-stability.ipynb`` or ``jane.ipynb``."""
    stem, topic = split_repetition(file)[0].rpartition(".")[0], expected.rpartition(".")[0]
    student = re.sub(re.escape(topic), "", stem, count=1, flags=re.IGNORECASE).strip(" _-.")
    return Origin(student, student, "", file) if student else None
