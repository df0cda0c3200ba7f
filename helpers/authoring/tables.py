"""Tables on a phone: one that is too wide for it, or whose cells would be tall, is shown as a list.

Each row becomes a block there, and each cell stands under its column's head. What that takes is put
into the page while the book is built; ``course/book/theme/bits.css`` does the rest. Roles tell
screen readers what the layout takes from them. A table of numbers stays one: to compare them is
what it is for.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

_TABLE = re.compile(r'(?<=<div class="table-wrapper">)\s*<table>.*?</table>', re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[hd])([^>]*)>(.*?)</t[hd]>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
# Chinese breaks anywhere, and is twice as wide.
_WIDE = re.compile(r"[\u2e80-\u9fff\uff00-\uff60]")
# In Latin characters: the width of a phone's page, and what a column needs beside its text.
_PHONE, _PADDING = 43, 2
_LONGEST_NUMBER = 12
_MOST_LINES = 6


def mark_tables(page: str) -> str:
    """Return ``page`` with the marks on each of its Markdown tables that is to be a list."""
    return _TABLE.sub(lambda table: _marked(table[0]), page)


def is_list(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a table is to be a list on a phone.

    Args:
        rows: the texts of the cells, in equally long rows, the column's heads first.
    """
    columns = list(zip(*rows, strict=True))
    needed = [max(_longest_word(text) for text in column) for column in columns]
    wanted = [max(_width(text) for text in column) for column in columns]
    room = _PHONE - _PADDING * len(columns) - sum(needed)
    if room < 0:
        return not _is_of_numbers(rows[1:])
    # As a browser does it: beyond its longest word, a column gets room by how much it wants.
    wants = max(sum(wanted) - sum(needed), room, 1)
    widths = [
        least + room * (most - least) / wants for least, most in zip(needed, wanted, strict=True)
    ]
    lines = [_width(cell) / max(w, 1) for row in rows for cell, w in zip(row, widths, strict=True)]
    return max(lines) > _MOST_LINES


def _marked(table: str) -> str:
    rows = [_CELL.findall(row) for row in _ROW.findall(table)]
    texts = [[_text(shown) for _, _, shown in row] for row in rows]
    if len({len(row) for row in rows}) != 1 or not is_list(texts):
        return table
    heads = texts[0]
    table = _ROW.sub(lambda row: _marked_row(row[0], heads), table)
    table = re.sub(r"<(thead|tbody)>", r'<\1 role="rowgroup">', table)
    return table.replace("<table>", '<table class="stacks" role="table">')


def _marked_row(row: str, heads: Sequence[str]) -> str:
    left = iter(heads)

    def mark(cell: re.Match[str]) -> str:
        kind, attributes, shown = cell.groups()
        head = html.escape(next(left))
        if kind == "th":
            return f'<th role="columnheader"{attributes}>{shown}</th>'
        label = f' data-label="{head}"' if head else ""
        return f'<td role="cell"{label}{attributes}>{shown}</td>'

    return _CELL.sub(mark, row).replace("<tr>", '<tr role="row">')


def _text(shown: str) -> str:
    return html.unescape(_TAG.sub("", shown)).strip()


def _is_of_numbers(rows: Sequence[Sequence[str]]) -> bool:
    return all(len(text) <= _LONGEST_NUMBER for row in rows for text in row[1:])


def _longest_word(text: str) -> int:
    return max((len(word) for word in _WIDE.sub(" xx ", text).split()), default=0)


def _width(text: str) -> int:
    return len(_WIDE.sub("xx", text))
