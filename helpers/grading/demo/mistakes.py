"""Wrong answers, made from a right one by changes to its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}


@dataclass(frozen=True)
class Mistake:
    """A changed answer.

    Attributes:
        kind: what was changed, in a few words.
        code: the answer with the change. It may by chance still be right.
    """

    kind: str
    code: str


def find_mistakes(code: str) -> list[Mistake]:
    """Return every mistake that can be made in ``code``, the same ones in the same order each time.

    Args:
        code: a right answer, valid Python; its comments are lost.
    """
    tree = ast.parse(code)
    right = ast.unparse(tree)
    return [
        Mistake(kind, changed)
        for kind, make_changes in _KINDS
        for _ in make_changes(tree)
        if (changed := ast.unparse(ast.fix_missing_locations(tree))) != right
    ]


# Each makes one change after another: it changes the tree, yields, and undoes the change.


def _swap_operators(tree: ast.Module) -> Iterator[None]:
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
            before = node.op
            node.op = _SWAPPED[type(before)]()
            yield
            node.op = before


def _change_constants(tree: ast.Module) -> Iterator[None]:
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            before = node.value
            node.value = before + 1
            yield
            node.value = before


def _drop_keywords(tree: ast.Module) -> Iterator[None]:
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Call):
            before = node.keywords
            for left_out in before:
                node.keywords = [keyword for keyword in before if keyword is not left_out]
                yield
            node.keywords = before


def _remove_statements(tree: ast.Module) -> Iterator[None]:
    for function in _functions(tree):
        before = function.body
        for left_out in before:
            if len(before) > 1 and not isinstance(left_out, ast.Return) and not _is_text(left_out):
                function.body = [statement for statement in before if statement is not left_out]
                yield
        function.body = before


def _return_too_early(tree: ast.Module) -> Iterator[None]:
    for function in _functions(tree):
        before = function.body
        for place, statement in enumerate(before[:-1]):
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = ast.Name(statement.targets[0].id, ast.Load())
                function.body = [*before[: place + 1], ast.Return(name)]
                yield
        function.body = before


def _return_another_type(tree: ast.Module) -> Iterator[None]:
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.Return) and node.value is not None:
            before = node.value
            if isinstance(before, ast.Tuple):
                *others, last = before.elts
                node.value = ast.Tuple([*others, _as_another_type(last)], ast.Load())
            else:
                node.value = _as_another_type(before)
            yield
            node.value = before


def _as_another_type(answer: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(answer, "double", ast.Load()), [], [])


def _functions(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


_KINDS: tuple[tuple[str, Callable[[ast.Module], Iterator[None]]], ...] = (
    ("swaps + and -, or * and /", _swap_operators),
    ("changes a number", _change_constants),
    ("leaves out an argument", _drop_keywords),
    ("leaves out a line", _remove_statements),
    ("returns too early", _return_too_early),
    ("returns another dtype", _return_another_type),
)
