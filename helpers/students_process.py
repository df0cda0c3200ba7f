"""Where a student's code runs, as a check sees it: this process, or one behind a wire."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from helpers.calling import Answer, call_here
from helpers.catalogue import Exercise, find_chapter
from helpers.frames import Frame, Place, make_frame
from helpers.random_numbers import seed_globals

if TYPE_CHECKING:  # code is read where a check asks for it, and seldom before
    from helpers.reading.cells import Cell
    from helpers.reading.plain_code import Doubt


@dataclass(frozen=True)
class Reading:
    """What was read of the code that an exercise reaches.

    Attributes:
        cells: the exercise's cell and what that uses.
        doubts: what in them is not plain.
        wanted: the names that the exercise asks for; where none is given, no code is taken for
            code that only tries them out.
    """

    cells: Sequence[Cell] = ()
    doubts: Sequence[Doubt] = ()
    wanted: Sequence[str] = ()

    def find(self, patterns: Sequence[str], *, loops: bool, any_text: bool = True) -> Doubt | None:
        """Return the first place that names what fits ``patterns``, or loops if that is asked."""
        from helpers.reading import rules

        given = self.cells, patterns, self.wanted
        found = rules.find_named(*given, any_text=any_text) if patterns else None
        return found or (rules.find_loop(self.cells, self.wanted) if loops else None)

    def find_hidden_loop(self) -> Doubt | None:
        """Return the first place that may hide a loop: a person must see whether it does."""
        from helpers.reading import loops

        return loops.find_hidden_loop(self.cells)


class StudentsProcess(Protocol):
    """What a check asks of the process in which a student's code is."""

    def call(self, function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
        """Call ``function`` with plain data, and return the outcome."""

    def restart(self) -> None:
        """Go on in a new process, which knows nothing of earlier calls."""

    def read(self) -> Reading:
        """Return what was read of the code that the exercise reaches."""


class OwnProcess:
    """The student's own kernel: the check runs beside the code."""

    def __init__(self, exercise: Exercise) -> None:
        """Begin a check of ``exercise``."""
        self._exercise = exercise
        self._reading: Reading | None = None

    def call(self, function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
        """Call ``function`` here."""
        answer = call_here(function, args, kwargs)
        answer.frames = _frames_at(answer.places, self._exercise)
        return answer

    def restart(self) -> None:
        """Seed the global generators, as those of a new process are."""
        seed_globals(secrets.randbits(32))

    def read(self) -> Reading:
        """Read the cells that were run in this kernel."""
        if self._reading is None:
            self._reading = _read_history(self._exercise)
        return self._reading


def _frames_at(places: Sequence[Place], exercise: Exercise) -> list[Frame]:
    """Return what stands at ``places``, without the course's cells: the check's own is one."""
    if not places:
        return []
    from helpers.reading import history

    typed, ours = history.inputs(), find_chapter(exercise.chapter).cells
    running = len(typed) - 1
    frames = [
        make_frame(place, f"cell [{place.cell}]", typed[place.cell])
        for place in places
        if place.cell < running and history.digest(typed[place.cell]) not in ours
    ]
    return [frame for frame in frames if frame is not None]


def _read_history(exercise: Exercise) -> Reading:
    from helpers.reading import history, plain_code, reach
    from helpers.reading.cells import Cell

    cells = history.cells_run()
    ours = find_chapter(exercise.chapter).cells
    marked = [Cell(c.code, c.label, history.digest(c.code) in ours) for c in cells]
    standing = reach.find_standing(marked)
    defining = [i for i in standing if reach.binds(marked[i], exercise.defines)]
    if not defining:
        return Reading()
    kept = [marked[i] for i in standing]
    places = reach.find_reach(kept, standing.index(defining[-1]), exercise.defines)
    course = [cell for cell in kept if cell.is_course]
    own = [kept[place] for place in places]
    return Reading(own, plain_code.find_doubts(own, course), exercise.defines)
