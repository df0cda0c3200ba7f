"""Mutants: a reference solution with one change each."""

from __future__ import annotations

import ast
import copy
import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from mutants.expressions import ASSERTIONS, COMPUTED, alternatives

_MARKED = re.compile(r"### BEGIN SOLUTION\n.*?### END SOLUTION", re.DOTALL)
_MOST_OTHER_NAMES = 3


@dataclass(frozen=True)
class Mutant:
    """A changed solution.

    Attributes:
        was: the changed lines of the reference, as ``ast.unparse`` writes them, without indentation
            and joined by "; ".
        became: what stands in their place.
        place: 1 for the first change of a solution that reads so, 2 for the second.
        code: the whole solution.
    """

    was: str
    became: str
    place: int
    code: str


def normalized(code: str) -> str:
    """Return ``code`` as a mutant's is written."""
    return ast.unparse(ast.parse(code))


def make_mutants(code: str, cap: int | None = None) -> list[Mutant]:
    """Return the mutants of a solution, always the same in the same order.

    What a student's copy keeps of the solution, a signature for instance, is left as it is.

    Args:
        code: the solution's cell.
        cap: how many at most; they are spread evenly over the solution.
    """
    tree = ast.parse(code)
    reference = ast.unparse(tree)
    seen = {ast.dump(tree)}
    places = Counter[tuple[str, str]]()
    found = []
    for put_in in _changes(tree, _marked_lines(code)):
        undo = put_in()
        dump, text = ast.dump(tree), ast.unparse(tree)
        undo()
        if dump in seen or not _compiles(text):
            continue
        seen.add(dump)
        was, became = _difference(reference, text)
        places[was, became] += 1
        found.append(Mutant(was, became, places[was, became], text))
    if cap is None or len(found) <= cap:
        return found
    return [found[i * len(found) // cap] for i in range(cap)]


def _marked_lines(code: str) -> Collection[int]:
    lines: set[int] = set()
    for match in _MARKED.finditer(code):
        first = code.count("\n", 0, match.start()) + 1
        lines.update(range(first, first + match[0].count("\n") + 1))
    return lines


def _compiles(text: str) -> bool:
    try:
        compile(text, "<mutant>", "exec")
    except SyntaxError:
        return False
    return True


def _difference(before: str, after: str) -> tuple[str, str]:
    """Return the lines that differ: those of ``before``, and those of ``after``."""
    old = [line.strip() for line in before.splitlines()]
    new = [line.strip() for line in after.splitlines()]
    was, became = [], []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            was += old[a:b]
            became += new[c:d]
    return "; ".join(was), "; ".join(became)


# A change of a tree: it makes itself, and returns what takes it back.
_Change = Callable[[], Callable[[], None]]


def _changes(tree: ast.Module, lines: Collection[int]) -> Iterator[_Change]:
    yield from _Walk(lines).visit(tree, frozenset(), called_for_effect=False)


class _Walk:
    """Goes through a tree and yields the changes of what stands in some lines."""

    def __init__(self, lines: Collection[int]) -> None:
        self._lines = lines

    def visit(
        self, node: ast.AST, names: Collection[str], *, called_for_effect: bool
    ) -> Iterator[_Change]:
        """Yield the changes below ``node``; ``names`` are those of the function around it."""
        if isinstance(node, ast.Raise | ast.JoinedStr):  # what an error says is free
            return
        if isinstance(node, ast.keyword) and node.arg in ASSERTIONS:
            return
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = {*names, *_names_in(node)}
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "args") and isinstance(node, ast.FunctionDef):
                continue
            for owner, key, child in _children(node, field, value):
                if getattr(child, "lineno", None) in self._lines:
                    yield from _changes_of(owner, key, child, names, called_for_effect)
                for_effect = isinstance(child, ast.Expr)
                yield from self.visit(child, names, called_for_effect=for_effect)


def _children(node: ast.AST, field: str, value: Any) -> Iterator[tuple[Any, Any, ast.AST]]:
    if isinstance(value, ast.AST):
        yield node, field, value
    elif isinstance(value, list):
        yield from ((value, i, child) for i, child in enumerate(value) if child is not None)


def _names_in(function: ast.FunctionDef | ast.Lambda) -> set[str]:
    arguments = {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
    stored = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return arguments | stored


def _changes_of(
    owner: Any, key: Any, node: ast.AST, names: Collection[str], called_for_effect: bool
) -> Iterator[_Change]:
    """Yield the changes of ``node``, which is ``owner``'s attribute or item ``key``."""
    if isinstance(node, ast.stmt):
        for statements in _other_statements(node, names):
            left = statements or ([ast.Pass()] if len(owner) == 1 else [])
            yield _replacing(owner, slice(key, key + 1), left)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            for i in range(len(node.decorator_list)):
                others = [*node.decorator_list[:i], *node.decorator_list[i + 1 :]]
                yield _replacing(node, "decorator_list", others)
    elif isinstance(node, ast.expr) and not called_for_effect:
        for expression in alternatives(node, names):
            yield _replacing(owner, key, expression)
    elif isinstance(node, ast.Call):  # left out as a whole, it is a dropped statement
        for expression in alternatives(node, names):
            if isinstance(expression, ast.Call):
                yield _replacing(owner, key, expression)


def _other_statements(node: ast.stmt, names: Collection[str]) -> Iterator[list[ast.stmt]]:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_needed = isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom)
    if not (is_text or is_needed or isinstance(node, ast.Pass)):
        yield []
    if isinstance(node, ast.With | ast.Try):
        yield node.body
    if isinstance(node, ast.Try) and node.finalbody:
        yield [*node.body, *node.finalbody]
    if isinstance(node, ast.If | ast.While):
        changed = copy.copy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield [changed]
    if isinstance(node, ast.If) and node.orelse:
        yield node.body
        yield node.orelse
    if isinstance(node, ast.Break | ast.Continue):
        yield [ast.Continue() if isinstance(node, ast.Break) else ast.Break()]
    if isinstance(node, ast.AugAssign):
        if type(node.op) in COMPUTED:
            yield [ast.AugAssign(node.target, COMPUTED[type(node.op)](), node.value)]
        yield [ast.Assign([node.target], node.value, lineno=node.lineno)]
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Name):
        others = sorted(set(names) - {node.value.id, "self"})
        for name in others[:_MOST_OTHER_NAMES]:
            yield [ast.Return(ast.Name(name, ast.Load()))]


def _replacing(owner: Any, key: Any, new: Any) -> _Change:
    """Return the change that puts ``new`` where ``owner`` has its attribute or items ``key``."""

    def put_in() -> Callable[[], None]:
        if isinstance(owner, list):
            before = list(owner)
            owner[key] = new

            def undo() -> None:
                owner[:] = before
        else:
            old = getattr(owner, key)
            setattr(owner, key, new)

            def undo() -> None:
                setattr(owner, key, old)

        return undo

    return put_in
