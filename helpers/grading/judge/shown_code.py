"""Code as it stands in a judged notebook: short enough for the programs that color it.

IPython's lexer, version 1.1, which nbconvert and formgrader use, takes a time that
grows with the square of a line's length: for a line of 80,000 characters, more than a minute.
What was handed in stays as it is, and what is judged is all of it.
"""

from __future__ import annotations

_MOST_LINE = 2_000
_MOST_CELL = 30_000
_MOST_ALL = 300_000


class CodeRoom:
    """How much of all the code of one submission is shown."""

    def __init__(self) -> None:
        """Begin with nothing shown."""
        self._room = _MOST_ALL
        self._left_out = 0

    def shorten(self, code: str) -> str:
        """Return the beginning of a cell's code for which there is room; it is taken off."""
        kept = code[: max(0, min(_MOST_CELL, self._room))]
        lines = [
            line if len(line) <= _MOST_LINE else line[:_MOST_LINE] + _mark(len(line) - _MOST_LINE)
            for line in kept.split("\n")
        ]
        left = len(code) - len(kept)
        if left:
            lines.append(_mark(left))
        shown = "\n".join(lines)
        self._room -= len(kept)
        self._left_out += shown != code
        return shown

    def notes(self) -> list[str]:
        """Return what a person should know of it."""
        told = (
            f"code of {self._left_out:,} of its cells is shown in part: there is too much of it, "
            f"or its lines are too long"
        )
        return [told] * bool(self._left_out)


def _mark(count: int) -> str:
    return f"  # [{count:,} characters are left out here]"
