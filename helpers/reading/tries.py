"""Which statements at a cell's top only try an answer out: what they use does none of its work.

The answer is what is asked for, and every statement that binds or changes what the answer uses.
All others are tries, as long as no function that a rule forbids can get from them to the answer.
So each forbidden name in a try is followed: what it is assigned to, what it is handed to. Numbers
that a library's function returns may go anywhere. If anything else is handed to what might keep
it, or stored where the answer might find it, nothing is taken for a try. Nor if what is forbidden
is given code of the student's: it may hand anything to that.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from helpers.reading.doubts import dotted
from helpers.reading.nodes import walk
from helpers.reading.reach import find_changers
from helpers.reading.scopes import all_arguments
from helpers.reading.trust import (
    OF_ARRAYS,
    OF_CLASSES,
    OF_TESTS,
    Trust,
    known_libraries,
    known_modules,
    returns_numbers,
)
from helpers.reading.uses import Uses, find_uses_in
from helpers.reading.words import words

_OF_TENSORS = OF_ARRAYS - {"np"}  # an array may hold functions
FILLING = words("add append extend insert update")
_HARMLESS_DECORATORS = words("""
    classmethod enable_grad inference_mode no_grad parametrize property staticmethod
""")
# Statements of other kinds are never taken for a try.
_UNDERSTOOD = (
    ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.Break, ast.ClassDef, ast.Continue,
    ast.Delete, ast.ExceptHandler, ast.Expr, ast.For, ast.FunctionDef, ast.Global, ast.If,
    ast.Import, ast.ImportFrom, ast.Nonlocal, ast.Pass, ast.Raise, ast.Return, ast.Try, ast.While,
    ast.With,
)  # fmt: skip


def find_tries(
    trees: Sequence[ast.Module], wanted: Iterable[str], sources: Set[int], trust: Trust | None
) -> set[int]:
    """Return the statements, by ``id``, that only try out what is ``wanted``.

    Args:
        trees: of the cells that the answer reaches.
        wanted: the names that the exercise asks for.
        sources: the ``id`` of the nodes that name what is forbidden.
        trust: in whom; in nobody where operators may be the student's own.
    """
    statements = [statement for tree in trees for statement in tree.body]
    uses = [find_uses_in(statement) for statement in statements]
    needed = _find_needed(uses, wanted)
    tries = [one for place, one in enumerate(statements) if place not in needed]
    if trust is None or not needed or not tries:
        return set()
    flow = _Flow(sources, trust, known_libraries(uses))
    bound = {name for place in needed for name in uses[place].bound}
    used = {n for place in needed for n in uses[place].at_once | uses[place].later}
    flow.read(tries, bound | used)
    # Of two cells with the same text there is one tree.
    return (
        {id(one) for one in tries} - {id(statements[n]) for n in needed}
        if not flow.leaks
        else set()
    )


def _find_needed(uses: Sequence[Uses], wanted: Iterable[str]) -> set[int]:
    """Return the places of the statements that the wanted names use; none if nothing binds one.

    A module's function changes nothing of the module, which the answer may use as well.
    """
    by_name: dict[str, list[int]] = defaultdict(list)
    for place, of_statement in enumerate(uses):
        for name in of_statement.bound:
            by_name[name].append(place)
    waiting = list(wanted)
    if not any(name in by_name for name in waiting):
        return set()
    modules = known_modules(uses)
    for name, places in find_changers(uses, range(len(uses)), set(waiting)).items():
        is_module = name in modules
        by_name[name] += [n for n in places if not is_module or name in uses[n].changed]
    needed = {place for place, of_statement in enumerate(uses) if of_statement.imports_all}
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for place in by_name.get(name, ()):
            if place not in needed:
                needed.add(place)
                waiting += uses[place].at_once | uses[place].later | uses[place].changed
    return needed


@dataclass
class _Flow:
    """Where what is forbidden gets to, among statements that might be tries."""

    sources: Set[int]
    trust: Trust
    libraries: Set[str]
    leaks: bool = False
    tainted: set[str] = field(default_factory=set)
    coded: set[str] = field(default_factory=set)

    def read(self, tries: Sequence[ast.stmt], shared: Set[str]) -> None:
        """Follow it; ``shared`` are the names that the answer uses or binds."""
        nodes = [node for statement in tries for node in walk(statement)]
        if not any(id(node) in self.sources for node in nodes):
            return
        self._shared = shared
        self._bound = Counter(name for node in nodes for name in _bound(node))
        own = {name for name, count in self._bound.items() if count == 1} - shared
        functions = [one for one in tries if isinstance(one, ast.FunctionDef)]
        self._functions = {one.name: one for one in functions if one.name in own}
        self._lists = _find_lists(nodes) & own
        bindings = [binding for node in nodes for binding in self._bindings(node)]
        self.tainted = self._spread(bindings, self._is_source, frozenset())
        self._own_code = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
        self.coded = self._spread(bindings, _is_lambda, self._own_code | shared)
        self.leaks = any(self._leaks(node) for node in nodes)

    def _spread(
        self,
        bindings: Sequence[tuple[list[str], list[ast.AST]]],
        is_it: Callable[[ast.AST], bool],
        names_of_it: Set[str],
    ) -> set[str]:
        """Return all names that may stand for it, or hold it."""
        reached = set(names_of_it)
        bound_by: dict[str, list[str]] = defaultdict(list)  # the names that a name hands on to
        for names, values in bindings:
            found = [name for value in values for name in self._found(value, is_it)]
            if "" in found:
                reached.update(names)
            group = f"={len(bound_by)}"
            bound_by[group] = names
            for name in found:
                bound_by[name].append(group)
        waiting = list(reached)
        while waiting:
            new = [name for name in bound_by.get(waiting.pop(), ()) if name not in reached]
            reached.update(new)
            waiting += new
        return reached

    def _found(self, value: ast.AST, is_it: Callable[[ast.AST], bool]) -> Iterator[str]:
        """Return the names whose objects a value may hold; "" for what is looked for."""
        waiting = [value]
        while waiting:
            node = waiting.pop()
            if self._is_numbers(node):
                continue
            if is_it(node):
                yield ""
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id
            waiting += ast.iter_child_nodes(node)

    def _is_clean(self, *values: ast.AST | None) -> bool:
        given = [value for value in values if value is not None]
        found = (name for value in given for name in self._found(value, self._is_source))
        return not any(name == "" or name in self.tainted for name in found)

    def _is_source(self, node: ast.AST) -> bool:
        return id(node) in self.sources

    def _holds_code(self, *values: ast.AST) -> bool:
        found = (name for value in values for name in self._found(value, _is_lambda))
        return any(name == "" or name in self.coded for name in found)

    def _is_numbers(self, node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and self._is_of_library(node.func)
            and returns_numbers(node.func, _OF_TENSORS)
        )

    def _is_of_library(self, called: ast.AST) -> bool:
        return dotted(called).split(".")[0] in self.libraries

    # What is assigned to what

    def _bindings(self, node: ast.AST) -> Iterator[tuple[list[str], list[ast.AST]]]:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield self._stored(targets), [value]
            case ast.AnnAssign(target=target, value=ast.AST() as value):
                yield self._stored([target]), [value]
            case ast.NamedExpr(target=target, value=value):
                yield self._stored([target]), [value]
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield self._stored([target]), [value]
            case ast.withitem(context_expr=value, optional_vars=ast.AST() as target):
                yield self._stored([target]), [value]
            case ast.FunctionDef(name=name, args=arguments):
                yield [name], [node]
                yield from _defaults(arguments)
            case ast.Lambda(args=arguments):
                yield from _defaults(arguments)
            case ast.ClassDef(name=name):
                yield [name, *(["self"] if not self._is_below_shared(node) else [])], [node]
            case ast.Import(names=some) | ast.ImportFrom(names=some) if id(node) in self.sources:
                yield [alias.asname or alias.name.split(".")[0] for alias in some], [node]
            case ast.Call():
                yield from self._handed(node)

    def _stored(self, targets: Sequence[ast.AST]) -> list[str]:
        """Return the names that are assigned to, and those of lists of which an item is."""
        nodes = [node for target in targets for node in walk(target)]
        names = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        return names + [root for node in nodes for root in [self._list_of(node)] if root]

    def _list_of(self, node: ast.AST) -> str:
        match node:
            case ast.Subscript(value=ast.Name(id=name)) if name in self._lists:
                return name
            case ast.Attribute(value=ast.Name(id="self")):
                return "self"
        return ""

    def _handed(self, call: ast.Call) -> Iterator[tuple[list[str], list[ast.AST]]]:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        match call.func:
            case ast.Name(id=name) if name in self._functions:
                arguments = self._functions[name].args
                names = [argument.arg for argument in all_arguments(arguments)]
                is_open = any(isinstance(part, ast.Starred) for part in call.args)
                if is_open or arguments.vararg or len(call.args) > len(names):
                    yield names, given
                    return
                for name, part in zip(names, call.args, strict=False):
                    yield [name], [part]
                for keyword in call.keywords:
                    is_known = keyword.arg in names
                    yield [keyword.arg] if is_known else names, [keyword.value]
            case ast.Attribute(value=ast.Name(id=name), attr=method):
                if name in self._lists and method in FILLING:
                    yield [name], given

    def _is_below_shared(self, node: ast.ClassDef) -> bool:
        return any(dotted(base).split(".")[0] in self._shared for base in node.bases)

    # What leads out

    def _leaks(self, node: ast.AST) -> bool:
        match node:
            case ast.stmt() | ast.ExceptHandler() if not isinstance(node, _UNDERSTOOD):
                return True
            case ast.FunctionDef() | ast.ClassDef():
                return not all(map(self._is_harmless, node.decorator_list)) or (
                    isinstance(node, ast.ClassDef)
                    and self._is_below_shared(node)
                    and not self._is_clean(node)
                )
            case ast.Assign(targets=targets, value=value):
                return self._leaks_into(targets, value)
            case ast.AnnAssign(target=target, value=value):
                return self._leaks_into([target], value)
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                return self._leaks_into([target], value)
            case ast.withitem(context_expr=value, optional_vars=ast.AST() as target):
                return self._leaks_into([target], value)
            case ast.AugAssign(value=value) | ast.Subscript(slice=value):
                return not self._is_clean(value)
            case ast.Raise() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return not self._is_clean(node)
            case ast.Assert(msg=ast.AST() as message):
                return not self._is_clean(message)
            case ast.Call():
                return self._leaks_by_call(node)
        return False

    def _leaks_into(self, targets: Sequence[ast.AST], value: ast.AST | None) -> bool:
        """Return whether what is forbidden is stored in an object that is not made here."""
        stores = [
            node
            for target in targets
            for node in walk(target)
            if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store)
        ]
        return any(not self._list_of(node) for node in stores) and not self._is_clean(value)

    def _leaks_by_call(self, call: ast.Call) -> bool:
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if self._is_numbers(call):
            if any(_is_lambda(one) or getattr(one, "id", "") in self._own_code for one in given):
                return True
        elif self._holds_code(*given) and not self._is_clean(call.func):
            return True
        is_plain = not any(keyword.arg in ("key", None) for keyword in call.keywords)
        return not (is_plain and self._keeps_nothing(call.func)) and not self._is_clean(*given)

    def _keeps_nothing(self, called: ast.AST) -> bool:
        match called:
            case ast.Name(id=name):
                is_python = name in self.trust.functions and name not in self._bound
                return is_python or name in self._functions
            case ast.Attribute(value=value, attr=name):
                if name in self.trust.methods or self._is_filled_here(value, name):
                    return True
                if not self._is_of_library(called):
                    return False
                library = dotted(value)
                is_class = library in OF_CLASSES and name[:1].isupper()
                is_array = returns_numbers(called, _OF_TENSORS)
                return is_class or is_array or library in OF_TESTS
        return False

    def _is_filled_here(self, value: ast.AST, method: str) -> bool:
        return isinstance(value, ast.Name) and value.id in self._lists and method in FILLING

    def _is_harmless(self, decorator: ast.AST) -> bool:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        first, _, last = dotted(called).rpartition(".")
        known = not first or first.split(".")[0] in self.libraries | {"pytest"}
        return known and last in _HARMLESS_DECORATORS and last not in self._bound


def _is_lambda(node: ast.AST) -> bool:
    return isinstance(node, ast.Lambda)


def _find_lists(nodes: Sequence[ast.AST]) -> set[str]:
    """Return the names that a list, a set or a dict is assigned to where it is made."""
    return {
        node.targets[0].id
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.ListComp)
    }


def _defaults(arguments: ast.arguments) -> Iterator[tuple[list[str], list[ast.AST]]]:
    values = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    if values:
        yield [argument.arg for argument in all_arguments(arguments)], values


def _bound(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.alias():
            yield node.asname or node.name.split(".")[0]
