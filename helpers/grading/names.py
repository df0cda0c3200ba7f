"""Names that others chose: which are refused, how they are shown, and what becomes a student's id.

No name out of a submission is ever used as a path; what is refused here is refused because it can
only be an accident or an attack, and the instructor should hear of it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable

from helpers.grading.caps import Caps

_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]) *(?:\..*)?", re.IGNORECASE)
# They turn the text around them, so that a name reads as another one.
_TURNS_TEXT = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_ID_LENGTH = 64
_SHOWN_LENGTH = 200


def find_fault(name: str, caps: Caps) -> str | None:
    """Return why an entry's ``name`` (its parts separated by slashes) is refused; None if not."""
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in name):
        return "its name holds control characters or is not UTF-8"
    if any(c in _TURNS_TEXT for c in name):
        return "its name holds characters that reverse the text around them"
    if "\\" in name:
        return "its name holds a backslash"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        return "its name is absolute"
    parts = name.rstrip("/").split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "its name leads out of its folder or has empty parts"
    if any(_DEVICE.fullmatch(part.rstrip(" .")) for part in parts):
        return "its name is that of a device on Windows"
    too_long = any(len(part.encode()) > caps.name_part for part in parts)
    if too_long or len(name.encode()) > caps.name or len(parts) > caps.depth:
        return "its name is too long or too deep"
    return None


def printable(text: str) -> str:
    """Return ``text`` as one line that cannot move a cursor, color a terminal or reverse itself."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= _SHOWN_LENGTH else shown[: _SHOWN_LENGTH - 1] + "…"


def fold(text: str) -> str:
    """Return what of a person's name is the same in every spelling: letters and digits, folded."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())


def reduce_to_id(text: str) -> str:
    """Return ``text`` in the letters that are safe in a path, a URL and a command line.

    Several texts may have the same result; ``assign_id`` tells them apart.
    """
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFC", text))
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    reduced = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip(".-_")[:_ID_LENGTH].strip(".-_")
    if not reduced or _DEVICE.fullmatch(reduced):
        return f"student-{_digest(text)}"
    return reduced


def assign_id(text: str, identity: str, is_taken: Callable[[str], bool]) -> str:
    """Return an id for a new student called ``text`` that nobody else has.

    ``identity`` tells apart those who are called the same; ``is_taken`` tells whether somebody
    has an id.
    """
    student = reduce_to_id(text)
    number = 0
    while is_taken(student):
        ending = f"-{_digest(identity + (f' {number}' if number else ''))}"
        student = reduce_to_id(text)[: _ID_LENGTH - len(ending)] + ending
        number += 1
    return student


def _digest(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
