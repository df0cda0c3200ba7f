"""Imports of what is not installed where work is graded: they cost only what needs them.

A notebook's first cell may import a library for one plot. Where that library is missing, the name
stands for something that says so when it is used; everything else in the cell is run.
"""

from __future__ import annotations

import ast
from typing import Any, NoReturn

NAME = "__wanting__"
_ERROR = "__import_error__"


class Wanting:
    """Stands for what could not be imported."""

    def __init__(self, error: ImportError) -> None:
        """Stand for what ``error`` was raised for."""
        self.__dict__["error"] = error

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise self.__dict__["error"]

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse; whoever only asks whether something is there is answered as by a missing one."""
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    __call__ = __getitem__ = __iter__ = __len__ = __bool__ = __enter__ = _refuse
    __setattr__ = __mro_entries__ = _refuse


class ImportsMayFail(ast.NodeTransformer):
    """Puts every import at a cell's top into a ``try`` of its own.

    Imports in functions and in a student's own ``try`` are left as they are.
    """

    def visit_Module(self, node: ast.Module) -> ast.Module:
        """Return the cell with its imports replaced."""
        node.body = [part for statement in node.body for part in _made_safe(statement)]
        return ast.fix_missing_locations(node)


def _made_safe(statement: ast.stmt) -> list[ast.stmt]:
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return [statement]
    if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
        return [statement]
    return [_in_a_try(statement, alias) for alias in statement.names]


def _in_a_try(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    if isinstance(statement, ast.Import):
        alone: ast.stmt = ast.Import([alias])
    else:
        alone = ast.ImportFrom(statement.module, [alias], statement.level)
    name = alias.asname or alias.name.split(".")[0]
    # Of "import torch.nothing" torch itself is there all the same.
    found = "pass" if name == "*" else f"globals().setdefault({name!r}, {NAME}({_ERROR}))"
    made = ast.parse(f"try:\n pass\nexcept ImportError as {_ERROR}:\n {found}").body[0]
    made.body = [alone]
    for node in ast.walk(made):
        ast.copy_location(node, statement)
    return made
