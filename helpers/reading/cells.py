"""A notebook's cell as plain Python, with the line numbers that its author sees.

A cell may hold what only IPython understands: shell lines, magics and questions for help. IPython
rewrites one of them at a time and begins anew after each, so a cell of a thousand magics takes it
minutes. Here a cell is scanned once, by the same rules: such a line counts only where a statement
begins, and neither inside brackets nor inside a string.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
import warnings
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """A cell of code.

    Attributes:
        code: its text, as it stands in the notebook.
        label: how people are told about it: "cell 12".
        is_course: whether the course wrote it.
    """

    code: str
    label: str
    is_course: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A piece of a cell that is not Python: its first line's number, and its text."""

    line: int
    text: str


# These run the statement behind them, and these the cell below them. Only the options that IPython
# takes for options are passed over: behind any other minus sign stands a part of the statement.
_TIMEIT = r"timeit\b(?:[ \t]+(?:-[nrp][ \t]*\d+|-[tcqo]))*(?![^ \t\n])"
_PRUN = r"prun\b(?:[ \t]+(?:-[ls][ \t]*\w+|-[qr]))*(?![^ \t\n])"
_STATEMENT = re.compile(rf"%(?:time(?![^ \t\n])|{_TIMEIT}|{_PRUN})[ \t]*")
_CELL = re.compile(r"%%(?:time|timeit|prun|capture)(?!\w)[^\n]*")
_SETUP = re.compile(rf"%%{_TIMEIT}[ \t]*")
_HELP = re.compile(r"[ \t]*%{0,2}(?!\d)[\w*]+(?:\.(?!\d)[\w*]+|\[-?\d+\])*[ \t]*\?{1,2}[ \t]*$")
_CONSOLE_PROMPT = re.compile(r"[ \t]*(?:>>>|\.\.\.)(?: |$)")
# Behind such a prompt Python alone may read on: "In [1]: x = 2" is an item with a type.
_PROMPT = re.compile(r"(?:(?:\[nav\]|\[ins\])? )?In \[\d+\]: |\s*\.{3,}: ?")

_INDENT = re.compile(r"[ \t\f]*")
# A line, as far as a backslash carries it on.
_LINE = re.compile(r"(?:[^\\\n]+|\\\n|\\)*")
# Each alternative takes what it begins with, whatever follows: there is nothing to try again.
_TOKEN = re.compile(
    r"""
      (?P<string>(?P<prefix>\b[A-Za-z]{1,2})?(?:
          \"\"\"(?:[^"\\]|\\.|"(?!""))*+(?:\"\"\")? | '''(?:[^'\\]|\\.|'(?!''))*+(?:''')?
        | "(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'?))
    | (?P<comment>\#[^\n]*)
    | (?P<open>[\[({])
    | (?P<close>[\])}])
    | (?P<carry>\\\n)
    | (?P<end>\n)
    | (?P<assign>(?<![=!<>:+\-*/%&|^@~])=(?!=))
    | (?P<space>[ \t\f]+)
    | (?P<word>\w+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PREFIX = re.compile(r"[A-Za-z]*")
_BLANK = re.compile(r"\s*")
_ASSIGNED = re.compile(r"[ \t]*(?:!|%(?=[^\W\d]))")
_ESCAPES = ("%", "!", "?", ",", ";", "/")
_MOST_NESTED = 10  # "%%time" below "%%capture": nobody needs more
# Characters of a cell.
_LONGEST = 100_000
_LONG = 10_000
_SHORT = 200


def as_python(code: str) -> str:
    """Return a cell as plain Python with the same line numbers.

    Shell lines, line magics and questions for help become ``pass``, what is assigned from them an
    empty list. Of ``%time`` and its like the statement stays, of ``%%time`` and its like the cell;
    below any other cell magic nothing is Python. A cell of pure Python is returned unchanged.
    """
    return _read(code).python


def left_out(code: str) -> tuple[LeftOut, ...]:
    """Return what of a cell ``as_python`` does not show, in order."""
    return _read(code).left_out


def parse(code: str) -> ast.Module | None:
    """Return the tree of a cell; None if the cell is neither Python nor IPython.

    The tree is shared with whoever asks for the same text: do not change it.
    """
    return _read(code).tree


def digest(code: str) -> str:
    """Return what tells a cell's text from others; blank lines and trailing spaces do not count."""
    lines = (line.rstrip() for line in _with_plain_newlines(code).split("\n"))
    return hashlib.sha256("\n".join(filter(None, lines)).encode(errors="replace")).hexdigest()[:16]


@dataclass
class _Reading:
    python: str
    tree: ast.Module | None = None
    left_out: tuple[LeftOut, ...] = ()


def _read(code: str) -> _Reading:
    # One cell is asked for by whoever looks for another thing in it. Its tree takes a hundred
    # times the text's memory, so of the long ones few are kept, and the longest not at all.
    if len(code) > _LONGEST:
        return _read_anew(code)
    if len(code) > _LONG:
        return _read_and_keep_long(code)
    return _read_and_keep(code) if len(code) > _SHORT else _read_and_keep_short(code)


@functools.lru_cache(maxsize=4)
def _read_and_keep_long(code: str) -> _Reading:
    return _read_anew(code)


@functools.lru_cache(maxsize=256)
def _read_and_keep(code: str) -> _Reading:
    return _read_anew(code)


@functools.lru_cache(maxsize=3000)
def _read_and_keep_short(code: str) -> _Reading:
    return _read_anew(code)


def _read_anew(code: str) -> _Reading:
    easy = _without_prompts(code, _PROMPT)
    tree = _parse(easy)
    if tree is not None:
        return _Reading(easy, tree)
    scan = _Scan(_without_prompts(_without_margin(_with_plain_newlines(easy)), _CONSOLE_PROMPT))
    scan.run()
    python = "".join(scan.written)
    return _Reading(python, _parse(python), tuple(scan.left_out))


def _parse(python: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler remarks is the student's affair
            return ast.parse(python)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _with_plain_newlines(code: str) -> str:
    return code.replace("\r\n", "\n").replace("\r", "\n")


def _without_margin(code: str) -> str:
    """Take away the indentation of the first line that has text, as IPython does."""
    stripped = code.lstrip()
    margin = code[: len(code) - len(stripped)].rpartition("\n")[2]
    if not margin:
        return code
    return "\n".join(line.removeprefix(margin) for line in code.split("\n"))


def _without_prompts(code: str, prompt: re.Pattern) -> str:
    """Take away the prompts of an example that was copied from a console."""
    lines = code.split("\n")
    first = next((place for place, line in enumerate(lines) if line.strip()), 0)
    if not any(prompt.match(line.lstrip()) for line in lines[first : first + 2]):
        return code
    return "\n".join(map(functools.partial(_without_prompt, prompt), lines))


def _without_prompt(prompt: re.Pattern, line: str) -> str:
    found = prompt.match(line.lstrip())
    return line if found is None else line.lstrip()[found.end() :]


@dataclass
class _Scan:
    """One pass through a cell, from the left to the right."""

    code: str
    place: int = 0
    line: int = 1
    written: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def run(self) -> None:
        """Write the cell as Python."""
        self._read_cell_magics()
        while self.place < len(self.code):
            if not self._read_escaped_line():
                self._read_statement()

    def _read_cell_magics(self) -> None:
        for _ in range(_MOST_NESTED):
            blank = _BLANK.match(self.code, self.place).end()
            if not self.code.startswith("%%", blank):
                return
            self._write(self.code[self.place : blank])
            self.place = blank
            found = _CELL.match(self.code, blank)
            if found is None:
                break
            setup = _SETUP.match(self.code, blank)
            if setup is not None:
                self.place = setup.end()
            if setup is None or not self._copy_statement(found.end()):
                self._drop(found.end())
        self._drop(len(self.code))  # another language

    def _read_escaped_line(self) -> bool:
        """Read a line that begins as no statement does; return whether there was one."""
        start = _INDENT.match(self.code, self.place).end()
        end = _LINE.match(self.code, start).end()
        if self.code.startswith(_ESCAPES, start):
            self._write(self.code[self.place : start])
            statement = _STATEMENT.match(self.code, start)
            if statement is not None:
                self.place = statement.end()
                if self._copy_statement(end):
                    return True
                self.place = start
        elif self.code.find("?", start, end) >= 0 and _HELP.match(self.code[start:end]):
            self._write(self.code[self.place : start])
        else:
            return False
        self._drop(end, "pass")
        return True

    def _copy_statement(self, end: int) -> bool:
        """Write the statement behind a magic, if it is one: it must not go on in the next line."""
        text = self.code[self.place : end]
        if not text.strip() or _parse(text.strip()) is None:
            return False
        self._write(text)
        self.place = end
        return True

    def _read_statement(self) -> None:
        """Read as far as the line that ends outside all brackets."""
        depth, is_assigned = 0, False
        start = self.place
        while self.place < len(self.code):
            token = _TOKEN.match(self.code, self.place)
            kind = token.lastgroup
            self.place = token.end()
            if kind == "open":
                depth += 1
            elif kind == "close":
                depth = max(depth - 1, 0)
            elif kind == "end" and depth == 0:
                break
            elif kind == "assign" and depth == 0 and not is_assigned:
                is_assigned = True
                if _ASSIGNED.match(self.code, self.place):
                    self._copy(start)
                    self._read_assigned_magic()
                    return
            elif kind == "string" and _may_hold_more(token[0]):
                self.left_out.append(LeftOut(self.line, token[0][:80]))
        self._copy(start)

    def _read_assigned_magic(self) -> None:
        equals_sign = self.place
        start = _INDENT.match(self.code, equals_sign).end()
        end = _LINE.match(self.code, start).end()
        statement = _STATEMENT.match(self.code, start)
        if statement is not None:
            self.place = statement.end()
            self._write(" ")
            if self._copy_statement(end):
                return
            self.place = equals_sign
        self._drop(end, " []")

    def _copy(self, start: int) -> None:
        self._write(self.code[start : self.place])

    def _write(self, text: str) -> None:
        """Write what is Python, and go on behind it."""
        self.written.append(text)
        self.line += text.count("\n")

    def _drop(self, end: int, instead: str = "") -> None:
        """Leave out what lies between here and ``end``, but for its line breaks."""
        text = self.code[self.place : end]
        if text.strip():
            self.left_out.append(LeftOut(self.line, text.strip()))
        self._write(instead + "\n" * text.count("\n"))
        self.place = end


def _may_hold_more(string: str) -> bool:
    """Return whether an f-string may end behind its closing quote.

    From Python 3.12 on, the braces in an f-string may hold the quotes that are around it.
    """
    prefix = _PREFIX.match(string)[0]
    return "f" in prefix.lower() and string.count("{") != string.count("}")
