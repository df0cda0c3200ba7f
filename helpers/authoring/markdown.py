"""Read Markdown: its tokens, and where its links and pictures lead."""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

HTML_TARGET = re.compile(r"""\b(?:src|srcset|href)\s*=\s*["']([^"'\s]+)""")


def parse(text: str) -> list[Token]:
    """Return the tokens of a Markdown text that may hold tables."""
    return MarkdownIt("commonmark").enable("table").parse(text)


def link_targets(text: str) -> list[str]:
    """Return what the links and the pictures of a Markdown text point to, HTML's included."""
    found = []
    for token in parse(text):
        for inline in (token, *(token.children or ())):
            found += [str(inline.attrs[key]) for key in ("href", "src") if key in inline.attrs]
            if inline.type in ("html_block", "html_inline"):
                found += HTML_TARGET.findall(inline.content)
    return found
