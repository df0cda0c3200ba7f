"""Have code forget, as a new process does, what it has kept beside what it returned."""

from __future__ import annotations

import contextlib
import os
import tempfile
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

# Nothing in here is worth a look.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), types.ModuleType)


@contextlib.contextmanager
def forgotten(code: Any) -> Iterator[None]:
    """Put back, after the body, what ``code`` can keep for a later call: the global variables that
    it names, directly or through others, and what is in their lists, dicts and sets, in attributes
    of functions, classes and objects of the same notebook, and in defaults and closures. Meanwhile
    the current folder is another one, which is removed.

    A student's own kernel is no new process, but a function that relies on what an earlier call has
    left there is to fail as in one.

    Args:
        code: a function or a class.
    """
    memory = _Memory(getattr(code, "__module__", None))
    memory.keep(code)
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            memory.put_back()


class _Memory:
    """What variables hold that code can reach."""

    def __init__(self, module: str | None) -> None:
        """Begin with nothing. Of functions and classes, only those of ``module`` count."""
        self._module = module
        self._seen: dict[int, Any] = {}  # holds the objects, whose numbers are theirs meanwhile
        self._undo: list[Callable[[], Any]] = []

    def keep(self, value: Any) -> None:
        """Look at ``value``, and at all that can be reached from there."""
        found = [value]
        while found:
            value = found.pop()
            if isinstance(value, _PLAIN) or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            found += self._keep_one(value)

    def put_back(self) -> None:
        """Have all variables hold what they held."""
        for undo in self._undo:
            undo()

    def _keep_one(self, value: Any) -> list:
        """Note what ``value`` holds, and return that."""
        if isinstance(value, dict):
            return self._keep_items(value, dict(value))
        if isinstance(value, list | deque):
            return self._keep_items(value, list(value))
        if isinstance(value, set):
            return self._keep_items(value, set(value))
        if isinstance(value, tuple | frozenset):
            return list(value)
        if isinstance(value, staticmethod | classmethod | types.MethodType):
            return [value.__func__]
        if isinstance(value, property):
            return [value.fget, value.fset]
        if isinstance(value, types.FunctionType):
            return self._keep_function(value) if value.__module__ == self._module else []
        if isinstance(value, type):
            return self._keep_class(value) if value.__module__ == self._module else []
        if type(value).__module__ == self._module and hasattr(value, "__dict__"):
            return [type(value), vars(value)]
        return []

    def _keep_items(self, container: Any, items: Any) -> list:
        def undo() -> None:
            container.clear()
            (container.extend if isinstance(items, list) else container.update)(items)

        self._undo.append(undo)
        return list(items.values() if isinstance(items, dict) else items)

    def _keep_function(self, function: types.FunctionType) -> list:
        held = [vars(function), function.__defaults__, function.__kwdefaults__]
        for cell in function.__closure__ or ():
            with contextlib.suppress(ValueError):  # it is empty
                held.append(self._keep_cell(cell))
        variables = function.__globals__
        for name in _names(function.__code__):
            held.append(self._keep_variable(variables, name))
        return held

    def _keep_cell(self, cell: types.CellType) -> Any:
        content = cell.cell_contents
        self._undo.append(lambda: setattr(cell, "cell_contents", content))
        return content

    def _keep_variable(self, variables: dict[str, Any], name: str) -> Any:
        if name not in variables:
            self._undo.append(lambda: variables.pop(name, None))
            return None
        value = variables[name]
        self._undo.append(lambda: variables.update({name: value}))
        return value

    def _keep_class(self, made: type) -> list:
        held = dict(vars(made))

        def undo() -> None:
            now = {name: value for name, value in vars(made).items() if not name.startswith("__")}
            for name, value in now.items():
                if name not in held:
                    delattr(made, name)
                elif value is not held[name]:
                    setattr(made, name, held[name])
            for name in held.keys() - vars(made).keys():
                setattr(made, name, held[name])

        self._undo.append(undo)
        return [*made.__bases__, *held.values()]


def _names(code: types.CodeType) -> set[str]:
    """Return the names that ``code``, and the functions in it, may mean global variables by."""
    inside = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inside))
