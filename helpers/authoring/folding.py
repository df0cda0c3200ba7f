"""Cells that open as one line: their title stays in sight, their code is folded.

Each front end has its own mark for it. JupyterLab and Notebook 7 fold a cell whose metadata say
that its source is hidden, and show the first line. Colab shows the title of a form. VS Code reads
no such mark from a file (https://github.com/microsoft/vscode/issues/158716): there, cells are open.
"""

from __future__ import annotations

import re

from nbformat.notebooknode import NotebookNode

_TITLE_LINE = re.compile(r"# @title (.+)\n")


def fold_cell(cell: NotebookNode, title: str) -> None:
    """Have a cell of code open as one line that says ``title``."""
    cell.source = f"# @title {title}\n{cell.source}"
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"


def split_title(source: str) -> tuple[str, str]:
    """Return the title of a folded cell and its code; of another cell, "" and all of it."""
    match = _TITLE_LINE.match(source)
    return (match[1], source[match.end() :]) if match else ("", source)
