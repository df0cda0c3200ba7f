"""The picture of what builds on what says the same as the table below it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from course_files import CHAPTERS, COURSE

from helpers.authoring.chapter_map import render_map
from helpers.authoring.notebooks import PageError


def with_table(folder: Path, *rows: tuple[str, str]) -> Path:
    lines = [f"| [{n} Title {n}]({n}-title.md) | A question? | {b} |" for n, b in rows]
    (folder / "book").mkdir()
    (folder / "book" / "map.md").write_text("\n".join(["{{#map}}", "", *lines, ""]))
    return folder


def test_every_chapter_of_the_course_is_on_the_map_in_its_order() -> None:
    drawn = re.findall(r'<a href="([\w-]+)\.html">', render_map(COURSE.root / "course"))
    assert drawn == list(CHAPTERS)


def test_what_a_chapters_own_card_says_to_know_before_is_on_the_map() -> None:
    table = (COURSE.root / "course" / "book" / "map.md").read_text("utf-8")
    for chapter in CHAPTERS:
        text = next(t for t in COURSE.chapters if t.name.startswith(chapter[:2])).read_text("utf-8")
        known = re.search(r"\*\*(?:Prerequisites|Know before)\*\*:((?:.|\n(?!\n|\*))*)", text)
        (row,) = re.findall(rf"^\| \[{chapter[:2]} .*\| ([\d, ]*)\|$", table, re.MULTILINE)
        assert set(re.findall(r"\d\d", row)) == set(re.findall(r"\b\d\d\b", known[1])), chapter


def test_an_arc_is_drawn_where_no_others_say_the_same(tmp_path: Path) -> None:
    course = with_table(tmp_path, ("00", ""), ("01", "00 "), ("02", "00, 01 "))
    assert render_map(course).count("<path") == 2


@pytest.mark.parametrize("before", ["01 ", "07 "])
def test_what_comes_later_cannot_be_built_on(tmp_path: Path, before: str) -> None:
    course = with_table(tmp_path, ("00", before), ("01", ""))
    with pytest.raises(PageError, match=f"Chapter 00 builds on {before.strip()}, which has no row"):
        render_map(course)
