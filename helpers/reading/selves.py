"""Where `self` is certainly an object of the student's own class.

A method is a function: taken off its class, or called by the class's name, it can be given anything
in place of ``self``. Where that cannot be ruled out, a ``self`` is any object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from helpers.reading.doubts import dotted
from helpers.reading.nodes import walk
from helpers.reading.scopes import all_arguments, find_locals
from helpers.reading.words import words

_OF_CLASSES = words("__class_getitem__ __init_subclass__ __new__")
# What stands before a method and calls it with nothing but its own object.
_HARMLESS_DECORATORS = words("""
    abstractmethod cached_property deleter enable_grad getter inference_mode no_grad override
    property setter
""")
_LOOKS = words("dir hasattr help id isinstance issubclass print repr str super type")
_NAMES_OF_CLASSES = words("__doc__ __module__ __name__ __qualname__")


@dataclass
class Selves:
    """Names that stand for a student's own object, as ``id`` of their nodes.

    Attributes:
        objects: objects of the student's classes.
        owners: these, the student's classes themselves (``cls``), and autograd's contexts.
    """

    objects: set[int] = field(default_factory=set)
    owners: set[int] = field(default_factory=set)


def find_selves(trees: Sequence[ast.Module]) -> Selves:
    """Return where in the trees a name stands for an own object; nowhere if methods are taken off
    their classes.
    """
    found = Selves()
    classes = [n for tree in trees for n in walk(tree) if isinstance(n, ast.ClassDef)]
    if classes and not any(_takes_methods_off(tree, classes) for tree in trees):
        for node in classes:
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    _read_method(node, method, found)
    return found


def classes_looked_at(tree: ast.AST) -> set[int]:
    """Return the expressions that do nothing with a class but look at it, call it, build on it."""
    found: set[int] = set()
    for node in walk(tree):
        for part in _looked_at(node):
            found.update(id(inner) for inner in _alternatives(part))
    return found


def is_asked_class(node: ast.AST) -> bool:
    """Return whether an expression asks an object for its class."""
    match node:
        case ast.Attribute(attr="__class__", ctx=ast.Load()):
            return True
        case ast.Call(func=ast.Name(id="type"), args=[_]):
            return True
    return False


def _looked_at(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            yield node.func
            if name in _LOOKS:
                yield from node.args
        case ast.Call():
            yield node.func
        case ast.Compare():
            yield from (node.left, *node.comparators)
        case ast.ClassDef():
            yield from (*node.bases, *node.decorator_list)
        case ast.FunctionDef():
            yield from filter(None, (node.returns, *node.decorator_list))
        case ast.arg() | ast.AnnAssign():
            if node.annotation is not None:
                yield from walk(node.annotation)
        case ast.Attribute(attr=name) if name in _NAMES_OF_CLASSES:
            yield node.value
        case ast.ExceptHandler(type=ast.AST() as part) | ast.Raise(exc=ast.AST() as part):
            yield part
        case ast.FormattedValue(value=part) | ast.MatchClass(cls=part):
            yield part
        case ast.Subscript(slice=part):
            yield part
            yield node.value
        case ast.Expr(value=part):
            yield part


def _alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Return an expression and, of ``(A, B)`` and ``A | B``, the parts."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, ast.Tuple):
            waiting += part.elts
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr):
            waiting += (part.left, part.right)


def _takes_methods_off(tree: ast.Module, classes: Sequence[ast.ClassDef]) -> bool:
    own = {node.name for node in classes}
    methods = {part.name for c in classes for part in c.body if isinstance(part, ast.FunctionDef)}
    methods -= {part.name for c in classes for part in c.body if _is_of_class(part)}
    passed_on = classes_looked_at(tree) | _bases_called(tree)
    for node in walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in own:
                if attribute in methods and id(node) not in passed_on - classes_looked_at(tree):
                    return True
                passed_on.add(id(node.value))
            case ast.Attribute(value=value, attr=attribute) if is_asked_class(value):
                if attribute not in _NAMES_OF_CLASSES and isinstance(node.ctx, ast.Load):
                    return True
    loads = (n for n in walk(tree) if isinstance(n, ast.Name) and n.id in own)
    if any(isinstance(n.ctx, ast.Load) and id(n) not in passed_on for n in loads):
        return True
    return any(_uses_methods(node) for node in walk(tree) if isinstance(node, ast.ClassDef))


def _bases_called(tree: ast.Module) -> set[int]:
    """Return the methods that are called with ``self``, as those of a base are."""
    return {
        id(node.func)
        for node in walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.args
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "self"
    }


def _uses_methods(node: ast.ClassDef) -> bool:
    """Return whether a class's body does something with a method."""
    methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            continue
        if any(isinstance(n, ast.Name) and n.id in methods for n in walk(part)):
            return True
    return False


def _is_of_class(method: ast.AST) -> bool:
    if not isinstance(method, ast.FunctionDef):
        return False
    decorators = {dotted(node) for node in method.decorator_list}
    return bool(decorators & {"staticmethod", "classmethod"}) or method.name in _OF_CLASSES


def _read_method(node: ast.ClassDef, method: ast.FunctionDef, found: Selves) -> None:
    first = next(all_arguments(method.args), None)
    if first is None or first.arg in find_locals(method.body)[0]:
        return
    named = [d.func if isinstance(d, ast.Call) else d for d in method.decorator_list]
    decorators = {dotted(decorator).rpartition(".")[2] for decorator in named}
    names = {id(name) for part in method.body for name in _loads(part, first.arg)}
    if "staticmethod" in decorators:
        if any(dotted(base).rpartition(".")[2] == "Function" for base in node.bases):
            found.owners |= names
    elif _is_of_class(method):
        found.owners |= names
    elif decorators <= _HARMLESS_DECORATORS:
        found.owners |= names
        found.objects |= names


def _loads(node: ast.AST, name: str) -> Iterator[ast.Name]:
    """Return the places below ``node`` where ``name`` is the method's own parameter."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.Name(id=known) if known == name:
                yield part
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                bound = {a.arg for a in all_arguments(part.args)} | find_locals(part.body)[0]
                waiting += [] if name in bound else ast.iter_child_nodes(part)
            case ast.Lambda():
                bound = {a.arg for a in all_arguments(part.args)}
                waiting += [] if name in bound else ast.iter_child_nodes(part)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                targets = (n for g in part.generators for n in walk(g.target))
                hides = any(isinstance(n, ast.Name) and n.id == name for n in targets)
                waiting += [] if hides else ast.iter_child_nodes(part)
            case ast.ClassDef():
                continue
            case _:
                waiting += ast.iter_child_nodes(part)
