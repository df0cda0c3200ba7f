"""The class that nobody teaches: what each of its students hands in, the same every time.

Nothing here says what a piece of work is worth. Most of it is the chapter's own answers with
mistakes put in, and a mistake may leave an answer right: the judge decides.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import nbformat
from nbformat.notebooknode import NotebookNode

from helpers.grading.demo.mistakes import find_mistakes

FEWEST = 9
_SEED = 8
_MARKS = ("### BEGIN SOLUTION", "### END SOLUTION")
_FIRST_CHANCE, _LAST_CHANCE = 0.35, 0.95  # that the weakest and the best get an exercise right
_CHANCE_OF_A_STUB = 0.2  # of what is not right
_BYTES_THAT_ARRIVED = 2000
_LOOP = "while True:\n    pass"
_KILL = "import os\nos._exit(1)"
_ODD = "import sys\ncaller = sys._getframe(1).f_code.co_name"
_CHEAT = """import gc

print("4.0 of 4 points")
for thing in gc.get_objects():
    if isinstance(thing, dict) and "check" in thing:
        print("found a test:", thing["check"])
"""


@dataclass(frozen=True)
class Work:
    """What one student hands in.

    Attributes:
        student: the id, like "student-01".
        notebook: the file.
        about: what is special about it; "" if nothing is.
    """

    student: str
    notebook: bytes
    about: str = ""


@dataclass(frozen=True)
class InventedClass:
    """All that is handed in.

    Attributes:
        in_time: one piece of work for each student.
        late: what comes after the due date, of students who had handed in before.
    """

    in_time: tuple[Work, ...]
    late: tuple[Work, ...]


def invent_class(source: NotebookNode, release: NotebookNode, size: int) -> InventedClass:
    """Return a class for one chapter.

    Args:
        source: the chapter's full notebook.
        release: the students' copy of it.
        size: how many students, ``FEWEST`` or more.
    """
    chapter = _Chapter(source, release)
    draw = random.Random(_SEED)
    width = max(2, len(str(size)))
    students = [f"student-{number:0{width}}" for number in range(1, size + 1)]
    special = dict(zip(draw.sample(students, FEWEST), _SPECIAL, strict=True))
    in_time = []
    for student in students:
        about, make = special.get(student, ("", lambda chapter: chapter.mixed(draw)))
        in_time.append(Work(student, make(chapter), about))
    late = [Work(w.student, chapter.solved(), w.about) for w in in_time if w.about == _LATE]
    return InventedClass(tuple(in_time), tuple(late))


class _Chapter:
    """A chapter, and what can be handed in for it."""

    def __init__(self, source: NotebookNode, release: NotebookNode) -> None:
        self._release = release
        cells = {name: cell for cell in source.cells if (name := _name(cell))}
        self._right = {
            name: _without_marks(cell.source)
            for name, cell in cells.items()
            if cell.metadata.nbgrader.solution and f"test-{name}" in cells
        }
        self.exercises = list(self._right)

    def solved(self, changed: Mapping[str, str | None] | None = None) -> bytes:
        """Return it with the right answers, or those in ``changed``; None stays a stub."""
        answers = self._right | dict(changed or {})
        notebook = copy.deepcopy(self._release)
        for cell in notebook.cells:
            answer = answers.get(_name(cell))
            if answer is not None:
                cell.source = answer
        return nbformat.writes(notebook).encode()

    def untouched(self) -> bytes:
        """Return it with nothing done."""
        return nbformat.writes(self._release).encode()

    def mixed(self, draw: random.Random) -> bytes:
        """Return what somebody may hand in, who is good at it or is not."""
        skill = draw.random()
        chance = _FIRST_CHANCE + (_LAST_CHANCE - _FIRST_CHANCE) * skill
        changed: dict[str, str | None] = {}
        for exercise, right in self._right.items():
            if draw.random() < chance:
                continue
            is_stub = draw.random() < _CHANCE_OF_A_STUB
            changed[exercise] = None if is_stub else _with_a_mistake(right, draw)
        return self.solved(changed)

    def with_code(self, place: int, code: str) -> bytes:
        """Return it with ``code`` at the beginning of what one answer does."""
        exercise = self.exercises[place % len(self.exercises)]
        return self.solved({exercise: _insert(code, self._right[exercise])})

    def without_answer(self, place: int) -> bytes:
        """Return it without the cell of one answer."""
        exercise = self.exercises[place % len(self.exercises)]
        notebook = nbformat.reads(self.solved().decode(), as_version=4)
        notebook.cells = [cell for cell in notebook.cells if _name(cell) != exercise]
        return nbformat.writes(notebook).encode()

    def that_cheats(self, place: int) -> bytes:
        """Return it with one stub, and beside it code that wants points for nothing."""
        exercise = self.exercises[place % len(self.exercises)]
        stub = next(cell.source for cell in self._release.cells if _name(cell) == exercise)
        return self.solved({exercise: f"{_CHEAT}\n{stub}"})


_LATE = "hands in again, all right, after the due date"
_SPECIAL: tuple[tuple[str, Callable[[_Chapter], bytes]], ...] = (
    ("has everything right", lambda chapter: chapter.solved()),
    ("has written nothing", lambda chapter: chapter.untouched()),
    ("has an answer that never ends", lambda chapter: chapter.with_code(1, _LOOP)),
    ("has an answer that ends its own process", lambda chapter: chapter.with_code(-1, _KILL)),
    ("has a damaged file", lambda chapter: chapter.solved()[:_BYTES_THAT_ARRIVED]),
    ("has deleted an answer's cell", lambda chapter: chapter.without_answer(2)),
    ("prints points and looks for the tests", lambda chapter: chapter.that_cheats(0)),
    ("asks Python for its caller, which a person looks at", lambda c: c.with_code(0, _ODD)),
    (_LATE, lambda chapter: chapter.untouched()),
)


def _name(cell: NotebookNode) -> str:
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


def _without_marks(code: str) -> str:
    lines = code.splitlines()
    return "\n".join(line for line in lines if line.strip() not in _MARKS)


def _with_a_mistake(right: str, draw: random.Random) -> str | None:
    """Return an answer with one mistake, each kind as likely as another; None if there is none."""
    by_kind = _mistakes_by_kind(right)
    return draw.choice(by_kind[draw.choice(list(by_kind))]) if by_kind else None


@cache
def _mistakes_by_kind(right: str) -> dict[str, list[str]]:
    by_kind: dict[str, list[str]] = {}
    for mistake in find_mistakes(right):
        by_kind.setdefault(mistake.kind, []).append(mistake.code)
    return by_kind


def _insert(code: str, answer: str) -> str:
    """Put ``code`` first into the answer's first function; before it all if there is none."""
    tree = ast.parse(answer)
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    place = next(functions, tree)
    place.body = [*ast.parse(code).body, *place.body]
    return ast.unparse(tree)
