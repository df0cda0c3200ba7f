"""What the chapters refer to: their lists of references, and the addresses that lead elsewhere."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from nbformat import NotebookNode

from helpers.authoring.indexes import chapter_names, chapter_title
from helpers.authoring.page import Chapter, read_notebook

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
    for name in chapter_names(course):
        for text in _prose(read_notebook(Chapter.find(course, name).source)):
            for target in link_targets(text):
                if "://" in target:
                    users[target].add(name)
    return {target: sorted(users[target]) for target in sorted(users)}


def link_targets(markdown: str) -> Iterator[str]:
    """Yield where the links and the pictures of a Markdown text lead, in their order."""
    for token in _inline_tokens(markdown):
        target = token.attrs.get({"link_open": "href", "image": "src"}.get(token.type, ""))
        if target:
            yield str(target)


def plain_words(markdown: str) -> Iterator[str]:
    """Yield the pieces of a Markdown text that are neither code nor an address."""
    for token in _inline_tokens(markdown):
        if token.type == "text":
            yield token.content


def render_references(course: Path) -> str:
    """Return what each chapter of the folder ``course`` lists as references, as Markdown.

    Raises:
        PageError: a notebook is missing or damaged, or has no title.
    """
    blocks = []
    for name in chapter_names(course):
        notebook = read_notebook(Chapter.find(course, name).source)
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


def _inline_tokens(markdown: str) -> Iterator[Token]:
    for block in MarkdownIt("commonmark").enable("table").parse(markdown):
        yield from block.children or ()
