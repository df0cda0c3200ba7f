"""Finish the pages that mdBook wrote, where it has no setting for it."""

from __future__ import annotations

import re
from pathlib import Path

from helpers.authoring.tables import mark_tables

_PRINT = "print.html"
_CHAPTER = re.compile(r'<nav class="of-chapter"[^>]*>\s*<p><a [^>]*>(?P<chapter>[^<]*)</a>')
_BOOK = re.compile(r" - (?=[^<]*</title>)")


def finish_pages(book: Path) -> None:
    """Finish the pages in the folder ``book``, each in its place."""
    for page in book.rglob("*.html"):
        written = page.read_text("utf-8")
        named = written if page.name == _PRINT else _with_chapter(written)
        finished = mark_tables(named)
        if finished != written:
            page.write_text(finished, "utf-8")


def _with_chapter(page: str) -> str:
    """Name the chapter in the title of a section's page."""
    chapter = _CHAPTER.search(page)
    if not chapter:
        return page
    return _BOOK.sub(lambda _: f" - {chapter['chapter']} - ", page, count=1)
