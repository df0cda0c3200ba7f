"""Our own cells, run in our own process: there the student's names are proxies.

A proxy stands for a function that lives in the student's process. A test cell hands it to
``check.call``, which asks that process; calling it straight is an error of the test.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from helpers import probes
from helpers.errors import CallNotMadeError
from helpers.grading.assignment import Assignment, SourceCell
from helpers.grading.inside.wire import Name, Probe
from helpers.grading.judge.sanitize import comparable


class CourseError(CallNotMadeError):
    """A cell of the course's own failed: nobody's work can be judged by it."""


class Proxy:
    """Stands for a function in the student's process.

    Attributes:
        reference: what it is called there.
    """

    def __init__(
        self,
        reference: Name | Probe,
        signature: inspect.Signature | None = None,
    ) -> None:
        """Stand for ``reference``; a report takes the names of arguments from ``signature``."""
        self.reference = reference
        if isinstance(reference, Probe):
            self.__module__ = probes.__name__
        if signature is not None:
            self.__signature__ = signature

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Refuse.

        Raises:
            CourseError: always.
        """
        raise CourseError(
            f"a test cell calls {self.reference.name} directly: it must use check.call"
        )


class TrustedCells:
    """The needed cells and the test cells of an assignment.

    Attributes:
        proxies: one for each name that a student's cell is to define.
        texts: those of our own Markdown cells, ``comparable``.
    """

    def __init__(self, assignment: Assignment) -> None:
        """Run the needed cells.

        Raises:
            CourseError: one of them failed.
        """
        self.proxies = make_proxies(assignment.cells)
        self.texts = frozenset(map(comparable, assignment.texts))
        self._tests: dict[str, tuple[Cell, dict[str, Any]]] = {}
        namespace: dict[str, Any] = {"__name__": "__main__"}
        for cell in assignment.cells:
            if cell.cell_type != "code" or cell.solution:
                continue
            compiled = _compile_course_cell(cell.name, cell.source)
            if cell.grade:
                self._tests[cell.name] = compiled, dict(namespace)
            else:
                _run_course_cell(cell.name, compiled, namespace)

    def run_test(self, name: str, check: Callable[..., Any]) -> Any:
        """Run the test cell ``name`` with ``check`` in place of ``helpers.Check``.

        Returns:
            the value of its last expression: the points.

        Raises:
            CourseError: it failed.
        """
        compiled, before = self._tests[name]
        namespace = {**before, **self.proxies, "probes": _probe_proxies(), "Check": check}
        return _run_course_cell(name, compiled, namespace)


def make_proxies(cells: tuple[SourceCell, ...]) -> dict[str, Proxy]:
    """Return a proxy for every name that a solution cell's stub defines."""
    proxies = {}
    for cell in cells:
        if cell.solution and cell.cell_type == "code":
            for name, signature in defined_names(cell.source).items():
                proxies[name] = Proxy(Name(name), signature)
    return proxies


def defined_names(code: str) -> Mapping[str, inspect.Signature | None]:
    """Return the names that a cell binds at its top, with the signatures of its functions."""
    names: dict[str, inspect.Signature | None] = {}
    for statement in parse_cell(code).body:
        if isinstance(statement, ast.FunctionDef):
            names[statement.name] = _signature(statement.args)
        elif isinstance(statement, ast.ClassDef):
            names[statement.name] = None
        elif isinstance(statement, ast.Assign):
            names |= {t.id: None for t in statement.targets if isinstance(t, ast.Name)}
    return names


class Cell:
    """A cell's code, compiled to be run as a kernel would run it."""

    def __init__(self, code: str) -> None:
        """Compile ``code``.

        Raises:
            SyntaxError: it is no Python.
        """
        tree = parse_cell(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self._body = compile(tree, "<cell>", "exec")
        self._value = last and compile(ast.Expression(last.value), "<cell>", "eval")

    def run(self, namespace: dict[str, Any]) -> Any:
        """Run it in ``namespace`` and return the value of its last expression."""
        exec(self._body, namespace)
        return None if self._value is None else eval(self._value, namespace)


def parse_cell(code: str) -> ast.Module:
    """Return the syntax tree of a cell, which may hold magics.

    Raises:
        SyntaxError: it is no Python.
    """
    try:
        return ast.parse(code)
    except SyntaxError:
        return ast.parse(TransformerManager().transform_cell(code))


def _compile_course_cell(name: str, source: str) -> Cell:
    try:
        return Cell(source)
    except SyntaxError as error:
        raise CourseError(f"The course's cell {name} is not valid Python ({error}).") from error


def _run_course_cell(name: str, cell: Cell, namespace: dict[str, Any]) -> Any:
    try:
        return cell.run(namespace)
    except CallNotMadeError:
        raise
    except Exception as error:
        raise CourseError(
            f"The course's cell {name} failed ({type(error).__name__}: {error}): correct the "
            f"chapter."
        ) from error


def _signature(arguments: ast.arguments) -> inspect.Signature:
    kind = inspect.Parameter
    given = [*arguments.posonlyargs, *arguments.args]
    parameters = [kind(a.arg, kind.POSITIONAL_OR_KEYWORD) for a in given]
    if arguments.vararg:
        parameters.append(kind(arguments.vararg.arg, kind.VAR_POSITIONAL))
    parameters += [kind(a.arg, kind.KEYWORD_ONLY) for a in arguments.kwonlyargs]
    if arguments.kwarg:
        parameters.append(kind(arguments.kwarg.arg, kind.VAR_KEYWORD))
    return inspect.Signature(parameters)


@functools.cache
def _probe_proxies() -> SimpleNamespace:
    functions = {name: getattr(probes, name) for name in probes.__all__}
    return SimpleNamespace(
        **{name: Proxy(Probe(name), inspect.signature(value)) for name, value in functions.items()}
    )
