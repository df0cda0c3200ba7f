"""Whether code is plain: arithmetic on tensors, nothing that reaches for the machinery around it.

Some probes report *how* a result came about ("the argument was left alone"). No process can prove
this of code that runs beside the probe: the code could change the probe. Plain code cannot; where
code is not plain, what rests on a probe's word waits for a person.

Four things keep plain code away from the machinery:

- **Modules stay where they are.** Only known modules are imported, of each only known parts are
  used, and no module is handed to a function or kept in a list. So every way that leads through a
  module can be read.
- **Libraries are not changed.** Nothing is assigned to an attribute of what was imported, by
  whatever name.
- **Special names are few.** Frames, a function's globals, a class's bases and torch's own hooks all
  have names by which they are found, and text that is no constant names no attribute.
- **Nothing runs unseen**: no text run as code, no other process, no thread, no coroutine, and no
  object of the student's own whose methods torch calls in the middle of its own work.

It errs towards doubt. A doubt costs nobody a point; it makes a few points wait.
"""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections.abc import Iterator, Sequence

from helpers.reading import plain_calls, tables
from helpers.reading.cells import Cell, left_out, parse
from helpers.reading.doubts import Doubt, dotted, quoted
from helpers.reading.names import Names, chain_of, find_own_builtins
from helpers.reading.nodes import walk
from helpers.reading.plain_classes import ClassChanges
from helpers.reading.scopes import all_arguments, find_locals, find_made
from helpers.reading.selves import find_selves
from helpers.reading.words import words

__all__ = ["Doubt", "find_doubts"]

# Lines that end here for IPython, and go on for Python.
_ODD_LINE_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# What IPython runs that looks at the machine, or shows something.
_HARMLESS = re.compile(
    r"""
      !{1,2}[ ]*(?:nvidia-smi|ls|pwd|lscpu|free|which|df|date|uname)(?:[ ]+[\w./=-]+)*
    | !{1,2}[ ]*python3?[ ]+(?:--version|-V)
    | [!%]{1,2}[ ]*pip3?[ ]+(?:install|list|show|freeze)
          (?:[ ]+(?:-q|-qq|-U|--quiet|--upgrade|--user|[A-Za-z][\w=.,\[\]-]*))*
    | %(?:matplotlib|precision|xmode|pwd|ls|who|whos|who_ls|lsmagic|timeit|time|pdb|cd|autoreload
          |load_ext[ ]+autoreload|pylab|pprint|reset_selective)\b[ \w./-]*
    | %config[ ]+InlineBackend\.\w+[ ]*=[ ]*[\w'",{}\[\] ]+
    | %%(?:time|timeit|capture|prun)\b[ \w.-]*
    | %%(?:html|HTML|latex|markdown|svg|javascript|js|md)\b.*
    | \?{0,2}[\w.*%]*\?{0,2}
    """,
    re.VERBOSE | re.DOTALL,
)
# Files that might be imported, and a process's own memory.
_PYTHON_FILES = (".py", ".pyc", ".pyd", ".so")
_SYSTEM = ("/proc", "/sys", "/dev")
_HARMLESS_FILES = words("/dev/null /dev/shm /proc/cpuinfo /proc/meminfo")
_OWN = words("self cls ctx")
_DATA = words("bool bytes complex dict float frozenset int list set str tuple")
_TENSORS = words("torch.Tensor torch.nn.Parameter torch.nn.parameter.Parameter")
_METACLASSES = words("type abc.ABCMeta enum.EnumMeta enum.EnumType")
_CALL_BACK = words("weakref.ref weakref.ReferenceType")
# What is said of a file in an archive: its size is a number that belongs there.
_RECORDS = words("tarfile.TarInfo")
# Its objects may start processes, whatever is handed to them.
_LOADERS = words("torch.utils.data.DataLoader torch.utils.data.dataloader.DataLoader")
# They do nothing with a module that is handed to them, or what is read of their call beside it.
_SHOW_MODULES = words("dir help hasattr isinstance print type id repr str getattr setattr")


def find_doubts(cells: Sequence[Cell], given: Sequence[Cell] = ()) -> list[Doubt]:
    """Return what in the cells is not plain, the first of each line; nothing if all is plain.

    Args:
        cells: the student's.
        given: the course's, of which only what they import and bind matters.
    """
    trees = [(cell, parse(cell.code)) for cell in cells]
    known = [tree for _, tree in trees if tree is not None]
    course = [tree for tree in (parse(cell.code) for cell in given) if tree is not None]
    selves = find_selves(known)
    names = Names(course, known, selves.objects)
    readings = [names]
    readings += (Names(course, known, selves.objects, i) for i in range(1, names.meanings))
    changes = [ClassChanges(known, names, selves) for names in readings]
    doubts: list[Doubt] = []
    for place, (cell, tree) in enumerate(trees):
        above = [other for _, other in trees[:place] if other is not None]
        first: dict[int, str] = {}
        for one, of_classes in zip(readings, changes, strict=True):
            for line, what in _examine(cell, tree, above, one, of_classes):
                first.setdefault(line, what)
        doubts += (Doubt(cell.label, line, first[line]) for line in sorted(first))
    return doubts


def _examine(
    cell: Cell,
    tree: ast.Module | None,
    above: Sequence[ast.Module],
    names: Names,
    changes: ClassChanges,
) -> Iterator[tuple[int, str]]:
    odd = _ODD_LINE_BREAKS.search(cell.code)
    if odd:
        yield cell.code.count("\n", 0, odd.start()) + 1, "an unusual line break"
    if tree is None:
        yield 1, "code that cannot be read"
        return
    for piece in left_out(cell.code):
        if not _HARMLESS.fullmatch(piece.text):
            yield piece.line, f"`{piece.text.splitlines()[0][:40]}`"
    examiner = _Examiner(names, find_own_builtins(tree, above))
    try:
        examiner.visit(tree)
    except RecursionError:
        yield 1, "code that is nested too deeply to be read"
    yield from examiner.found
    yield from changes.find(tree)


class _Examiner(ast.NodeVisitor):
    """Looks for what is not plain; what it found is in words."""

    def __init__(self, names: Names, own: dict[str, int]) -> None:
        self.found: list[tuple[int, str]] = []
        self._names = names
        self._own = own  # names of built-in functions that are the cell's own, and from which line
        self._hidden: list[set[str]] = []  # what parameters and local variables hide
        self._classes: list[ast.ClassDef] = []
        self._functions = 0
        self._function: ast.AST | None = None  # the innermost one
        self._called: set[int] = set()  # what is called, or only looked at
        self._renamed: set[int] = set()  # what gets another name

    def _doubt(self, node: ast.AST, what: str) -> None:
        self.found.append((getattr(node, "lineno", 1), what))

    def _path(self, node: ast.AST) -> str:
        """Return the path of what a name with dots stands for, "" if that is no import."""
        name, attributes = chain_of(node)
        if not name or any(name in hidden for hidden in self._hidden):
            return ""
        return self._names.path(name, attributes)

    # Imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            what = self._names.doubt_of_import(alias.name)
            if what and not self._is_idle(alias.name, alias.asname or alias.name.split(".")[0]):
                self._doubt(node, what)
            self._check_binding(node, alias.asname)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            what = self._names.doubt_of_import(module, alias.name)
            if what and not self._is_idle(module, alias.asname or alias.name):
                self._doubt(node, what)
            self._check_binding(node, alias.asname)

    def _is_idle(self, module: str, name: str) -> bool:
        """Return whether an import does nothing: nobody uses the name, and loading is harmless."""
        is_at_top = not self._functions and not self._classes
        is_harmless = module in tables.HARMLESS_TO_LOAD and name != "*"
        return is_at_top and is_harmless and self._names.is_free(name)

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._check_binding(node, node.id)
            return
        path = self._path(node)
        if path and path.split(".")[0] != "builtins":
            self._check_loaded(node, path)
        elif node.id in tables.BUILTINS and not self._is_bound(node.id, node):
            self._doubt(node, f"`{node.id}`")
        elif node.id in plain_calls.ONLY_CALLED and not self._is_bound(node.id, node):
            if id(node) not in self._called:
                self._doubt(node, f"`{node.id}` as a value")
        elif _is_special(node.id) and node.id not in tables.SPECIAL_NAMES | {"__debug__"}:
            self._doubt(node, f"`{node.id}`")

    def _is_bound(self, name: str, node: ast.AST) -> bool:
        is_hidden = any(name in hidden for hidden in self._hidden)
        return is_hidden or self._own.get(name, math.inf) < node.lineno

    def _check_loaded(self, node: ast.AST, path: str) -> None:
        if path == "helpers.probes":
            self._doubt(node, "`probes`")
        elif self._names.is_module(path):
            if not {id(node)} & (self._called | self._renamed):
                self._doubt(node, f"the module `{path}`, handed on")
        elif id(node) not in self._called and plain_calls.is_only_called(path):
            self._doubt(node, f"{quoted(node)} as a value")

    def _check_binding(self, node: ast.AST, name: str | None) -> None:
        if name and _is_special(name) and name not in tables.SPECIAL_BINDINGS:
            self._doubt(node, f"the name `{name}`")

    def visit_arg(self, node: ast.arg) -> None:
        self._check_binding(node, node.arg)
        if node.annotation is not None:
            self._visit_annotation(node.annotation)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_annotation(node.annotation)
        for part in filter(None, (node.target, node.value)):
            self.visit(part)

    def _visit_annotation(self, node: ast.AST) -> None:
        """Visit what an annotation says, in texts as well: these may be run."""
        self.visit(node)
        if self._names.runs_annotations and not self._is_plain_annotation(node):
            self._doubt(node, "an annotation that is computed")
        for part in walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                with contextlib.suppress(SyntaxError, ValueError, MemoryError):
                    said = ast.parse(part.value.strip(), mode="eval").body
                    for inner in walk(said):
                        ast.copy_location(inner, part)
                    self.visit(said)

    def _is_plain_annotation(self, node: ast.AST) -> bool:
        """Return whether all of an annotation stands there: none of its names may hold a text."""
        match node:
            case ast.Constant() | ast.Attribute():
                return True
            case ast.Name(id=name):
                is_hidden = any(name in hidden for hidden in self._hidden)
                return not is_hidden and not self._names.is_bound_to_values(name)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._is_plain_annotation(left) and self._is_plain_annotation(right)
            case ast.Subscript(value=value, slice=inner):
                return self._is_plain_annotation(value) and self._is_plain_annotation(inner)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self._is_plain_annotation, parts))
        return False

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._check_binding(node, node.name)
        self.generic_visit(node)

    visit_MatchAs = visit_MatchStar = visit_ExceptHandler  # noqa: N815

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._check_binding(node, node.rest)
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> None:
        for name in node.names:
            self._check_binding(node, name)
            # A function around this one may seem to hide what is uncovered here.
            if name in tables.BUILTINS | plain_calls.ONLY_CALLED | self._names.imported:
                self._doubt(node, f"`global {name}`")

    visit_Nonlocal = visit_Global  # noqa: N815

    # Attributes

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes, root = [node], node.value
        while isinstance(root, ast.Attribute):
            attributes.append(root)
            root = root.value
        attributes.reverse()
        path = self._path(root)
        if not path or path.startswith("builtins"):
            path = ""
            self.visit(root)
        owner = _owner(root)
        if path.startswith("helpers.probes"):
            self._doubt(node, quoted(node))
        for attribute in attributes:
            if attribute is node and not isinstance(node.ctx, ast.Load):
                self._check_change(node, path, owner)
            elif not self._check_attribute(attribute, path, owner):
                return
            path = self._names.part(path, attribute.attr) if path else ""
            owner = "" if attribute is not attributes[0] else owner and "…"
        if isinstance(node.ctx, ast.Load) and path:
            self._check_loaded(node, path)
            if id(node) not in self._called and plain_calls.is_unbound_way_out(path):
                self._doubt(node, f"{quoted(node)} as a value")

    def _check_attribute(self, node: ast.Attribute, path: str, owner: str) -> bool:
        """Return whether an attribute is plain; ``path`` and ``owner`` tell what it is read of."""
        name = node.attr
        is_plain = (
            self._names.has_plain_part(path, name)
            if path
            else self._is_plain_of_objects(name, owner)
        )
        if is_plain and name in plain_calls.ONLY_CALLED_METHODS and id(node) not in self._called:
            is_plain = owner in _OWN and name in self._names.own_attributes
        if is_plain and id(node) not in self._called:
            is_kept_of_storage = name in tables.WAYS_OUT_OF_STORAGES and self._names.names_storages
            is_plain = name not in ("grad_fn", "numpy", "tolist") and not is_kept_of_storage
        # A layer's class, by its name: whoever overrides it has only that name to tell.
        is_plain |= name == "_get_name" and not path and id(node) in self._called
        if not is_plain:
            self._doubt(node, quoted(node))
        return is_plain

    def _is_plain_of_objects(self, name: str, owner: str) -> bool:
        if name in tables.ON_OBJECTS:
            is_own = owner in _OWN and name in self._names.own_attributes
            return is_own and not name.startswith("_")
        if name == "__dict__":
            return owner == "self"
        if _is_special(name):
            return name in (tables.SPECIAL_METHODS if owner == "super" else tables.SPECIAL_NAMES)
        if name.startswith("_") and owner not in _OWN:
            is_own = name in self._names.own_attributes and name not in tables.PRIVATE_OF_MODULES
            return name in tables.PRIVATE_PARTS or is_own
        return True

    def _check_change(self, node: ast.Attribute, path: str, owner: str) -> None:
        name = node.attr
        critical = tables.PASSES_VALUES_ON if owner in _OWN else tables.PASSES_VALUES_ON_OF_OTHERS
        is_flag = path.startswith("torch.backends") and not _is_special(name)
        starts_workers = name == "num_workers" and owner not in _OWN
        is_kept_from = (name in critical or starts_workers) and not self._is_record(node.value)
        if (path and not is_flag) or is_kept_from or not self._may_be_set(name, owner):
            self._doubt(node, f"a change of {quoted(node)}")

    def _is_record(self, node: ast.AST) -> bool:
        """Return whether it is a local object that has nothing but attributes of its own."""
        if self._function is None or not isinstance(node, ast.Name):
            return False
        called = find_made(self._function).get(node.id, [])
        return bool(called) and all(self._path(each) in _RECORDS for each in called)

    def _may_be_set(self, name: str, owner: str) -> bool:
        if name == "__class__" or (_is_special(name) and name not in ("__name__", "__doc__")):
            return False
        return self._is_plain_of_objects(name, owner)

    # Calls

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        path = self._path(function)
        if (
            isinstance(function, ast.Name)
            and name in _SHOW_MODULES
            and not self._is_bound(name, node)
        ):
            self._called.update(id(part) for part in node.args)
        if isinstance(function, ast.Name) and name in ("isinstance", "issubclass", "map"):
            self._called.update(
                id(part)
                for one in node.args
                for part in walk(one)
                if isinstance(part, ast.Name) and part.id == "type"
            )
        if isinstance(function, ast.Name | ast.Attribute):
            self._called.add(id(function))
        if isinstance(function, ast.Attribute) and function.attr == "grad_fn":
            self._doubt(node, f"a call of {quoted(function)}")
        is_bound = isinstance(function, ast.Name) and self._is_bound(name, node) and not path
        if not is_bound:
            what = plain_calls.doubt_of_call(node, name, path, self._names, bool(self._functions))
            if what:
                self._doubt(node, what)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self._renamed.add(id(node.value))  # a module is known by its other name, too
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        self._allow_grad_fn(node.left, *node.comparators)
        if not _asks_whether_a_name_is_there(node):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._allow_grad_fn(node.value)
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        text = node.value
        if not isinstance(text, str) or " " in text or len(text) > 300:
            return
        is_file_of_code = text.endswith(_PYTHON_FILES)
        is_system = text.startswith(_SYSTEM) and text not in _HARMLESS_FILES
        if is_file_of_code or is_system or text.startswith("module://"):
            self._doubt(node, f'`"{text[-40:]}"`')

    def _allow_grad_fn(self, *nodes: ast.AST) -> None:
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr == "grad_fn":
                self._called.add(id(node))

    # Patterns

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        for name in node.kwd_attrs:
            if name in tables.PASSES_VALUES_ON or not self._is_plain_of_objects(name, "…"):
                self._doubt(node, f"`.{name}`")
        name, _ = chain_of(node.cls)
        is_own = isinstance(node.cls, ast.Name) and name in self._names.own_classes
        if node.patterns and not (is_own or name in _DATA):
            self._doubt(node, f"a pattern of the class {quoted(node.cls)}")
        self.generic_visit(node)

    # Functions and classes

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        inside_class = bool(self._classes) and self._is_class_body
        if _is_special(node.name):
            is_plain = inside_class and node.name in tables.SPECIAL_METHODS
            runs_unseen = node.name in tables.RUN_UNSEEN and self._mentions_torch(node)
            if not is_plain or runs_unseen:
                self._doubt(node, f"the method `{node.name}`")
        self._visit_function(node, node.body, node.decorator_list)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._doubt(node, "`async def`")

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_function(node, [node.body], [])

    def _visit_function(self, node: ast.AST, body: list, decorators: list) -> None:
        for decorator in decorators:
            self._called.add(id(decorator))
            self.visit(decorator)
        self.visit(node.args)
        if getattr(node, "returns", None) is not None:
            self._visit_annotation(node.returns)
        names, declared = find_locals(body)
        names |= {argument.arg for argument in all_arguments(node.args)}
        was_class_body, self._is_class_body = self._is_class_body, False
        # What a function imports, or names as an import is named, is not hidden by being local.
        statements = [part for part in body if isinstance(part, ast.stmt)]
        self._hidden.append(names - declared - self._names.bound_to_paths(statements))
        self._functions += 1
        outer, self._function = self._function, node
        for part in body:
            self.visit(part)
        self._function = outer
        self._functions -= 1
        self._hidden.pop()
        self._is_class_body = was_class_body

    _is_class_body = False

    def _mentions_torch(self, node: ast.AST) -> bool:
        nodes = (n for n in walk(node) if isinstance(n, ast.Name))
        return any(self._names.path(n.id).split(".")[0] == "torch" for n in nodes)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._check_binding(node, node.name)
        bases = [*node.bases, *(k.value for k in node.keywords if k.arg == "metaclass")]
        for base in node.bases:
            path = self._path(base) or quoted(base).strip("`")
            if path in _TENSORS | _METACLASSES | _CALL_BACK | _LOADERS:
                self._doubt(node, f"a class below {quoted(base)}")
        for keyword in node.keywords:
            if keyword.arg == "metaclass" and self._path(keyword.value) != "abc.ABCMeta":
                self._doubt(node, "a metaclass")
        for part in (*node.decorator_list, *bases):
            self._called.add(id(part))
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        was_class_body, self._is_class_body = self._is_class_body, True
        self._classes.append(node)
        for part in node.body:
            self.visit(part)
        self._classes.pop()
        self._is_class_body = was_class_body

    def visit_ListComp(self, node: ast.AST) -> None:
        stored = {
            part.id
            for generator in node.generators
            for part in walk(generator.target)
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        self.visit(node.generators[0].iter)  # its names are those outside
        self._hidden.append(stored)
        for part in ast.iter_child_nodes(node):
            if part is node.generators[0]:
                for inner in (part.target, *part.ifs):
                    self.visit(inner)
            else:
                self.visit(part)
        self._hidden.pop()

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp  # noqa: N815


def _owner(node: ast.AST) -> str:
    """Return what an attribute is read of, as far as that matters: a name, or "super"."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Call(func=ast.Name(id="super")):
            return "super"
    return ""


def _asks_whether_a_name_is_there(node: ast.Compare) -> bool:
    """Return whether it is ``"name" in globals()``, or in ``sys.modules``: that reads nothing."""
    match node:
        case ast.Compare(
            left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[ast.Call() as call]
        ):
            is_plain = not call.args and not call.keywords
            return is_plain and dotted(call.func) in ("globals", "locals", "vars")
        case ast.Compare(
            left=ast.Constant(), ops=[ast.In() | ast.NotIn()], comparators=[ast.Attribute() as part]
        ):
            return dotted(part) == "sys.modules"
    return False


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) > 4
