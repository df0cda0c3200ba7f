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
    numbers = numbers_of_cells()
    if not numbers:
        return ""
    from helpers.reading import history

    typed = history.inputs()
    for name in names:
        codes = _codes(namespace.get(name))
        made = max((numbers.get(code.co_filename, 0) for code in codes), default=0)
        later = range(len(typed) - 1, made, -1) if made else ()
        last = next((n for n in later if _defines(typed[n], name)), None)
        if last is not None:
            return (
                f"cell [{last}] defines {name}, but the {name} that is checked here is still that "
                f"of cell [{made}]: did cell [{last}] end in an error?"
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
