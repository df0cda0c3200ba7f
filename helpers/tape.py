"""What a check keeps of its properties, so that one can be tried once more on the same inputs.

It is kept in the student's own kernel alone. Where a check runs apart from the student's code, as
the judge's does, nothing is: what that process holds is nobody's to ask for.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType
from typing import Any, NamedTuple, Protocol

import torch

from helpers.catalogue import Exercise
from helpers.drawing import Draw
from helpers.lending import is_lent
from helpers.random_numbers import put_back_globals, read_globals


@dataclass
class Call:
    """A call of the student's code, or of a probe with it.

    Attributes:
        function: what was called.
        args: copies of what it got; functions and what was lent are not copied.
        kwargs: those by name.
        has_returned: whether anything came back.
        value: what did.
        generators: the states of the global generators before the call, where they are kept.
    """

    function: Callable
    args: list
    kwargs: dict[str, Any]
    has_returned: bool = False
    value: Any = None
    generators: tuple | None = None

    def lends(self) -> bool:
        """Return whether something was lent to it, which it may have used up."""
        return any(is_lent(value) for value in (*self.args, *self.kwargs.values()))


@dataclass(frozen=True)
class Failure:
    """A property that failed.

    Attributes:
        place: its number in the check, from 0.
        claim: what it says.
        problem: why it failed.
        calls: the calls made so far, the last of which led to the failure.
        compared: what was compared, and with what; None if no comparison failed.
    """

    place: int
    claim: str
    problem: str
    calls: Sequence[Call]
    compared: tuple[Any, Any] | None


class Tape(Protocol):
    """What a check reports about itself while it runs."""

    def running(self, place: int, draw: Draw) -> AbstractContextManager[None]:
        """Stand around the block of the property number ``place``."""

    def take(self, call: Call) -> None:
        """Take a call that is about to be made."""

    def keep(self, claim: str, problem: str, compared: tuple[Any, Any] | None) -> bool:
        """Take the property that has failed, and return whether a call of it can be made again.

        ``compared`` is what ``Failure`` says.
        """

    def finish(self) -> None:
        """Know that all properties have been tried."""


class NoTape:
    """Keeps nothing."""

    def running(self, place: int, draw: Draw) -> AbstractContextManager[None]:
        """Do nothing."""
        return contextlib.nullcontext()

    def take(self, call: Call) -> None:
        """Forget it."""

    def keep(self, claim: str, problem: str, compared: tuple[Any, Any] | None) -> bool:
        """Forget it."""
        return False

    def finish(self) -> None:
        """Do nothing."""


class _Moment(NamedTuple):
    drawn: torch.Tensor
    generators: tuple


class Recording:
    """What the last check of an exercise came to in this kernel.

    Attributes:
        exercise: the exercise.
        code: the test cell; "" where it cannot be read.
        file: the name under which a debugger finds it.
        namespace: the notebook's own, as it is at any time.
        failures: the properties that failed, in order.
        is_finished: whether all were tried.
    """

    def __init__(self, exercise: Exercise, draw: Draw, cell: FrameType) -> None:
        """Begin, in place of the exercise's last one.

        Args:
            exercise: the exercise.
            draw: what the check draws with.
            cell: the frame of the test cell.
        """
        self.exercise = exercise
        self.seed = draw.seed
        self.file = cell.f_code.co_filename
        self.code = "".join(linecache.getlines(self.file))
        self.namespace = cell.f_globals
        self.failures: list[Failure] = []
        self.is_finished = False
        self._place = -1
        self._calls: list[Call] = []
        self._begins: dict[int, _Moment] = {}
        self._ends: dict[int, torch.Tensor] = {}
        _last[exercise.name] = self

    @contextlib.contextmanager
    def running(self, place: int, draw: Draw) -> Iterator[None]:
        """Write down from where random numbers are drawn in the property number ``place``."""
        self._place, self._calls = place, []
        self._begins[place] = _Moment(draw.read_state(), read_globals())
        try:
            yield
        finally:
            self._ends[place] = draw.read_state()

    @contextlib.contextmanager
    def repeated(self, place: int, draw: Draw) -> Iterator[None]:
        """Have the same random numbers drawn as in ``running``."""
        begin = self._begins[place]
        draw.put_back_state(begin.drawn)
        put_back_globals(begin.generators)
        try:
            yield
        finally:
            draw.put_back_state(self._ends[place])

    def take(self, call: Call) -> None:
        """Keep ``call`` until the next property."""
        call.generators = read_globals()
        self._calls.append(call)

    def keep(self, claim: str, problem: str, compared: tuple[Any, Any] | None) -> bool:
        """Keep the property with its calls."""
        calls = tuple(self._calls)
        self.failures.append(Failure(self._place, claim, problem, calls, compared))
        return bool(self.code and calls)

    def finish(self) -> None:
        """Know that all properties have been tried."""
        self._calls = []
        self.is_finished = True


_last: dict[str, Recording] = {}


def find_recording(exercise: Exercise) -> Recording | None:
    """Return what the last check of ``exercise`` in this kernel came to; None if there was none."""
    return _last.get(exercise.name)
