"""The frame of every figure: its number, its caption, and the style that follows the theme."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from helpers import display
from helpers.backticks import to_html, to_plain

_FEWEST_WORDS = 5
_NUMBER = re.compile(r"(0|[1-9]\d?)\.[1-9]\d?")


@dataclass(frozen=True)
class Label:
    """A figure's number and caption, or neither."""

    number: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        """Refuse one without the other, and a number that does not look like 5.2."""
        if bool(self.number) != bool(self.caption):
            raise ValueError("a figure has a number and a caption, or neither")
        if self.number and not _NUMBER.fullmatch(self.number):
            raise ValueError(f'the number is "{self.number}"; write it as "5.2"')


def show(
    picture: str,
    alt: str,
    label: Label,
    live: dict[str, dict] | None = None,
    kept: dict | None = None,
) -> None:
    """Show ``picture``, which is HTML, as a figure.

    Args:
        picture: what stands in the frame.
        alt: what it shows, for front ends that show only text.
        label: its number and its caption.
        live: what a front end that can shows instead: data by their MIME type.
        kept: what is stored with the output for the book, beside the label.
    """
    told = f"Figure {label.number}: {to_plain(label.caption)}\n{alt}"
    stored = {**({"figure": vars(label)} if label.number else {}), **(kept or {})}
    display.show(
        told if label.number else f"Figure: {alt}",
        put_in_frame(picture, label),
        live,
        {"bits": stored} if stored else None,
    )


def require_alternative(alt: str) -> None:
    """Insist that an alternative text says something.

    Raises:
        ValueError: if it has too few words.
    """
    if len(alt.split()) < _FEWEST_WORDS:
        raise ValueError(f"the alternative text says too little: {alt!r}")


def put_in_frame(picture: str, label: Label) -> str:
    """Return ``picture`` as one figure with its caption and its style."""
    caption = f"<b>Figure {label.number}</b> · {to_html(label.caption)}"
    below = f"\n<figcaption>{caption}</figcaption>" if label.number else ""
    return f'<style>{_read_style()}</style>\n<figure class="bits-figure">{picture}{below}</figure>'


@cache
def _read_style() -> str:
    return Path(__file__).with_name("frame.css").read_text(encoding="utf-8")
