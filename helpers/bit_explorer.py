"""The bit explorer: a number as its bits, which can be toggled.

What it computes and draws is written once, in ``bit_explorer.js``. In a notebook anywidget starts
that module, in the book and on Colab the page itself does. Where neither can, the bits stand there
as text.
"""

from __future__ import annotations

import html
import sys
from functools import cache
from pathlib import Path

import torch

from helpers import display

_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
# The exponent's and the fraction's bits, by the names of torch's dtypes.
_FORMATS = {
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
_INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32}


class UnknownFormatError(ValueError):
    """A format that the bit explorer does not know; the message names those that it does."""


def explore_bits(value: float = 0.1, format: str = "float16") -> None:
    """Show the bits of ``value`` in ``format``, live where the front end can.

    Args:
        value: the number to start from; it is rounded to the format.
        format: the name of a dtype of torch: "float32", "float16", "bfloat16", "float8_e4m3fn"
            or "float8_e5m2".

    Raises:
        UnknownFormatError: if it is another one.
    """
    picture = draw_static(value, format)
    if "google.colab" in sys.modules:
        # A widget of one's own needs a network there; a page's own script does not.
        picture, live = picture + start_script(), None
    else:
        live = _make_live(value, format)
    display.show(_say(value, format), picture, live)


def find_bits(value: float, format: str) -> int:
    """Return the bits of ``value``, rounded to ``format``, as an integer."""
    if format not in _FORMATS:
        raise UnknownFormatError(f'format is "{format}"; write one of: {", ".join(_FORMATS)}')
    stored = torch.tensor(value, dtype=torch.float32).to(getattr(torch, format))
    width = 1 + sum(_FORMATS[format])
    return int(stored.view(_INTEGERS[width])) % 2**width


def draw_static(value: float, format: str) -> str:
    """Return the explorer as HTML that does nothing yet: the bits, and what they stand for."""
    bits, (exponent_bits, _) = find_bits(value, format), _FORMATS[format]
    digits = _digits(value, format)
    parts = {
        "sign": digits[:1],
        "exponent": digits[1 : 1 + exponent_bits],
        "fraction": digits[1 + exponent_bits :],
    }
    groups = "".join(_draw_group(name, part) for name, part in parts.items())
    return (
        f"<style>{read_style()}</style>\n"
        f'<div class="bits-explorer" data-format="{format}" data-bits="{bits}" '
        f'data-value="{value!r}">'
        f'<p class="bits-said">{html.escape(_say(value, format))}</p>'
        f'<div class="bits-row">{groups}</div></div>'
    )


def start_script() -> str:
    """Return the script that brings the explorers of a page to life, without any other file."""
    return f'<script type="module">\n{_read("js")}\nmountAll(document);\n</script>'


def read_style() -> str:
    """Return the explorer's style sheet."""
    return _read("css")


def _draw_group(name: str, digits: str) -> str:
    cells = "".join(
        f'<span class="bits-one">{digit}</span>' if digit == "1" else f"<span>{digit}</span>"
        for digit in digits
    )
    title = f"{name}, {len(digits)} {'bit' if len(digits) == 1 else 'bits'}"
    return (
        f'<div class="bits-group bits-{name}"><span>{title}</span>'
        f'<div class="bits-cells">{cells}</div></div>'
    )


def _say(value: float, format: str) -> str:
    stored = torch.tensor(value, dtype=torch.float32).to(getattr(torch, format)).item()
    exponent_bits, digits = _FORMATS[format][0], _digits(value, format)
    fields = (digits[:1], digits[1 : 1 + exponent_bits], digits[1 + exponent_bits :])
    return f"{value!r} is stored in {format} as {stored!r}: {' '.join(fields)}."


def _digits(value: float, format: str) -> str:
    return f"{find_bits(value, format):0{1 + sum(_FORMATS[format])}b}"


def _make_live(value: float, format: str) -> dict[str, dict] | None:
    try:
        explorer = _widget_class()(format=format, bits=find_bits(value, format), value=repr(value))
    except ModuleNotFoundError:
        return None
    view = {"version_major": 2, "version_minor": 0, "model_id": explorer.model_id}
    return {_WIDGET_VIEW: view}


@cache
def _widget_class() -> type:
    import anywidget
    import traitlets

    class BitExplorer(anywidget.AnyWidget):
        _esm = _read("js")
        _css = read_style()
        format = traitlets.Unicode().tag(sync=True)
        bits = traitlets.Int().tag(sync=True)
        value = traitlets.Unicode().tag(sync=True)  # as it was asked for, before it was rounded

    return BitExplorer


@cache
def _read(kind: str) -> str:
    return Path(__file__).with_suffix(f".{kind}").read_text(encoding="utf-8")
