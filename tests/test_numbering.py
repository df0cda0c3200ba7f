"""The numbers of a chapter's figures, as the builder holds them to the order of the cells."""

from __future__ import annotations

import pytest
from course_files import CHAPTERS, source
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from helpers.authoring.numbering import find_misnumbered

CHAPTER = "05-accumulation"
CAPTION = "The sum grows with each pass."


def figure(number: str = "", caption: str = CAPTION) -> NotebookNode:
    label = {"number": number, "caption": caption}
    return new_output(
        "display_data",
        data={"text/html": '<style>p {}</style>\n<figure class="bits-figure"><img></figure>'},
        metadata={"bits": {"figure": label}} if number else {},
    )


def told(*figures: NotebookNode, chapter: str = CHAPTER) -> list[str]:
    """Return what is found where each figure stands in a cell of its own, between other things."""
    printed = new_output("stream", name="stdout", text="figure")
    cells = [new_markdown_cell('<figure class="bits-figure">')]
    for count, shown in enumerate(figures, start=1):
        cells.append(new_code_cell(f"plot_{count}()\nshow()", outputs=[printed, shown]))
    return list(find_misnumbered(new_notebook(cells=cells), chapter))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapters_figures_are_numbered_in_order_or_not_at_all(chapter: str) -> None:
    assert list(find_misnumbered(source(chapter), chapter)) == []


def test_figures_in_order_are_fine_and_so_are_figures_without_numbers() -> None:
    assert told(figure("5.1"), figure("5.2"), figure("5.3")) == []
    assert told(figure("0.1"), chapter="00-warm-up") == []
    assert told(figure(), figure()) == []
    assert told() == []


def test_two_figures_of_one_cell_count_in_their_order() -> None:
    cell = new_code_cell("show_both()", outputs=[figure("5.1"), figure("5.2")])
    assert list(find_misnumbered(new_notebook(cells=[cell]), CHAPTER)) == []
    cell.outputs.reverse()
    assert len(list(find_misnumbered(new_notebook(cells=[cell]), CHAPTER))) == 2


def test_a_figure_without_a_number_among_numbered_ones_is_told_with_its_place() -> None:
    (fault,) = told(figure("5.1"), figure(), figure("5.3"))
    assert fault == "cell 3, 'plot_2()': the figure has no number; it is number=\"5.2\""


@pytest.mark.parametrize(
    ("numbers", "faults"),
    [
        (["5.2"], ["5.2; it is 5.1"]),
        (["5.1", "5.1"], ["5.1; it is 5.2"]),
        (["5.2", "5.1"], ["5.2; it is 5.1", "5.1; it is 5.2"]),
        (["5.1", "5.3"], ["5.3; it is 5.2"]),
        (["4.1"], ["4.1; it is 5.1"]),
    ],
)
def test_numbers_out_of_order_or_of_another_chapter_are_told(
    numbers: list[str], faults: list[str]
) -> None:
    found = told(*map(figure, numbers))
    assert [fault.partition("the figure's number is ")[2] for fault in found] == faults


def test_a_caption_of_three_words_is_told() -> None:
    (fault,) = told(figure("5.1"), figure("5.2", "The sum grows"))
    assert fault == (
        "cell 3, 'plot_2()': the caption of figure 5.2 says too little; write at least 4 words"
    )
    assert told(figure("5.1", "The whole sum grows")) == []
