"""Draw what builds on what, from the table of the book's page ``map.md``, as one inline picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

from helpers.authoring.notebooks import PageError

_ROW = re.compile(
    r"^\| \[(?P<number>\d\d) (?P<title>[^\]]+)\]\((?P<page>[\w-]+\.md)\)"
    r" \|[^|]*\| (?P<before>[\d, ]*)\|$",
    re.MULTILINE,
)
# In units that are pixels on a phone.
_WIDTH, _ROW_HEIGHT, _TEXT_LEFT = 350, 28, 135


@dataclass(frozen=True)
class _Chapter:
    number: str
    title: str
    page: str
    before: tuple[str, ...]


def render_map(course: Path) -> str:
    """Return an SVG of the chapters one below another, with arcs from what they build on.

    An arc is drawn where no others say the same: 12 builds on 05 through 10.

    Raises:
        PageError: a row of the table builds on a chapter that has no row above it.
    """
    text = (course / "book" / "map.md").read_text(encoding="utf-8")
    chapters = {
        row["number"]: _Chapter(
            row["number"],
            row["title"],
            row["page"].removesuffix(".md") + ".html",
            tuple(re.findall(r"\d\d", row["before"])),
        )
        for row in _ROW.finditer(text)
    }
    places = {number: _ROW_HEIGHT * (i + 0.5) for i, number in enumerate(chapters)}
    return "\n".join(
        [
            f'<svg class="chapter-map" viewBox="0 0 {_WIDTH} {_ROW_HEIGHT * len(chapters)}"'
            ' role="group" aria-label="The chapters in their order. Arcs lead from a chapter to'
            ' those that build on it.">',
            *(_arc(places[first], places[then]) for first, then in _arcs(chapters)),
            *(_label(chapter, places[chapter.number]) for chapter in chapters.values()),
            "</svg>",
        ]
    )


def _arcs(chapters: Mapping[str, _Chapter]) -> Iterator[tuple[str, str]]:
    all_before: dict[str, set[str]] = {}
    for number, chapter in chapters.items():
        if strangers := [other for other in chapter.before if other not in all_before]:
            raise PageError(f"Chapter {number} builds on {strangers[0]}, which has no row above.")
        implied = set().union(*(all_before[other] for other in chapter.before))
        yield from ((other, number) for other in chapter.before if other not in implied)
        all_before[number] = implied | set(chapter.before)


def _arc(start: float, end: float) -> str:
    right, out = _TEXT_LEFT - 12, 8 + 0.33 * (end - start)
    tip = f"M{right - 6} {end - 7:g} L{right} {end - 4:g} L{right - 6} {end - 1:g}"
    return (
        f'<path d="M{right} {start + 4:g} C{right - 1.33 * out:.1f} {start + 4:g}'
        f' {right - 1.33 * out:.1f} {end - 4:g} {right} {end - 4:g} {tip}"/>'
    )


def _label(chapter: _Chapter, middle: float) -> str:
    return (
        f'<a href="{chapter.page}"><circle cx="{_TEXT_LEFT - 6}" cy="{middle:g}" r="4"/>'
        f'<text x="{_TEXT_LEFT + 8}" y="{middle + 5:g}">'
        f"<tspan>{chapter.number}</tspan> {escape(chapter.title)}</text></a>"
    )
