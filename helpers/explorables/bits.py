"""The bit explorer: a number as its bits, which can be toggled.

What it computes and draws is written once, in ``bits.js``. Where no script runs, the bits stand
there as text.
"""

from __future__ import annotations

import html

import torch

from helpers.explorables import stage

# The exponent's and the fraction's bits, by the names of torch's dtypes.
FORMATS = {
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
_INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32}


class UnknownFormatError(ValueError):
    """A format that the bit explorer does not know; the message names those that it does."""


def explore_bits(value: float = 0.1, format: str = "float16", *, beside: bool = False) -> None:
    """Show the bits of ``value`` in ``format``, live where the front end can.

    Args:
        value: the number to start from; it is rounded to the format.
        format: the name of a dtype of torch: "float32", "float16", "bfloat16", "float8_e4m3fn"
            or "float8_e5m2".
        beside: whether what the other formats store is shown at once, and not when asked for.

    Raises:
        UnknownFormatError: if it is another one.
    """
    start, drawn = find_start(value, format), draw_static(value, format)
    if beside:
        start, drawn = {**start, "beside": True}, drawn + _draw_beside(value)
    stage.show("bits", start, _say(value, format), drawn)


def find_start(value: float, format: str) -> stage.State:
    """Return what the explorer starts from to show ``value`` in ``format``."""
    return {"format": format, "bits": find_bits(value, format), "value": repr(value)}


def find_bits(value: float, format: str) -> int:
    """Return the bits of ``value``, rounded to ``format``, as an integer."""
    if format not in FORMATS:
        raise UnknownFormatError(f'format is "{format}"; write one of: {", ".join(FORMATS)}')
    stored = torch.tensor(value, dtype=torch.float32).to(getattr(torch, format))
    width = 1 + sum(FORMATS[format])
    return int(stored.view(_INTEGERS[width])) % 2**width


def draw_static(value: float, format: str) -> str:
    """Return the bits, and what they stand for, as HTML."""
    (exponent_bits, _), digits = FORMATS[format], _digits(value, format)
    parts = {
        "sign": digits[:1],
        "exponent": digits[1 : 1 + exponent_bits],
        "fraction": digits[1 + exponent_bits :],
    }
    groups = "".join(_draw_group(name, part) for name, part in parts.items())
    said = html.escape(_say(value, format))
    return f'<p class="bits-said">{said}</p><div class="bits-row">{groups}</div>'


def _draw_beside(value: float) -> str:
    rows = "".join(
        f"<tr><td>{format}</td><td>{1 + sum(widths)}</td><td>{_store(value, format)!r}</td></tr>"
        for format, widths in FORMATS.items()
    )
    head = "<tr><th>format</th><th>bits</th><th>stored</th></tr>"
    return (
        f'<div class="bits-beside"><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>'
    )


def _store(value: float, format: str) -> float:
    return torch.tensor(value, dtype=torch.float32).to(getattr(torch, format)).item()


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
    stored = _store(value, format)
    exponent_bits, digits = FORMATS[format][0], _digits(value, format)
    fields = (digits[:1], digits[1 : 1 + exponent_bits], digits[1 + exponent_bits :])
    return f"{value!r} is stored in {format} as {stored!r}: {' '.join(fields)}."


def _digits(value: float, format: str) -> str:
    return f"{find_bits(value, format):0{1 + sum(FORMATS[format])}b}"
