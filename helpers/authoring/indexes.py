"""Make two pages of the book out of all chapters: the index of exercises, and the glossary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbformat import NotebookNode

from helpers.authoring.cards import Card, read_cards
from helpers.authoring.notebooks import PageError, chapter_title, read_chapters
from helpers.authoring.sections import Section, exercise_anchor, link_to, split_sections

_GLOSSARY = re.compile(
    r"^#+ Glossary\n+\|[^\n]*\n\|[ :|-]*\n(?P<rows>(?:\|[^\n]*\n?)+)", re.MULTILINE
)


def render_exercises(course: Path) -> str:
    """Return a table of the exercises of each chapter of the folder ``course``, as Markdown.

    Raises:
        PageError: a notebook is missing or damaged, or a card does not say what it is worth.
    """
    blocks = []
    for name, notebook in read_chapters(course):
        cards = list(read_cards(notebook.cells, name))
        if not cards:
            continue
        points, minutes = sum(c.points for c in cards), sum(c.minutes for c in cards)
        blocks += [
            f"## {name[:2]} {chapter_title(notebook, name)}",
            f"{len(cards)} exercises, {points:g} points, {minutes} minutes."
            f" [To the chapter]({name}.md)",
            "\n".join(
                [
                    "| exercise | points | minutes | difficulty |",
                    "| --- | --: | --: | --: |",
                    *(_exercise_row(name, card) for card in cards),
                ]
            ),
        ]
    return "\n\n".join(blocks) + "\n"


def render_glossary(course: Path) -> str:
    """Return the terms of all chapters of the folder ``course`` in one table, as Markdown.

    Raises:
        PageError: a notebook is missing or damaged, or a row has not three cells.
    """
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, notebook in read_chapters(course):
        sections = split_sections(notebook.cells)
        for row in _glossary_rows(notebook, name):
            found[row].append(link_to(name, _where_explained(row[0], sections)))
    rows = sorted(found.items(), key=lambda item: (_bare(item[0][0]).casefold(), item[1]))
    lines = [
        f"| {' | '.join(row)} | {', '.join(dict.fromkeys(chapters))} |" for row, chapters in rows
    ]
    header = ["| English | 中文 | meaning | chapter |", "| --- | --- | --- | --- |"]
    return "\n".join([*header, *lines]) + "\n"


def _exercise_row(chapter: str, card: Card) -> str:
    link = f"[{card.title}]({chapter}.md#{exercise_anchor(card.name)})"
    return f"| {link} | {card.points:g} | {card.minutes} | {card.difficulty} |"


def _glossary_rows(notebook: NotebookNode, name: str) -> Iterator[tuple[str, ...]]:
    for cell in notebook.cells:
        match = _GLOSSARY.search(cell.source) if cell.cell_type == "markdown" else None
        for line in match["rows"].splitlines() if match else ():
            row = tuple(part.strip() for part in line.strip().strip("|").split("|"))
            if len(row) != 3:
                raise PageError(
                    f"Chapter {name}: this row of the glossary does not have 3 cells: {line}"
                )
            yield row


def _bare(term: str) -> str:
    """Return a term as a dictionary sorts it: a verb without its "to"."""
    return term.removeprefix("to ")


def _where_explained(term: str, sections: Sequence[Section]) -> str:
    """Return the slug of the section that emphasizes ``term`` first, or else of the first one that
    names it: in its heading, in its text, in the chapter's opening, in the glossary.
    """
    parts = [part.split() for part in re.split(r"[,()]", _bare(term)) if part.strip()]
    # Between a term's words: `backoff_factor`, a **fused** optimizer.
    patterns = [r"[\W_]+".join(map(re.escape, words)) for words in parts]

    def found(text: str, before: str = "") -> list[bool]:
        each_of = (rf"(?<!\w){before}{pattern}" for pattern in patterns)
        return [re.search(each, text, re.IGNORECASE) is not None for each in each_of]

    def rank(section: Section) -> tuple[bool, ...]:
        has_glossary = _GLOSSARY.search(section.prose) is not None
        if any(found(section.prose, r"\*+")) and not has_glossary:
            return (False,)
        is_title, is_named = all(found(section.heading)), any(found(section.prose))
        return (True, not is_title, not is_named, has_glossary, not section.heading)

    return min(sections, key=rank).slug
