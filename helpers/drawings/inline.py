"""Show a drawing in the page itself, where it follows the theme."""

from __future__ import annotations

import html
import re
from pathlib import Path

from helpers.figures import frame

_NAME = re.compile(r"\d{2}/[a-z0-9]+(-[a-z0-9]+)*")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BETWEEN_TAGS = re.compile(r">\s+<")


def show_drawing(name: str, alt: str, *, number: str = "", caption: str = "") -> None:
    """Show one of the course's drawings, with its alternative text.

    Args:
        name: the chapter's number, a slash and words, as in "05/no-sync".
        alt: what the drawing shows, for those who do not see it.
        number: the chapter's number and the figure's, as in "5.2"; it comes with a caption.
        caption: what to see in the drawing; code stands between backticks.

    Raises:
        ValueError: if there is no such drawing, ``alt`` says too little, the number is malformed,
            or a number or a caption comes alone.
    """
    label = frame.Label(number, caption)
    frame.require_alternative(alt)
    frame.show(_read_svg(name, alt), alt, label)


def _read_svg(name: str, alt: str) -> str:
    file = Path(__file__).parent / f"{name}.svg" if _NAME.fullmatch(name) else None
    if file is None or not file.is_file():
        raise ValueError(f'there is no drawing "{name}"; a name is written as "05/no-sync"')
    written = _BETWEEN_TAGS.sub(">\n<", _COMMENT.sub("", file.read_text(encoding="utf-8")))
    told = f'<svg role="img" aria-label="{html.escape(alt, quote=True)}"'
    return written.strip().replace("<svg", told, 1)
