"""Which texts a name can stand for, where all of them are written down."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from helpers.reading.nodes import walk
from helpers.reading.scopes import all_arguments, find_locals, names_bound, stored_names

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Texts:
    """The texts that names stand for, wherever in some cells they are bound."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        """Read the trees of all cells that may bind the names."""
        nodes = [node for tree in trees for node in walk(tree)]
        self._bound = Counter(name for node in nodes for name in names_bound(node))
        self._listed = self._find_lists(nodes)
        self._anywhere = self._certain(nodes)
        # By the node: a local variable has nothing to do with others of its name.
        self._locally: dict[int, list[str] | None] = {}
        for node in nodes:  # a scope comes after the one around it
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, *_COMPREHENSIONS)):
                self._read_scope(node)

    def of(self, name: ast.Name) -> list[str] | None:
        """Return the texts that a name can stand for; None if it may be anything else."""
        return self._locally.get(id(name), self._anywhere.get(name.id))

    def _read_scope(self, scope: ast.AST) -> None:
        below = list(walk(scope))
        declared: set[str] = set()
        if isinstance(scope, _COMPREHENSIONS):
            own = {name for part in scope.generators for name in stored_names(part.target)}
            outside = set(map(id, walk(scope.generators[0].iter)))
        else:
            own, declared = find_locals(scope.body)
            own |= {parameter.arg for parameter in all_arguments(scope.args)}
            own -= declared
            outside = {id(n) for part in (scope.args, *scope.decorator_list) for n in walk(part)}
        certain = self._certain(below) if own else {}
        for node in below:
            if isinstance(node, ast.Name) and id(node) not in outside:
                if node.id in own:
                    self._locally[id(node)] = certain.get(node.id)
                elif node.id in declared:
                    self._locally.pop(id(node), None)

    def _certain(self, nodes: Sequence[ast.AST]) -> dict[str, list[str]]:
        """Return the names that stand for nothing but texts wherever the nodes bind them."""
        bound = Counter(name for node in nodes for name in names_bound(node))
        found: dict[str, list[str]] = defaultdict(list)
        known: Counter[str] = Counter()
        for node in nodes:
            for name, texts in self._assigned(node):
                known[name] += 1
                found[name] += texts
        return {name: found[name] for name, count in known.items() if count == bound[name]}

    def _assigned(self, node: ast.AST) -> Iterator[tuple[str, list[str]]]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, [text]
            case ast.For(target=target, iter=items) | ast.comprehension(target=target, iter=items):
                yield from self._each(target, items)

    def _each(self, target: ast.AST, items: ast.AST) -> Iterator[tuple[str, list[str]]]:
        """Return the texts that a loop's variables take, if the items stand there."""
        if isinstance(items, ast.Name):
            items = self._listed.get(items.id, items)
        inner = getattr(target, "elts", ())
        has_stars = any(isinstance(part, ast.Starred) for part in inner)
        match items:
            case ast.Call(func=ast.Name(id="zip"), args=columns):
                if not has_stars and len(inner) == len(columns) and self._is_pythons("zip"):
                    for one, column in zip(inner, columns, strict=True):
                        yield from self._each(one, column)
            case ast.Call(func=ast.Name(id="enumerate"), args=[of]):
                if not has_stars and len(inner) == 2 and self._is_pythons("enumerate"):
                    yield from self._each(inner[1], of)
            case ast.Call(func=ast.Attribute(value=ast.Dict(keys=keys), attr="items"), args=[]):
                if not has_stars and len(inner) == 2:
                    yield from _column(inner[0], keys)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                yield from _column(target, parts)
                for place, one in enumerate(() if has_stars else inner):
                    yield from _column(one, [_item(part, place) for part in parts])
            case ast.Dict(keys=keys):
                yield from _column(target, keys)

    def _is_pythons(self, function: str) -> bool:
        return function not in self._bound

    def _find_lists(self, nodes: Sequence[ast.AST]) -> dict[str, ast.AST]:
        """Return what stands in lists that nothing can change: they are only gone through."""
        gone_through: set[int] = set()
        for node in nodes:
            if isinstance(node, ast.For | ast.comprehension):
                gone_through.add(id(node.iter))
        elsewhere = {
            node.id
            for node in nodes
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in gone_through
        }
        return {
            node.targets[0].id: node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and len(node.targets) == self._bound[node.targets[0].id] == 1
            and (isinstance(node.value, ast.Tuple) or node.targets[0].id not in elsewhere)
        }


def _column(target: ast.AST, values: Sequence[ast.AST | None]) -> Iterator[tuple[str, list[str]]]:
    if isinstance(target, ast.Name) and all(map(_is_text, values)):
        yield target.id, [value.value for value in values]


def _item(node: ast.AST, place: int) -> ast.AST | None:
    is_row = isinstance(node, ast.Tuple | ast.List) and place < len(node.elts)
    has_stars = is_row and any(isinstance(part, ast.Starred) for part in node.elts)
    return node.elts[place] if is_row and not has_stars else None


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
