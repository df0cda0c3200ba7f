"""What is said of a place in students' code."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Doubt:
    """A place in a cell, and what stands there, in words that a student understands.

    Attributes:
        label: of the cell.
        line: counted from 1, as the notebook shows it.
        what: "`torch.softmax`", "a change of `torch.relu`".
    """

    label: str
    line: int
    what: str


Place = tuple[int, int, str]  # line, column, and what stands there
_LONGEST = 6  # parts of a name with dots; beyond that nobody reads on


def dotted(node: ast.AST) -> str:
    """Return the name with dots that an expression is: "torch.nn.Linear", or "….softmax"."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute) and len(parts) < _LONGEST:
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "…")
    return ".".join(reversed(parts))


def quoted(node: ast.AST) -> str:
    """Return the name with dots that an expression is, as it stands in a message."""
    return f"`{dotted(node).removeprefix('…')}`"
