"""What a cell says, however it is laid out: the same program in another layout is the same cell.

Editors lay code out anew (other quotes, other line breaks, comments), and publishing puts the
repository's address into the cell that installs the helpers. None of that makes a course's cell
the student's.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

# A parsed cell takes thousands of times its text in memory; a chapter's longest has 10,000.
_MOST_CHARACTERS = 100_000
# IPython ends a line at each of these, Python does not: so the two might read a cell differently.
_ODD_LINE_ENDS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_DEFINITION = re.compile(r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_ADDRESS = re.compile(r"git\+https://[\w.:~/-]+")


@dataclass(frozen=True)
class Meaning:
    """What a code cell says.

    Attributes:
        digest: the same for every layout of the same program; "" where there is no program.
        defines: the functions and classes that it defines at its top.
        checks: the exercise whose check it makes at its top; "" if it makes none.
    """

    digest: str = ""
    defines: frozenset[str] = frozenset()
    checks: str = ""


def read_meaning(text: str) -> Meaning:
    """Return what a code cell says; of one that is no Python, the names that it would define."""
    if len(text) > _MOST_CHARACTERS:
        return Meaning(defines=_defined_at_sight(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler remarks is the student's affair
            body = ast.parse(without_address(text)).body
        if not body:
            return Meaning()
        digest = "" if _ODD_LINE_ENDS.search(text) else _digest(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Meaning(defines=_defined_at_sight(text))
    return Meaning(digest, frozenset(_defined(body)), next(_checked(body), ""))


def comparable(text: str) -> str:
    """Return ``text`` without what editors change by themselves: white space at ends of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip()


def without_address(text: str) -> str:
    """Return ``text`` with a word in place of every address that pip would install from."""
    return _ADDRESS.sub("git+ADDRESS", text)


def has_address(text: str) -> bool:
    """Return whether ``without_address`` would change ``text``."""
    return _ADDRESS.search(text) is not None


def _digest(body: list[ast.stmt]) -> str:
    return hashlib.sha256("\n".join(map(ast.dump, body)).encode()).hexdigest()


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name


def _defined_at_sight(text: str) -> frozenset[str]:
    return frozenset(_DEFINITION.findall(text))


def _checked(body: list[ast.stmt]) -> Iterator[str]:
    for statement in body:
        match getattr(statement, "value", None):
            case ast.Call(func=ast.Name("Check"), args=[ast.Constant(str(name))]):
                yield name
