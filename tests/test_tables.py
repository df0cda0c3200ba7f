"""Which tables are to be lists on a phone, and what that takes of the page."""

from __future__ import annotations

import pytest

from helpers.authoring.tables import is_list, mark_tables

SENTENCE = "a gradient that overflowed in float16 and was not skipped; a nan in the gradient"


def written(*rows: list[str]) -> str:
    """Return a table as mdBook writes it."""
    head, *others = rows
    heads = "".join(f"<th>{cell}</th>" for cell in head)
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in others]
    body = "\n".join(lines)
    return (
        f'<div class="table-wrapper">\n<table>\n<thead>\n<tr>{heads}</tr>\n</thead>\n<tbody>\n'
        f"{body}\n</tbody>\n</table>\n</div>"
    )


@pytest.mark.parametrize(
    "rows",
    [
        [["rows", "error"], ["100", "0.0316"]],
        [["dtype", *"abcdef"], ["float16", "1", "2", "3", "4", "5", "6"]],
        [["what", "why"], ["short", "a sentence that takes three lines, not more"]],
    ],
)
def test_a_small_table_stays_as_it_is(rows: list[list[str]]) -> None:
    assert mark_tables(written(*rows)) == written(*rows)


def test_a_table_with_tall_cells_gets_labels_and_roles() -> None:
    cells = ["nan", f"<b>{SENTENCE}</b>", 2 * SENTENCE, ""]
    marked = mark_tables(written(["see", 'it <i>"is"</i>', "then", ""], cells))
    assert '<table class="stacks" role="table">' in marked
    assert marked.count('role="rowgroup"') == 2
    assert marked.count('<tr role="row">') == 2
    assert marked.count('<th role="columnheader">') == 4
    assert '<td role="cell" data-label="see">nan</td>' in marked
    assert f'<td role="cell" data-label="it &quot;is&quot;"><b>{SENTENCE}</b></td>' in marked
    assert '<td role="cell"></td>' in marked, "a column without a head gives no label"


def test_alignment_is_kept() -> None:
    aligned = written(["a", "b", "c"], ["1", SENTENCE, 2 * SENTENCE]).replace(
        "<td>1", '<td style="text-align: right">1'
    )
    assert 'data-label="a" style="text-align: right">1</td>' in mark_tables(aligned)


def test_an_output_and_a_picture_are_left_alone() -> None:
    output = f"<div class='output'><table><tr><td>{SENTENCE * 9}</td></tr></table></div>"
    assert mark_tables(output) == output


def test_a_table_that_is_too_wide_is_a_list_unless_it_is_of_numbers() -> None:
    names = [["name", "in full"], ["clip_grad_norm_", "torch.nn.utils.clip_grad_norm_"]]
    assert is_list(names)
    numbers = [["rows", *(f"column{k}" for k in range(9))], ["100", *["0.0316"] * 9]]
    assert not is_list(numbers)


def test_chinese_breaks_anywhere_and_is_wide() -> None:
    norms = "批归一化、层归一化、实例归一化、组归一化"
    assert not is_list([["term", "中文"], ["normalization", norms]])
    assert is_list([["term", "中文"], ["normalization", norms * 5]])
