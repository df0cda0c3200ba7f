"""A class of submissions, made from the right and the wrong solutions of a chapter."""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat
from course_files import (
    COURSE,
    EXERCISES,
    Variant,
    find_cell,
    grade_id,
    release,
    run_exercise,
    source,
    variants,
)
from nbformat.notebooknode import NotebookNode

from helpers.catalogue import Exercise


@dataclass(frozen=True)
class Submission:
    """One student's notebook as bytes, and the points it deserves for each exercise."""

    student: str
    notebook: bytes
    deserved: Mapping[str, float] = field(default_factory=dict)


def exercises_of(chapter: str) -> list[Exercise]:
    return [exercise for exercise in EXERCISES if exercise.chapter == chapter]


def make_class(chapter: str) -> list[Submission]:
    """Return the class: right, wrong in each way, broken, and odd but right.

    Most leave the demos out, as grading may: what takes long in a chapter is not what is graded.
    """
    exercises = exercises_of(chapter)
    right = without_demos(solved(chapter))
    return [
        submit("all-right", solved(chapter), full_points(exercises)),
        submit(
            "blank", without_demos(release(chapter)), dict.fromkeys(full_points(exercises), 0.0)
        ),
        *(wrong_in_one(chapter, exercise) for exercise in exercises),
        partly_right(chapter),
        other_right_solutions(chapter),
        submit("warns-and-is-right", noisy(right, exercises), full_points(exercises)),
        submit("saved-by-colab", as_colab_saves(solved(chapter)), full_points(exercises)),
        loops_when_called(chapter),
        loops_when_defined(chapter),
        submit("deleted-test", without_test(right, exercises[0]), full_points(exercises)),
        kills_its_kernel(chapter),
        Submission("damaged", to_bytes(right)[:2000], full_points(exercises)),
    ]


def make_small_class(chapter: str) -> list[Submission]:
    """Return nothing done, and right in another way than the references, which run as the stored
    outputs of ``course/source`` are compared.
    """
    exercises = exercises_of(chapter)
    return [
        submit(
            "blank", without_demos(release(chapter)), dict.fromkeys(full_points(exercises), 0.0)
        ),
        other_right_solutions(chapter),
    ]


def all_wrong(chapter: str) -> Submission:
    """Return one that is wrong in every exercise.

    What each deserves is not said: one may stand on another's wrong answer.
    """
    wrong = {exercise.name: _first_wrong(exercise).code for exercise in exercises_of(chapter)}
    return submit("all-wrong", without_demos(solved(chapter, wrong)), {})


def full_points(exercises: list[Exercise]) -> dict[str, float]:
    return {exercise.name: float(exercise.points) for exercise in exercises}


def solved(chapter: str, replaced: Mapping[str, str] | None = None) -> NotebookNode:
    """Return the release notebook with the references, or ``replaced``, written in."""
    notebook = copy.deepcopy(release(chapter))
    for exercise in exercises_of(chapter):
        reference = find_cell(source(chapter), exercise.name).source
        cell = find_cell(notebook, exercise.name)
        cell.source = (replaced or {}).get(exercise.name, reference)
    return notebook


def exercises_behind(exercise: Exercise) -> list[str]:
    """Return the names of the exercises of its chapter that come after ``exercise``: it stands on
    none of these.
    """
    names = [each.name for each in exercises_of(exercise.chapter)]
    return names[names.index(exercise.name) + 1 :]


def stood_on(exercise: Exercise, code: str | None = None) -> set[str]:
    """Return the names of the exercises whose functions ``code``, a solution of ``exercise``, uses,
    and of those on which these stand; ``code`` is the reference, if None.
    """
    if code is None:
        code = find_cell(source(exercise.chapter), exercise.name).source
    others = [other for other in exercises_of(exercise.chapter) if other != exercise]
    if not any(name in code for other in others for name in _names_of(other)):
        return set()  # before it is parsed, which takes longer
    own = _names_defined(code)
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)} - own
    direct = [other for other in others if used & _names_of(other)]
    return {other.name for other in direct}.union(*(stood_on(other) for other in direct))


@cache
def _names_of(exercise: Exercise) -> frozenset[str]:
    return frozenset(_names_defined(find_cell(source(exercise.chapter), exercise.name).source))


def _names_defined(code: str) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(code).body if isinstance(node, definitions)}


def stubs(chapter: str, names: Iterable[str]) -> dict[str, str]:
    """Return the code of exercises as it is handed out, by name."""
    return {name: find_cell(release(chapter), name).source for name in names}


def without_demos(notebook: NotebookNode) -> NotebookNode:
    shorter = copy.deepcopy(notebook)
    shorter.cells = [c for c in shorter.cells if "demo" not in c.metadata.get("tags", [])]
    return shorter


def submit(student: str, notebook: NotebookNode, deserved: Mapping[str, float]) -> Submission:
    return Submission(student, to_bytes(notebook), deserved)


def to_bytes(notebook: NotebookNode) -> bytes:
    return nbformat.writes(notebook).encode()


@cache
def deserved_points(exercise: Exercise, code: str) -> float:
    """Return what the exercise's own test gives for ``code``, hidden tests included."""
    return run_exercise(exercise, code).points


def with_one(
    chapter: str, student: str, exercise: Exercise, code: str, points: float
) -> Submission:
    deserved = {**full_points(exercises_of(chapter)), exercise.name: points}
    notebook = without_demos(solved(chapter, {exercise.name: code}))
    return submit(student, notebook, deserved)


def wrong_in_one(chapter: str, exercise: Exercise) -> Submission:
    code = _first_wrong(exercise).code
    points = deserved_points(exercise, code)
    return with_one(chapter, f"wrong-{exercise.name}", exercise, code, points)


def _first_wrong(exercise: Exercise) -> Variant:
    return next(variant for variant in variants(exercise) if not variant.right)


def partly_right(chapter: str) -> Submission:
    """Return one with a wrong solution that gets some of its points."""
    for exercise in exercises_of(chapter):
        for variant in variants(exercise):
            points = deserved_points(exercise, variant.code)
            if 0 < points < exercise.points:
                return with_one(chapter, "partly-right", exercise, variant.code, points)
    raise AssertionError(f"{chapter}: no wrong solution gets some points")


def other_right_solutions(chapter: str) -> Submission:
    exercises = exercises_of(chapter)
    other = {e.name: next(v.code for v in variants(e) if v.right) for e in exercises}
    notebook = without_demos(solved(chapter, other))
    return submit("right-in-another-way", notebook, full_points(exercises))


def noisy(notebook: NotebookNode, exercises: list[Exercise]) -> NotebookNode:
    """Return a copy whose right functions warn, log and write to stderr when they are called."""
    noisy_notebook = copy.deepcopy(notebook)
    for exercise in exercises:
        cell = find_cell(noisy_notebook, exercise.name)
        cell.source += NOISE.replace("FUNCTION", _function_name(cell.source))
    return noisy_notebook


NOISE = """

def _warn_first(function):
    import functools, logging, os, sys, warnings

    @functools.wraps(function)
    def noisy(*args, **kwargs):
        warnings.warn("an old call", DeprecationWarning)
        print("to stderr", file=sys.stderr)
        logging.warning("to the log")
        os.write(2, b"to descriptor 2")
        return function(*args, **kwargs)

    return noisy


FUNCTION = _warn_first(FUNCTION)
"""


def _function_name(code: str) -> str:
    return code.split("def ", 1)[1].split("(", 1)[0]


def as_colab_saves(notebook: NotebookNode) -> NotebookNode:
    """Return a copy as Colab writes it: nbformat 4.0, no cell ids, its own metadata."""
    content = json.loads(nbformat.writes(notebook))
    content["nbformat_minor"] = 0
    content["metadata"] = {
        "colab": {"provenance": [], "toc_visible": True},
        "kernelspec": {"name": "python3", "display_name": "Python 3"},
        "language_info": {"name": "python"},
        "accelerator": "GPU",
    }
    for number, cell in enumerate(content["cells"]):
        del cell["id"]
        cell["metadata"] |= {"id": f"aB3{number:09}", "colab": {"base_uri": "https://localhost/"}}
        if cell["cell_type"] == "code":
            cell["metadata"]["outputId"] = f"0123-{number}"
            cell["execution_count"] = number
    return nbformat.from_dict(content)


def loops_when_called(chapter: str) -> Submission:
    exercise = exercises_of(chapter)[0]
    name = _function_name(find_cell(source(chapter), exercise.name).source)
    code = f"def {name}(*args, **kwargs):\n    while True:\n        pass\n"
    return with_one(chapter, "loops-when-called", exercise, code, 0.0)


# On a busy machine an interrupted cell takes seconds to end, and nbgrader would wait for four.
_LOOP_THAT_ENDS_SLOWLY = """
import time
try:
    while True:
        pass
except KeyboardInterrupt:
    time.sleep(6)
"""


def loops_when_defined(chapter: str) -> Submission:
    exercise = exercises_of(chapter)[1]
    return with_one(chapter, "loops-when-defined", exercise, _LOOP_THAT_ENDS_SLOWLY, 0.0)


def kills_its_kernel(chapter: str) -> Submission:
    exercise = exercises_of(chapter)[-1]
    code = "import os\nos._exit(1)\n"
    return with_one(chapter, "kills-its-kernel", exercise, code, 0.0)


def without_test(notebook: NotebookNode, exercise: Exercise) -> NotebookNode:
    shorter = copy.deepcopy(notebook)
    shorter.cells = [c for c in shorter.cells if grade_id(c) != f"test-{exercise.name}"]
    return shorter


def hand_in(submissions: list[Submission], chapter: str, course: Path) -> None:
    """Write the submissions where nbgrader looks for them, below ``course``."""
    for submission in submissions:
        folder = course / "submitted" / submission.student / chapter
        folder.mkdir(parents=True)
        (folder / COURSE.release(chapter).name).write_bytes(submission.notebook)
