"""The names in a piece of code: parameters, local variables, and what expressions start from."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from helpers.reading.nodes import walk
from helpers.reading.words import words

# Functions that go through what they are given, item by item.
_PASSING = words("enumerate filter iter list map reversed sorted tuple zip")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def all_arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Return a function's parameters, whatever their kind."""
    yield from (*arguments.posonlyargs, *arguments.args)
    yield from filter(None, (arguments.vararg, *arguments.kwonlyargs, arguments.kwarg))


def stored_names(node: ast.AST) -> Iterator[str]:
    """Return the names that are assigned to below a node."""
    for part in walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def roots_of(node: ast.AST) -> Iterator[str]:
    """Return the names that an expression starts from: of ``a.b[0]`` that is ``a``."""
    waiting = [node]
    while waiting:
        match waiting.pop():
            case ast.Name(id=name):
                yield name
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
                waiting.append(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                waiting += parts
            case ast.Dict(values=parts):
                waiting += parts
            case ast.Call(func=ast.Attribute(value=value)):
                waiting.append(value)
            case ast.Call(func=ast.Name(id=name), args=parts) if name in _PASSING:
                waiting += parts


def find_locals(body: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the names that a function's body binds, and those that it declares to be global.

    What it declares to be its caller's (``nonlocal``) is neither.
    """
    names: set[str] = set()
    declared: set[str] = set()
    outer: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.Global(names=some):
                declared.update(some)
            case ast.Nonlocal(names=some):
                outer.update(some)
            case ast.Import(names=some) | ast.ImportFrom(names=some):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in some)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                names.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                names.add(name)
        if isinstance(node, ast.comprehension):
            waiting += [node.iter, *node.ifs]
        elif not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return names - outer, declared


def find_made(function: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the names that a function binds to what calls return, and to nothing else, by any of
    its statements or of what is nested in it; with what is called.
    """
    made: dict[str, list[ast.expr]] = defaultdict(list)
    times: Counter[str] = Counter()
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=called)):
                made[name].append(called)
        times.update(_bound_by(node))
    return {name: called for name, called in made.items() if times[name] == len(called)}


def _bound_by(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return (name,)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return (name,)
        case ast.Global(names=some) | ast.Nonlocal(names=some):
            return some
        case ast.Import(names=some) | ast.ImportFrom(names=some):
            return [alias.asname or alias.name.partition(".")[0] for alias in some]
    return ()
