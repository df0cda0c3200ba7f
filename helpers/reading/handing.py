"""Where a function is handed to another one of the same code, which can do nothing with it but call
it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from helpers.reading.nodes import walk
from helpers.reading.scopes import names_bound

_Taking = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class Handed:
    """A function that is handed to one of the code's own.

    Attributes:
        cell: the place of the cell's tree.
        taker: the name of the function that is given the other one.
        part: the other one: a name, or a lambda.
    """

    cell: int
    taker: str
    part: ast.Name | ast.Lambda


def find_handed(trees: Sequence[ast.Module], carriers: Set[str]) -> Iterator[Handed]:
    """Return where a function hands something to another one of the code's own that only calls
    it, and gives it none of ``carriers``, the names of functions and of what holds one.

    What a cell's top hands over is called once, or kept by a name that is bound there.
    """
    takers = _find_takers(trees)
    known: dict[tuple[str, str], bool] = {}
    for place, tree in enumerate(trees):
        for node in _inside_functions(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in takers:
                    for parameter, part in _pairs(takers[name], node):
                        if not isinstance(part, ast.Name | ast.Lambda):
                            continue
                        if (name, parameter) not in known:
                            known[name, parameter] = _only_calls(takers[name], parameter, carriers)
                        if known[name, parameter]:
                            yield Handed(place, name, part)


def _inside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Return what stands in functions' bodies, each node once."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        if inside:
            yield node
        body: list[ast.AST] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
        elif isinstance(node, ast.Lambda):
            body = [node.body]
        within = {id(part) for part in body}
        waiting += ((child, inside or id(child) in within) for child in ast.iter_child_nodes(node))


def _find_takers(trees: Sequence[ast.Module]) -> dict[str, _Taking]:
    """Return the functions whose names stand for nothing else in the code."""
    times: Counter[str] = Counter()
    found: dict[str, _Taking] = {}
    for node in (n for tree in trees for n in walk(tree)):
        times.update(names_bound(node))
        match node:
            case ast.FunctionDef(name=name, decorator_list=[]):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                found[name] = function
    return {name: function for name, function in found.items() if times[name] == 1}


def _pairs(function: _Taking, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Return what a call gives to a function, each with the parameter that is surely its own."""
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    for name, part in zip(names, call.args, strict=False):
        if isinstance(part, ast.Starred):
            break
        yield name, part
    named = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg in named:
            yield keyword.arg, keyword.value


def _only_calls(function: _Taking, parameter: str, carriers: Set[str]) -> bool:
    """Return whether a function does nothing with a parameter but call it, with data alone."""
    body = function.body if isinstance(function.body, list) else [function.body]
    nodes = [node for part in body for node in walk(part)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {id(node.func): node for node in calls}
    for node in nodes:
        if parameter in names_bound(node):
            return False
        if isinstance(node, ast.Name) and node.id == parameter:
            call = called.get(id(node))
            if call is None or _gives_code(call, carriers):
                return False
    return True


def _gives_code(call: ast.Call, carriers: Set[str]) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    nodes = [node for part in given for node in walk(part)]
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case _ if id(node) in called:  # gives what it returns
                continue
            case ast.Lambda():
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in carriers:
                return True
    return False
