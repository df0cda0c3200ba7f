"""Short texts in which code stands between backticks, as in Markdown."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")


def to_html(text: str) -> str:
    """Return ``text`` as HTML with its code marked as code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(text, quote=False))


def to_plain(text: str) -> str:
    """Return ``text`` without backticks."""
    return text.replace("`", "")
