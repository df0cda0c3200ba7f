"""A section is a page: how a chapter is cut, and where links into it lead afterwards."""

from __future__ import annotations

import json
import re

import pytest
import sample_chapter as sample
from nbformat.v4 import new_code_cell, new_markdown_cell

from helpers.authoring.destinations import Destinations
from helpers.authoring.notebooks import Chapter
from helpers.authoring.page import Page, render_pages
from helpers.authoring.sections import plain_text, split_sections
from helpers.explorables.stage import set_up

REPOSITORY = "https://github.com/an-owner/a-course"
TWO_SECTIONS = """\
Behind the cell.

## Why `.grad` adds up

One.

```python
## no heading
```

### Inside

Two.

## Inside

Three."""


def cut(*cells):
    return split_sections(list(cells))


def prose_of(section) -> list[str]:
    return [cell.source for _, cell in section.cells]


# Cutting


def test_a_section_begins_at_its_heading_wherever_it_stands_in_a_cell() -> None:
    opening, first, second = cut(
        new_markdown_cell("# 08 · S\n\nAims."),
        new_markdown_cell(TWO_SECTIONS),
        new_code_cell("x = 1"),
    )
    assert prose_of(opening) == ["# 08 · S\n\nAims.", "Behind the cell.\n\n"]
    assert first.title == "Why .grad adds up"
    assert prose_of(second) == ["# Inside\n\nThree.", "x = 1"]
    assert [number for number, _ in second.cells] == [2, 3], "an error names the notebook's cell"


def test_headings_go_up_one_level_and_code_stays_as_it_is() -> None:
    _, first, _ = cut(new_markdown_cell(TWO_SECTIONS))
    (text,) = prose_of(first)
    assert text.startswith("# Why `.grad` adds up\n")
    assert "\n```python\n## no heading\n```\n\n## Inside\n" in text


def test_the_opening_keeps_its_levels() -> None:
    (opening,) = cut(new_markdown_cell("# 08 · S\n\n### Aims"))
    assert prose_of(opening) == ["# 08 · S\n\n### Aims"]
    assert opening.slug == ""


def test_an_id_that_was_the_second_of_its_chapter_leads_to_the_first_of_its_page() -> None:
    _, first, second = cut(new_markdown_cell(TWO_SECTIONS), sample.exercise_card("### Softmax"))
    assert first.anchors == {"why-grad-adds-up": "", "inside": "inside"}
    assert second.anchors == {
        "inside-1": "",
        "softmax": "softmax",
        "exercise-softmax": "exercise-softmax",
    }
    assert second.slug == "inside-1"


@pytest.mark.parametrize(
    ("heading", "text"), [("**a** `b_c` *d*", "a b_c d"), ("[a](b.md) & <i>c</i>", "a & c")]
)
def test_a_title_is_without_marks(heading: str, text: str) -> None:
    assert plain_text(heading) == text


# The pages


@pytest.fixture
def pages(tmp_path) -> list[Page]:
    """Return the pages of a chapter with an exercise in its second section."""
    title, demo, *exercise = sample.source_cells()[1:]
    explorable = sample.displayed(text_html=set_up("window", {"sizes": [1]}, "still"))
    cells = [
        title,
        new_markdown_cell("## First\n\n[there](#Softmax)"),
        new_code_cell("explore()", outputs=[explorable]),
        new_markdown_cell("## Second"),
        demo,
        *exercise,
    ]
    sample.write_chapter(tmp_path, source=cells)
    return render_pages(Chapter.find(tmp_path, sample.NAME), REPOSITORY, True)


def test_the_chapters_page_maps_its_sections_and_their_exercises(pages) -> None:
    own = pages[0].text
    assert [(page.title, page.slug) for page in pages] == [
        ("Numerical stability", ""),
        ("First", "first"),
        ("Second", "second"),
    ]
    listed = own[own.index("## Sections") :]
    assert re.findall(r"\[.*", listed) == [
        f"[First]({sample.NAME}.md#first)",
        f"[Second]({sample.NAME}.md#second)",
        f"[Softmax]({sample.NAME}.md#exercise-softmax), 4 points, 10 minutes, difficulty 1 of 3",
    ]


def test_a_section_names_its_chapter_above_its_title(pages) -> None:
    for page in pages[1:]:
        up = f"[Numerical stability]({sample.NAME}.md)"
        before, _, after = page.text.partition(up)
        assert before == '<nav class="of-chapter" aria-label="Chapter">\n\n'
        assert after.startswith(f"\n\n</nav>\n\n# {page.title}")


def test_an_explorable_brings_its_script_to_its_own_page_alone(pages) -> None:
    assert ["mountAll(" in page.text for page in pages] == [False, True, False]


def test_the_notebook_is_offered_once(pages) -> None:
    assert ["Download the notebook" in page.text for page in pages] == [True, False, False]


# Where links lead


@pytest.fixture
def destinations() -> Destinations:
    found = Destinations()
    found.add("08-a.md", [Page("First", "first", "", {"first": "", "inside-1": "inside"})])
    return found


@pytest.mark.parametrize(
    ("link", "on", "leads"),
    [
        ("08-a.md#first", "topics.md", "08-a/first.md"),
        ("08-a.md#inside-1", "topics.md", "08-a/first.md#inside"),
        ("08-a.md#inside-1", "09-b/other.md", "../08-a/first.md#inside"),
        ("08-a.md#inside-1", "08-a/first.md", "#inside"),
        ("08-a.md", "08-a/first.md", "../08-a.md"),
        ("08-a.md#aims", "topics.md", "08-a.md#aims"),
        ("glossary.md#a", "topics.md", "glossary.md#a"),
    ],
)
def test_a_link_into_a_chapter_leads_to_the_page_of_the_section(
    destinations: Destinations, link: str, on: str, leads: str
) -> None:
    assert destinations.lead(f"see [it]({link}), and", on) == f"see [it]({leads}), and"


def test_the_old_anchors_are_listed_for_the_script(destinations: Destinations) -> None:
    (listed,) = re.findall(r"<script[^>]*>(.*)</script>", destinations.forwarding("08-a.md"))
    assert json.loads(listed) == {"first": "08-a/first.html", "inside-1": "08-a/first.html#inside"}
