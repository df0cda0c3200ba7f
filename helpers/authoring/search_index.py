"""Index the built book for Pagefind, whose script ``course/book/theme/search.js`` asks.

What is indexed is what mdBook wrote, changed on the way: the pages themselves know of no search.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = "pagefind"
# Not one page each: all pages at once, an address that is none, the sidebar where scripts are off,
# and mdBook's copy of the first page.
_NO_PAGES = {"print.html", "404.html", "toc.html", "index.html"}
# What a notebook printed is mostly numbers. Folds hold imports, plots and tests, or would tell in
# an excerpt how an exercise is solved. The links above a chapter are the same on each, and what its
# map names stands on the sections' own pages.
_LEFT_OUT = [
    *(".output", ".play", ".chapter-links", ".section-map"),
    *(".folded", ".check", ".hint", ".solution", "details > :not(summary)"),
]
# Pictures and notebooks that are part of their page would be stored as what describes it.
_INLINE_DATA = re.compile(r'\b(?:src|href)="data:[^"]*"')
_TEXT = re.compile(r"(?<=>)[^<>]+(?=<)")
_HAN = r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]"
# Chinese puts no spaces between words, code few: Pagefind takes 梯度累积 and torch.cuda.empty_cache
# for one word each. Chinese is found as a phrase of words of one character each.
_BETWEEN_WORDS = re.compile(
    rf"(?<={_HAN})(?!\s)|(?<=\S)(?={_HAN})|(?<=[\w)\]]\.)(?=[A-Za-z_])|(?<=[(\[=])(?=\w)"
)
# A cell with a term in Chinese: who looks for the term looks for such a table.
_CHINESE_CELL = re.compile(rf"<td(?=[^>]*>[^<]*{_HAN})")
# The glossary's own page has the terms of all chapters.
_CHAPTERS_GLOSSARY = re.compile(
    r'(?<=<h2 id="glossary"><a class="header" href="#glossary">Glossary</a></h2>\n)<div'
)
# Where a space was put in; search.js takes it out of what it shows.
_MARKED_SPACE = "\u2063 "


class SearchIndexError(ValueError):
    """The book's search has no index; the message says why."""


def is_installed() -> bool:
    """Say whether Pagefind and its program are there."""
    try:
        from pagefind.service import get_executable
    except ImportError:
        return False
    return get_executable() is not None


def index_book(book: Path) -> None:
    """Write Pagefind's index of the built book below the folder ``book``.

    Raises:
        SearchIndexError: Pagefind could not make it.
    """
    with tempfile.TemporaryDirectory() as folder:
        for page in book.rglob("*.html"):
            name = page.relative_to(book)
            if name.as_posix() not in _NO_PAGES:
                copy = Path(folder, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(_searchable(page.read_text("utf-8")), "utf-8")
        _run_pagefind(Path(folder), book / FOLDER)
    # Pagefind's own search boxes, which no page loads.
    for pattern in ("pagefind-*ui.*", "pagefind-highlight.js"):
        for unused in (book / FOLDER).glob(pattern):
            unused.unlink()


def _run_pagefind(site: Path, dest: Path) -> None:
    command = [sys.executable, "-m", "pagefind", "--site", str(site), "--output-path", str(dest)]
    command += ["--root-selector", "main"]
    for selector in _LEFT_OUT:
        command += ["--exclude-selectors", selector]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode != 0:
        reason = " ".join(f"{run.stdout} {run.stderr}".split())
        raise SearchIndexError(f"Pagefind could not index the book: {reason}")


def _searchable(html: str) -> str:
    html = _INLINE_DATA.sub("", html)
    # Without a space, Pagefind reads the words of two cells as one.
    html = html.replace("</td>", "</td> ").replace("</th>", "</th> ")
    # Of a section a result says which chapter it is in.
    html = html.replace(
        '<nav class="of-chapter"',
        '<nav data-pagefind-ignore data-pagefind-meta="chapter" class="of-chapter"',
    )
    html = _CHAPTERS_GLOSSARY.sub("<div data-pagefind-ignore", html)
    html = _CHINESE_CELL.sub('<td data-pagefind-weight="5"', html)
    # Prose explains, code only uses: a word in both is to be found where it is explained.
    html = html.replace("<pre>", '<pre data-pagefind-weight="0.1">')
    return _TEXT.sub(lambda text: _BETWEEN_WORDS.sub(_MARKED_SPACE, text[0]), html)
