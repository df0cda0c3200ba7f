"""Attributes that a student's own classes define, where they are surely read of such an object."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from helpers.reading.doubts import dotted
from helpers.reading.nodes import walk
from helpers.reading.scopes import find_made, times_bound
from helpers.reading.selves import find_selves
from helpers.reading.words import words

# Classes below which only a student's own attributes are found on `self`.
_OWN_BASES = words("ABC Dataset Enum Function IterableDataset Module NamedTuple Sampler object")


def find_own_attributes(trees: Sequence[ast.Module]) -> set[int]:
    """Return the attributes of ``self``, of a class by its name and of an object of such a class
    that are a student's own.
    """
    selves = find_selves(trees).objects
    classes = [n for tree in trees for n in walk(tree) if isinstance(n, ast.ClassDef)]
    bound = times_bound(trees)
    trusted = {node.name for node in classes if bound[node.name] == 1 and _has_own_bases(node)}
    methods = {node.name: _methods(node) for node in classes}
    on_classes = _find_on_classes(trees, trusted)
    on_objects = _find_on_objects(trees, trusted, bound)
    found: set[int] = set()
    for node in classes:
        # Called with another object in place of self, a method finds that one's attributes.
        by_name = on_classes[node.name]
        if node.name not in trusted or {a.attr for a in by_name} & methods[node.name]:
            continue
        attributes = [n for n in walk(node) if isinstance(n, ast.Attribute)]
        of_self = [a for a in attributes if id(a.value) in selves]
        defined = _defined_names(node)
        own = defined | {a.attr for a in of_self if isinstance(a.ctx, ast.Store)}
        found.update(id(a) for a in of_self if a.attr in own)
        found.update(id(a) for a in by_name if a.attr in defined)
        if {a.attr for a in by_name} <= {"apply"}:
            found.update(_find_on_contexts(node, attributes))
        if _makes_own_objects(node):
            found.update(id(a) for a in on_objects[node.name] if a.attr in own | _fields(node))
    return found


def _has_own_bases(node: ast.ClassDef) -> bool:
    return (
        not node.keywords
        and all(dotted(base).rpartition(".")[2] in _OWN_BASES for base in node.bases)
        and _defined_names(node).isdisjoint({"__getattr__", "__getattribute__"})
    )


def _defined_names(node: ast.ClassDef) -> set[str]:
    return {
        part.name
        for part in node.body
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    }


def _methods(node: ast.ClassDef) -> set[str]:
    """Return the methods that take ``self``, but for those that Python calls."""
    return {
        part.name
        for part in node.body
        if isinstance(part, ast.FunctionDef)
        and not any(dotted(d) in ("staticmethod", "classmethod") for d in part.decorator_list)
        and not part.name.startswith("__")
    }


def _find_on_contexts(node: ast.ClassDef, attributes: Sequence[ast.Attribute]) -> Iterator[int]:
    """Return what an autograd function keeps on its context, ``ctx``: what it assigns there."""
    if any(dotted(base).rpartition(".")[2] == "Function" for base in node.bases):
        on_context = [a for a in attributes if dotted(a.value) == "ctx"]
        kept = {a.attr for a in on_context if isinstance(a.ctx, ast.Store)}
        yield from (id(a) for a in on_context if a.attr in kept)


def _makes_own_objects(node: ast.ClassDef) -> bool:
    """Return whether a call of a class surely returns its own object."""
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    is_plain = all(dotted(d) in ("dataclass", "dataclasses.dataclass") for d in decorators)
    return is_plain and "__new__" not in _defined_names(node)


def _fields(node: ast.ClassDef) -> set[str]:
    return {
        part.target.id
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
    }


def _find_on_objects(
    trees: Iterable[ast.Module], classes: set[str], bound: Counter[str]
) -> defaultdict[str, list[ast.Attribute]]:
    """Return the attributes of objects that are made on the spot, as in ``A().f``, or to which
    alone a name is bound, by the classes.
    """
    made: dict[str, str] = {}
    for tree in trees:
        for name, called in find_made(tree).items():
            by = {dotted(one) for one in called}
            if bound[name] == len(called) and len(by) == 1:
                made[name] = by.pop()
    found: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
    for tree in trees:
        for node in walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name)) if made.get(name) in classes:
                    found[made[name]].append(node)
                case ast.Attribute(value=ast.Call(func=ast.Name(id=name))) if name in classes:
                    found[name].append(node)
    return found


def _find_on_classes(
    trees: Iterable[ast.Module], classes: set[str]
) -> defaultdict[str, list[ast.Attribute]]:
    found: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
    for tree in trees:
        for node in walk(tree):
            match node:
                case ast.Attribute(value=ast.Name(id=name)) if name in classes:
                    found[name].append(node)
    return found
