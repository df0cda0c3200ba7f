"""The course's exercises: title, points, minutes, difficulty, hints.

The JSON files beside this module are written by ``bits build`` from the chapters' text.
"""

from __future__ import annotations

import difflib
import functools
import json
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Exercise:
    """One exercise's card.

    ``visible`` and ``hidden`` count the properties that its check tries in the student's copy
    and those that are added when it is graded; ``defines`` are the names that its stub defines.
    """

    name: str
    title: str
    chapter: str
    number: int
    points: float
    minutes: int
    difficulty: int
    visible: int
    hidden: int
    hints: tuple[str, ...]
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chapter:
    """One chapter with its exercises, in order.

    ``cells`` are the digests of the course's own cells of code, as ``reading.cells`` makes them.
    """

    name: str
    title: str
    exercises: tuple[Exercise, ...]
    cells: frozenset[str] = frozenset()


@functools.cache
def load_chapters() -> tuple[Chapter, ...]:
    """Return all chapters, in the course's order."""
    files = [file for file in resources.files(__name__).iterdir() if file.name.endswith(".json")]
    return tuple(
        _read_chapter(json.loads(file.read_text(encoding="utf-8")))
        for file in sorted(files, key=lambda file: file.name)
    )


def find_exercise(name: str) -> Exercise:
    """Return the exercise called ``name``.

    Raises:
        KeyError: if there is none; the message names the nearest.
    """
    exercises = {e.name: e for chapter in load_chapters() for e in chapter.exercises}
    if name in exercises:
        return exercises[name]
    near = difflib.get_close_matches(str(name), exercises, n=3, cutoff=0.3)
    known = ", ".join(f'"{other}"' for other in near or exercises)
    raise KeyError(f'there is no exercise "{name}"; did you mean {known}?')


def find_chapter(name: str) -> Chapter:
    """Return the chapter called ``name``, by its number ("08") or its whole name.

    Raises:
        KeyError: if there is none; the message lists all.
    """
    for chapter in load_chapters():
        if name in (chapter.name, chapter.name.split("-")[0]):
            return chapter
    known = ", ".join(f'"{chapter.name}"' for chapter in load_chapters())
    raise KeyError(f'there is no chapter "{name}"; there are {known}')


def _read_chapter(content: dict) -> Chapter:
    exercises = (
        Exercise(
            **{
                **card,
                "chapter": content["chapter"],
                "hints": tuple(card["hints"]),
                "defines": tuple(card["defines"]),
            }
        )
        for card in content["exercises"]
    )
    cells = frozenset(content["cells"])
    return Chapter(content["chapter"], content["title"], tuple(exercises), cells)
