"""Whether what is checked is what its author's cells say by now: a cell that failed leaves an older
answer behind, and a later cell may take a name that the answer uses.
"""

from __future__ import annotations

import ast
import inspect
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from helpers.frames import numbers_of_cells


def tell_of_later_cells(names: Iterable[str], namespace: Mapping[str, Any], *, passes: bool) -> str:
    """Return a sentence on the first of these names whose last definition was run and is not what
    ``namespace`` has, or, unless all of them ``passes``, which uses what a later cell has replaced;
    "" if there is none, or where nobody knows which cells were run.
    """
    numbers = numbers_of_cells()
    if not numbers:
        return ""
    from helpers.reading import history

    typed = history.inputs()
    for name in names:
        codes = list(_codes(namespace.get(name)))
        made = max((numbers.get(code.co_filename, 0) for code in codes), default=0)
        told = made and _tell_of_old(name, made, typed)
        if made and not passes:
            told = told or _tell_of_taken(name, codes, made, typed)
        if told:
            return told
    return ""


def _tell_of_old(name: str, made: int, typed: Sequence[str]) -> str:
    """Return a sentence if a cell after ``made`` defines ``name`` as well: it has failed."""
    later = range(len(typed) - 1, made, -1)
    last = next((n for n in later if _defines(typed[n], name)), None)
    if last is None:
        return ""
    return (
        f"cell [{last}] defines {name}, but the {name} that is checked here is still that of cell "
        f"[{made}]: did cell [{last}] end in an error?"
    )


def _tell_of_taken(name: str, codes: Iterable[CodeType], made: int, typed: Sequence[str]) -> str:
    """Return a sentence if a cell after ``made`` assigns to what ``name`` uses: to a function or
    class of any cell, or to whatever the answer's own cell has given a value.
    """
    for used in sorted({word for code in codes for word in _names_in(code)} - {name}):
        last = next((n for n in range(len(typed) - 1, made, -1) if _assigns(typed[n], used)), None)
        if last is None:
            continue
        defined = next((n for n in range(made, 0, -1) if _defines(typed[n], used)), None)
        if defined is None and _assigns(typed[made], used):
            defined = made
        if defined is not None:
            return (
                f"{name} uses the {used} of cell [{defined}], but cell [{last}] has given {used} "
                "another value: choose another name in your cell"
            )
    return ""


def _codes(value: Any) -> Iterator[CodeType]:
    """Yield the code of a function, or of a class's own methods."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    for part in parts:
        code = getattr(inspect.unwrap(part) if callable(part) else part, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function uses; attributes, too, which look the same."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _defines(code: str, name: str) -> bool:
    """Return whether a cell has a function or class of this name at its top."""
    tree = _read(code, name)
    body = tree.body if tree is not None else ()
    return any(isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name for n in body)


def _assigns(code: str, name: str) -> bool:
    """Return whether a cell assigns to the name at its top, be it in a loop or in a block."""
    tree = _read(code, name)
    if tree is None:
        return False
    table = symtable.symtable(ast.unparse(tree), "<cell>", "exec")
    if name not in table.get_identifiers():
        return False
    symbol = table.lookup(name)
    return symbol.is_assigned() and not symbol.is_namespace() and not symbol.is_imported()


def _read(code: str, name: str) -> ast.Module | None:
    if name not in code:
        return None
    from helpers.reading.cells import parse

    return parse(code)
