"""A topic that names a function leads to a section that has it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest
from course_files import CHAPTERS, ROOT

from helpers.authoring.sections import IdGiver

PAGE = (ROOT / "course" / "book" / "topics.md").read_text("utf-8")
LINK = re.compile(r"\((?P<chapter>\d\d-[\w-]+)\.md#(?P<anchor>[\w-]+)\)")
ROWS = [row for row in PAGE.splitlines() if row.startswith("| ") and LINK.search(row)]
HEADING = re.compile(r"^(#{2,4}) (.+)$", re.MULTILINE)


@cache
def sections(chapter: str) -> dict[str, str]:
    """Return the text of each section, by its anchor, up to the next heading of its level."""
    name = f"{chapter.replace('-', '_')}.py"
    text = (ROOT / "course" / "chapters" / name).read_text("utf-8")
    headings, ids = list(HEADING.finditer(text)), IdGiver()
    found = {}
    for k, heading in enumerate(headings):
        later = (h.start() for h in headings[k + 1 :] if len(h[1]) <= len(heading[1]))
        found[ids.give(heading[2])] = text[heading.start() : next(later, len(text))]
    return found


def missing_names(row: str) -> Iterator[str]:
    text = "".join(sections(link["chapter"]).get(link["anchor"], "") for link in LINK.finditer(row))
    for name in re.findall(r"`([^`]+)`", row):
        if name not in text:
            yield name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_the_sections_of_a_topic_have_what_it_names(row: str) -> None:
    assert list(missing_names(row)) == []


def test_a_name_that_no_section_has_is_found() -> None:
    link = f"[10]({CHAPTERS[10]}.md#kill-and-resume)"
    assert list(missing_names(f"| `torch.save`, `torchsummary` | | {link} |")) == ["torchsummary"]
