"""What a student is to write, torch or the helpers have already: it can be made to refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any
from unittest import mock


@contextlib.contextmanager
def refusing(error: Exception, *places: tuple[Any, str]) -> Iterator[None]:
    """Have what stands at ``places`` raise ``error`` when it is called in the block.

    Args:
        error: what is raised.
        places: a module or class and a name in it. Name what a function is made of, and not the
            function itself: that may have been imported by its name.
    """

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    with contextlib.ExitStack() as stack:
        for owner, name in places:
            stack.enter_context(mock.patch.object(owner, name, refuse))
        yield


@contextlib.contextmanager
def refusing_functions(*functions: FunctionType) -> Iterator[None]:
    """Have Python functions raise an error in the block, by whatever name they are called."""
    own = [function.__code__ for function in functions]
    try:
        for function in functions:
            function.__code__ = _refuse.__code__
        yield
    finally:
        for function, code in zip(functions, own, strict=True):
            function.__code__ = code


# Its code is put into other functions, so it uses nothing from around it.
def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("a function of torch's own was called that does it all")
