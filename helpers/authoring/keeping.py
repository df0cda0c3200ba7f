"""Keep stored outputs that a new run measured anew, where the code that measures is the same.

A chapter is run whole when a comma of its text changes. Without this, each such run would replace
timings taken on a quiet machine by those of whatever the machine does now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from nbformat.notebooknode import NotebookNode

MEASURED = "nbval-ignore-output"
_PIXELS = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+")


def keep_measured(notebook: NotebookNode, stored: NotebookNode) -> None:
    """Give cells of ``notebook``, which was just run, the outputs that they have in ``stored``.

    That holds for measured cells, and for cells whose outputs differ in nothing but a picture's
    pixels, up to the first cell whose code is another: what comes after it may depend on it.
    Checks are passed over, since a chapter's demos do not depend on them.
    """
    pairs = zip(_cells_of_code(notebook), _cells_of_code(stored), strict=False)
    for cell, before in pairs:
        if cell.source != before.source:
            return
        if MEASURED in cell.metadata.get("tags", []) or _shown(cell) == _shown(before):
            cell.outputs = list(_numbered(before.outputs, cell.execution_count))


def _cells_of_code(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        if cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("grade"):
            yield cell


def _shown(cell: NotebookNode) -> str:
    """Return a cell's outputs without its number and without the pixels of its pictures."""
    outputs = [{**output, "execution_count": None} for output in cell.outputs]
    return _PIXELS.sub("a picture", json.dumps(outputs, sort_keys=True))


def _numbered(outputs: Iterable[NotebookNode], number: int | None) -> Iterator[NotebookNode]:
    for output in outputs:
        if "execution_count" in output:
            output.execution_count = number
        yield output
