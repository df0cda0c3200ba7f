"""The nodes of a tree, gone through once however many look for something in it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

_KEPT_AS = "_nodes_below"
# Python nests these a hundred deep at most; expressions and branches go so deep that to keep what
# is below each would take the square of a cell's length.
_KEPT_FOR = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def walk(tree: ast.AST) -> Iterable[ast.AST]:
    """Return ``tree`` and all nodes below it, in the order of ``ast.walk``.

    Those of a cell, a function or a class are kept with it; nobody may change it.
    """
    if not isinstance(tree, _KEPT_FOR):
        return ast.walk(tree)
    nodes = tree.__dict__.get(_KEPT_AS)
    if nodes is None:
        nodes = tuple(ast.walk(tree))
        setattr(tree, _KEPT_AS, nodes)
    return nodes
