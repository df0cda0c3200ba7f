"""Which of a chapter's demos a submission needs after all.

Demos are not run when work is graded: they take long, and nothing that the course asks for rests
on them. But a student's code may use what one of them defines; then that demo is run.
"""

from __future__ import annotations

import functools
import symtable
import warnings
from collections.abc import Iterable, Sequence

from helpers.reading.cells import as_python

_LONG = 2_000  # characters


def find_needed_demos(running: Iterable[str], demos: Sequence[str]) -> set[int]:
    """Return the positions of those ``demos`` that the code in ``running`` needs.

    Args:
        running: the cells that are run.
        demos: the cells that are not, in their order.
    """
    wanted: set[str] = set()
    there: set[str] = set()
    for code in running:
        used, bound = _names(code)
        wanted |= used
        there |= bound
    wanted -= there
    names = [_names(code) for code in demos]
    needed: set[int] = set()
    while new := {i for i, (_, bound) in enumerate(names) if bound & wanted} - needed:
        needed |= new
        for index in new:
            wanted |= names[index][0] - there
    return needed


def _names(code: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the global names that a cell uses, and those that it binds.

    The course's cells are the same for every submission.
    """
    return _names_and_keep_long(code) if len(code) > _LONG else _names_and_keep(code)


@functools.lru_cache(maxsize=3000)
def _names_and_keep(code: str) -> tuple[frozenset[str], frozenset[str]]:
    return _names_anew(code)


@functools.lru_cache(maxsize=20)
def _names_and_keep_long(code: str) -> tuple[frozenset[str], frozenset[str]]:
    return _names_anew(code)


def _names_anew(code: str) -> tuple[frozenset[str], frozenset[str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(as_python(code), "<cell>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(), frozenset()  # such a cell neither runs nor defines anything
    used: set[str] = set()
    bound: set[str] = set()
    tables = [top]
    for table in tables:  # grows while it is walked
        tables += table.get_children()
        for symbol in table.get_symbols():
            binds = symbol.is_assigned() or symbol.is_imported()
            if table is top or symbol.is_global():
                (bound if binds else used).add(symbol.get_name())
                if symbol.is_referenced():
                    used.add(symbol.get_name())
    return frozenset(used), frozenset(bound)
