"""Read Markdown: its tokens, and where its links and pictures lead."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

HTML_TARGET = re.compile(r"""\b(?:src|srcset|href)\s*=\s*["']([^"'\s]+)""")


def parse(text: str) -> list[Token]:
    """Return the tokens of a Markdown text that may hold tables."""
    return _parser().parse(text)


def to_html(text: str, *, below: int = 0) -> str:
    """Return a Markdown text that may hold tables as HTML, none of it the text's own.

    Args:
        text: the Markdown.
        below: the level of the heading under which the text stands: its own begin one lower.
    """
    parser = _parser(html=False)
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + below, 6)}"
    return parser.renderer.render(tokens, parser.options, {})


def _parser(*, html: bool = True) -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": html}).enable("table")


def link_targets(text: str) -> list[str]:
    """Return what the links and the pictures of a Markdown text point to, HTML's included."""
    found = []
    for token in parse(text):
        for inline in (token, *(token.children or ())):
            found += [str(inline.attrs[key]) for key in ("href", "src") if key in inline.attrs]
            if inline.type in ("html_block", "html_inline"):
                found += HTML_TARGET.findall(inline.content)
    return found
