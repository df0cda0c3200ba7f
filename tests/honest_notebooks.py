"""Honest notebooks, as untidy as they come: right answers, and all that students leave around them.

A *stray* is a cell that is no part of an answer; an *addition* stands in an answer's own cell or
around it; a *layout* is what an editor does to all cells; an *answer* is written by hand, in
`tests/honest/`. Each is tried on several chapters, and several share a notebook.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import jupytext
from classroom import exercises_of, solved, without_demos
from course_files import CHAPTERS, find_cell, grade_id, release
from honest_additions import ABOVE, AROUND, BELOW
from honest_layouts import LAYOUTS, lay_out
from honest_strays import STRAYS
from nbformat import v4
from nbformat.notebooknode import NotebookNode

FOLDER = Path(__file__).resolve().parent / "honest"
# Those that are judged in about a second.
LIGHT = [name for name in CHAPTERS if name[:2] in ("00", "01", "04", "05", "07", "08", "11")]
# Those of which one notebook takes as long as twenty of others.
LONG = [name for name in CHAPTERS if name[:2] == "12"]
_STRAYS_PER_NOTEBOOK = 5
_WITHOUT_LOOPS = ("pairwise-distances", "batch-gather")
_DEFINITION = re.compile(r"^(def|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """An answer that was written by hand, with the student's own cells around it."""

    exercise: str
    title: str
    code: str
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A notebook that deserves full points.

    Attributes:
        chapter: its name.
        constructs: what is in it, by the exercise at which it stands.
    """

    chapter: str
    kind: str
    constructs: Mapping[str, str] = field(hash=False)

    def __str__(self) -> str:
        return f"{self.chapter}-{self.kind}"

    def build(self, exercises: Iterable[str] | None = None) -> NotebookNode:
        """Return the notebook, with the constructs of ``exercises`` alone if they are given."""
        chosen = set(self.constructs if exercises is None else exercises)
        return _BUILD[self.kind.split(",")[0]](
            self.chapter, {e: c for e, c in self.constructs.items() if e in chosen}
        )


def what_is_defined(chapter: str, exercise: str) -> tuple[str, str]:
    """Return "def" or "class", and the name, of what an exercise asks for."""
    found = _DEFINITION.findall(find_cell(release(chapter), exercise).source)
    return found[-1]


def named(code: str, chapter: str, exercise: str) -> str:
    _, name = what_is_defined(chapter, exercise)
    return code.replace("NAME", name).replace("EXERCISE", exercise).strip("\n")


# --- Notebooks -------------------------------------------------------------------------------


def with_strays_everywhere(chapter: str, names: Iterable[str]) -> NotebookNode:
    """Return a solved notebook with stray cells behind each of its cells of code."""
    notebook = without_demos(solved(chapter))
    exercise = exercises_of(chapter)[0].name
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.metadata.get("nbgrader", {}).get("solution"):
            exercise = grade_id(cell)
        if cell.cell_type == "code":
            cells += [v4.new_code_cell(named(STRAYS[name], chapter, exercise)) for name in names]
    notebook.cells = cells
    return notebook


def _with_strays(chapter: str, constructs: Mapping[str, str]) -> NotebookNode:
    """Put strays at the top, and each below the answer of an exercise."""
    notebook = without_demos(solved(chapter))
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if grade_id(cell) == "needed-1":
            cells += [
                v4.new_code_cell(named(STRAYS[name], chapter, exercise))
                for exercise, names in constructs.items()
                for name in names.split("; ")
            ]
        names = constructs.get(grade_id(cell), "")
        for name in names.split("; ") if names else ():
            cells.append(v4.new_code_cell(named(STRAYS[name], chapter, grade_id(cell))))
    notebook.cells = cells
    return notebook


def _with_additions(chapter: str, constructs: Mapping[str, str]) -> NotebookNode:
    notebook = without_demos(solved(chapter))
    cells = []
    for cell in notebook.cells:
        exercise = grade_id(cell)
        for construct in filter(None, constructs.get(exercise, "").split("; ")):
            where, _, name = construct.partition(": ")
            if where == "above":
                cell.source = f"{named(ABOVE[name], chapter, exercise)}\n{cell.source}"
            elif where == "below":
                cell.source = f"{cell.source}\n\n{named(BELOW[name], chapter, exercise)}"
            elif where == "around":
                helper, call = AROUND[name]
                cells.append(v4.new_code_cell(helper.strip("\n")))
                cell.source = f"{cell.source}\n\n\n{named(call, chapter, exercise)}"
        cells.append(cell)
    notebook.cells = cells
    return notebook


def _with_layout(chapter: str, constructs: Mapping[str, str]) -> NotebookNode:
    (name,) = set(constructs.values())
    return lay_out(without_demos(solved(chapter)), name)


def _with_answers(chapter: str, constructs: Mapping[str, str]) -> NotebookNode:
    found = {(answer.exercise, answer.title): answer for answer in answers(chapter)}
    chosen = {name: found[name, title] for name, title in constructs.items()}
    codes = {name: answer.code for name, answer in chosen.items()}
    notebook = without_demos(solved(chapter, codes))
    cells = []
    for cell in notebook.cells:
        answer = chosen.get(grade_id(cell))
        cells += map(v4.new_code_cell, answer.above if answer else ())
        cells.append(cell)
        cells += map(v4.new_code_cell, answer.below if answer else ())
    notebook.cells = cells
    return notebook


_BUILD = {
    "strays": _with_strays,
    "additions": _with_additions,
    "layout": _with_layout,
    "answers": _with_answers,
}


# --- The answers that were written by hand ---------------------------------------------------


@cache
def answers(chapter: str) -> tuple[Answer, ...]:
    """Return a chapter's answers that were written by hand.

    In the file, a cell "answer: its title" is the answer's own; cells "above" and "below" behind
    it are the student's, above and below the answer.
    """
    file = FOLDER / f"{chapter.replace('-', '_')}.py"
    if not file.exists():
        return ()
    found: list[dict] = []
    for cell in jupytext.read(file, fmt="py:percent").cells:
        title = cell.metadata.get("title", "")
        if title.startswith("answer: "):
            known = {"exercise": cell.metadata["exercise"], "title": title[8:], "code": cell.source}
            found.append(known | {"above": [], "below": []})
        elif title in ("above", "below"):
            found[-1][title].append(cell.source)
    return tuple(
        Answer(**known | {"above": tuple(known["above"]), "below": tuple(known["below"])})
        for known in found
    )


# --- Cases -----------------------------------------------------------------------------------


def cases() -> Iterator[Case]:
    """Yield all notebooks."""
    yield from _stray_cases()
    yield from _addition_cases()
    for number, name in enumerate(LAYOUTS):
        # Two light chapters and another one: each construct is tried on three.
        light = [LIGHT[number % len(LIGHT)], LIGHT[(number + 3) % len(LIGHT)]]
        others = [chapter for chapter in CHAPTERS if chapter not in (*light, *LONG)]
        # A long one once, so that it has as many notebooks as every chapter is to have.
        other = LONG[number] if number < len(LONG) else others[number * 3 % len(others)]
        for chapter in (*light, other):
            yield Case(chapter, f"layout, {name}", {e.name: name for e in exercises_of(chapter)})
    for chapter in CHAPTERS:
        waiting = list(answers(chapter))
        while waiting:
            together = {answer.exercise: answer for answer in reversed(waiting)}
            waiting = [answer for answer in waiting if answer not in together.values()]
            constructs = {name: answer.title for name, answer in together.items()}
            yield Case(chapter, f"answers, {len(waiting)} left", constructs)


def _stray_cases() -> Iterator[Case]:
    names = list(STRAYS)
    count = -(-len(names) // _STRAYS_PER_NOTEBOOK)
    for number in range(count):
        for step in (0, 2, 5):
            chapter = LIGHT[(number + step) % len(LIGHT)]
            exercises = [exercise.name for exercise in exercises_of(chapter)]
            together: dict[str, list[str]] = defaultdict(list)
            for place, name in enumerate(names[number::count]):
                together[exercises[place % len(exercises)]].append(name)
            constructs = {exercise: "; ".join(some) for exercise, some in together.items()}
            yield Case(chapter, f"strays, {number}", constructs)


def _addition_cases() -> Iterator[Case]:
    """Yield notebooks with one addition of each kind at every exercise, above it and below it."""
    above, below, place = list(ABOVE), list(BELOW), 0
    for number, chapters in enumerate((CHAPTERS, LIGHT)):
        for chapter in chapters:
            constructs = {}
            for exercise in exercises_of(chapter):
                chosen = [f"above: {above[place % len(above)]}"]
                chosen.append(f"below: {below[place % len(below)]}")
                constructs[exercise.name] = "; ".join(chosen)
                place += 1
            # Where no loop may be, what is put around two functions binds their cells together, and
            # with them the loops of what stands below: these get a notebook of their own.
            around = _around(chapter)
            together = not number and not set(_WITHOUT_LOOPS) & set(around)
            for name in around if together else ():
                constructs[name] += f"; {around[name]}"
            yield Case(chapter, f"additions, {number}", constructs)
            if not number and not together:
                yield Case(chapter, "additions, around", around)


def _around(chapter: str) -> dict[str, str]:
    """Return what is put around the functions of a chapter, by exercise."""
    names, number = [f"around: {name}" for name in AROUND], CHAPTERS.index(chapter)
    functions = [
        exercise.name
        for exercise in exercises_of(chapter)
        if what_is_defined(chapter, exercise.name)[0] == "def"
    ]
    # A function that calls an older one of its own name is taken for one that calls itself.
    chosen = {n: names[(number * 3 + place) % len(names)] for place, n in enumerate(functions)}
    return chosen | {name: names[number % 2] for name in functions if name in _WITHOUT_LOOPS}
