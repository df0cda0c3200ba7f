"""Make two pages of the book out of all chapters: the index of exercises, and the glossary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from helpers.authoring.page import Chapter, PageError, exercise_anchor, read_notebook

_TITLE = re.compile(r"^### (?:Exercise \d+ · )?(?P<title>.+)$", re.MULTILINE)
_FACTS = re.compile(
    r"^\*?(?P<points>[\d.]+) points · (?P<minutes>\d+) minutes"
    r" · difficulty (?P<difficulty>\d) of 3",
    re.MULTILINE,
)
_CHAPTER_TITLE = re.compile(r"^# (?:\d\d · )?(?P<title>.+)$", re.MULTILINE)
_GLOSSARY = re.compile(
    r"^#+ Glossary\n+\|[^\n]*\n\|[ :|-]*\n(?P<rows>(?:\|[^\n]*\n?)+)", re.MULTILINE
)


@dataclass(frozen=True)
class _Card:
    name: str
    title: str
    points: float
    minutes: int
    difficulty: int


def render_exercises(course: Path) -> str:
    """Return a table of the exercises of each chapter of the folder ``course``, as Markdown.

    Raises:
        PageError: a notebook is missing or damaged, or a card does not say what it is worth.
    """
    blocks = []
    for name, notebook in read_chapters(course):
        cards = list(_cards(notebook, name))
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
        for row in _glossary_rows(notebook, name):
            found[row].append(f"[{name[:2]}]({name}.md)")
    rows = sorted(found.items(), key=lambda item: (item[0][0].casefold(), item[1]))
    lines = [
        f"| {' | '.join(row)} | {', '.join(dict.fromkeys(chapters))} |" for row, chapters in rows
    ]
    header = ["| English | 中文 | meaning | chapter |", "| --- | --- | --- | --- |"]
    return "\n".join([*header, *lines]) + "\n"


def read_chapters(course: Path) -> Iterator[tuple[str, NotebookNode]]:
    """Yield the name and the source notebook of each chapter of the folder ``course``, in order.

    Raises:
        PageError: a notebook is missing or damaged.
    """
    for path in sorted((course / "source").glob("[0-9][0-9]-*")):
        yield path.name, read_notebook(Chapter.find(course, path.name).source)


def chapter_title(notebook: NotebookNode, name: str) -> str:
    """Return the title of the chapter ``name``, without its number.

    Raises:
        PageError: it has none.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := _CHAPTER_TITLE.search(cell.source)):
            return match["title"]
    raise PageError(f"Chapter {name} has no title; its first line is to be `# NN · Title`.")


def _cards(notebook: NotebookNode, name: str) -> Iterator[_Card]:
    for cell in notebook.cells:
        exercise = cell.metadata.get("bits", {}).get("exercise")
        if cell.cell_type != "markdown" or not exercise:
            continue
        title, facts = _TITLE.search(cell.source), _FACTS.search(cell.source)
        if not title or not facts:
            raise PageError(
                f"Chapter {name}: the card of {exercise!r} has no title, or does not say its"
                " points, minutes and difficulty; build the chapter again with `make build`."
            )
        yield _Card(
            exercise,
            title["title"],
            float(facts["points"]),
            int(facts["minutes"]),
            int(facts["difficulty"]),
        )


def _exercise_row(chapter: str, card: _Card) -> str:
    link = f"[{card.title}]({chapter}.md#{exercise_anchor(card.name)})"
    return f"| {link} | {card.points:g} | {card.minutes} | {card.difficulty} |"


def _glossary_rows(notebook: NotebookNode, name: str) -> Iterator[tuple[str, ...]]:
    for cell in notebook.cells:
        match = _GLOSSARY.search(cell.source) if cell.cell_type == "markdown" else None
        for line in match["rows"].splitlines() if match else ():
            row = tuple(part.strip() for part in line.strip().strip("|").split("|"))
            if len(row) != 3:
                raise PageError(f"Chapter {name}: this row of the glossary has not 3 cells: {line}")
            yield row
