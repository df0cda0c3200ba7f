"""The index of exercises and the glossary: made of the chapters, with links that lead somewhere."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import sample_chapter as sample
from nbformat.v4 import new_markdown_cell

from helpers.authoring.book import BookError, preprocess
from helpers.authoring.indexes import render_exercises, render_glossary
from helpers.authoring.names import render_names
from helpers.authoring.notebooks import PageError
from helpers.catalogue import load_chapters

COURSE = sample.REPOSITORY_ROOT / "course"
SETTINGS = tomllib.loads((sample.REPOSITORY_ROOT / "book.toml").read_text(encoding="utf-8"))
REPOSITORY = SETTINGS["output"]["html"]["git-repository-url"]
# A tensor's rank and a process's; a mask of entries and one of voxels.
HAVE_TWO_MEANINGS = {"mask", "rank"}
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


def test_the_glossary_is_sorted_as_a_dictionary_and_holds_every_chapter() -> None:
    rows = [line for line in render_glossary(COURSE).splitlines()[2:] if line]
    terms = [row.split("|")[1].strip().casefold().removeprefix("to ") for row in rows]
    assert terms == sorted(terms)
    chapters = {match["page"] for row in rows for match in LINK.finditer(row)}
    assert chapters == {chapter.name for chapter in load_chapters()}
    assert all(re.search(r"[\u4e00-\u9fff]|U-Net|Dice", row) for row in rows)


def test_a_term_has_one_name_and_one_meaning() -> None:
    rows = [line for line in render_glossary(COURSE).splitlines()[2:] if line]
    names = Counter(row.split("|")[1].strip().casefold().removeprefix("to ") for row in rows)
    assert {name for name, count in names.items() if count > 1} == HAVE_TWO_MEANINGS
    assert not [name for name in names if f"{name}s" in names]


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


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("to fuse\n\n## One\n\nfuse\n\n## Two\n\na *fuse*", "#two"),
        ("fuse\n\n## One\n\nfuse\n\n## To fuse\n\nfuse", "#to-fuse"),
        ("fuse\n\n## One\n\nto **re**fuse, to fuse", "#one"),
        ("fuse\n\n## One\n\nrefuse", ""),
    ],
)
def test_a_term_leads_to_where_it_is_explained(tmp_path: Path, text: str, page: str) -> None:
    table = "| English | 中文 | meaning |\n| --- | --- | --- |\n| to fuse | 融合 | to merge |\n"
    with_cell(tmp_path, f"{text}\n\n## Recap\n\nfuse\n\n### Glossary\n\n{table}")
    assert f"[08]({sample.NAME}.md{page})" in render_glossary(tmp_path)


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


def test_a_name_is_indexed_by_its_last_part_with_every_chapter_that_uses_it(tmp_path: Path) -> None:
    with_cell(tmp_path, "`torch.cuda.empty_cache()`, `nn.Linear`, `torch.nothing`, torch.float64")
    rows = [line for line in render_names(tmp_path).splitlines() if sample.NAME in line]
    link = f"[{sample.NAME[:2]}]({sample.NAME}.md)"
    assert f"| `empty_cache` | `torch.cuda.empty_cache` | {link} |" in rows
    assert f"| `Linear` | `torch.nn.Linear` | {link} |" in rows
    assert not [row for row in rows if "nothing" in row or "float64" in row]


def test_what_a_solution_uses_is_not_indexed(tmp_path: Path) -> None:
    cells = sample.source_cells()
    solution = next(cell for cell in cells if cell.source == sample.SOLUTION)
    solution.source += "\n\n\nnn.Softmax(dim=0)"
    sample.write_chapter(tmp_path, source=cells)
    assert "Softmax" not in render_names(tmp_path)
