"""The addition: two numbers of a format, their exact sum, and the bits that fall off.

What moves it is written in ``addition.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import torch

from helpers.explorables import stage
from helpers.explorables.bits import FORMATS, UnknownFormatError

_MOST_DROPPED = 12
_MINUS, _MORE = "\N{MINUS SIGN}", "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True)
class Sum:
    """What becomes of ``a + b`` in ``format``.

    Attributes:
        format: its name.
        a: the first number, as the format has it.
        b: the second one.
        stored: what the format has of their sum.
        kind: "special" with inf and nan, "too large", "exact", "tie" or "rounded".
        exact: the sum; None if it is special.
        last: the power of two of the last place that is kept.
        around: the number of the format on either side, that nearer to zero first.
    """

    format: str
    a: float
    b: float
    stored: float
    kind: str
    exact: Fraction | None = None
    last: int = 0
    around: tuple[float, float] = (0.0, 0.0)


def explore_addition(a: float, b: float, format: str = "float16") -> None:
    """Show the bits of ``a``, ``b`` and their sum in ``format``, live where the front end can.

    Args:
        a: a number; it is rounded to the format.
        b: what is added to it.
        format: the name of a dtype of torch: "float32", "float16", "bfloat16", "float8_e4m3fn"
            or "float8_e5m2".

    Raises:
        UnknownFormatError: if it is another one.
    """
    found = add(a, b, format)
    said = describe(found)
    drawn = f'{_draw(found)}<p class="bits-said">{html.escape(said)}</p>'
    state = {"format": format, "a": write(found.a), "b": write(found.b)}
    stage.show("addition", state, said, drawn)


def add(a: float, b: float, format: str) -> Sum:
    """Return what becomes of ``a + b``, both rounded to ``format`` first."""
    if format not in FORMATS:
        raise UnknownFormatError(f'format is "{format}"; write one of: {", ".join(FORMATS)}')
    dtype = getattr(torch, format)
    a, b = (torch.tensor(number, dtype=torch.float32).to(dtype).item() for number in (a, b))
    if not (math.isfinite(a) and math.isfinite(b)):
        return Sum(format, a, b, a + b, "special")
    exponent_bits, fraction_bits = FORMATS[format]
    exact = Fraction(a) + Fraction(b)
    lowest = 2 - 2 ** (exponent_bits - 1)
    last = max(_exponent(exact) if exact else lowest, lowest) - fraction_bits
    step, sign = Fraction(2) ** last, -1 if exact < 0 else 1
    steps = abs(exact) / step
    low, kept = math.floor(steps), round(steps)  # to the even one
    around = (sign * float(low * step), sign * float((low + 1) * step))
    largest = torch.finfo(dtype).max
    if kept * step > Fraction(largest):
        stored = sign * (largest if format == "float8_e4m3fn" else math.inf)
        return Sum(format, a, b, stored, "too large", exact, last, around)
    stored = sign * float(kept * step) if kept else a + b
    kind = "exact" if steps == low else "tie" if steps - low == Fraction(1, 2) else "rounded"
    return Sum(format, a, b, stored, kind, exact, last, around)


def describe(found: Sum) -> str:
    """Return what becomes of the sum, in words."""
    a, b, stored = found.a, found.b, write(found.stored)
    begin = f"{write(a)} {_MINUS if b < 0 else '+'} {write(abs(b))}"
    if found.kind == "special":
        return f"{begin} is {stored}."
    if found.kind == "exact":
        return f"{begin} is {stored}, which is stored exactly."
    if found.kind == "too large":
        return f"{begin} is too large for {found.format} and becomes {stored}."
    low, high = map(write, found.around)
    why = f"between {low} and {high}, and nearer to {stored}, which is stored"
    if found.kind == "tie":
        why = f"halfway between {low} and {high}. The last bit of {stored} is 0, so it is stored"
    return f"{begin} lies {why}.{' Adding b changes nothing.' if found.stored == a else ''}"


def write(number: float) -> str:
    """Return ``number`` as JavaScript writes it."""
    if not math.isfinite(number):
        return f"{number:g}"
    if number == 0:
        return "-0" if math.copysign(1, number) < 0 else "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    power = len(digits) + exponent - 1
    text = "".join(map(str, digits))
    if -6 <= power < 21:
        return f"{Decimal((sign, digits, exponent)):f}"
    point = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if sign else ''}{text[0]}{point}e{power:+d}"


def lay_out(found: Sum) -> tuple[int, int, list[tuple[str, str, list[str], bool]]]:
    """Return how many columns are kept, how many fall off, and the rows.

    A row is a name, a sign, its bits, and whether there are more to the right.
    """
    numbers = {"a": Fraction(found.a), "b": Fraction(found.b), "a + b": found.exact}
    if found.kind != "too large":
        numbers["stored"] = Fraction(found.stored)
    bottom = min(_last_place(number, found.format) for number in (found.a, found.b))
    last, unit = max(found.last, bottom), Fraction(2) ** bottom
    top = max((_exponent(number) for number in numbers.values() if number), default=bottom)
    either = int(Fraction(found.a) / unit) | int(Fraction(found.b) / unit)
    # No more columns than there are digits, and never fewer than are kept.
    least = min(bottom + max((either & -either).bit_length() - 1, 0), last)
    end = least if found.kind == "exact" else max(least, last - _MOST_DROPPED)
    rows = []
    for name, number in numbers.items():
        integer = abs(int(number / unit))
        digits = f"{integer:b}".rjust(top - bottom + 1, "0")
        shown, rest = digits[: top - end + 1], digits[top - end + 1 :]
        first = shown.find("1") if "1" in shown else len(shown)
        bits = ["" if k < first else digit for k, digit in enumerate(shown)]
        if name == "stored":
            bits = ["" if top - k < last else bit for k, bit in enumerate(bits)]
        rows.append((name, _MINUS if number < 0 else "", bits, "1" in rest))
    return top - max(last, end) + 1, max(last - end, 0), rows


def _exponent(number: Fraction) -> int:
    size = abs(number)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    return power if Fraction(2) ** power <= size else power - 1


def _last_place(number: float, format: str) -> int:
    exponent_bits, fraction_bits = FORMATS[format]
    lowest = 2 - 2 ** (exponent_bits - 1)
    power = math.frexp(number)[1] - 1 if number else lowest
    return max(power, lowest) - fraction_bits


def _draw(found: Sum) -> str:
    if found.kind == "special":
        return ""
    kept, dropped, rows = lay_out(found)
    more = any(row[3] for row in rows)
    off = f'<th colspan="{dropped + more}" scope="colgroup">falls off</th>' if dropped else ""
    body = ""
    for name, sign, bits, has_more in rows:
        cells = "".join(
            f'<td class="{"bits-one" if bit == "1" else ""}{"" if k < kept else " bits-off"}">'
            f"{bit}</td>"
            for k, bit in enumerate(bits)
        )
        if more:
            cells += f'<td class="bits-off">{_MORE if has_more else ""}</td>'
        body += f'<tr><th scope="row">{name}{sign and " " + sign}</th>{cells}</tr>'
    return (
        f'<div class="bits-wide"><table><thead><tr><td></td><th colspan="{kept}" scope="colgroup">'
        f"kept</th>{off}</tr></thead><tbody>{body}</tbody></table></div>"
    )
