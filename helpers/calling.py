"""Call a student's function with plain data, and return the outcome as plain data."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from helpers.frames import Frame, Place, find_places
from helpers.guard import WALL_FACTOR, CallTimeoutError, guarded_call
from helpers.plain import NotPlainError, one_line, plain_copy
from helpers.process_state import students_defaults

SECONDS_PER_CALL = 10.0
# What a stub says; nbgrader's setting for the students' copies holds the same words.
STUB_MESSAGE = "nothing is written here yet"


class FoundFaultError(RuntimeError):
    """What a probe found that the student's code did, in a sentence to be told as it stands."""


@dataclass
class Answer:
    """What one call came to.

    Attributes:
        value: a plain copy of what it returned; None if it did not return.
        problem: one sentence if it did not return plain data; "" otherwise.
        is_stub: whether a stub was called.
        timed_out: whether it did not return in time.
        by_the_wall: whether it was stopped by the wall's clock, and not for what it computed.
        printed: what it wrote, up to a limit.
        warned: its warnings, one line each.
        places: where in the notebook's cells it ended, if it did not return; the innermost last.
        frames: the same, with the lines' text, as far as they are the student's.
    """

    value: Any = None
    problem: str = ""
    is_stub: bool = False
    timed_out: bool = False
    by_the_wall: bool = False
    printed: str = ""
    warned: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)

    def describe_kind(self) -> str:
        """Return what kind of problem it is, in words that the called code cannot choose."""
        if self.timed_out:
            return describe_timeout(SECONDS_PER_CALL, self.by_the_wall)
        raised, _, after = self.problem.partition("raised ")
        name = after.partition(":")[0]
        if raised or not after:
            return "the call did not end with something that can be judged"
        known = getattr(builtins, name, None)
        is_known = isinstance(known, type) and issubclass(known, BaseException)
        return f"raised {name}" if is_known else "raised an exception"


def call_here(function: Callable, args: list, kwargs: dict[str, Any]) -> Answer:
    """Call ``function`` in this process, where it may compute for ``SECONDS_PER_CALL``.

    Whatever it raises, exit() included, becomes the answer's problem; only a person's own
    interrupt goes on.
    """
    answer = Answer()
    noise = None
    try:
        with students_defaults(), guarded_call(SECONDS_PER_CALL) as noise:
            fill(answer, function, args, kwargs)
    except CallTimeoutError as end:
        answer.value, answer.timed_out, answer.by_the_wall = None, True, end.by_the_wall
        answer.problem = describe_timeout(SECONDS_PER_CALL, end.by_the_wall)
        answer.places = find_places(end)
    if noise is not None:
        answer.printed, answer.warned = noise.printed, noise.warned
    return answer


def describe_timeout(seconds: float, by_the_wall: bool) -> str:
    """Return what to say of code that may compute for ``seconds``, and did not end in time."""
    if by_the_wall:
        return f"did not return within {WALL_FACTOR * seconds:.0f} seconds"
    return f"did not return within {seconds:.0f} seconds of computing"


def describe_error(error: BaseException) -> str:
    """Return one line for an exception whose own text may raise another."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    if isinstance(error, NotPlainError):
        return one_line(f"TypeError: {message}")
    return one_line(f"{type(error).__name__}: {message}".rstrip(": "))


def is_from_stub(error: BaseException) -> bool:
    """Return whether ``error`` says that nothing is written yet.

    Libraries raise the same class, for what a dtype or a device cannot do.
    """
    return type(error) is NotImplementedError and error.args == (STUB_MESSAGE,)


def fill(answer: Answer, function: Callable, args: list, kwargs: dict) -> None:
    """Call ``function`` as it is, and write into ``answer`` what came of it."""
    # All that can fail because of the student's code stays inside the guard, the copying of
    # what came back included.
    try:
        returned = function(*args, **kwargs)
        try:
            answer.value = plain_copy(returned)
        except NotPlainError as error:
            answer.problem = one_line(f"what came back cannot be judged: {error}")
    except (KeyboardInterrupt, CallTimeoutError):
        raise
    except FoundFaultError as fault:
        answer.problem = one_line(str(fault))
    except BaseException as error:
        answer.is_stub = is_from_stub(error)
        answer.problem = f"raised {describe_error(error)}"
        answer.places = find_places(error)
