"""The nodes of a tree, gone through once however many look for something in it."""

from __future__ import annotations

import ast

_KEPT_AS = "_nodes_below"


def walk(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return ``tree`` and all nodes below it, in the order of ``ast.walk``.

    They are kept with the tree, which nobody may change.
    """
    nodes = tree.__dict__.get(_KEPT_AS)
    if nodes is None:
        nodes = tuple(ast.walk(tree))
        setattr(tree, _KEPT_AS, nodes)
    return nodes
