"""Where code walks through something, item by item."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from helpers.reading.cells import Cell, parse
from helpers.reading.doubts import Doubt, Place, quoted
from helpers.reading.uses import Uses, all_arguments, find_locals, find_uses, find_uses_in
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
# Other special methods run where nobody calls them: once for each item, if there are many.
_CALLED_ONCE = words("__call__ __init__ __new__ __post_init__")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def find_loop(cells: Sequence[Cell]) -> Doubt | None:
    """Return the first place where the code walks through something, item by item.

    That is a loop, a comprehension, a function such as ``map``, or one that calls itself.
    """
    own = {name for cell in cells for name in own_names(cell)}
    recursive = _find_recursion(cells)
    mentions = _count_mentions(cells)
    functions = _find_carriers([_tree(cell) for cell in cells])
    called_later = {name for cell in cells for name in find_uses(cell.code).later}
    for place, cell in enumerate(cells):
        tree = parse(cell.code)
        if tree is None:
            continue
        found = list(recursive[place])
        uses = find_uses(cell.code)
        walking = ((uses.at_once | uses.later) & _WALKING) - own
        for statement in _without_trials(tree, mentions):
            found += _find_loops(statement, walking)
            found += _find_handed_on(statement, functions)
            found += _find_made_up(statement, functions, called_later)
        if found:
            line, _, what = min(found)
            return Doubt(cell.label, line, what)
    return None


def own_names(cell: Cell) -> Iterator[str]:
    """Return the global names that a cell surely gives a meaning of its own."""
    uses = find_uses(cell.code)
    for name, how in uses.bound.items():
        is_import = any(h.startswith("import ") for h in how)
        if not is_import and (name in uses.firm or how & {"def", "class"}):
            yield name


def _find_loops(tree: ast.AST, walking: set[str]) -> Iterator[Place]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in walking:
                yield node.lineno, node.col_offset, f"`{name}`"
            case ast.Attribute(attr=name, ctx=ast.Load()) if name in _WALKING:
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
            case ast.FunctionDef(name=name) if name.startswith("__") and name not in _CALLED_ONCE:
                yield node.lineno, node.col_offset, f"the method `{name}`"
            case _ if type(node) in _LOOPS:
                yield node.lineno, node.col_offset, _LOOPS[type(node)]


def _find_handed_on(tree: ast.Module, functions: set[str]) -> Iterator[Place]:
    """Return where a function hands another one on: whoever gets it may call it for each item."""
    for outer in ast.walk(tree):
        if not isinstance(outer, ast.FunctionDef):
            continue
        given: list[ast.AST] = [*outer.args.defaults, *filter(None, outer.args.kw_defaults)]
        for node in (n for part in outer.body for n in ast.walk(part)):
            match node:
                case ast.Call(args=args, keywords=keywords):
                    given += (*args, *(keyword.value for keyword in keywords))
                case ast.Dict(values=values):
                    given += values
        for part in (p for one in given for p in _items(one)):
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


def _find_carriers(trees: Sequence[ast.AST]) -> set[str]:
    """Return the names of functions, and of what holds one: another name, a list, a dict, what a
    call makes of it.
    """
    carriers = {name.rpartition(".")[2] for tree in trees for name, _ in _named_functions(tree)}
    holders: dict[str, set[str]] = defaultdict(set)
    for node in (n for tree in trees for n in ast.walk(tree)):
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


def _tree(cell: Cell) -> ast.Module:
    return parse(cell.code) or ast.Module([], [])


def _without_trials(tree: ast.Module, mentions: Counter[str]) -> Iterator[ast.stmt]:
    """Return a cell's statements without loops at its top that only try the solution out.

    They define nothing and change nothing that stands anywhere else.
    """
    for statement in tree.body:
        uses = find_uses_in(statement)
        touched = {*uses.bound, *uses.changed}
        defines = any(isinstance(n, (*_DEFINITIONS, ast.Lambda)) for n in ast.walk(statement))
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        if defines or is_import or any(mentions[name] > 1 for name in touched):
            yield statement


def _count_mentions(cells: Sequence[Cell]) -> Counter[str]:
    """Return in how many statements at a cell's top each name stands."""
    mentions: Counter[str] = Counter()
    for cell in cells:
        tree = parse(cell.code)
        for statement in tree.body if tree is not None else ():
            nodes = ast.walk(statement)
            names = {n.id for n in nodes if isinstance(n, ast.Name)}
            names |= {n.name for n in ast.walk(statement) if isinstance(n, _DEFINITIONS)}
            mentions.update(names)
    return mentions


def _find_recursion(cells: Sequence[Cell]) -> list[list[Place]]:
    """Return, for each cell, where a function leads back to itself."""
    functions = [list(_named_functions(parse(cell.code))) for cell in cells]
    names = {name for some in functions for name, _ in some}
    classes = {name.partition(".")[0] for name in names}
    holders = [list(_find_holders(_tree(cell), names | classes)) for cell in cells]
    names |= {name for some in holders for name, _, _ in some}
    leads_to: dict[str, dict[str, tuple[int, int, int]]] = defaultdict(dict)
    for cell, held in enumerate(holders):
        for name, mentioned, (line, column) in held:
            if mentioned in names:
                leads_to[name].setdefault(mentioned, (cell, line, column))
    for cell, some in enumerate(functions):
        for name, function in some:
            for mentioned, (line, column) in _mentions(name, function):
                if mentioned in names:
                    leads_to[name].setdefault(mentioned, (cell, line, column))
    found: list[list[Place]] = [[] for _ in cells]
    for name, mentioned in _cycles(leads_to):
        cell, line, column = leads_to[name][mentioned]
        shown = mentioned.rpartition(".")[2]
        found[cell].append((line, column, f"recursion (`{shown}` calls itself)"))
    return found


def _find_holders(
    tree: ast.Module, functions: set[str]
) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Return the global names through which a function may be called, and the names of these."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield node.name, f"{node.name}.{part.name}", (node.lineno, node.col_offset)
    for statement in tree.body:
        if not isinstance(statement, _DEFINITIONS):
            uses = find_uses_in(statement)
            holders = uses.bound.keys() | uses.changed | _called_on(uses)
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and node.id in functions - holders:
                    for name in holders:
                        yield name, node.id, (node.lineno, node.col_offset)
                elif isinstance(node, ast.Lambda):
                    loads = (n for n in ast.walk(node.body) if isinstance(n, ast.Name))
                    for name in (n.id for n in loads if n.id in holders):
                        yield name, name, (node.lineno, node.col_offset)


def _called_on(uses: Uses) -> set[str]:
    return {call.name for call in uses.calls if call.method}


def _named_functions(tree: ast.AST | None) -> Iterator[tuple[str, ast.AST]]:
    """Return every function with its name; a method's is "Class.method"."""
    waiting: list[tuple[str, ast.AST]] = [] if tree is None else [("", tree)]
    while waiting:
        owner, node = waiting.pop()
        inner = ""
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{owner}.{name}" if owner else name, node
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as function):
                yield name, function
            case ast.ClassDef(name=name):
                inner = name
            case _:
                inner = owner
        waiting += ((inner, child) for child in reversed(list(ast.iter_child_nodes(node))))


def _mentions(name: str, function: ast.AST) -> Iterator[tuple[str, tuple[int, int]]]:
    """Return the functions that another one mentions, by the names that these go by."""
    body = function.body if isinstance(function.body, list) else [function.body]
    locals_ = {argument.arg for argument in all_arguments(function.args)}
    for part in body:
        if not isinstance(part, _DEFINITIONS):
            locals_ |= find_locals([part])[0]
    locals_ -= {part.name for part in ast.walk(function) if isinstance(part, _DEFINITIONS)}
    owner = name.rpartition(".")[0]
    for part in body:
        for node in ast.walk(part):
            match node:
                case ast.Call(func=ast.Name(id="self")) if owner:
                    for called in ("__call__", "forward"):
                        yield f"{owner}.{called}", (node.lineno, node.col_offset)
                case ast.Name(id=mentioned, ctx=ast.Load()) if mentioned not in locals_:
                    yield mentioned, (node.lineno, node.col_offset)
                case ast.Attribute(value=ast.Name(id=known), attr=attribute):
                    if owner and known in ("self", "cls", owner):
                        yield f"{owner}.{attribute}", (node.lineno, node.col_offset)


def _cycles(leads_to: dict[str, dict]) -> Iterator[tuple[str, str]]:
    """Return the steps that lead back to where a way came from."""
    finished: set[str] = set()
    for start in list(leads_to):
        if start in finished:
            continue
        way = [start]
        on_way = {start}
        steps = [iter(leads_to[start])]
        while way:
            following = next(steps[-1], None)
            if following is None:
                finished.add(way[-1])
                on_way.discard(way.pop())
                steps.pop()
            elif following in on_way:
                yield way[-1], following
            elif following not in finished:
                way.append(following)
                on_way.add(following)
                steps.append(iter(leads_to.get(following, ())))
