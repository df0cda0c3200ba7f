"""Which texts a name can stand for, where all of them are written down."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from helpers.reading.nodes import walk
from helpers.reading.scopes import names_bound


class Texts:
    """The texts that names stand for, wherever in some cells they are bound."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        """Read the trees of all cells that may bind the names."""
        nodes = [node for tree in trees for node in walk(tree)]
        self._bound = Counter(name for node in nodes for name in names_bound(node))
        self._listed = self._find_lists(nodes)
        self._texts: dict[str, list[str]] = defaultdict(list)
        known: Counter[str] = Counter()
        for node in nodes:
            for name, texts in self._assigned(node):
                known[name] += 1
                self._texts[name] += texts
        self._certain = {name for name, count in known.items() if count == self._bound[name]}

    def of(self, name: str) -> list[str] | None:
        """Return the texts that a name can stand for; None if it may be anything else."""
        return self._texts[name] if name in self._certain else None

    def _assigned(self, node: ast.AST) -> Iterator[tuple[str, list[str]]]:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, [text]
            case ast.For(target=target, iter=items) | ast.comprehension(target=target, iter=items):
                if isinstance(items, ast.Name):
                    items = self._listed.get(items.id)
                if items is not None:
                    yield from _each(target, items)

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


def _each(target: ast.AST, items: ast.AST) -> Iterator[tuple[str, list[str]]]:
    """Return the texts that a loop's variables take, if the items stand there."""
    match items:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            pass
        case ast.Dict(keys=parts):
            pass
        case _:
            return
    targets = [target] if isinstance(target, ast.Name) else getattr(target, "elts", ())
    for place, name in enumerate(targets):
        values = parts if isinstance(target, ast.Name) else [_item(p, place) for p in parts]
        if isinstance(name, ast.Name) and all(map(_is_text, values)):
            yield name.id, [value.value for value in values]


def _item(node: ast.AST, place: int) -> ast.AST | None:
    is_row = isinstance(node, ast.Tuple | ast.List) and place < len(node.elts)
    has_stars = is_row and any(isinstance(part, ast.Starred) for part in node.elts)
    return node.elts[place] if is_row and not has_stars else None


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
