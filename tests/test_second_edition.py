"""What can be counted of a chapter's style, for the chapters of the second edition."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from course_files import CHAPTERS, source
from nbformat.notebooknode import NotebookNode

MOST_OPEN_LINES = 15
MOST_WORDS_ON_A_CARD = 240
FEWEST_PREDICTIONS, FEWEST_DRAWINGS = 4, 2
_HINTS = re.compile(r"<!--.*?-->", re.DOTALL)
_CALL_AND_RESULT = re.compile(r"`[^`]+`.*`[^`]+`|`[^`]+`.* \d", re.DOTALL)


def has_numbered_figures(chapter: str) -> bool:
    outputs = (output for cell in source(chapter).cells for output in cell.get("outputs", []))
    return any("figure" in output.get("metadata", {}).get("bits", {}) for output in outputs)


SECOND = [name for name in CHAPTERS if has_numbered_figures(name)]
pytestmark = pytest.mark.parametrize("chapter", SECOND)


def is_folded(cell: NotebookNode) -> bool:
    return cell.metadata.get("jupyter", {}).get("source_hidden", False)


def is_answer(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def test_no_more_open_code_than_a_screen_stands_between_two_paragraphs(chapter: str) -> None:
    cells = source(chapter).cells
    found = []
    for is_code, group in groupby(cells, lambda cell: cell.cell_type == "code"):
        shown = [c.source for c in group if is_code and not is_folded(c) and not is_answer(c)]
        found.append(sum(len(text.splitlines()) for text in shown))
    assert max(found) > 5
    assert max(found) <= MOST_OPEN_LINES


def test_cards_are_short_and_end_with_an_example(chapter: str) -> None:
    cards = [c.source for c in source(chapter).cells if c.metadata.get("bits", {}).get("exercise")]
    cards = [card for card in cards if card.startswith("### ")]
    assert len(cards) >= 5
    for card in cards:
        text = _HINTS.sub("", card)
        assert len(text.split()) <= MOST_WORDS_ON_A_CARD, card
        assert re.search(r"^- \*\*In\*\*", text, re.MULTILINE), card
        assert re.search(r"^- \*\*Out\*\*", text, re.MULTILINE), card
        examples = [part for part in text.split("\n\n") if _CALL_AND_RESULT.search(part)]
        assert not examples[-1].startswith(("- ", "### ")), card


def test_the_reader_predicts_and_sees_drawings_and_an_explorable(chapter: str) -> None:
    code = [cell.source for cell in source(chapter).cells if cell.cell_type == "code"]
    begins = [re.sub(r"^# @title.*\n", "", text) for text in code]
    assert sum(text.startswith("predict(") for text in begins) >= FEWEST_PREDICTIONS
    assert sum(text.startswith("show_drawing(") for text in begins) >= FEWEST_DRAWINGS
    assert any(text.startswith("explore_") for text in begins)
    assert begins[-2].startswith("predictions(")


def test_the_failure_comes_before_any_heading(chapter: str) -> None:
    cells = source(chapter).cells
    first = next(k for k, cell in enumerate(cells) if cell.source.startswith("## "))
    pictures = [
        k for k, cell in enumerate(cells) if 'class="bits-figure"' in str(cell.get("outputs"))
    ]
    assert pictures[0] < first
