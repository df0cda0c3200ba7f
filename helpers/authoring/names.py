"""Make the book's index of names: which section of a chapter first uses which function or class.

The last part of a name stands alone: who remembers ``empty_cache`` finds it at E, and by the
book's search, whatever module it is in.
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from nbformat import NotebookNode

from helpers.authoring.notebooks import read_chapters
from helpers.authoring.sections import link_to, split_sections

_DOTTED = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
# How chapters call them.
_SHORT = {
    "F": "torch.nn.functional",
    "functional": "torch.nn.functional",
    "nn": "torch.nn",
    "np": "numpy",
    "optim": "torch.optim",
    "torch": "torch",
}


def render_names(course: Path) -> str:
    """Return a table of the names of torch and NumPy that chapters use, as Markdown.

    Args:
        course: the folder that holds ``source`` and ``release``.

    Raises:
        PageError: a notebook is missing or damaged.
    """
    users: dict[str, dict[str, str]] = defaultdict(dict)
    for chapter, notebook in read_chapters(course):
        for section in split_sections(notebook.cells):
            for name in _names(cell for _, cell in section.cells):
                users[name].setdefault(chapter, link_to(chapter, section.slug))
    by_letter: dict[str, list[str]] = defaultdict(list)
    for name in sorted(users, key=lambda name: (_sorted_by(name), name)):
        last = name.split(".")[-1]
        links = ", ".join(users[name].values())
        by_letter[_sorted_by(name)[0].upper()].append(f"| `{last}` | `{name}` | {links} |")
    head = "| name | in full | chapters |\n| --- | --- | --- |"
    return "\n\n".join(
        "\n".join([f"## {letter}", "", head, *rows]) for letter, rows in by_letter.items()
    )


def _sorted_by(name: str) -> str:
    return name.split(".")[-1].lstrip("_").casefold()


def _names(cells: Iterable[NotebookNode]) -> Iterator[str]:
    for cell in cells:
        grading = cell.metadata.get("nbgrader", {})
        if grading.get("solution") or grading.get("grade"):
            continue  # what an exercise is solved with is not for the index to say
        texts = [cell.source] if cell.cell_type == "code" else _INLINE_CODE.findall(cell.source)
        for text in texts:
            for dotted in _DOTTED.findall(text):
                if name := _full_name(dotted):
                    yield name


def _full_name(dotted: str) -> str:
    """Return the name in full, as far as it exists; "" if that is only a module."""
    first, *rest = dotted.split(".")
    if first not in _SHORT:
        return ""
    found, name = importlib.import_module(_SHORT[first]), _SHORT[first]
    for part in rest:
        following = getattr(found, part, None)
        if following is None or (isinstance(found, type) and part.startswith("_")):
            break
        found, name = following, f"{name}.{part}"
    return "" if isinstance(found, ModuleType) else name
