"""A chapter as the pages of the book: its opening, and each of its sections.

A section begins at a ``##`` heading. On its own page that heading is the page's title, so all
headings below it go up one level as well.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from nbformat import NotebookNode

from helpers.authoring.cards import exercise_of
from helpers.authoring.markdown import parse

_MAYBE_HEADING = re.compile(r"^ {0,3}#", re.MULTILINE)
_HASHES = re.compile(r"^ {0,3}#+")


class NumberedCell(NamedTuple):
    """A cell, or a piece of one, with the number of the notebook's cell."""

    number: int
    cell: NotebookNode


@dataclass(frozen=True)
class Section:
    """What one page of a chapter shows.

    ``heading`` is Markdown; the opening has none. ``anchors`` leads from each id that the section
    had when a chapter was one page to the id on the section's own page, "" for its top.
    """

    heading: str = ""
    cells: list[NumberedCell] = field(default_factory=list)
    anchors: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The heading as plain text."""
        return plain_text(self.heading)

    @property
    def slug(self) -> str:
        """What the section's page is called, and the id that its heading had in the chapter's.

        The opening, which stands on the chapter's own page, has "".
        """
        return next(iter(self.anchors)) if self.heading else ""

    @property
    def prose(self) -> str:
        """What stands between the code."""
        return "\n\n".join(cell.source for _, cell in self.cells if cell.cell_type == "markdown")


class Heading(NamedTuple):
    """A heading of a text, in the line of that number, as Markdown."""

    line: int
    level: int
    text: str


class IdGiver:
    """Makes ids unique as mdBook does: the second ``x`` of a page is ``x-1``."""

    def __init__(self) -> None:
        """Start a page, which has no ids yet."""
        self._given: set[str] = set()

    def give(self, heading: str) -> str:
        """Return the id of the page's next heading."""
        wanted = given = normalize_id(plain_text(heading))
        count = 0
        while given in self._given:
            count += 1
            given = f"{wanted}-{count}"
        self._given.add(given)
        return given


def split_sections(cells: Sequence[NotebookNode]) -> list[Section]:
    """Return the opening, which may be empty, and the sections of a chapter's ``cells``."""
    sections, of_chapter, of_page = [Section()], IdGiver(), IdGiver()
    for number, cell in enumerate(cells, start=1):
        if cell.cell_type != "markdown":
            sections[-1].cells.append(NumberedCell(number, cell))
            continue
        for begins, text in _cut(cell.source):
            if begins:
                sections.append(Section(begins.text))
                of_page = IdGiver()
            anchors, is_opening = sections[-1].anchors, len(sections) == 1
            for heading in find_headings(text):
                old, new = of_chapter.give(heading.text), of_page.give(heading.text)
                anchors[old] = new if anchors or is_opening else ""
            if exercise := exercise_of(cell):
                anchors[exercise_anchor(exercise)] = exercise_anchor(exercise)
            piece = cell.copy()
            piece.source = text if is_opening else _raise_headings(text)
            sections[-1].cells.append(NumberedCell(number, piece))
    return sections


def exercise_anchor(name: str) -> str:
    """Return the id of the card of the exercise ``name`` in its page."""
    return f"exercise-{name}"


def link_to(chapter: str, slug: str) -> str:
    """Return a link, by the chapter's number, to one of its sections or, for "", to itself."""
    anchor = f"#{slug}" if slug else ""
    return f"[{chapter[:2]}]({chapter}.md{anchor})"


def normalize_id(text: str) -> str:
    """Return ``text`` as mdBook makes ids: also of an anchor that Jupyter gives a heading."""
    kept = (c if c.isalnum() or c in "_-" else "-" * c.isspace() for c in text.strip())
    return "".join(kept).lower()


@functools.cache
def plain_text(heading: str) -> str:
    """Return a heading without its marks."""
    tokens = [token for block in parse(f"# {heading}") for token in block.children or ()]
    return "".join(token.content for token in tokens if token.type in ("text", "code_inline"))


@functools.cache  # several pages of the book are made of the same texts
def find_headings(markdown: str) -> tuple[Heading, ...]:
    """Return the headings of a text that begin with ``#``."""
    if not _MAYBE_HEADING.search(markdown):
        return ()
    tokens = parse(markdown)
    return tuple(
        Heading(token.map[0], int(token.tag[1]), tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.markup.startswith("#")
    )


def _cut(source: str) -> Iterator[tuple[Heading | None, str]]:
    """Yield a text's pieces, each with the ``##`` heading that it begins with, if any."""
    lines = source.splitlines(keepends=True)
    starts = [heading for heading in find_headings(source) if heading.level == 2]
    if not starts or starts[0].line > 0:
        yield None, "".join(lines[: starts[0].line if starts else None])
    ends = [*(heading.line for heading in starts[1:]), len(lines)]
    for heading, end in zip(starts, ends, strict=False):
        yield heading, "".join(lines[heading.line : end])


def _raise_headings(text: str) -> str:
    lines = text.splitlines(keepends=True)
    for line, level, _ in find_headings(text):
        lines[line] = _HASHES.sub("#" * (level - 1), lines[line], count=1)
    return "".join(lines)
