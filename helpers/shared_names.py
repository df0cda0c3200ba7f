"""Names that a student's cells bind, and a test cell in the same kernel as well.

A student's helper may have the name of one of the test's functions. While the student's code runs,
such a name has the student's value; while the test's own code runs, it has the test's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_MISSING = object()


class SharedNames:
    """The names of one ``namespace``, as they were before a test cell bound its own."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        """Note what all names in ``namespace`` stand for."""
        self.namespace = namespace
        self._students = dict(namespace)
        self._tests: dict[str, Any] | None = None  # while the student's code runs

    @contextlib.contextmanager
    def as_students(self) -> Iterator[None]:
        """Let the student's names have the student's values inside the block."""
        if self._tests is not None:
            yield
            return
        self._to_students()
        try:
            yield
        finally:
            self._to_tests()

    @contextlib.contextmanager
    def as_tests(self) -> Iterator[None]:
        """Let all names have the test's values inside the block: what the test has lent runs."""
        if self._tests is None:
            yield
            return
        self._to_tests()
        try:
            yield
        finally:
            self._to_students()

    def give_back(self, *, but: Any = None) -> None:
        """Let names have the student's values from now on, but for a name of ``but``."""
        for name, value in self._students.items():
            if self.namespace.get(name, _MISSING) is not but:
                self.namespace[name] = value
        self._students = {}  # nothing is kept alive

    def _to_students(self) -> None:
        now = self.namespace
        self._tests = {
            name: now[name]
            for name, value in self._students.items()
            if name in now and now[name] is not value
        }
        now.update({name: self._students[name] for name in self._tests})

    def _to_tests(self) -> None:
        # What the student's code has bound in the meantime is the student's as well.
        now = self.namespace
        self._students = {name: now.get(name, value) for name, value in self._students.items()}
        now.update(self._tests or {})
        self._tests = None
