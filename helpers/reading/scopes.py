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


def names_bound(node: ast.AST) -> Iterator[str]:
    """Return the names that a node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias():
            yield node.asname or node.name.split(".")[0]


def times_bound(trees: Iterable[ast.AST]) -> Counter[str]:
    """Return how often each name is bound in all of the trees, in whatever scope."""
    return Counter(name for tree in trees for node in walk(tree) for name in names_bound(node))


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
        names.update(names_bound(node))
        match node:
            case ast.Global(names=some):
                declared.update(some)
            case ast.Nonlocal(names=some):
                outer.update(some)
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
            case ast.Global(names=some) | ast.Nonlocal(names=some):
                times.update(some)
        times.update(names_bound(node))
    return {name: called for name, called in made.items() if times[name] == len(called)}
