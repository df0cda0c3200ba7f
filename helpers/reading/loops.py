"""Where code walks through something, item by item."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from helpers.reading.cells import Cell, parse
from helpers.reading.doubts import Doubt, Place, quoted
from helpers.reading.handing import find_handed
from helpers.reading.nodes import walk
from helpers.reading.own_attributes import find_own_attributes
from helpers.reading.recursion import DEFINITIONS, find_recursion, named_functions
from helpers.reading.tries import find_tries
from helpers.reading.trust import find_trust
from helpers.reading.uses import find_uses, find_uses_in
from helpers.reading.words import words

_WALKING = words("""
    DataLoader Sequential accumulate apply_ apply_along_axis apply_over_axes dropwhile filter
    filterfalse fromfunction fromiter frompyfunc groupby iter map map2_ map_ ndenumerate ndindex
    nditer parallel_apply reduce starmap takewhile tree_map vectorize vmap
""")
_LOOPS = {
    ast.For: "a `for` loop",
    ast.AsyncFor: "a `for` loop",
    ast.While: "a `while` loop",
    ast.ListComp: "a comprehension",
    ast.SetComp: "a comprehension",
    ast.DictComp: "a comprehension",
    ast.GeneratorExp: "a comprehension",
}
_WORKING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)
_CALLED_ONCE = words("__call__ __init__ __new__ __post_init__")


def find_loop(cells: Sequence[Cell], wanted: Iterable[str] = ()) -> Doubt | None:
    """Return the first place where the code walks through something, item by item.

    That is a loop, a comprehension, a function such as ``map``, or one that calls itself. Functions
    that only try out what is ``wanted``, the names that the exercise asks for, are left alone.
    """
    own = {name for cell in cells for name in own_names(cell)}
    trees = [parse(cell.code) or ast.Module([], []) for cell in cells]
    mentions = _count_mentions(trees)
    functions = find_carriers(trees)
    handed = list(find_handed(trees, functions))
    found = find_recursion(trees, handed)
    known = {name.rpartition(".")[2] for tree in trees for name, _ in named_functions(tree)}
    own_attributes = find_own_attributes(trees)
    read = {
        id(one.part) for one in handed if isinstance(one.part, ast.Lambda) or one.part.id in known
    }
    called_later = {name for cell in cells for name in find_uses(cell.code).later}
    for cell, tree, places in zip(cells, trees, found, strict=True):
        uses = find_uses(cell.code)
        walking = ((uses.at_once | uses.later) & _WALKING) - own
        for statement in _without_trials(tree, mentions):
            places += _find_loops(statement, walking, own_attributes)
            places += _find_handed_on(statement, functions, read)
            places += _find_made_up(statement, functions, called_later)
    tries = _find_tries(trees, wanted) if any(found) else set()
    for cell, tree, places in zip(cells, trees, found, strict=True):
        lines = {n for part in tree.body if id(part) in tries for n in _lines(part)}
        first = min((place for place in places if place[0] not in lines), default=None)
        if first is not None:
            return Doubt(cell.label, first[0], first[2])
    return None


def _find_tries(trees: Sequence[ast.Module], wanted: Iterable[str]) -> set[int]:
    """Return the functions and classes, by ``id``, that only try out what is wanted."""
    nodes = [node for tree in trees for node in walk(tree)]
    sources = {id(node) for node in nodes if isinstance(node, _WORKING) or _walks(node)}
    tries = find_tries(trees, wanted, sources, find_trust(trees))
    return {
        id(statement)
        for tree in trees
        for statement in tree.body
        if id(statement) in tries and isinstance(statement, DEFINITIONS)
    }


def _walks(node: ast.AST) -> bool:
    name = getattr(node, "id", getattr(node, "attr", ""))
    return isinstance(node, ast.Name | ast.Attribute) and name in _WALKING


def _lines(statement: ast.stmt) -> range:
    return range(statement.lineno, statement.end_lineno + 1)


def own_names(cell: Cell) -> Iterator[str]:
    """Return the global names that a cell surely gives a meaning of its own."""
    uses = find_uses(cell.code)
    for name, how in uses.bound.items():
        is_import = any(h.startswith("import ") for h in how)
        if not is_import and (name in uses.firm or how & {"def", "class"}):
            yield name


def find_hidden_loop(cells: Sequence[Cell]) -> Doubt | None:
    """Return the first special method, which is called without its name, and once for each item if
    a library's function is given many: whether that is a loop, a person must see.
    """
    for cell in cells:
        for node in walk(parse(cell.code) or ast.Module([], [])):
            match node:
                case ast.FunctionDef(name=name) if (
                    name.startswith("__") and name not in _CALLED_ONCE
                ):
                    return Doubt(cell.label, node.lineno, f"the method `{name}`")
    return None


def _find_loops(tree: ast.AST, walking: set[str], own: set[int]) -> Iterator[Place]:
    for node in walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in walking:
                yield node.lineno, node.col_offset, f"`{name}`"
            case ast.Attribute(attr=name, ctx=ast.Load()) if (
                name in _WALKING and id(node) not in own
            ):
                yield node.end_lineno, node.end_col_offset, quoted(node)
            case ast.ImportFrom(names=some):
                for alias in some:
                    if alias.name in _WALKING:
                        yield node.lineno, node.col_offset, f"`{alias.name}`"
            case ast.Call(func=called, keywords=some) if any(k.arg == "key" for k in some):
                yield (
                    node.lineno,
                    node.col_offset,
                    f"{quoted(called)} with a `key`",
                )
            case ast.FunctionDef(name="__iter__" | "__next__" as name):
                yield node.lineno, node.col_offset, f"the method `{name}`"
            case _ if type(node) in _LOOPS:
                yield node.lineno, node.col_offset, _LOOPS[type(node)]


def _find_handed_on(tree: ast.AST, functions: set[str], read: set[int]) -> Iterator[Place]:
    """Return where a function hands another one on: whoever gets it may call it for each item.

    ``read`` are the places, by ``id``, from which a function of the code's own gets it, and only
    calls it: that code is read.
    """
    for outer in walk(tree):
        if not isinstance(outer, ast.FunctionDef):
            continue
        given: list[ast.AST] = [*outer.args.defaults, *filter(None, outer.args.kw_defaults)]
        for node in (n for part in outer.body for n in walk(part)):
            match node:
                case ast.Call(args=args, keywords=keywords):
                    given += (*args, *(keyword.value for keyword in keywords))
                case ast.Dict(values=values):
                    given += values
        for part in (p for one in given for p in _items(one)):
            if id(part) in read:
                continue
            if isinstance(part, ast.Lambda):
                yield part.lineno, part.col_offset, "a function that is handed on"
            elif name := _carried_by(part, functions):
                yield part.lineno, part.col_offset, f"`{name}`, handed on"


def _find_made_up(statement: ast.stmt, functions: set[str], called: set[str]) -> Iterator[Place]:
    """Return where another function is made of one that it is given beside others; not where a
    function is wrapped, or gets its first arguments.
    """
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(args=[_, *args], keywords=keywords)
        ) if name in called:
            given = [*args, *(keyword.value for keyword in keywords)]
            for part in (p for one in given for p in _items(one)):
                if carrier := _carried_by(part, functions):
                    yield part.lineno, part.col_offset, f"`{carrier}`, handed on"


def find_carriers(trees: Sequence[ast.AST]) -> set[str]:
    """Return the names of functions, and of what holds one: another name, a list, a dict, what a
    call makes of it.
    """
    carriers = {name.rpartition(".")[2] for tree in trees for name, _ in named_functions(tree)}
    holders: dict[str, set[str]] = defaultdict(set)
    for node in (n for tree in trees for n in walk(tree)):
        match node:
            case ast.Assign(targets=[target], value=value) if not isinstance(value, ast.Lambda):
                name = getattr(target, "id", getattr(target, "attr", ""))
                for held in _held(value):
                    holders[held].add(name)
    waiting = list(carriers)
    while waiting:
        new = holders[waiting.pop()] - carriers - {""}
        carriers |= new
        waiting += new
    return carriers


def _held(value: ast.AST) -> Iterator[str]:
    """Return the names of what an expression holds, other than by calling it."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        match part:
            case ast.Name(id=name):
                yield name
            case ast.Attribute(attr=name):
                yield name
            case ast.Call(args=args, keywords=keywords):
                waiting += (*args, *(keyword.value for keyword in keywords))
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() | ast.IfExp() | ast.BoolOp():
                waiting += ast.iter_child_nodes(part)
            case ast.Starred(value=inner):
                waiting.append(inner)


def _carried_by(part: ast.AST, functions: set[str]) -> str:
    """Return the name of the function, or of what holds it, that an expression hands on."""
    while isinstance(part, ast.Subscript):
        part = part.value
    match part:
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in functions:
            return name
    return ""


def _items(node: ast.AST) -> Iterator[ast.AST]:
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.List | ast.Tuple):
            waiting += part.elts
        elif isinstance(part, ast.Dict):
            waiting += part.values
        else:
            yield part.value if isinstance(part, ast.Starred) else part


def _without_trials(tree: ast.Module, mentions: Counter[str]) -> Iterator[ast.stmt]:
    """Return a cell's statements without loops at its top that only try the solution out.

    They define nothing and change nothing that stands anywhere else.
    """
    for statement in tree.body:
        uses = find_uses_in(statement)
        touched = {*uses.bound, *uses.changed}
        defines = any(isinstance(n, (*DEFINITIONS, ast.Lambda)) for n in walk(statement))
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        if defines or is_import or any(mentions[name] > 1 for name in touched):
            yield statement


def _count_mentions(trees: Sequence[ast.Module]) -> Counter[str]:
    """Return in how many statements at a cell's top each global name stands."""
    mentions: Counter[str] = Counter()
    for tree in trees:
        for statement in tree.body:
            uses = find_uses_in(statement)
            mentions.update({*uses.at_once, *uses.later, *uses.bound, *uses.changed})
    return mentions
