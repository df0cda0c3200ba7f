"""What the names in students' code stand for, as far as they were imported."""

from __future__ import annotations

import ast
import builtins
import functools
import re
import sys
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set

import helpers
from helpers.reading import tables
from helpers.reading.nodes import walk
from helpers.reading.scopes import names_bound
from helpers.reading.texts import Texts


def chain_of(node: ast.AST) -> tuple[str, list[str]]:
    """Return the name that a name with dots begins with, "" if it is none, and the parts behind."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id if isinstance(node, ast.Name) else ""), attributes[::-1]


class Names:
    """The names of some cells.

    Attributes:
        own: global names that the code binds itself, other than by an import.
        own_classes: the classes that it defines.
        selves: nodes, by ``id``, that stand for an object of a student's own class.
        own_attributes: names of the methods that it defines, and of attributes that it assigns.
        hands_on_classes: whether it hands a library's class to a function of its own.
        imported: what is bound by an import.
        runs_annotations: whether it uses what runs texts in annotations, to look at a type.
        names_storages: whether it names what leads to a tensor's storage.
        meanings: the most imports that one name stands for: which of them holds, nobody can read.
    """

    def __init__(
        self,
        given: Sequence[ast.Module],
        own: Sequence[ast.Module],
        selves: Set[int] = frozenset(),
        choice: int = 0,
    ) -> None:
        """Read the course's trees, ``given``, and the student's ``own``; ``selves`` are the nodes,
        by ``id``, that stand for an object of a student's own class. A name that stands for several
        imports stands for the one of number ``choice``.
        """
        self.selves = selves
        self._paths: dict[str, list[str]] = {}
        self._choice = choice
        self._modules: set[str] = set()
        self._aliases: set[ast.AST] = set()
        self.own: set[str] = set()
        self.own_classes: set[str] = set()
        self.own_attributes: set[str] = set()
        self._constants: dict[str, list[ast.AST]] = defaultdict(list)
        self._plain_texts: dict[tuple[str, Callable], bool] = {}
        self._trees = (*given, *own)
        self._mentioned: set[str] = set()
        self._said: list[str] = []  # texts
        self.names_storages = self.runs_annotations = False
        self._given_names = {name for tree in given for name in _names_in(tree)}
        nodes = [node for tree in self._trees for node in _naming(tree)]
        for node in nodes:
            self._read_import(node)
        self.imported = set(self._paths)
        self._read_aliases(nodes)
        self._paths = {name: self._in_order(paths) for name, paths in self._paths.items()}
        self.meanings = max(map(len, self._paths.values()), default=1)
        for tree in own:
            self._read_own(tree)
        self.hands_on_classes = any(map(self._hands_on_a_class, own))

    def path(self, name: str, attributes: Sequence[str] = ()) -> str:
        """Return what a global name stands for, ``torch.nn`` for ``nn``; "" if it is no import."""
        paths = self._paths.get(name, [""])
        return self._path_behind(paths[self._choice % len(paths)], attributes)

    def _path_behind(self, path: str, attributes: Sequence[str]) -> str:
        for attribute in attributes if path else ():
            path = self.part(path, attribute)
        return path

    def part(self, path: str, attribute: str) -> str:
        """Return the path of a part; a path does not go on forever.

        A module that a library holds by another name has its own path: ``nn.functional.torch`` is
        ``torch``.
        """
        part = path if len(path) > 120 else f"{path}.{attribute}"
        return _module_at(part) or part

    def is_module(self, path: str) -> bool:
        """Return whether a path is that of a module."""
        return path in self._modules or path in tables.MODULES or bool(_module_at(path))

    def all_texts(self, name: str, is_plain: Callable[[ast.AST], bool]) -> bool:
        """Return whether all that is assigned to a name is plain, and anything is."""
        known = self._plain_texts.get((name, is_plain))
        if known is None:
            texts = self._constants.get(name, [])
            known = self._plain_texts[name, is_plain] = bool(texts) and all(map(is_plain, texts))
        return known

    def is_free(self, name: str) -> bool:
        """Return whether a name stands in one import and nowhere else, nor in the course's code."""
        taken = self._mentioned | self._given_names | set(dir(builtins))
        is_in_a_text = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)[ \t]*[.(\[]").search
        return (
            name not in taken
            and len(self._paths.get(name, ())) < 2
            and not any(map(is_in_a_text, self._said))
        )

    def is_bound_to_values(self, name: str) -> bool:
        """Return whether a name may stand for anything but imports, classes and built-in ones."""
        return name in self._values or name not in (self._types | self._paths.keys())

    @functools.cached_property
    def _values(self) -> set[str]:
        nodes = (node for tree in self._trees for node in walk(tree))
        others = (node for node in nodes if not isinstance(node, ast.ClassDef | ast.alias))
        return {name for node in others for name in names_bound(node)}

    @functools.cached_property
    def _types(self) -> set[str]:
        nodes = (node for tree in self._trees for node in walk(tree))
        return {n.name for n in nodes if isinstance(n, ast.ClassDef)} | set(dir(builtins))

    def texts(self, node: ast.AST) -> list[str] | None:
        """Return the texts that an expression can be; None if it may be anything else."""
        return self._texts.of(node) if isinstance(node, ast.Name) else None

    @functools.cached_property
    def _texts(self) -> Texts:
        return Texts(self._trees, self.selves)

    def is_assigned(self, name: str) -> bool:
        """Return whether a value is assigned to a name anywhere."""
        return name in self._constants

    def bound_to_paths(self, body: Sequence[ast.AST]) -> set[str]:
        """Return the names that a function's body binds to imports."""
        found = set()
        for part in body:
            for node in walk(part):
                if isinstance(node, ast.Import | ast.ImportFrom):
                    found |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
                elif node in self._aliases:
                    found.add(node.targets[0].id)
        return found

    def doubt_of_import(self, module: str, name: str = "") -> str:
        """Return what is not plain about an import, "" if it is plain."""
        shown = f"`from {module} import {name}`" if name else f"`import {module}`"
        first, *rest = module.split(".")
        if not first:
            return shown
        if not tables.is_known(first) and first not in (*tables.LIBRARIES, "helpers"):
            return ""  # not installed: it fails
        if first not in _FIRST_PARTS:
            return shown
        path = first
        for part in rest:
            if not self.has_plain_part(path, part):
                return shown
            path = f"{path}.{part}"
        if name == "*" and path in tables.PARTS:
            return shown if self._uses_more_of(path) else ""
        is_plain = self.has_plain_part(path, name) if name else _is_plain_module(path)
        return "" if is_plain else shown

    def _uses_more_of(self, path: str) -> bool:
        """Return whether a name may come from a star import and not be plain."""
        bound = {name for tree in self._trees for part in walk(tree) for name in names_bound(part)}
        known = bound | tables.PARTS[path] | self._paths.keys() | set(dir(builtins))
        return not self._mentioned <= known

    def has_plain_part(self, path: str, name: str) -> bool:
        """Return whether a part of something that was imported is plain."""
        first = path.split(".")[0]
        if path == "helpers":
            return name in helpers.__all__ and name != "probes"
        if path in tables.PARTS:
            return name in tables.PARTS[path]
        if name.startswith("__"):
            return name in tables.SPECIAL_NAMES
        if name.startswith("_"):
            return name in tables.PRIVATE_PARTS
        if name in tables.ON_OBJECTS and f"{path}.{name}" not in tables.MODULES:
            return False
        if first == "PIL":
            return name not in tables.OF_LIBRARIES - {"script"}
        if first in tables.LIBRARIES:
            is_module = f"{path}.{name}" in tables.MODULES
            return (
                is_module
                or (name not in tables.OF_LIBRARIES and name != "*")
                or (name == "*" and path in _ALL_PLAIN)
            )
        if path in tables.WHOLE:
            return name not in tables.OF_LIBRARIES or name == path
        return True

    def _is_own(self, node: ast.AST) -> bool:
        """Return whether it is a class, a function or an object of the student's own."""
        match node:
            case ast.Name(id="self" | "cls" | "ctx"):
                return True
            case ast.Name(id=name) if name in self._defined:
                return True
        return id(node) in self.selves

    @functools.cached_property
    def _defined(self) -> set[str]:
        nodes = (node for tree in self._trees for node in walk(tree))
        return {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}

    def _hands_on_a_class(self, tree: ast.Module) -> bool:
        for node in walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name), args=parts) if name in self.own:
                    for path in (self.path(*chain_of(part)) for part in parts):
                        if path.rpartition(".")[2][:1].isupper():
                            return True
        return False

    def _read_import(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=some):
                for alias in some:
                    first = alias.name.split(".")[0]
                    path = alias.name if alias.asname else first
                    self._bind(alias.asname or first, path)
                    self._modules.add(path)
            case ast.ImportFrom(module=str(module), names=some):
                for name, part in _imported(module, some):
                    self._bind(name, self.part(module, part))

    def _read_aliases(self, nodes: Sequence[ast.AST]) -> None:
        """Read what names are assigned that stand for imports, in whatever order that is done."""
        assigned: dict[str, list[ast.Assign]] = defaultdict(list)
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Attribute() | ast.Name()):
                    first, _ = chain_of(node.value)
                    if first != name:
                        assigned[first].append(node)
        waiting = list(self._paths)
        while waiting:
            first = waiting.pop()
            for node in assigned[first]:
                name = node.targets[0].id
                _, attributes = chain_of(node.value)
                self._aliases.add(node)
                for path in list(self._paths[first]):
                    if self._bind(name, self._path_behind(path, attributes)):
                        waiting.append(name)

    def _bind(self, name: str, path: str) -> bool:
        """Note what a name stands for; return whether that is new."""
        known = self._paths.setdefault(name, [])
        is_new = path not in known and len(known) < _MOST_MEANINGS
        if is_new:
            known.append(path)
        return is_new

    def _in_order(self, paths: list[str]) -> list[str]:
        """Return what a name may stand for; first what says more about what is allowed."""
        # An import of what is not installed fails, and leaves the name as it was.
        found = [path for path in paths if tables.is_known(path.split(".")[0])] or paths
        modules = [path for path in found if self.is_module(path)]
        chosen = (modules or found)[-1]
        return [chosen, *(path for path in found if path != chosen)]

    def _read_own(self, tree: ast.Module) -> None:
        for node in walk(tree):
            match node:
                case ast.Name(id=name):
                    self._mentioned.add(name)
                case ast.FunctionDef(name=name):
                    self.own_attributes.add(name)
                case ast.Attribute(value=owner, attr=name, ctx=ast.Store()):
                    # What is given to a foreign object may be that object's own already.
                    if not name.startswith("_") or self._is_own(owner):
                        self.own_attributes.add(name)
                case ast.ClassDef(name=name):
                    self.own_classes.add(name)
                    self.own_attributes.update(_assigned(node.body))
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self._constants[name].append(node.value)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                self._said.append(node.value)
            self.names_storages = self.names_storages or _names_a_storage(node)
            self.runs_annotations = self.runs_annotations or _looks_at_annotations(node)
        self.own.update(_bound_at_top(tree.body))


def _names_in(tree: ast.Module) -> Iterator[str]:
    for node in walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name.split(".")[0]


def _looks_at_annotations(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.alias(name=name):
            return name.startswith("singledispatch")
    return False


def _names_a_storage(node: ast.AST) -> bool:
    match node:
        case (
            ast.Attribute(attr=name)
            | ast.Name(id=name)
            | ast.Constant(value=str(name))
            | ast.alias(name=name)
        ):
            return name.endswith(("storage", "Storage"))
    return False


_MOST_MEANINGS = 8  # imports by one name: beyond that nobody means it
# What libraries that are not loaded hold by names that mean nothing else.
_HELD = {"mpl": "matplotlib", "np": "numpy", "plt": "matplotlib.pyplot"}


@functools.lru_cache(maxsize=4096)
def _module_at(path: str) -> str:
    """Return the name of the module that a path of a library leads to, "" if it leads to none."""
    first, *rest = path.split(".")
    if first not in tables.LIBRARIES:
        return ""
    if rest and rest[-1] in _HELD:
        return _HELD[rest[-1]]
    found = sys.modules.get(first)
    for part in rest:
        found = vars(found).get(part) if isinstance(found, types.ModuleType) else None
    return found.__name__ if isinstance(found, types.ModuleType) else ""


# Of these even all is plain: what they hold is functions on tensors and numbers.
_ALL_PLAIN = frozenset({"math", "cmath"})


_FIRST_PARTS = (
    tables.WHOLE | tables.LIBRARIES | {path.split(".")[0] for path in tables.PARTS} | {"helpers"}
)


def _naming(tree: ast.Module) -> list[ast.AST]:
    """Return the nodes that may name an import; a tree keeps them, as it is asked for again."""
    known = getattr(tree, "naming", None)
    if known is None:
        known = tree.naming = [
            node
            for node in walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)
        ]
    return known


def _imported(module: str, some: Sequence[ast.alias]) -> Iterator[tuple[str, str]]:
    """Return the names that are imported from a module, and what they are called there."""
    for alias in some:
        if alias.name != "*":
            yield alias.asname or alias.name, alias.name
            continue
        for name in tables.PARTS.get(module, ()):
            yield name, name


def find_own_builtins(tree: ast.Module, above: Sequence[ast.Module] = ()) -> dict[str, int]:
    """Return the names that a cell gives a meaning of its own for good, and the line behind which
    they have it: before that a name like ``eval`` is Python's. Cells ``above`` may not get that
    far: of these only what they surely define counts.
    """
    found = {name: 0 for one in above for name in _surely_defined(one)}
    for part in tree.body:
        for name in _bound_at_top([part]):
            found.setdefault(name, part.end_lineno)
    nodes = (node for one in (tree, *above) for node in walk(one))
    deleted = {node.id for node in nodes if isinstance(node, ast.Name) and _is_deleted(node)}
    return {name: line for name, line in found.items() if name not in deleted}


def _surely_defined(tree: ast.Module) -> Iterator[str]:
    """Return the functions above which nothing in a cell can fail, nor in their heads."""
    for part in tree.body:
        match part:
            case ast.FunctionDef(name=name, decorator_list=[]):
                head = [*walk(part.args), *walk(part.returns or ast.Pass())]
                if any(isinstance(node, ast.expr) for node in head):
                    return
                yield name
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                return


def _is_deleted(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Del)


def _is_plain_module(path: str) -> bool:
    first = path.split(".")[0]
    return path in tables.WHOLE or path in tables.PARTS or first in tables.LIBRARIES


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    for part in body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def _bound_at_top(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Return what a cell binds whenever it runs to its end."""
    for part in body:
        match part:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
