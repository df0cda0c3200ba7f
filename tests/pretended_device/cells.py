"""Which of a chapter's cells run on the pretended device, and what is planted in them."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbformat.notebooknode import NotebookNode


@dataclass(frozen=True)
class Fault:
    """A mistake that the CPU forgives: ``old`` in one cell becomes ``new``.

    It shows in the cell that holds ``shows_in``; in its own one, if that is empty.
    """

    chapter: str
    meaning: str
    old: str
    new: str
    error: str
    shows_in: str = ""


def plant(source: str, fault: Fault) -> str:
    """Return ``source`` with the fault, if this is its cell."""
    return source.replace(fault.old, fault.new)


def is_measured(cell: NotebookNode) -> bool:
    """Tell whether what a cell prints differs from run to run."""
    return "nbval-ignore-output" in cell.metadata.get("tags", [])


def choose_cells(code: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the code cells that touch a device, and those that they build on, in their order.

    A cell touches one if it says ``device`` or ``cuda``, or uses what came of a statement that
    does. A cell that draws random numbers without a seed of its own hangs on all cells before it,
    and may print something else where some of those do not run: seed it.
    """
    touched: set[str] = set()
    touching = set()
    for number, cell in enumerate(code):
        for statement in ast.parse(cell.source).body:
            bound = _bound(statement)
            names = {name for name, _ in bound}
            if _names_a_device(statement) or _taken(statement, bound) & touched:
                touching.add(number)
                touched |= names
            else:
                touched -= names
    return [code[n] for n in with_what_they_build_on([c.source for c in code], touching)]


def with_what_they_build_on(sources: Sequence[str], wanted: Iterable[int]) -> list[int]:
    """Return the numbers of the ``wanted`` cells and of all that made or changed what they use."""
    chosen = set(wanted)
    used: set[str] = set()
    modules = _imported(sources)
    for number in reversed(range(len(sources))):
        made, taken, changed = _look_at(sources[number])
        if number in chosen or (made | changed - modules) & used:
            chosen.add(number)
            used = (used - made) | taken
    return sorted(chosen)


def _imported(sources: Iterable[str]) -> set[str]:
    imports = [
        node
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return {alias.asname or alias.name for node in imports for alias in node.names}


def _names_a_device(tree: ast.AST) -> bool:
    for node in ast.walk(tree):
        words = (getattr(node, "id", ""), getattr(node, "attr", ""), getattr(node, "value", ""))
        if "cuda" in words or words[0] == "device":
            return True
    return False


def _look_at(source: str) -> tuple[set[str], set[str], set[str]]:
    """Return the names that a cell makes, takes from cells before it, and changes in place."""
    made: set[str] = set()
    taken: set[str] = set()
    changed: set[str] = set()
    for statement in ast.parse(source).body:
        bound = _bound(statement)
        taken |= _taken(statement, bound) - made
        made |= {name for name, _ in bound}
        if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            changed |= {
                node.func.value.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
            }
    return made, taken, changed & taken


def _taken(statement: ast.stmt, bound: set[tuple[str, bool]]) -> set[str]:
    """Return the names that a statement takes from before: ``x = x + 1`` an earlier x, and a loop
    not the one that it binds itself.
    """
    return _used(statement) - {name for name, assigned in bound if not assigned}


def _used(statement: ast.stmt) -> set[str]:
    """Return the names of the module that a statement reads, inside of functions too."""
    found: set[str] = set()
    tables = [symtable.symtable(ast.unparse(statement), "cell", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        whole = table.get_type() == "module"
        symbols = table.get_symbols()
        found |= {s.get_name() for s in symbols if s.is_referenced() and (whole or s.is_global())}
    return found


def _bound(statement: ast.stmt) -> set[tuple[str, bool]]:
    """Return the names that a statement binds in its module, and whether by plain assignment."""
    names: set[tuple[str, bool]] = set()
    assigns = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
    left: list[ast.AST] = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add((node.name, False))  # what is bound inside is its own affair
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add((node.id, assigns))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {((alias.asname or alias.name).split(".")[0], False) for alias in node.names}
        left += ast.iter_child_nodes(node)
    return names
