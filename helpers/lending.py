"""What a test cell lends to a student's code: it stays with the test, which sees every use of it.

A student's function is often given something to call: a run to repeat, a stream of samples, a
write. Made by the test cell and lent, it works wherever the student's code runs, in this process or
behind a wire. Only plain data pass; so what the test has seen is what was done.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from helpers.plain import plain_copy
from helpers.process_state import course_defaults

_Around = Callable[[], contextlib.AbstractContextManager]


class KilledError(BaseException):
    """What ends a lent function as the end of its process would: no handler of errors sees it."""


class Lent:
    """A function of the test's, called by a student's code with plain data."""

    def __init__(self, function: Callable, around: _Around = contextlib.nullcontext) -> None:
        """Lend ``function``, which runs inside ``around()``; it gets copies, and a copy of what it
        returns goes back.
        """
        self._function = function
        self._around = around
        self.__name__ = getattr(function, "__name__", "function")
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function.

        Raises:
            NotPlainError: an argument is not plain data.
        """
        with course_defaults(), self._around():
            return plain_copy(self._function(*plain_copy(list(args)), **plain_copy(kwargs)))

    def __repr__(self) -> str:
        """Return what a report shows."""
        return f"(the check's own function {self.__name__})"


class Stream:
    """An iterator of the test's.

    Attributes:
        read: how many items have been taken so far.
    """

    def __init__(self, items: Iterable, around: _Around = contextlib.nullcontext) -> None:
        """Lend an iterator over ``items``, which may be without end; each is made inside
        ``around()``.
        """
        self._items = iter(items)
        self._around = around
        self.read = 0

    def __iter__(self) -> Iterator:
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Return a copy of the next item."""
        with course_defaults(), self._around():
            item = next(self._items)
        self.read += 1
        return plain_copy(item)

    def __repr__(self) -> str:
        """Return what a report shows."""
        return "(an iterator of the check's)"


def is_lent(value: Any) -> bool:
    """Return whether ``value`` stays with the test when it is handed to a student's code."""
    return isinstance(value, Lent | Stream)
