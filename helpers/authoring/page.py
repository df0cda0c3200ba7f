"""Make the book's pages of a chapter, in Markdown: one that leads in, and one for each section."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from helpers.authoring.blocks import BlockMaker
from helpers.authoring.cards import read_cards
from helpers.authoring.check_example import find_answers
from helpers.authoring.launches import LaunchError, find_launches
from helpers.authoring.mathml import convert_math
from helpers.authoring.notebooks import Chapter, PageError, read_notebook
from helpers.authoring.sections import Section, exercise_anchor, split_sections
from helpers.explorables.stage import find_explorables, start_script

_FIRST_HEADING = re.compile(r"^# (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One page of a chapter.

    ``slug`` is what it is called below the chapter's own page, which has none. ``anchors`` leads
    from each id that it had when the chapter was one page to its id on this one, "" for its top.
    """

    title: str
    slug: str
    text: str
    anchors: Mapping[str, str]


def render_pages(chapter: Chapter, repository: str, fold_solutions: bool) -> list[Page]:
    """Return the chapter's own page, and those of its sections, as Markdown with HTML blocks.

    A link to a chapter, or to a heading or an exercise of one, leads to the chapter's own page,
    with the anchor that it had when the chapter was one page.

    Args:
        chapter: the notebooks to read.
        repository: the course's address on GitHub, from which the links at the top are made.
        fold_solutions: put each solution in a fold under its exercise; otherwise leave it out.

    Raises:
        PageError: a notebook cannot be read, the two do not belong together, or a cell cannot
            be shown.
    """
    links = _links(chapter, repository)
    release = read_notebook(chapter.release)
    given = {
        grade_id: cell
        for cell in release.cells
        if (grade_id := cell.metadata.get("nbgrader", {}).get("grade_id"))
    }
    cells = read_notebook(chapter.source).cells
    maker = BlockMaker(chapter.name, given, fold_solutions, find_answers(cells, given))
    opening, *sections = split_sections(cells)
    blocks = maker.make(opening.cells)
    title = _title_of(blocks) or chapter.name
    if sections:
        blocks.append(_section_map(sections, chapter.name))
    pages = [Page(title, "", _with_links(_joined(blocks), links), {})]
    up = f"[{title}]({chapter.name}.md)"
    path = f'<nav class="of-chapter" aria-label="Chapter">\n\n{up}\n\n</nav>'
    for section in sections:
        text = _joined([path, *maker.make(section.cells)])
        pages.append(Page(section.title, section.slug, text, section.anchors))
    return pages


def _joined(blocks: Sequence[str]) -> str:
    page = "\n\n".join(blocks) + "\n"
    if explorables := find_explorables(page):
        page += f"\n{start_script(explorables)}\n"
    return page


def _title_of(blocks: Sequence[str]) -> str:
    titles = (_FIRST_HEADING.match(block.lstrip()) for block in blocks)
    return next((title[1] for title in titles if title), "")


def _section_map(sections: Sequence[Section], chapter: str) -> str:
    lines = []
    for section in sections:
        lines.append(f"1. [{section.heading}]({chapter}.md#{section.slug})")
        for card in read_cards((cell for _, cell in section.cells), chapter):
            link = f"[{card.title}]({chapter}.md#{exercise_anchor(card.name)})"
            worth = f"{card.points:g} points, {card.minutes} minutes"
            lines.append(f"   - Exercise: {link}, {worth}, difficulty {card.difficulty} of 3")
    listed = convert_math("\n".join(lines), f"Chapter {chapter}")
    return f'## Sections\n\n<nav class="section-map" aria-label="Sections">\n\n{listed}\n\n</nav>'


def _links(chapter: Chapter, repository: str) -> str:
    try:
        launches = find_launches(
            repository, f"course/release/{chapter.name}/{chapter.release.name}"
        )
    except LaunchError as error:
        raise PageError(str(error)) from error
    content = base64.b64encode(chapter.release.read_bytes()).decode("ascii")
    download = f"data:application/x-ipynb+json;base64,{content}"
    return (
        '<nav class="chapter-links" aria-label="This chapter as a notebook">\n'
        f'<a href="{launches.colab}">Open in Colab</a>\n'
        f'<a href="{launches.binder}">Open in Binder</a>\n'
        f'<a href="{download}" download="{html.escape(chapter.release.name)}">'
        "Download the notebook</a>\n"
        "</nav>"
    )


def _with_links(page: str, links: str) -> str:
    # A chapter opens with its title; a page without one gets the links first.
    heading = _FIRST_HEADING.match(page.lstrip())
    if not heading:
        return f"{links}\n\n{page}"
    page = page.lstrip()
    return f"{page[: heading.end()]}\n\n{links}\n{page[heading.end() :]}"
