"""Characters that no text of a student's brings into what others read."""

from __future__ import annotations

import re

# Controls but tab and newline, signs that turn the direction of writing, halves of characters.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """Return ``text`` without control characters and what is no character at all."""
    return _UNPRINTABLE.sub("�", text)
