"""What a student is to write, torch or the helpers have already: it can be made to refuse."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
