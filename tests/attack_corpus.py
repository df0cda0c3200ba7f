"""The corpus of hostile submissions, and what each of them deserves.

Most are one cell in a file of `tests/attacks/`, which is named after the class of attack:

    # %% attack: what it tries exercise="softmax" expect="failed|crashed" points=0

Its code stands in the place of the student's cell of that exercise; everything else is right, and
deserves all points, unless `others="any"` says that the attack may harm its own later exercises.
What an attack does to the work behind it is tried in one chapter: in all others the exercises
behind the attacked one stay as they are handed out, because some take many seconds to judge.
With `stray="before"` or `stray="after"` the solution is right, and the code stands in a cell of its
own beside it. `expect` is the verdict, or several that will do. `points` are exact, `most` is the
most that will do; one that passes has all of them. `waiting` are the points that wait for a person:
they count for nobody. The chapter is that of the exercise. Attacks that take more than a cell are
made by functions in `attack_notebooks` and `attack_broken_files`.

Nothing of this may run outside of a sandbox. Attacks that look for a way out compute wrongly, and
say what they found, if they find one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import jupytext
import nbformat
from classroom import exercises_behind, exercises_of, solved, stubs, to_bytes, without_demos
from course_files import EXERCISES as ALL_EXERCISES
from course_files import find_cell
from nbformat.notebooknode import NotebookNode

from helpers.grading.verdicts import Verdict

CHAPTER = "08-numerical-stability"
FOLDER = Path(__file__).resolve().parent / "attacks"
EXERCISES = {exercise.name: exercise for exercise in ALL_EXERCISES}
CLASSES = (
    "aliased_inputs",
    "broken_files",
    "carriers",
    "cell_hooks",
    "code_in_disguise",
    "forged_answers",
    "forged_testimony",
    "grader_detection",
    "hostile_output",
    "kills",
    "lent_functions",
    "lying_objects",
    "memory_walks",
    "metadata",
    "misread_code",
    "numeric_tricks",
    "outside",
    "past_the_watch",
    "patched_machinery",
    "predicted_inputs",
    "resource_hogs",
    "smuggled_state",
    "stray_cells",
    "survivors",
    "uncounted_memory",
    "unwatched_work",
    "walls",
)
_LONGEST_NAME = 70


@dataclass(frozen=True)
class Attack:
    """One hostile submission.

    Attributes:
        name: its class and its meaning, short enough for a test's name.
        kind: its class.
        meaning: what it tries.
        make: returns the submission, which takes its time.
        exercise: the one that is judged by what follows; "" if all of them are.
        verdicts: those that will do.
        points: what it deserves; `None` if anything up to `most` will do.
        most: the most that it may get for the exercise.
        waiting: how many points may wait for a person; exact if ``points`` are.
        others_full: whether all other exercises, but those left blank, must have all their points.
        chapter: whose notebook it is.
    """

    name: str
    kind: str
    meaning: str
    make: Callable[[], bytes]
    exercise: str
    verdicts: frozenset[str]
    points: float | None
    most: float
    waiting: float
    others_full: bool = True
    chapter: str = CHAPTER

    @property
    def notebook(self) -> bytes:
        """The submission."""
        return self.make()


def attacks() -> list[Attack]:
    """Return the whole corpus, in the order of its classes."""
    import attack_broken_files  # noqa: F401  it registers what it makes
    from attack_notebooks import whole_notebooks

    found = [*whole_notebooks(), *(a for file in attack_files() for a in attacks_in(file))]
    return sorted(found, key=lambda attack: attack.kind)


def attack_files() -> list[Path]:
    return sorted(FOLDER.glob("*.py"))


def attacks_in(file: Path) -> Iterator[Attack]:
    for cell in jupytext.read(file, fmt="py:percent").cells:
        settings = dict(cell.metadata)
        word, _, meaning = settings.pop("title", "").partition(":")
        settings.pop("lines_to_next_cell", None)
        if word != "attack":
            raise ValueError(f'{file.name}: a cell does not begin with "# %% attack:"')
        exercise = settings.pop("exercise")
        make = partial(written, exercise, cell.source, settings.pop("stray", ""))
        yield make_attack(file.stem, meaning.strip(), make, exercise, **settings)


def written(exercise: str, code: str, stray: str) -> bytes:
    """Return the notebook of ``with_code`` as it is handed in."""
    return to_bytes(with_code(exercise, code, stray))


def with_code(exercise: str, code: str, stray: str = "") -> NotebookNode:
    """Return the solved notebook of an exercise's chapter, without its demos.

    Args:
        exercise: the one that ``code`` solves, or beside which it stands.
        code: what is written.
        stray: "before" or "after" the right solution if the code stands in a cell of its own.
    """
    chapter = EXERCISES[exercise].chapter
    codes = stubs(chapter, left_blank(exercise))
    if not stray:
        return without_demos(solved(chapter, codes | {exercise: code}))
    notebook = without_demos(solved(chapter, codes))
    place = notebook.cells.index(find_cell(notebook, exercise)) + (stray == "after")
    notebook.cells.insert(place, nbformat.v4.new_code_cell(code))
    return notebook


def left_blank(exercise: str) -> list[str]:
    """Return the exercises that stay stubs where ``exercise`` is attacked."""
    attacked = EXERCISES[exercise]
    return [] if attacked.chapter == CHAPTER else exercises_behind(attacked)


@cache
def all_right(chapter: str = CHAPTER) -> bytes:
    """Return the solved notebook, without its demos."""
    return to_bytes(without_demos(solved(chapter)))


def make_attack(
    kind: str,
    meaning: str,
    make: Callable[[], bytes],
    exercise: str,
    *,
    expect: str,
    points: float | None = None,
    most: float | None = None,
    waiting: float = 0.0,
    others: str = "full",
) -> Attack:
    """Return an attack; see above for what the settings mean."""
    verdicts = frozenset(expect.split("|"))
    chapter = EXERCISES[exercise].chapter if exercise else CHAPTER
    most_points = max(float(e.points) for e in exercises_of(chapter))
    full = float(EXERCISES[exercise].points) if exercise else most_points
    if points is None and most is None:
        if verdicts != {Verdict.PASSED}:
            raise ValueError(f"{kind}: {meaning}: says neither points nor most")
        points = full if exercise else None
    name = f"{kind}-{re.sub('[^a-z0-9]+', '-', meaning.lower())}"[:_LONGEST_NAME].strip("-")
    ceiling = next(limit for limit in (points, most, full) if limit is not None)
    limits = points, ceiling, waiting
    settled = others == "full", chapter
    return Attack(name, kind, meaning, make, exercise, verdicts, *limits, *settled)
