"""Judged work, kept in ``judged/ASSIGNMENT/``; ``class_list`` is how the other parts read it.

A result is two files, ``KEY.json`` and ``KEY.ipynb``. The key is a hash of all that went into the
judging, so what is stored under it stays true forever; what is cut off or was edited is found out
and judged again. Which result a student's grade comes from stands in ``students/``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.files import remove_drafts, write_atomically
from helpers.grading.errors import GradingError
from helpers.grading.verdicts import Judged, from_plain, to_plain

_FORMAT = 1


class ResultStore:
    """The results of one assignment, each under its key."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, ``judged/ASSIGNMENT``; it is made when something is saved."""
        self.folder = folder

    def save(self, key: str, judged: Judged) -> None:
        """Keep a result; the notebook comes first, so that no KEY.json is without it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "format": _FORMAT,
            "key": key,
            "notebook": hashlib.sha256(judged.notebook).hexdigest(),
            "judged": to_plain(judged),
        }
        text = json.dumps({**content, "seal": _seal(content)})
        write_atomically(self._notebook(key), judged.notebook)
        write_atomically(self._result(key), text.encode())

    def load(self, key: str) -> Judged | None:
        """Return a result with its notebook; None if there is none or it is damaged."""
        judged = self.load_without_notebook(key)
        if judged is None:
            return None
        with contextlib.suppress(GradingError):
            return dataclasses.replace(judged, notebook=self.read_notebook(key))
        return None

    def load_without_notebook(self, key: str) -> Judged | None:
        """Return a result with an empty notebook; None if there is none or it is damaged."""
        try:
            return from_plain(self._read(key)["judged"], b"")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def read_notebook(self, key: str) -> bytes:
        """Return a result's notebook.

        Raises:
            GradingError: it is not there, or not what was kept.
        """
        try:
            notebook = self._notebook(key).read_bytes()
            if hashlib.sha256(notebook).hexdigest() == self._read(key)["notebook"]:
                return notebook
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        raise GradingError(
            f"{self._notebook(key)} is missing or damaged: run bits grade again, which restores it."
        )

    def remove(self, key: str) -> None:
        """Forget a result."""
        # In this order a kill leaves a notebook that nothing speaks of.
        self._result(key).unlink(missing_ok=True)
        self._notebook(key).unlink(missing_ok=True)

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget all other results, and what killed runs have left half-written."""
        remove_drafts(self.folder)
        for suffix in (".json", ".ipynb"):
            for file in self.folder.glob(f"*{suffix}"):
                if file.stem not in keys:
                    file.unlink(missing_ok=True)

    def _read(self, key: str) -> dict[str, Any]:
        content = json.loads(self._result(key).read_bytes())
        seal = content.pop("seal")
        if (content["format"], content["key"], seal) != (_FORMAT, key, _seal(content)):
            raise ValueError(f"{key} is not what was kept")
        return content

    def _result(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _notebook(self, key: str) -> Path:
        return self.folder / f"{key}.ipynb"


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Recorded:
    """Which result a student's grade comes from.

    Attributes:
        student: the student's id.
        key: the result's.
        submission: the SHA-256 of what was handed in; "" if there is no notebook at all.
        refusal: why it was not judged; "" if it was.
        received_at: as timestamp.txt or the receipt says it; "" if neither does.
        points: those that were written into the gradebook, by the exercise's name.
    """

    student: str
    key: str
    submission: str
    refusal: str
    received_at: str
    points: Mapping[str, float] = field(default_factory=dict)


class Records:
    """For each student of an assignment, which result was recorded last."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, ``judged/ASSIGNMENT/students``."""
        self._folder = folder

    def find(self, student: str) -> Recorded | None:
        """Return what was recorded for ``student``; None if nothing was."""
        return _read_record(self._file(student), student)

    def all(self) -> dict[str, Recorded]:
        """Return every student's."""
        found = (_read_record(file) for file in self._folder.glob("*.json"))
        return {recorded.student: recorded for recorded in found if recorded}

    def save(self, recorded: Recorded) -> None:
        """Write down that this is now the student's, if it is not there already."""
        if self.find(recorded.student) != recorded:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(dataclasses.asdict(recorded), indent=1)
            write_atomically(self._file(recorded.student), text.encode(), at_once=False)

    def remove_drafts(self) -> None:
        """Remove what killed runs have left half-written."""
        remove_drafts(self._folder)

    def _file(self, student: str) -> Path:
        # An id may differ from another in upper and lower case alone, or be as long as names get.
        name = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{name}.json"


def _read_record(file: Path, student: str | None = None) -> Recorded | None:
    try:
        recorded = Recorded(**json.loads(file.read_bytes()))
        points = {name: float(points) for name, points in recorded.points.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    recorded = dataclasses.replace(recorded, points=points)
    texts = (value for name, value in vars(recorded).items() if name != "points")
    if not all(isinstance(value, str) for value in texts):
        return None
    return recorded if student in (None, recorded.student) else None


def judged_folder(course: Path, assignment: str) -> Path:
    """Return where the results of ``assignment`` are kept."""
    return course / "judged" / assignment
