"""The index of exercises and the glossary: made of the chapters, with links that lead somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import sample_chapter as sample
from nbformat.v4 import new_markdown_cell

from helpers.authoring.book import BookError, preprocess
from helpers.authoring.indexes import render_exercises, render_glossary
from helpers.authoring.page import Chapter, PageError, render_page
from helpers.catalogue import load_chapters

COURSE = sample.REPOSITORY_ROOT / "course"
SETTINGS = tomllib.loads((sample.REPOSITORY_ROOT / "book.toml").read_text(encoding="utf-8"))
REPOSITORY = SETTINGS["output"]["html"]["git-repository-url"]
LINK = re.compile(r"\]\((?P<page>[\w-]+)\.md(?:#(?P<anchor>[\w-]+))?\)")


def with_cell(course: Path, text: str) -> None:
    cells = [*sample.source_cells(), new_markdown_cell(text)]
    sample.write_chapter(course, source=cells)


def test_every_exercise_of_the_course_is_listed_with_what_its_card_says() -> None:
    index = render_exercises(COURSE)
    for chapter in load_chapters():
        points = sum(exercise.points for exercise in chapter.exercises)
        minutes = sum(exercise.minutes for exercise in chapter.exercises)
        count = len(chapter.exercises)
        assert f"{count} exercises, {points:g} points, {minutes} minutes." in index
        for exercise in chapter.exercises:
            row = (
                f"| [{exercise.title}]({chapter.name}.md#exercise-{exercise.name})"
                f" | {exercise.points:g} | {exercise.minutes} | {exercise.difficulty} |"
            )
            assert row in index


def test_every_link_of_the_books_own_pages_leads_to_a_page_and_a_card() -> None:
    pages = {path.stem: path for path in (COURSE / "book").glob("*.md")}
    rendered = {
        name: render_page(Chapter.find(COURSE, name), REPOSITORY, fold_solutions=True)
        for name in pages
        if name[:2].isdigit()
    }
    texts = [path.read_text(encoding="utf-8") for path in pages.values()]
    links = [
        link
        for text in [*texts, render_exercises(COURSE), render_glossary(COURSE)]
        for link in LINK.finditer(text)
    ]
    assert len(links) > 200
    for link in links:
        assert link["page"] in pages, link[0]
        if link["anchor"]:
            assert f'id="{link["anchor"]}"' in rendered[link["page"]], link[0]


def test_the_glossary_is_sorted_and_holds_every_chapter() -> None:
    rows = [line for line in render_glossary(COURSE).splitlines()[2:] if line]
    terms = [row.split("|")[1].strip().casefold() for row in rows]
    assert terms == sorted(terms)
    chapters = {match["page"] for row in rows for match in LINK.finditer(row)}
    assert chapters == {chapter.name for chapter in load_chapters()}
    assert all(re.search(r"[\u4e00-\u9fff]|U-Net|Dice", row) for row in rows)


def test_a_term_that_two_chapters_explain_alike_has_one_row(tmp_path: Path) -> None:
    with_cell(
        tmp_path,
        "### Glossary\n\n| English | 中文 | meaning |\n| --- | --- | --- |\n"
        "| b | 乙 | second |\n| A | 甲 | first |\n",
    )
    rows = render_glossary(tmp_path).splitlines()[2:]
    assert rows == [
        f"| A | 甲 | first | [08]({sample.NAME}.md) |",
        f"| b | 乙 | second | [08]({sample.NAME}.md) |",
    ]


def test_a_damaged_row_and_a_card_without_points_are_named(tmp_path: Path) -> None:
    with_cell(
        tmp_path, "## Glossary\n\n| English | 中文 | meaning |\n| --- | --- | --- |\n| a | b |\n"
    )
    with pytest.raises(PageError, match=r"08-numerical-stability: this row of the glossary"):
        render_glossary(tmp_path)
    cells = [sample.exercise_card("### Softmax\n\nfour points")]
    sample.write_chapter(tmp_path / "other", source=[new_markdown_cell("# 08 · S"), *cells])
    with pytest.raises(PageError, match=r"card of 'softmax' has no title, or does not say"):
        render_exercises(tmp_path / "other")


def test_an_index_takes_no_name() -> None:
    context = {
        "root": str(sample.REPOSITORY_ROOT),
        "config": {"output": {"html": {"git-repository-url": REPOSITORY}}},
    }
    page = {"Chapter": {"source_path": "x.md", "sub_items": [], "content": "{{#glossary 08}}\n"}}
    with pytest.raises(BookError, match=r"x\.md: write \{\{#glossary\}\} without a name"):
        preprocess(context, {"items": [page]})
