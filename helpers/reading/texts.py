"""Which texts a name can stand for, where all of them are written down."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence, Set

from helpers.reading.doubts import dotted
from helpers.reading.nodes import walk
from helpers.reading.scopes import all_arguments, find_locals, names_bound, stored_names
from helpers.reading.words import words

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Classes below which what stands in a class is what `self` has.
_PLAIN_BASES = words("ABC Module object")
# What sets an object's attributes by names that are computed; copies ask for a state, too.
_SETTERS = words("""
    __dict__ __getstate__ __setattr__ __setstate__ parse_args parse_intermixed_args
    parse_known_args parse_known_intermixed_args update_wrapper vars wraps
""")


class Texts:
    """The texts that names stand for, wherever in some cells they are bound."""

    def __init__(self, trees: Sequence[ast.Module], selves: Set[int] = frozenset()) -> None:
        """Read the trees of all cells that may bind the names; ``selves`` are the nodes, by ``id``,
        that stand for an object of a student's own class.
        """
        nodes = [node for tree in trees for node in walk(tree)]
        self._bound = Counter(name for node in nodes for name in names_bound(node))
        self._listed = self._find_lists(nodes)
        self._of_classes = self._find_in_classes(nodes, selves)
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
        elif isinstance(items, ast.Attribute):
            items = self._of_classes.get(id(items), items)
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

    def _find_in_classes(self, nodes: Sequence[ast.AST], selves: Set[int]) -> dict[int, ast.Tuple]:
        """Return what ``self.names`` is, by the node's ``id``, where it is a tuple that stands in
        the class and that nothing else can be.
        """
        if not selves or _sets_any_attribute(nodes):
            return {}
        elsewhere = _names_of_attributes(nodes)
        found: dict[int, ast.Tuple] = {}
        for node in nodes:
            if not isinstance(node, ast.ClassDef) or not _is_plain_class(node):
                continue
            tuples = {
                part.targets[0].id: part.value
                for part in node.body
                if isinstance(part, ast.Assign)
                and isinstance(part.targets[0], ast.Name)
                and isinstance(part.value, ast.Tuple)
                and len(part.targets) == self._bound[part.targets[0].id] == 1
                and part.targets[0].id not in elsewhere
            }
            reads = (n for n in walk(node) if isinstance(n, ast.Attribute) and n.attr in tuples)
            found |= {id(n): tuples[n.attr] for n in reads if id(n.value) in selves}
        return found


def _is_plain_class(node: ast.ClassDef) -> bool:
    bases = {dotted(base).rpartition(".")[2] for base in node.bases}
    return bases <= _PLAIN_BASES and not node.keywords and not node.decorator_list


def _sets_any_attribute(nodes: Sequence[ast.AST]) -> bool:
    """Return whether an attribute may be set whose name is not written down."""
    plain = {id(node.func) for node in nodes if _sets_written_name(node)}
    for node in nodes:
        match node:
            case ast.Name(id="setattr") if id(node) not in plain:
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name):
                if name in _SETTERS:
                    return True
            case ast.alias(name=name) if name.rpartition(".")[2] in _SETTERS:
                return True
    return False


def _sets_written_name(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(), _]):
            return True
    return False


def _names_of_attributes(nodes: Sequence[ast.AST]) -> set[str]:
    """Return what is assigned to as an attribute somewhere, or written down as a text."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.Constant(value=str(name)):
                found.add(name)
    return found


def _column(target: ast.AST, values: Sequence[ast.AST | None]) -> Iterator[tuple[str, list[str]]]:
    if isinstance(target, ast.Name) and all(map(_is_text, values)):
        yield target.id, [value.value for value in values]


def _item(node: ast.AST, place: int) -> ast.AST | None:
    is_row = isinstance(node, ast.Tuple | ast.List) and place < len(node.elts)
    has_stars = is_row and any(isinstance(part, ast.Starred) for part in node.elts)
    return node.elts[place] if is_row and not has_stars else None


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
