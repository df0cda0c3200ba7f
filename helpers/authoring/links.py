"""What the chapters refer to: their lists of references, and the addresses that lead elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from nbformat import NotebookNode

from helpers.authoring.markdown import link_targets, parse
from helpers.authoring.notebooks import chapter_title, read_chapters

_REFERENCES = re.compile(r"^#+ References\n(?P<items>.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)


def external_links(course: Path) -> dict[str, list[str]]:
    """Return every address outside the course that a chapter links to, and who does.

    Args:
        course: the folder that holds ``source`` and ``release``.

    Returns:
        The names of the chapters by address; addresses and names are sorted.

    Raises:
        PageError: a notebook is missing or damaged.
    """
    users: dict[str, set[str]] = defaultdict(set)
    for name, notebook in read_chapters(course):
        for text in _prose(notebook):
            for target in link_targets(text):
                if "://" in target:
                    users[target].add(name)
    return {target: sorted(users[target]) for target in sorted(users)}


def plain_words(markdown: str) -> Iterator[str]:
    """Yield the pieces of a Markdown text that are neither code nor an address."""
    for block in parse(markdown):
        yield from (token.content for token in block.children or () if token.type == "text")


def render_references(course: Path) -> str:
    """Return what each chapter of the folder ``course`` lists as references, as Markdown.

    Raises:
        PageError: a notebook is missing or damaged, or has no title.
    """
    blocks = []
    for name, notebook in read_chapters(course):
        listed = [
            found["items"].strip()
            for text in _prose(notebook)
            for found in _REFERENCES.finditer(text)
        ]
        if listed:
            title, back = chapter_title(notebook, name), f"[In the chapter]({name}.md#references)"
            blocks += [f"## {name[:2]} {title}", *listed, back]
    return "\n\n".join(blocks) + "\n"


def _prose(notebook: NotebookNode) -> Iterator[str]:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield cell.source
