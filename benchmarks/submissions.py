"""The class that is graded: right, partly right, wrong and hostile work, the same every time.

No two files are the same, so that nothing of one can be reused for another, and none holds a demo.
The hostile ones do no harm outside of a sandbox: plain nbgrader runs them on this machine.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from attack_corpus import attacks
from classroom import (
    Submission,
    as_colab_saves,
    deserved_points,
    exercises_of,
    full_points,
    loops_when_called,
    loops_when_defined,
    noisy,
    solved,
    to_bytes,
    with_one,
    without_demos,
    without_test,
)
from course_files import Variant, variants
from nbformat.notebooknode import NotebookNode

from helpers.catalogue import Exercise

CHAPTER = "08-numerical-stability"
USUAL_SIZE = 60

RIGHT, PARTLY, WRONG, HOSTILE = "right", "partly right", "wrong", "hostile"
_COUNTS = {RIGHT: 30, PARTLY: 10, WRONG: 12, HOSTILE: 8}
_WRONG_IN_EACH = 3
_DELETED_TEST = 7
_HOSTILE = (
    "metadata-1-000-points-for-each-test",
    "metadata-cells-around-the-test-bring-their-own-check",
    "kills-leaves-at-once-when-it-is-called-with-status-0",
    "patched_machinery-torch-s-comparisons-all-say-yes",
    "cell_hooks-an-input-transformer-turns-every-test-into-its-points",
    "lying_objects-a-tensor-subclass-that-answers-every-comparison-with-tru",
)


@dataclass(frozen=True)
class Work:
    """One student's submission.

    Attributes:
        student: the id.
        kind: right, partly right, wrong or hostile.
        notebook: the file.
        deserved: the points of each exercise.
        about: what is odd about it; "" for ordinary work.
        waits: whether its grading waits for a time limit.
    """

    student: str
    kind: str
    notebook: bytes
    deserved: dict[str, float]
    about: str = ""
    waits: bool = False


@dataclass(frozen=True)
class _Plan:
    """A submission that is made when it is needed: to make one runs its solutions."""

    kind: str
    make: Callable[[], Submission]
    about: str = ""
    waits: bool = False


def make_class(size: int, *, with_waiting: bool = True) -> list[Work]:
    """Return a class of ``size``: the first of a fixed sequence, which begins anew at its end.

    Args:
        size: how many.
        with_waiting: whether those are in it whose grading waits for a time limit.
    """
    plans = [plan for plan in _mixed(_plans()) if with_waiting or not plan.waits]
    chosen = itertools.islice(itertools.cycle(plans), size)
    return [_carry_out(plan, number) for number, plan in enumerate(chosen, 1)]


def _carry_out(plan: _Plan, number: int) -> Work:
    made = _made(plan)
    student = f"student-{number:04}"
    notebook = _signed(made.notebook, student)
    return Work(student, plan.kind, notebook, dict(made.deserved), plan.about, plan.waits)


@cache
def _made(plan: _Plan) -> Submission:
    return plan.make()


def _signed(notebook: bytes, student: str) -> bytes:
    """Return the notebook with a name in the first of the student's own cells."""
    content = json.loads(notebook)
    first = exercises_of(CHAPTER)[0].name
    for cell in content["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == first:
            source = "".join(cell["source"])
            cell["source"] = f"{source}\n# {student}\n".splitlines(keepends=True)
    return json.dumps(content, indent=1).encode()


def _mixed(plans: dict[str, list[_Plan]]) -> list[_Plan]:
    """Return the plans in an order in which each kind has its share of every beginning."""
    placed = [
        ((number + 0.5) / len(of_kind), plan)
        for of_kind in plans.values()
        for number, plan in enumerate(of_kind)
    ]
    return [plan for _, plan in sorted(placed, key=lambda pair: pair[0])]


@cache
def _plans() -> dict[str, list[_Plan]]:
    return {
        RIGHT: [_Plan(RIGHT, *_right(number)) for number in range(_COUNTS[RIGHT])],
        PARTLY: [
            _Plan(PARTLY, lambda number=number: _partly_right(number))
            for number in range(_COUNTS[PARTLY])
        ],
        WRONG: [
            _Plan(WRONG, lambda number=number: _wrong_in_several(number))
            for number in range(_COUNTS[WRONG])
        ],
        HOSTILE: _hostile(),
    }


# --- Honest work -----------------------------------------------------------------------------


def _right(number: int) -> tuple[Callable[[], Submission], str]:
    """Return how to make a right submission, and what is odd about it."""
    exercises = exercises_of(CHAPTER)
    code = {e.name: code for e in exercises if (code := _right_code(e, number)) is not None}

    def plain() -> NotebookNode:
        return without_demos(solved(CHAPTER, code))

    changes: dict[int, tuple[Callable[[NotebookNode], NotebookNode], str]] = {
        3: (lambda notebook: noisy(notebook, exercises), "warns and writes to stderr"),
        5: (as_colab_saves, "saved by Colab"),
        _DELETED_TEST: (lambda notebook: without_test(notebook, exercises[0]), "deleted a test"),
    }
    change, about = changes.get(number, (lambda notebook: notebook, ""))
    return lambda: Submission("", to_bytes(change(plain())), full_points(exercises)), about


def _right_code(exercise: Exercise, number: int) -> str | None:
    """Return one of the right solutions, None for the reference; another for each number."""
    choices = [None, *(variant.code for variant in variants(exercise) if variant.right)]
    place = exercises_of(CHAPTER).index(exercise)
    return choices[(number * (place + 1) + place) % len(choices)]


def _partly_right(number: int) -> Submission:
    """Return one in which one exercise gets some of its points."""
    exercises = exercises_of(CHAPTER)
    exercise = exercises[number % len(exercises)]
    some = [v for v in _wrong(exercise) if 0 < deserved_points(exercise, v.code) < exercise.points]
    chosen = some[(number // len(exercises)) % len(some)]
    points = deserved_points(exercise, chosen.code)
    return with_one(CHAPTER, "", exercise, chosen.code, points)


def _wrong_in_several(number: int) -> Submission:
    exercises = exercises_of(CHAPTER)
    code, deserved = {}, full_points(exercises)
    for step in range(_WRONG_IN_EACH):
        exercise = exercises[(number + 2 * step) % len(exercises)]
        wrong = _wrong(exercise)
        chosen = wrong[(3 * number + step) % len(wrong)]
        code[exercise.name] = chosen.code
        deserved[exercise.name] = deserved_points(exercise, chosen.code)
    return Submission("", to_bytes(without_demos(solved(CHAPTER, code))), deserved)


def _wrong(exercise: Exercise) -> list[Variant]:
    return [variant for variant in variants(exercise) if not variant.right]


# --- Hostile work ----------------------------------------------------------------------------


def _hostile() -> list[_Plan]:
    return [
        *(_Plan(HOSTILE, lambda name=name: _attack(name), _about(name)) for name in _HOSTILE),
        _Plan(HOSTILE, lambda: loops_when_called(CHAPTER), "loops when it is called", True),
        _Plan(HOSTILE, lambda: loops_when_defined(CHAPTER), "loops when it is defined", True),
    ]


def _about(name: str) -> str:
    kind, _, rest = name.partition("-")
    return f"{kind.replace('_', ' ')}: {rest.replace('-', ' ')}"


def _attack(name: str) -> Submission:
    attack = _attacks()[name]
    deserved = full_points(exercises_of(CHAPTER))
    if attack.exercise:
        deserved[attack.exercise] = attack.points
    return Submission("", attack.notebook, deserved)


@cache
def _attacks() -> dict[str, object]:
    return {attack.name: attack for attack in attacks()}
