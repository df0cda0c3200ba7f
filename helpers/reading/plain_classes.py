"""Whether code changes a library's class: `nn.Linear` by its name, or by way of an object.

A class that is handed on (to a function, in a list, as what `type` returns) may be known by any
name from there on. So where one is handed on, what changes an attribute of an unknown object is
not plain; where none is, it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from helpers.reading.doubts import quoted
from helpers.reading.names import Names, chain_of
from helpers.reading.nodes import walk
from helpers.reading.scopes import times_bound
from helpers.reading.selves import Selves, classes_looked_at, is_asked_class
from helpers.reading.words import words

# Classes of torch's that are not written as classes are.
_LOWER_CASE = words("""
    autocast detect_anomaly enable_grad inference_mode no_grad profile record_function
    saved_tensors_hooks set_grad_enabled
""")
# What people set on modules, parameters and groups; none of it is a function.
_DATA = words("""
    bias data dampening decay eps grad lr momentum p requires_grad running_mean running_var training
    weight
""")
_TENSORS = words("Tensor Parameter")
_CHANGING = words("setattr delattr vars")


class ClassChanges:
    """What is known of the classes that some cells hand on."""

    def __init__(self, trees: Sequence[ast.Module], names: Names, selves: Selves) -> None:
        """Look for them in the student's trees."""
        self._names = names
        self._selves = selves
        self._own = _bound_once(trees)
        self._handed_on = {name for tree in trees for name in self._find_handed_on(tree)}

    def find(self, tree: ast.Module) -> Iterator[tuple[int, str]]:
        """Return where a tree may change a library's class."""
        for node in walk(tree):
            changed, attribute = _changed(node)
            if changed is not None and self._may_be_foreign(changed, attribute):
                what = quoted(node) if isinstance(node, ast.Attribute) else quoted(changed)
                yield node.lineno, f"a change of {what}"

    def _may_be_foreign(self, changed: ast.AST, attribute: str) -> bool:
        if id(changed) in self._selves.owners:
            return False
        if is_asked_class(changed):
            asked = changed.value if isinstance(changed, ast.Attribute) else changed.args[0]
            return id(asked) not in self._selves.objects
        if isinstance(changed, ast.Name) and changed.id in self._own:
            return False
        is_data = attribute in _DATA and not self._handed_on & (_TENSORS | {"type"})
        return bool(self._handed_on) and not is_data

    def _find_handed_on(self, tree: ast.Module) -> Iterator[str]:
        """Return the names of the libraries' classes that a tree hands on."""
        looked_at = classes_looked_at(tree)
        classes = (node for node in walk(tree) if isinstance(node, ast.ClassDef))
        in_classes = {id(part) for node in classes for part in node.body}
        aliased: set[int] = set()
        inner: set[int] = set()
        for node in walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name()], value=value) if id(node) not in in_classes:
                    aliased.add(id(value))  # known by its other name, too
                case ast.Attribute(value=value):
                    inner.add(id(value))
        for node in walk(tree):
            if id(node) in looked_at:
                continue
            if is_asked_class(node):
                asked = node.value if isinstance(node, ast.Attribute) else node.args[0]
                if id(asked) not in self._selves.objects:
                    yield "type"
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id == "map" and any(_is_type(part) for part in node.args):
                    yield "type"
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                path = self._names.path(*chain_of(node))
                if _is_class(path) and not {id(node)} & (aliased | inner):
                    yield path.rpartition(".")[2]


def _bound_once(trees: Sequence[ast.Module]) -> set[str]:
    """Return the functions and classes at the cells' tops whose names stand for nothing else."""
    bound = times_bound(trees)
    tops = (part for tree in trees for part in tree.body)
    names = {part.name for part in tops if isinstance(part, ast.FunctionDef | ast.ClassDef)}
    return {name for name in names if bound[name] == 1}


def _is_class(path: str) -> bool:
    """Return whether a path looks like that of a class; torch, unlike the course, has no constants
    that are written with capitals.
    """
    last = path.rpartition(".")[2]
    is_constant = last.isupper() and not path.startswith("torch.")
    return (last[:1].isupper() and not is_constant) or last in _LOWER_CASE


def _is_type(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "type"


def _changed(node: ast.AST) -> tuple[ast.AST | None, str]:
    """Return the object that a node changes an attribute of, and the attribute's name."""
    match node:
        case ast.Attribute(value=changed, attr=name, ctx=ast.Store() | ast.Del()):
            return changed, name
        case ast.Call(func=ast.Name(id=called), args=[changed, *rest]) if called in _CHANGING:
            known = rest and isinstance(rest[0], ast.Constant)
            return changed, str(rest[0].value) if known else ""
        case ast.Attribute(value=changed, attr="__dict__"):
            return changed, ""
    return None, ""
