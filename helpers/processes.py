"""Send what a notebook defines to another process.

Python sends a function or an object of a class by the *name* of its code. A process that is
started afresh does not find code under that name if it stands in a notebook.
"""

from __future__ import annotations

import functools
import types
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

T = TypeVar("T")


def by_value(thing: T) -> T:
    """Return ``thing`` so that it travels to the workers of a DataLoader together with its code.

    Where processes are forked, nothing has to travel. Where they are started afresh (spawn: on
    Windows, on macOS, and with ``multiprocessing_context="spawn"``), this makes the code of a
    notebook work as that of a module does.

    Args:
        thing: a function (one that calls it comes back), or an object, a dataset say (it comes
            back itself; all objects of its class travel so from then on).

    Raises:
        TypeError: if ``thing`` is a class: hand over an object of it.

    Source: the cloudpickle documentation, and Python's of ``multiprocessing``, "Contexts and start
    methods".
    """
    if isinstance(thing, type):
        raise TypeError(f"by_value takes an object or a function, not the class {thing.__name__}")
    if isinstance(thing, types.FunctionType):
        return _ByValue(thing)  # type: ignore[return-value]
    ForkingPickler.register(type(thing), _reduce)
    return thing


class _ByValue:
    """Calls a function, and is sent with its code."""

    def __init__(self, function: types.FunctionType) -> None:
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple:
        load, content = _reduce(self._function)
        return _unpack, (load, *content)


def _reduce(thing: Any) -> tuple:
    import cloudpickle  # not needed by what never starts a process

    return cloudpickle.loads, (cloudpickle.dumps(thing),)


def _unpack(load: Any, content: bytes) -> _ByValue:
    return _ByValue(load(content))
