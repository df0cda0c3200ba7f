"""Whether what is checked is older than the last cell that was to define it: that one failed."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType
from typing import Any

from helpers.frames import numbers_of_cells


def find_old_answer(names: Iterable[str], namespace: Mapping[str, Any]) -> str:
    """Return a sentence on the first of these names whose last definition was run and is not what
    ``namespace`` has; "" if there is none, or where nobody knows which cells were run.
    """
    from helpers.reading import history

    numbers, typed = numbers_of_cells(), history.inputs()
    for name in names:
        made = {numbers.get(code.co_filename, 0) for code in _codes(namespace.get(name))}
        last = next((n for n in reversed(range(len(typed))) if _defines(typed[n], name)), 0)
        if made and 0 < max(made) < last:
            return (
                f"cell [{last}] defines {name}, but the {name} that is checked here is still that "
                f"of cell [{max(made)}]: did cell [{last}] end in an error?"
            )
    return ""


def _codes(value: Any) -> Iterator[CodeType]:
    """Yield the code of a function, or of a class's own methods."""
    parts = vars(value).values() if isinstance(value, type) else [value]
    for part in parts:
        code = getattr(inspect.unwrap(part) if callable(part) else part, "__code__", None)
        if isinstance(code, CodeType):
            yield code


def _defines(code: str, name: str) -> bool:
    if name not in code:
        return False
    from helpers.reading.cells import parse

    tree = parse(code)
    body = tree.body if tree is not None else ()
    return any(isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == name for n in body)
