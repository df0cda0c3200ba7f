"""Where in a student's own cells an exception was raised."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import TracebackType

from helpers.plain import one_line

# A recursion that never ends has a thousand.
MOST_FRAMES = 4


@dataclass(frozen=True)
class Place:
    """A line of a cell that was run: the number that the cell ran under, the line's number, and the
    function that the line belongs to.
    """

    cell: int
    line: int
    function: str


@dataclass(frozen=True)
class Frame:
    """A line of the student's own, as people are told about it: ``label`` names the cell, ``code``
    is the line's text.
    """

    label: str
    line: int
    function: str
    code: str

    def __str__(self) -> str:
        """Return the frame on one line."""
        inside = "" if self.function == "<module>" else f", in {self.function}"
        return f"{self.label}, line {self.line}{inside}: {self.code}"


def find_places(error: BaseException) -> list[Place]:
    """Return the lines of cells that ``error`` came through, the outermost first.

    Frames of libraries and modules are left out, and of a long recursion all but the innermost.
    """
    numbers = numbers_of_cells()
    places: list[Place] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        number = numbers.get(code.co_filename)
        if number is not None:
            place = Place(number, trace.tb_lineno, code.co_name)
            if places[-1:] != [place]:
                places.append(place)
        trace = trace.tb_next
    return places[-MOST_FRAMES:]


def make_frame(place: Place, label: str, code: str) -> Frame | None:
    """Return what stands at ``place`` in a cell of this ``code``; None if it has no such line."""
    lines = code.split("\n")
    # IPython leaves out the empty lines at the top of a cell before it counts.
    left_out = next((i for i, line in enumerate(lines) if line.strip()), 0)
    number = place.line + left_out
    if place.line < 1 or number > len(lines):
        return None
    return Frame(label, number, place.function, one_line(lines[number - 1]))


def numbers_of_cells() -> dict[str, int]:
    """Return the number of each cell by the name of the file that Python takes it for."""
    interactive_shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    shell = interactive_shell() if interactive_shell else None
    # Not public in any version; where it is missing, a report shows no frames.
    return getattr(getattr(shell, "compile", None), "_filename_map", {})
