"""Whether what is checked is what its author's cells say by now: a cell that failed leaves an older
answer behind, and a later cell may take a name that the answer uses.
"""

from __future__ import annotations

import ast
import dis
import inspect
import symtable
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from helpers.frames import numbers_of_cells
from helpers.reading import history
from helpers.reading.cells import parse


def tell_of_later_cells(names: Iterable[str], namespace: Mapping[str, Any], *, passes: bool) -> str:
    """Return a sentence on the first of these names whose last definition was run and is not what
    ``namespace`` has, or, unless all of them ``passes``, which uses what a later cell has replaced;
    "" if there is none, or where nobody knows which cells were run.
    """
    numbers = numbers_of_cells()
    if not numbers:
        return ""
    typed = history.inputs()
    for name in names:
        codes = list(_codes(namespace.get(name)))
        made = max((numbers.get(code.co_filename, 0) for code in codes), default=0)
        if not made:
            continue
        told = _tell_of_old(name, made, typed)
        if not told and not passes:
            told = _tell_of_taken(name, codes, made, typed)
        if told:
            return told
    return ""


def _tell_of_old(name: str, made: int, typed: Sequence[str]) -> str:
    """Return a sentence if a cell after ``made`` defines ``name`` as well: it has failed."""
    later = range(len(typed) - 1, made, -1)
    last = next((n for n in later if name in typed[n] and name in _defined_at_top(typed[n])), None)
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
    defined = {word: made for word in _assigned_at_top(typed[made])}
    for number, typed_there in enumerate(typed[: made + 1]):
        defined |= dict.fromkeys(_defined_at_top(typed_there), number)
    used = {word for code in codes for word in _globals_of(code)} - {name}
    for word in sorted(used & defined.keys()):
        for number in range(len(typed) - 1, made, -1):
            if word in typed[number] and word in _assigned_at_top(typed[number]):
                return (
                    f"{name} uses the {word} of cell [{defined[word]}], but cell [{number}] has "
                    f"given {word} another value: choose another name in your cell"
                )
    return ""


def _codes(value: Any) -> Iterator[CodeType]:
    """Yield the code of a function, or of a class's own methods."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    for part in parts:
        code = getattr(inspect.unwrap(part) if callable(part) else part, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _globals_of(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function reads, those in functions inside it included."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def _defined_at_top(code: str) -> set[str]:
    """Return the functions and classes at the top of a cell."""
    tree = parse(code)
    body = tree.body if tree is not None else ()
    return {part.name for part in body if isinstance(part, ast.FunctionDef | ast.ClassDef)}


def _assigned_at_top(code: str) -> set[str]:
    """Return what a cell assigns to at its top, be it in a loop or in a block."""
    tree = parse(code)
    if tree is None:
        return set()
    symbols = symtable.symtable(ast.unparse(tree), "<cell>", "exec").get_symbols()
    return {
        symbol.get_name()
        for symbol in symbols
        if symbol.is_assigned() and not symbol.is_namespace() and not symbol.is_imported()
    }
