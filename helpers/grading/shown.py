"""What others wrote, made safe to look at: on a page, in a picture, on a terminal.

``visible`` leaves text as text and shows the characters that would hide, turn or move what stands
around them; escaping for HTML is the templates' work, which escape everything. ``embed_picture``
lets pixels through and nothing else. ``helpers.grading.markdown`` makes HTML of Markdown.
"""

from __future__ import annotations

import base64
import io
import re
import warnings

from markupsafe import Markup
from nbconvert.filters import strip_ansi
from PIL import Image

# Control characters but tab and newline; format characters (they turn text, or show nothing);
# line and paragraph separators; halves of characters; tags.
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Persian and several Indic scripts are written with these, and so are composed emoji.
_JOINER = re.compile("(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])")
_PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
_MOST_BYTES = 2 * 2**20
_MOST_PIXELS = 16_000_000
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def visible(text: str, most: int = 2000) -> str:
    """Return ``text`` with every odd character shown as its escape, cut after ``most``."""
    kept = text if len(text) <= most else text[:most]
    joiners = {found.start() for found in _JOINER.finditer(kept)}

    def show(found: re.Match[str]) -> str:
        return found[0] if found.start() in joiners else ascii(found[0])[1:-1]

    shown = _ODD.sub(show, kept)
    left = len(text) - len(kept)
    return f"{shown}… ({left:,} characters more)" if left else shown


def one_line(text: str, most: int = 200) -> str:
    """Return ``text`` as ``visible`` does, on one line."""
    return visible(" ".join(re.split(r"[ \t\r\n]+", text)).strip(), most)


def printed(text: str, most: int = 10_000) -> str:
    """Return what a program printed, without colors; what a line was overwritten with follows."""
    plain = strip_ansi(text[: 4 * most]) + text[4 * most :]
    return visible(plain.replace("\r\n", "\n").replace("\r", "\n"), most)


def embed_picture(kind: str, encoded: str, most: int = _MOST_BYTES) -> Markup | None:
    """Return a picture that a cell showed as a ``data:`` address; None if it is none, or too big.

    Args:
        kind: its MIME type.
        encoded: its bytes in Base64.
        most: how many bytes it may have.
    """
    name = _PICTURES.get(kind)
    if name is None or len(encoded) > most * 4 // 3 + 4:
        return None
    try:
        content = base64.b64decode("".join(encoded.split()), validate=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=[name]) as picture:
                if picture.width * picture.height > _MOST_PIXELS:
                    return None
                picture.verify()
    except (OSError, ValueError, SyntaxError, *_BOMBS):  # binascii.Error is a ValueError
        return None
    return data_address(kind, content)


def data_address(kind: str, content: bytes) -> Markup:
    """Return an address that is the picture itself; ``kind`` is its MIME type."""
    return Markup(f"data:{kind};base64,{base64.b64encode(content).decode()}")
