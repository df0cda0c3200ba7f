"""What one cell does to the notebook's names: which it uses, binds and changes.

Names are looked up as Python does it: a parameter, a local variable, a comprehension's variable
and a name in a class's body hide the global one of that name, and ``global`` uncovers it.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from helpers.reading.cells import parse
from helpers.reading.scopes import all_arguments, find_locals, roots_of, stored_names
from helpers.reading.words import words

_LONG = 2_000  # characters; what is found takes much more memory than they


@dataclass
class Function:
    """What calling a function changes.

    Attributes:
        changed: global names.
        called: functions that it calls, by their global names.
        handed_on: those among them that get one of its arguments.
        changes_arguments: whether it changes what it is given.
        changes_owner: whether a method changes its object.
    """

    changed: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    handed_on: set[str] = field(default_factory=set)
    changes_arguments: bool = False
    changes_owner: bool = False


@dataclass(frozen=True)
class Call:
    """A call that is made when the cell is run.

    Attributes:
        name: the global name of what is called, or of the object whose method it is.
        method: the method's or the attribute's name; "" if ``name`` itself is called.
        handed: global names of what it is given.
        place: where it stands: as a "decorator", as a "statement", or as a "part" of one.
    """

    name: str
    method: str
    handed: frozenset[str]
    place: str


@dataclass
class Uses:
    """What a cell does to global names.

    Attributes:
        at_once: used while the cell runs, and not bound by the cell before.
        later: used in the bodies of its functions.
        firm: bound whenever the cell runs to its end.
        bound: bound in whatever way, with how: "import torch.nn", "def", "class" or "value".
        changed: whose objects the cell changes itself.
        calls: made while the cell runs.
        functions: defined at the cell's top, methods as "Class.method".
        aliases: names that stand for (parts of) objects which other names stand for; what stands
            for several of them together has its place for a name, as "12:0".
        bases: of the classes that it defines.
        imports_all: the modules of which all is imported, as by ``from x import *``.
    """

    at_once: set[str] = field(default_factory=set)
    later: set[str] = field(default_factory=set)
    firm: set[str] = field(default_factory=set)
    bound: dict[str, set[str]] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    calls: list[Call] = field(default_factory=list)
    functions: dict[str, Function] = field(default_factory=dict)
    aliases: dict[str, set[str]] = field(default_factory=dict)
    bases: set[str] = field(default_factory=set)
    imports_all: set[str] = field(default_factory=set)


def find_uses(code: str) -> Uses:
    """Return what a cell does to global names; nothing if it cannot be read.

    The answer is shared with whoever asks for the same text: do not change it.
    """
    return _find_and_keep_long(code) if len(code) > _LONG else _find_and_keep(code)


@functools.lru_cache(maxsize=1000)
def _find_and_keep(code: str) -> Uses:
    return _find_uses(code)


@functools.lru_cache(maxsize=20)
def _find_and_keep_long(code: str) -> Uses:
    return _find_uses(code)


def _find_uses(code: str) -> Uses:
    tree = parse(code)
    return Uses() if tree is None else find_uses_in(tree)


def find_uses_in(tree: ast.AST) -> Uses:
    """Return what a statement, or a cell's tree, does to global names; nothing if it is nested too
    deeply to be read.
    """
    reader = _Reader()
    try:
        reader.visit(tree)
    except RecursionError:
        return Uses()
    return reader.uses


# Methods that leave their object as it is, whosever it is; others are taken to change it.
_READING = words("""
    abs all any apply argmax argmin ceil children clone copy count cpu decode detach dim double
    element_size encode endswith eval exp find flatten float floor format get get_buffer
    get_parameter get_submodule half index int is_floating_point isdigit item items join keys log
    long lower lstrip max mean median min modules mT named_buffers named_children named_modules
    named_parameters norm numel numpy parameters permute prod reshape round rstrip shape size
    softmax split splitlines sqrt square squeeze startswith state_dict std stride strip sum t
    title to tolist transpose type unsqueeze upper values var view
""")
# Special methods that change their object, as a statement such as ``x[0] = 1`` does.
_CHANGING_SPECIAL = words("""
    __delattr__ __delitem__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__
    __imul__ __ior__ __ipow__ __irshift__ __isub__ __itruediv__ __ixor__ __setattr__
    __setitem__ __setstate__
""")
# Built-in classes whose methods, called by the class's name, may change what they are given.
_CHANGEABLE = words("bytearray dict list object set type")
_MAKING = words("copy fromkeys maketrans")


def is_reading(method: str) -> bool:
    """Return whether a method called so leaves its object as it is."""
    return method in _READING or (method.startswith("__") and method not in _CHANGING_SPECIAL)


def changes_given(builtin: str, method: str) -> bool:
    """Return whether a built-in class's method changes its first argument, as ``list.append`` does.

    The class itself it never changes.
    """
    return builtin in _CHANGEABLE and method not in _MAKING and not is_reading(method)


@dataclass
class _Scope:
    kind: str
    names: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    owner: str = ""


class _Reader(ast.NodeVisitor):
    """Goes through a cell in the order in which Python runs it."""

    def __init__(self) -> None:
        self.uses = Uses()
        self._scopes = [_Scope("module")]
        self._function: Function | None = None  # the outermost whose body this is
        self._newly_firm: list[str] = []
        self._places: dict[ast.AST, str] = {}

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._use(node.id)
        else:
            self._bind(node.id)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._bind(name, f"import {alias.name if alias.asname else name}")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self.uses.imports_all.add(node.module or "")
            else:
                module = "." * node.level + (node.module or "")
                self._bind(alias.asname or alias.name, f"import {module}.{alias.name}")

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._bind_text(node, node.name)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self._bind_text(node, node.name)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self._bind_text(node, node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self._bind_text(node, node.rest)

    def _bind_text(self, node: ast.AST, name: str | None) -> None:
        if name is not None:
            self._bind(name)
        self.generic_visit(node)

    def _use(self, name: str) -> None:
        if self._home(name).kind != "module":
            return
        if self._function is not None:
            self.uses.later.add(name)
        elif name not in self.uses.firm:
            self.uses.at_once.add(name)

    def _bind(self, name: str, how: str = "value") -> None:
        scope = next(s for s in reversed(self._scopes) if s.kind != "comprehension")
        if name in self._scopes[-1].names and self._scopes[-1].kind == "comprehension":
            return
        if scope.kind != "module" and name not in scope.globals:
            scope.names.add(name)
            return
        self.uses.bound.setdefault(name, set()).add(how)
        if self._function is not None:
            self._function.changed.add(name)
        elif name not in self.uses.firm:
            self.uses.firm.add(name)
            self._newly_firm.append(name)

    def _home(self, name: str) -> _Scope:
        """Return the scope in which a name is looked up."""
        for place, scope in enumerate(reversed(self._scopes)):
            if name in scope.globals:
                break
            if name in scope.names and (scope.kind != "class" or place == 0):
                return scope
        return self._scopes[0]

    # Statements that may or may not run

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._visit_branches([node.body, node.orelse])

    def visit_Try(self, node: ast.Try) -> None:
        for part in node.body:
            self.visit(part)
        self._visit_branches([*([handler] for handler in node.handlers), []])
        for part in (*node.orelse, *node.finalbody):
            self.visit(part)

    visit_TryStar = visit_Try  # noqa: N815

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self._visit_branches([*([case] for case in node.cases), []])

    def _visit_branches(self, branches: list[list]) -> None:
        in_all: set[str] | None = None
        for branch in branches:
            start = len(self._newly_firm)
            for part in branch:
                self.visit(part)
            bound = set(self._newly_firm[start:])
            del self._newly_firm[start:]
            self.uses.firm -= bound
            in_all = bound if in_all is None else in_all & bound
        for name in in_all or ():
            self.uses.firm.add(name)
            self._newly_firm.append(name)

    # Assignments, in Python's order: what is assigned comes first

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)
            self._note_alias(target, node.value)
            if isinstance(node.value, ast.Lambda) and isinstance(target, ast.Name):
                self._keep_function(target.id, self._last_lambda)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self.visit(node.target)
            self._note_alias(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            self._use(node.target.id)
        self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        self._note_alias(node.target, node.iter)
        for part in (*node.body, *node.orelse):
            self.visit(part)

    visit_AsyncFor = visit_For  # noqa: N815

    def _note_alias(self, target: ast.AST, value: ast.AST) -> None:
        if self._function is None and isinstance(target, ast.Name | ast.Tuple | ast.List):
            roots = set(self._global_roots(value))
            names = set(roots_of(target)) if roots else set()
            if min(len(roots), len(names)) > 1:  # else many would each be noted with many
                pair = f"{target.lineno}:{target.col_offset}"
                self.uses.aliases[pair] = roots
                roots = {pair}
            for name in names:
                self.uses.aliases.setdefault(name, set()).update(roots - {name})

    # Changes

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(node.value)
        self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._change(node.value)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._places[node.value] = "statement"
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        self._note_call(node.func, given, self._places.pop(node, "part"))
        self.generic_visit(node)

    def _note_call(self, called: ast.AST, given: list[ast.AST], place: str) -> None:
        if isinstance(called, ast.Name) and called.id in ("setattr", "delattr") and given:
            self._change(given[0])
        method = called.attr if isinstance(called, ast.Attribute) else ""
        name = next(roots_of(called.value if method else called), "")
        is_global = bool(name) and self._home(name).kind == "module"
        if self._function is None:
            if is_global:
                handed = frozenset(n for part in given for n in self._global_roots(part))
                self.uses.calls.append(Call(name, method, handed, place))
            return
        if method and not is_reading(method):
            self._change(called.value)
            if given and changes_given(name, method):
                self._change(given[0])
        if is_global and not method:
            self._function.called.add(name)
            roots = (name for part in given for name in roots_of(part))
            if any(name in self._home(name).parameters for name in roots):
                self._function.handed_on.add(name)

    def _change(self, changed: ast.AST) -> None:
        for name in roots_of(changed):
            home = self._home(name)
            if self._function is None:
                self.uses.changed.update({name} if home.kind == "module" else ())
            elif home.kind == "module":
                self._function.changed.add(name)
            elif name == home.owner:
                self._function.changes_owner = True
            elif name in home.parameters:
                self._function.changes_arguments = True

    def _global_roots(self, node: ast.AST) -> Iterator[str]:
        return (name for name in roots_of(node) if self._home(name).kind == "module")

    # Scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._decorate(node)
        self._visit_head(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self._bind(node.name, "def")
        self._keep_function(node.name, self._visit_body(node, node.body))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_head(node.args)
        self._last_lambda = self._visit_body(node, [node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._decorate(node)
        for part in (*node.bases, *node.keywords):
            self.visit(part)
            if len(self._scopes) == 1:
                self.uses.bases.update(roots_of(part))
        types = {parameter.name for parameter in getattr(node, "type_params", ())}
        self._scopes.append(_Scope("class", types, owner=node.name))
        for part in node.body:
            self.visit(part)
        self._scopes.pop()
        self._bind(node.name, "class")

    def visit_ListComp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> None:
        self._visit_comprehension(node, [node.elt])

    visit_SetComp = visit_GeneratorExp = visit_ListComp  # noqa: N815

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_comprehension(node, [node.key, node.value])

    def _decorate(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for decorator in node.decorator_list:
            self._places[decorator] = "decorator"
            self.visit(decorator)
            if not isinstance(decorator, ast.Call):
                self._note_call(decorator, [], "decorator")

    def _visit_head(self, arguments: ast.arguments) -> None:
        for part in (*arguments.defaults, *filter(None, arguments.kw_defaults)):
            self.visit(part)
        for argument in all_arguments(arguments):
            if argument.annotation is not None:
                self.visit(argument.annotation)

    def _visit_body(self, node: ast.AST, body: list) -> Function:
        parameters = {argument.arg for argument in all_arguments(node.args)}
        names, declared = find_locals(body)
        names |= parameters | {p.name for p in getattr(node, "type_params", ())}
        first = next(all_arguments(node.args), None)
        owner = first.arg if first is not None and self._scopes[-1].kind == "class" else ""
        outer = self._function
        self._function = outer or Function()
        self._scopes.append(_Scope("function", names - declared, declared, parameters, owner))
        for part in body:
            self.visit(part)
        self._scopes.pop()
        function, self._function = self._function, outer
        return function

    def _keep_function(self, name: str, function: Function) -> None:
        if self._function is None and len(self._scopes) <= 2:
            owner = self._scopes[-1].owner
            self.uses.functions[f"{owner}.{name}" if owner else name] = function

    def _visit_comprehension(self, node: ast.AST, results: list[ast.AST]) -> None:
        self.visit(node.generators[0].iter)
        names = {n for part in node.generators for n in stored_names(part.target)}
        self._scopes.append(_Scope("comprehension", names))
        for place, part in enumerate(node.generators):
            if place:
                self.visit(part.iter)
            for condition in (part.target, *part.ifs):
                self.visit(condition)
        for result in results:
            self.visit(result)
        self._scopes.pop()
