"""Where links to a chapter lead, since each of its sections is a page.

Whoever writes a link need not know: ``05-accumulation.md#clipping-one-length-for-all``, which was
right when a chapter was one page, becomes a link to the section's page. An address of that kind
that somebody has kept is forwarded by a script, ``course/book/theme/forward.js``.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence

from helpers.authoring.page import Page

_LINK = re.compile(r"\]\((?P<page>[\w-]+\.md)(?:#(?P<anchor>[^)\s]+))?\)")


class Destinations:
    """Knows to which page and place of the book an anchor of a chapter has gone."""

    def __init__(self) -> None:
        """Know of no chapter yet."""
        self._moved: dict[str, dict[str, str]] = {}

    def add(self, chapter: str, sections: Sequence[Page]) -> list[str]:
        """Take note of the pages below ``chapter``, a page itself, and return their paths."""
        folder = chapter.removesuffix(".md")
        paths = [f"{folder}/{section.slug}.md" for section in sections]
        self._moved[chapter] = {
            old: f"{path}#{new}" if new else path
            for section, path in zip(sections, paths, strict=True)
            for old, new in section.anchors.items()
        }
        return paths

    def lead(self, markdown: str, path: str) -> str:
        """Return the text of the page at ``path`` with its links to chapters led on."""

        def led(link: re.Match[str]) -> str:
            page, anchor = link["page"], link["anchor"]
            if page not in self._moved:
                return link[0]
            given = f"{page}#{anchor}" if anchor else page
            target, _, place = self._moved[page].get(anchor, given).partition("#")
            near = posixpath.relpath(target, posixpath.dirname(path)) if target != path else ""
            return f"]({near}#{place})" if place else f"]({near or target})"

        return _LINK.sub(led, markdown)

    def forwarding(self, chapter: str) -> str:
        """Return what the page of ``chapter`` tells the script: where each old anchor leads."""
        base = posixpath.dirname(chapter)
        moved = {
            old: posixpath.relpath(target, base).replace(".md", ".html", 1)
            for old, target in self._moved[chapter].items()
        }
        listed = json.dumps(moved, ensure_ascii=False).replace("<", "\\u003c")
        return f'\n<script type="application/json" class="forward">{listed}</script>\n'
