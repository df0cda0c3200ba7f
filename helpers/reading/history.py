"""The cells that were run in this kernel, as far as they can be read."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar

from helpers.reading.cells import Cell, digest, parse

__all__ = ["cells_run", "digest", "inputs", "reading"]

_given: ContextVar[list[Cell] | None] = ContextVar("cells_to_read", default=None)


def cells_run() -> list[Cell]:
    """Return the cells that were run in this kernel, in order; none where there is no IPython.

    Of identical cells only the last is returned, and none that cannot be read.
    """
    given = _given.get()
    if given is not None:
        return list(given)
    typed = enumerate(inputs())
    last = {code: number for number, code in typed if code.strip() and parse(code) is not None}
    return [Cell(code, f"cell [{last[code]}]") for code in sorted(last, key=last.__getitem__)]


@contextlib.contextmanager
def reading(cells: Sequence[Cell]) -> Iterator[None]:
    """Have ``cells_run`` return these cells inside the block."""
    token = _given.set(list(cells))
    try:
        yield
    finally:
        _given.reset(token)


def inputs() -> Sequence[str]:
    """Return what was typed, by the numbers in ``In``; the text at 0 is empty."""
    interactive_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = interactive_shell() if interactive_shell else None
    # Not the variable In: its cells are rewritten already, with other line numbers.
    return getattr(getattr(shell, "history_manager", None), "input_hist_raw", ())
