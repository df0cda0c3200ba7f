"""Where a function leads back to itself, by its own name or by others that stand for it.

A name may be bound anew: ``first = f`` below one ``def f`` and above another keeps the first. So
each of these is a version of its own. What a cell mentions while it runs is the version of that
moment; what a function's body mentions may be any.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from helpers.reading.doubts import Place
from helpers.reading.handing import Handed
from helpers.reading.nodes import walk
from helpers.reading.scopes import all_arguments, find_locals, names_bound, stored_names
from helpers.reading.trust import known_modules
from helpers.reading.uses import Call, Uses, find_uses_in
from helpers.reading.words import words

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LATER = (*_FUNCTIONS, ast.GeneratorExp)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BINDING = (*DEFINITIONS, ast.Assign, ast.AnnAssign)
_VERSION = "#"  # "f#2" is the second version of "f"
_STATEMENT = "="  # "=7" is what the seventh statement mentions
_MOST_TOLD = 6  # names of a circle of functions
# What a library makes of a function, it gives to whoever calls, and keeps nothing of it.
_WRAPPING = words("compile grad hessian jacfwd jacrev jvp value_and_grad vjp vmap")


def find_recursion(trees: Sequence[ast.Module], handed: Iterable[Handed] = ()) -> list[list[Place]]:
    """Return, for each cell's tree, where a function leads back to itself.

    ``handed`` are functions that another one is given, and calls.
    """
    graph = _Graph()
    found: list[list[Place]] = [[] for _ in trees]
    versions = _Versions(trees)
    functions = [list(named_functions(tree, versions.keys)) for tree in trees]
    names = {name for some in functions for name, _ in some}
    names |= {name.partition(".")[0] for name in names}
    names |= {_without_version(name) for name in names}
    for name, keys in versions.all.items():
        for key in keys:
            graph.add(name, key, *versions.places[key])
    for place, tree in enumerate(trees):
        _add_classes(place, tree, versions, graph)
        _add_statements(place, tree, versions, names, graph)
    for place, some in enumerate(functions):
        for name, function in some:
            for mentioned, where in _mentions(name, function):
                if mentioned in names or mentioned in graph.holders:
                    graph.add(name, mentioned, place, *where)
    for one in handed:
        for mentioned, where in _mentions("", ast.Expression(one.part)):
            if mentioned in names or mentioned in graph.holders:
                graph.add(one.taker, mentioned, one.cell, *where)
    written = {_shown(name) for some in functions for name, _ in some}
    for name, mentioned, way in graph.find_cycles():
        cell, line, column = graph.leads_to[name][mentioned]
        first = _shown(name if mentioned.startswith(_STATEMENT) else mentioned)
        others = [shown for shown in dict.fromkeys(map(_shown, way)) if shown in written]
        told = _tell_of_cycle(first, [other for other in others if other != first])
        found[cell].append((line, column, f"recursion ({told})"))
    return found


def _tell_of_cycle(first: str, others: Sequence[str]) -> str:
    if not others:
        return f"`{first}` calls itself"
    if len(others) == 1:
        return f"`{first}` and `{others[0]}` call each other"
    through = " and ".join([", ".join(f"`{other}`" for other in others[:-1]), f"`{others[-1]}`"])
    return f"`{first}` calls itself by way of {through}"


def named_functions(
    tree: ast.AST, keys: dict[int, str] | None = None
) -> Iterator[tuple[str, ast.AST]]:
    """Return every function with its name; a method's is "Class.method".

    ``keys`` are the names of some of them, and of classes, by the ``id`` of their nodes.
    """
    keys = keys or {}
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        owner, node = waiting.pop()
        inner = ""
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{owner}.{name}" if owner else keys.get(id(node), name), node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                yield keys.get(id(node), name), function
            case ast.ClassDef(name=name):
                inner = keys.get(id(node), name)
            case _:
                inner = owner
        waiting += ((inner, child) for child in reversed(list(ast.iter_child_nodes(node))))


class _Versions:
    """The versions of the names that are bound at the cells' tops, and nowhere else.

    Attributes:
        uses: of the statements at the cells' tops, by the ``id`` of their nodes.
        modules: the names that stand for modules that keep nothing of the student's.
        all: each name's, where it has more than one.
        keys: of those that a statement binds alone, by its node's ``id``.
        places: where each is bound: cell, line and column.
    """

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.uses: dict[int, Uses] = {}
        self.all: dict[str, list[str]] = {}
        self.keys: dict[int, str] = {}
        self.places: dict[str, tuple[int, int, int]] = {}
        self._current: dict[str, str] = {}
        binders: dict[str, list[tuple[int, ast.stmt]]] = defaultdict(list)
        unknown: set[str] = set()
        for place, tree in enumerate(trees):
            for statement in tree.body:
                uses = self.uses[id(statement)] = find_uses_in(statement)
                for name in uses.bound:
                    binders[name].append((place, statement))
                    if name not in uses.firm or not isinstance(statement, _BINDING):
                        unknown.add(name)
                unknown |= {n for function in uses.functions.values() for n in function.changed}
        self.modules = known_modules(list(self.uses.values()))
        self._bound: dict[int, list[tuple[str, str]]] = defaultdict(list)
        for name, statements in binders.items():
            if len(statements) > 1 and name not in unknown:
                self._number(name, statements)

    def _number(self, name: str, statements: Sequence[tuple[int, ast.stmt]]) -> None:
        self.all[name] = []
        for number, (place, statement) in enumerate(statements, 1):
            key = f"{name}{_VERSION}{number}"
            self.all[name].append(key)
            self.places[key] = place, statement.lineno, statement.col_offset
            self._bound[id(statement)].append((name, key))
            if len(self.uses[id(statement)].bound) == 1:
                self.keys[id(statement)] = key

    def current(self, name: str) -> str:
        """Return the version that a name stands for, where it is certain."""
        return self._current.get(name, name)

    def pass_by(self, statement: ast.stmt) -> None:
        """Take notice that a statement was run."""
        self._current.update(self._bound.get(id(statement), ()))


@dataclass
class _Graph:
    """What leads to what, and where that is written: cell, line and column."""

    leads_to: dict[str, dict[str, tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    holders: set[str] = field(default_factory=set)

    def add(self, name: str, mentioned: str, cell: int, line: int, column: int) -> None:
        self.leads_to[name].setdefault(mentioned, (cell, line, column))

    def find_cycles(self) -> Iterator[tuple[str, str, list[str]]]:
        """Return the steps that lead back to where a way came from, with the way's first names."""
        finished: set[str] = set()
        for start in [name for name in self.leads_to if not name.startswith(_STATEMENT)]:
            if start in finished:
                continue
            way = [start]
            on_way = {start: 0}
            steps = [iter(self.leads_to[start])]
            while way:
                following = next(steps[-1], None)
                if following is None:
                    finished.add(way[-1])
                    del on_way[way.pop()]
                    steps.pop()
                elif following in on_way:
                    place = on_way[following]
                    yield way[-1], following, way[place : place + _MOST_TOLD]
                elif following not in finished:
                    on_way[following] = len(way)
                    way.append(following)
                    steps.append(iter(self.leads_to.get(following, ())))


def _add_classes(place: int, tree: ast.Module, versions: _Versions, graph: _Graph) -> None:
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            name = versions.keys.get(id(node), node.name)
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    graph.holders.add(name)
                    graph.add(name, f"{name}.{part.name}", place, node.lineno, node.col_offset)


def _add_statements(
    place: int, tree: ast.Module, versions: _Versions, names: set[str], graph: _Graph
) -> None:
    """Add the global names through which a function may be called, and the names of these."""
    for statement in tree.body:
        uses = versions.uses[id(statement)]
        if isinstance(statement, DEFINITIONS):
            versions.pass_by(statement)
            _add_global(place, statement, uses.bound.keys() - {statement.name}, names, graph)
            continue
        before = [(node, _meant(node, later, versions), later) for node, later in _loads(statement)]
        versions.pass_by(statement)
        kept = {
            c.name
            for c in uses.calls
            if c.method and not _keeps_nothing(c, versions.modules, names)
        }
        held = uses.bound.keys() | uses.changed | kept
        holders = {versions.current(name) for name in held}
        if not holders:
            continue
        is_alias = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name)
        group = f"{_STATEMENT}{len(graph.leads_to)}"
        for node, meant, later in before:
            is_mentioned = node.id in names or (is_alias and node.id in graph.holders)
            if (is_mentioned and meant not in holders) or (later and node.id in held):
                graph.add(group, meant, place, node.lineno, node.col_offset)
        for name in holders if group in graph.leads_to else ():
            graph.holders |= {name, _without_version(name)}
            graph.add(name, group, place, statement.lineno, statement.col_offset)


def _add_global(
    place: int, statement: ast.stmt, bound: set[str], names: set[str], graph: _Graph
) -> None:
    """Add what a function's body assigns to global names."""
    for node in walk(statement) if bound else ():
        if isinstance(node, ast.Assign):
            targets = [t.id for t in node.targets if isinstance(t, ast.Name) and t.id in bound]
            mentioned = {name.id for name, _ in _loads(node.value)} & names
            group = f"{_STATEMENT}{len(graph.leads_to)}"
            for name in mentioned if targets else ():
                graph.add(group, name, place, node.lineno, node.col_offset)
            for name in targets if mentioned else ():
                graph.holders.add(name)
                graph.add(name, group, place, node.lineno, node.col_offset)


def _keeps_nothing(call: Call, modules: set[str], names: set[str]) -> bool:
    """Return whether a module's function keeps no function of the student's."""
    if call.name not in modules or call.method.startswith("register"):
        return False
    return call.method in _WRAPPING or names.isdisjoint(call.handed)


def _meant(node: ast.Name, later: bool, versions: _Versions) -> str:
    return node.id if later else versions.current(node.id)


def _loads(statement: ast.stmt) -> Iterator[tuple[ast.Name, bool]]:
    """Return the names that a statement mentions, and whether it does so in a function's body."""
    waiting: list[tuple[ast.AST, bool]] = [(statement, False)]
    while waiting:
        node, later = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node, later
        later = later or isinstance(node, _LATER)
        waiting += ((child, later) for child in ast.iter_child_nodes(node))


def _mentions(name: str, function: ast.AST) -> Iterator[tuple[str, tuple[int, int]]]:
    """Return the functions that another one mentions, by the names that these go by."""
    owner = name.rpartition(".")[0]
    for node, own in _with_own_names(function):
        match node:
            case ast.Call(func=ast.Name(id="self")) if owner:
                for called in ("__call__", "forward"):
                    yield f"{owner}.{called}", (node.lineno, node.col_offset)
            case ast.Name(id=mentioned, ctx=ast.Load()) if mentioned not in own:
                yield mentioned, (node.lineno, node.col_offset)
            case ast.Attribute(value=ast.Name(id=known), attr=attribute):
                if owner and known in ("self", "cls", _without_version(owner)):
                    yield f"{owner}.{attribute}", (node.lineno, node.col_offset)


def _with_own_names(function: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    """Return what a function's body consists of, with the names that are no global ones there.

    A variable may have the name of the function that it is in. Functions defined in the body, and
    what it imports, keep their names: they may lead back.
    """
    waiting: list[tuple[ast.AST, set[str]]] = [(function, set())]
    while waiting:
        node, own = waiting.pop()
        if node is not function:
            yield node, own
        if isinstance(node, _FUNCTIONS):
            if node is not function:  # its decorators and defaults belong to what is around it
                around = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                around += getattr(node, "decorator_list", [])
                waiting += ((part, own) for part in around)
            own, parts = _inside(node, own)
        else:
            parts = list(ast.iter_child_nodes(node))
        if isinstance(node, _COMPREHENSIONS):
            own = own | {n for each in node.generators for n in stored_names(each.target)}
        waiting += ((part, own) for part in reversed(parts))


def _inside(function: ast.AST, own: set[str]) -> tuple[set[str], list[ast.AST]]:
    """Return the names that are no global ones in a function's body, and the body."""
    body = function.body if isinstance(function.body, list) else [function.body]
    names, declared = find_locals(body)
    parts = [part for statement in body for part in walk(statement)]
    names -= {part.name for part in parts if isinstance(part, DEFINITIONS)}
    names -= {n for part in parts if isinstance(part, ast.alias) for n in names_bound(part)}
    names |= {argument.arg for argument in all_arguments(function.args)}
    return (own | names) - declared, body


def _shown(name: str) -> str:
    return _without_version(name.rpartition(".")[2])


def _without_version(name: str) -> str:
    return name.partition(_VERSION)[0]
