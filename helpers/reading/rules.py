"""What an exercise asks its solution to do without: names, and loops.

A rule is read off the code that an exercise reaches. It holds for what can do the work: what a cell
only prints, asserts or loops over at its top, to try the solution out, is left alone, and so are
numbers that a library's function gives there: what an answer is compared with.
"""

from __future__ import annotations

import ast
import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set

from helpers.reading import tables
from helpers.reading.cells import Cell, parse
from helpers.reading.doubts import Doubt, Place, quoted
from helpers.reading.loops import find_carriers, find_loop, own_names
from helpers.reading.nodes import walk
from helpers.reading.own_attributes import find_own_attributes
from helpers.reading.tries import FILLING, find_tries
from helpers.reading.trust import Trust, find_trust, returns_numbers
from helpers.reading.uses import find_uses
from helpers.reading.words import words

__all__ = ["find_loop", "find_named"]

# The course's own functions that are given an exercise's name.
_ABOUT_EXERCISES = words("Check display failing hint print progress")
# What writes on figures and into logs: it keeps a text, and finds nothing by it.
_LABELING = words("""
    annotate bar barh debug error hist info label legend loglog plot scatter semilogx semilogy
    set_label set_title set_xlabel set_ylabel suptitle text title warning write xlabel ylabel
""")
_LABELS = words("label labels title xlabel ylabel")
# What finds something by the text of its name, and what leads to such a function.
_WAYS_TO_NAMES = words("getattr probes") | tables.BUILTINS | tables.OF_LIBRARIES | tables.ON_OBJECTS
# Modules that lead nowhere but by those names.
_HARMLESS_MODULES = words("""
    __future__ abc cmath collections copy dataclasses enum functools helpers itertools math
    matplotlib numbers numpy random statistics time torch typing warnings
""")


def find_named(
    cells: Sequence[Cell],
    patterns: Sequence[str],
    wanted: Iterable[str] = (),
    *,
    any_text: bool = True,
) -> Doubt | None:
    """Return the first place where the code names what fits one of ``patterns``.

    Patterns are those of files' names ("*softmax*"); upper and lower case are the same. A name
    counts as an attribute (``x.softmax``), an import, a text on its own (``"softmax"``), and alone
    where the code does not define it itself. It does not count where it is a student's own: an
    attribute that a class gives to ``self``, a method of that class. Nor does it count where it is
    assigned to: what does the work must be read from somewhere. Of ``wanted``, the names that the
    exercise asks for, what only tries them out is left alone.

    Without ``any_text``, a text counts only where it may find what has that name: beside
    ``getattr``, and anywhere if the code uses ``getattr`` otherwise, or what leads anywhere.
    """
    matches = re.compile("|".join(fnmatch.translate(p.lower()) for p in patterns) or "(?!)").match

    @functools.cache
    def fits(name: str) -> bool:
        return matches(name.lower()) is not None

    parsed = [parse(cell.code) for cell in cells]
    trees = [tree for tree in parsed if tree is not None]
    own = find_own_attributes(trees)
    trusted = find_trust(trees)
    carriers = find_carriers(trees) | FILLING
    looked_up = None if any_text else _find_texts_looked_up(trees)
    firm = {name for cell in cells for name in own_names(cell)}
    places: list[dict[int, Place]] = []
    for cell, tree in zip(cells, parsed, strict=True):
        if tree is not None:
            uses = find_uses(cell.code)
            foreign = {n for n in uses.at_once | uses.later if fits(n)} - firm
            ignored = own | _find_ignored(tree, trusted, carriers)
            places.append(dict(_find_names(tree, fits, foreign, ignored, looked_up)))
        else:
            places.append({})
    sources = {node for found in places for node in found}
    tries = find_tries(trees, wanted, sources, trusted) if sources else set()
    for cell, tree, found in zip(cells, parsed, places, strict=True):
        tried = {id(n) for part in _body(tree) if id(part) in tries for n in walk(part)}
        first = min((found[node] for node in found.keys() - tried), default=None)
        if first is not None:
            return Doubt(cell.label, first[0], first[2])
    return None


def _body(tree: ast.Module | None) -> list[ast.stmt]:
    return [] if tree is None else tree.body


def _find_texts_looked_up(trees: Sequence[ast.Module]) -> set[int] | None:
    """Return the texts by which ``getattr`` finds something; None if any text may be used for that.

    Whoever uses a part of torch, or of Python, that leads anywhere may hand it any text.
    """
    nodes = [node for tree in trees for node in walk(tree)]
    texts: set[int] = set()
    plain: set[int] = set()  # the function itself, where its text stands beside it
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Name(id="getattr") as function, args=[_, ast.Constant() as text, *_]
            ):
                texts.add(id(text))
                plain.add(id(function))
    lead_anywhere = (node for node in nodes if id(node) not in plain and _leads_anywhere(node))
    return None if any(lead_anywhere) else texts


def _leads_anywhere(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return _is_way_to_names(name)
        case ast.Import(names=some):
            return any(map(_is_way_in, (alias.name for alias in some)))
        case ast.ImportFrom(module=module, names=some):
            renamed = (alias.name for alias in some if alias.asname)
            names = (alias.name for alias in some if alias.name != "probes")
            return _is_way_in(module or "") or any(map(_is_way_to_names, (*renamed, *names)))
    return False


def _is_way_in(module: str) -> bool:
    first, *rest = module.split(".")
    return first not in _HARMLESS_MODULES or any(map(_is_way_to_names, rest))


def _is_way_to_names(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__") and name not in tables.SPECIAL_NAMES
    return is_special or name in _WAYS_TO_NAMES


def _find_names(
    tree: ast.AST,
    fits: Callable[[str], bool],
    foreign: set[str],
    ignored: set[int],
    looked_up: set[int] | None,
) -> Iterator[tuple[int, Place]]:
    for node in walk(tree):
        if id(node) in ignored:
            continue
        match node:
            case ast.Attribute(attr=name, ctx=ast.Load()) if fits(name):
                # A long chain of attributes begins where it ends.
                yield id(node), (node.end_lineno, node.end_col_offset, quoted(node))
            case ast.Name(id=name, ctx=ast.Load()) if name in foreign:
                yield id(node), (node.lineno, node.col_offset, f"`{name}`")
            case ast.Import(names=some) | ast.ImportFrom(names=some):
                module = getattr(node, "module", None) or ""
                for alias in some:
                    if any(map(fits, (*module.split("."), *alias.name.split(".")))):
                        full = f"{module}.{alias.name}" if module else alias.name
                        yield id(node), (node.lineno, node.col_offset, f"`{full}`")
            case ast.Constant(value=str(text)) if (
                looked_up is not None and id(node) not in looked_up
            ):
                continue
            case ast.Constant(value=str(text)) if _is_name(text) and any(
                map(fits, text.split("."))
            ):
                yield id(node), (node.lineno, node.col_offset, f'`"{text}"`')
            case ast.MatchClass(kwd_attrs=names):
                for name in filter(fits, names):
                    yield id(node), (node.lineno, node.col_offset, f"`.{name}`")


def _is_name(text: str) -> bool:
    return len(text) < 200 and all(part.isidentifier() for part in text.split("."))


def _find_ignored(tree: ast.Module, trusted: Trust | None, carriers: Set[str]) -> set[int]:
    """Return the texts that are not names, and the functions that are only called for show."""
    ignored: set[int] = set()
    for node in walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as text):
                ignored.add(id(text))
            case ast.JoinedStr(values=parts):
                ignored.update(id(part) for part in parts if isinstance(part, ast.Constant))
            case ast.Call(func=ast.Name(id=name), args=parts) if name in _ABOUT_EXERCISES:
                ignored.update(id(part) for part in parts if isinstance(part, ast.Constant))
            case ast.Call(func=ast.Attribute(attr=name), args=parts) if name in _LABELING:
                ignored.update(id(part) for part in parts if isinstance(part, ast.Constant))
            case ast.keyword(arg=name, value=ast.Constant() as text) if name in _LABELS:
                ignored.add(id(text))
    for statement in _run_at_once(tree.body) if trusted is not None else ():
        match statement:
            case ast.Assert(test=shown) | ast.Expr(value=ast.Call() as shown):
                ignored.update(
                    _called_for_show(shown, trusted.functions, trusted.methods, carriers)
                )
            case ast.Assign(targets=[ast.Name()], value=ast.Call(func=ast.Attribute() as called)):
                if returns_numbers(called):
                    ignored.add(id(called))
    return ignored


def _run_at_once(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Return the statements of a cell that stand in no function and in no class."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        statement = waiting.pop()
        if isinstance(statement, ast.For | ast.If | ast.With | ast.Try | ast.ExceptHandler):
            parts = ast.iter_child_nodes(statement)
            waiting += (part for part in parts if isinstance(part, ast.stmt | ast.ExceptHandler))
        else:
            yield statement


def _called_for_show(
    shown: ast.AST, showing: Set[str], comparing: Set[str], carriers: Set[str]
) -> Iterator[int]:
    """Return what is called on the way to a comparison or to a line of output.

    A function that is called here gives a result that nobody keeps, unless it is given one of the
    student's own, which may keep whatever it is given. What is handed to any other function might
    be kept, so whatever stands there counts.
    """
    waiting = [shown]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Lambda() | ast.NamedExpr():
                continue
            case ast.Call(keywords=some) if any(k.arg in ("key", None) for k in some):
                continue
            case ast.Call(func=ast.Name(id=name)):
                if name not in showing:
                    continue
            case ast.Call(func=ast.Attribute(attr=name)):
                if name not in comparing:
                    if not _is_given_code(node, carriers):
                        yield id(node.func)
                    continue
            case ast.Call(func=ast.Call() as function):
                waiting.append(function)
                continue
            case ast.Call():
                continue
        waiting += ast.iter_child_nodes(node)


def _is_given_code(call: ast.Call, carriers: Set[str]) -> bool:
    """Return whether a call is handed a function; what a function returns is none, as far as tries
    go.
    """
    waiting: list[ast.AST] = [*call.args, *call.keywords]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Lambda():
                return True
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in carriers:
                return True
            case ast.Call():
                waiting += (*node.args, *node.keywords)
                continue
        waiting += ast.iter_child_nodes(node)
    return False
