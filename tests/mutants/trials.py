"""Try an exercise's mutants: run its check on each, in a fork, after all cells before it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

# Before torch is loaded: with one thread, a fork of the process has all that the process has.
os.environ["OMP_NUM_THREADS"] = "1"

import torch._dynamo  # noqa: F401  # the first optimizer loads it, which takes seconds
from course_files import cells_before, find_cell, release, run_cell, source

from helpers import calling
from helpers.catalogue import Exercise
from helpers.checks import Check
from helpers.random_numbers import seed_globals
from helpers.reading.cells import Cell
from helpers.reading.history import reading
from mutants.forks import Ended, run_in_fork
from mutants.making import Mutant, make_mutants, normalized

# A reference's own time decides how long its mutants may take, but for what all may.
_LEAST_SECONDS = 5.0
_TIMES_THE_REFERENCE = 8.0
_SECONDS_FOR_A_REFERENCE = 120.0
# What a fork tells: all visible properties hold; all properties hold.
VISIBLE, WHOLE = "v", "w"
Survived = frozenset[str]
_CONTEXT = multiprocessing.get_context("forkserver")


class CannotBeTriedError(Exception):
    """An exercise's own reference does not pass."""


@dataclass(frozen=True)
class Tried:
    """What came of a mutant: which checks it survived."""

    exercise: Exercise
    mutant: Mutant
    survives_visible: bool
    survives_whole: bool


@dataclass(frozen=True)
class Choice:
    """Which mutants are tried, and how.

    Attributes:
        visible_only: whether the students' check is tried alone.
        cap: how many mutants of an exercise at most.
        seeds: of the inputs; the later ones are for what survives the earlier ones.
    """

    visible_only: bool = False
    cap: int | None = None
    seeds: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Cells:
    """The code that a check needs: what comes before the solution and after it, and the test."""

    before: tuple[str, ...]
    solution: str
    after: tuple[str, ...]
    test: str


def cells_of(exercise: Exercise, *, visible_only: bool = False) -> Cells:
    """Return an exercise's cells, the test as it is graded or as students have it."""
    test = f"test-{exercise.name}"
    cells = list(cells_before(exercise.chapter, test, {exercise.name: ""}))
    place = cells.index("")
    return Cells(
        before=tuple(cells[:place]),
        solution=find_cell(source(exercise.chapter), exercise.name).source,
        after=tuple(cells[place + 1 :]),
        test=find_cell((release if visible_only else source)(exercise.chapter), test).source,
    )


def mutants_of(exercise: Exercise, choice: Choice) -> list[Mutant]:
    """Return the mutants of an exercise's reference."""
    return make_mutants(cells_of(exercise).solution, choice.cap)


def try_exercise(exercise: Exercise, choice: Choice) -> Iterator[Tried]:
    """Yield what comes of each mutant of ``exercise``, tried in a process of its own.

    Raises:
        CannotBeTriedError: its reference does not pass.
    """
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_send_tried, args=(sender, exercise, choice))
    process.start()
    sender.close()
    try:
        for mutant in mutants_of(exercise, choice):
            survived = receiver.recv()
            yield Tried(exercise, mutant, VISIBLE in survived, WHOLE in survived)
    except EOFError:
        raise CannotBeTriedError(f"{exercise.name}: the reference does not pass") from None
    finally:
        process.terminate()
        process.join()


def prepare() -> None:
    """Have what all processes need loaded once; to be called before the first exercise."""
    _CONTEXT.set_forkserver_preload([__name__])


def _send_tried(sender: Connection, exercise: Exercise, choice: Choice) -> None:
    cells = cells_of(exercise, visible_only=choice.visible_only)
    try:
        for survived in try_mutants(exercise, cells, choice):
            sender.send(survived)
    except CannotBeTriedError:
        return  # the other end sees that nothing came


def try_mutants(exercise: Exercise, cells: Cells, choice: Choice) -> Iterator[Survived]:
    """Yield what each mutant survives. All that is run stays in this process, and in its forks.

    Raises:
        CannotBeTriedError: the reference does not pass.
    """
    trial = _Trial(exercise, cells)
    code = normalized(cells.solution)
    most = VISIBLE if choice.visible_only else VISIBLE + WHOLE
    reference = [trial.run(code, seed, _SECONDS_FOR_A_REFERENCE) for seed in choice.seeds]
    if any(ended.said != most for ended in reference):
        raise CannotBeTriedError(exercise.name)
    longest = max(ended.seconds for ended in reference)
    limit = max(_LEAST_SECONDS, _TIMES_THE_REFERENCE * longest)
    for mutant in make_mutants(cells.solution, choice.cap):
        survived = frozenset(most)
        for seed in choice.seeds:
            if survived:
                survived &= frozenset(trial.run(mutant.code, seed, limit).said)
        yield survived


class _Trial:
    """One exercise's check, with all that comes before the solution already run in this process."""

    def __init__(self, exercise: Exercise, cells: Cells) -> None:
        self._exercise = exercise
        self._cells = cells
        self._namespace: dict = {"__name__": "__main__"}
        for code in cells.before:
            run_cell(code, self._namespace)

    def run(self, code: str, seed: int, seconds: float) -> Ended:
        """Run the check on a solution, up to the first property that does not hold."""

        def body(tell: Callable[[str], None]) -> None:
            secrets.randbits = random.Random(seed).getrandbits  # what draws inputs is seeded by it
            seed_globals(seed)
            calling.SECONDS_PER_CALL = min(calling.SECONDS_PER_CALL, seconds / 2)
            self._check(code, tell)

        return run_in_fork(body, seconds)

    def _check(self, code: str, tell: Callable[[str], None]) -> None:
        cells = [*self._cells.before, code, *self._cells.after]
        labeled = [Cell(text, f"cell [{number}]") for number, text in enumerate(cells, 1)]
        with reading(labeled):
            for cell in (code, *self._cells.after):
                run_cell(cell, self._namespace)
            self._namespace["Check"] = lambda name: _UpToAFailure(name, tell)
            run_cell(self._cells.test, self._namespace)


class _FailedError(BaseException):
    """A property does not hold: that is enough."""


class _UpToAFailure(Check):
    """A check that ends with the first property that does not hold, and shows nothing."""

    def __init__(self, exercise: str, tell: Callable[[str], None]) -> None:
        super().__init__(exercise, publish=lambda *_: None)
        self._tell = tell

    @contextlib.contextmanager
    def property(self, claim: str, weight: float = 1.0) -> Iterator[None]:
        with super().property(claim, weight):
            yield
        if self._results[-1].outcome == "failed":
            raise _FailedError
        if len(self._results) == self.exercise.visible:
            self._tell(VISIBLE)
        if len(self._results) == self.exercise.visible + self.exercise.hidden:
            self._tell(WHOLE)
