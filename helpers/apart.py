"""Two numbers that differ, written so that the difference is seen: in digits, or in bits."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from typing import Any

import torch

from helpers.plain import describe

FEWEST_DIGITS = 6
# What any float64 needs at most to be told from all others.
_MOST_DIGITS = 17
# How far apart two numbers are, by their size, whose difference is one of rounding: with more
# between them, nobody looks for it in the bits.
_ROUNDING = 2.0**-7
# From here on an integer that stands in a tensor may be a bit pattern.
_SMALLEST_PATTERN = 2**10
# The bits of the exponent and of the fraction; a sign stands before them.
_FIELDS = {
    torch.float64: (11, 52),
    torch.float32: (8, 23),
    torch.float16: (5, 10),
    torch.bfloat16: (8, 7),
    torch.float8_e4m3fn: (4, 3),
    torch.float8_e5m2: (5, 2),
}
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def digits_apart(one: Any, other: Any) -> int:
    """Return how many digits it takes to see how far two numbers are apart: at least six.

    One in the last digit can stand for a hundredth of it, so the difference of what is shown has to
    be the true one, to half of it.
    """
    if not (isinstance(one, float) and isinstance(other, float)):
        return FEWEST_DIGITS
    gap = abs(one - other)
    if not (math.isfinite(gap) and gap > 0):
        return FEWEST_DIGITS
    for digits in range(FEWEST_DIGITS, _MOST_DIGITS):
        shown = abs(float(f"{one:.{digits}g}") - float(f"{other:.{digits}g}"))
        if abs(shown - gap) <= gap / 2:
            return digits
    return _MOST_DIGITS


def tell_apart(one: Any, other: Any) -> tuple[str, str]:
    """Return two values that differ, as text that does."""
    digits = digits_apart(one, other)
    texts = describe(one, digits), describe(other, digits)
    return texts if texts[0] != texts[1] else (repr(one), repr(other))


def write_out(entry: torch.Tensor) -> str:
    """Return a tensor's only element, with the digits that tell it from others of its dtype."""
    number = entry.item()
    if not (isinstance(number, float) and math.isfinite(number)):
        return describe(number)
    for digits in range(FEWEST_DIGITS, _MOST_DIGITS):
        text = describe(number, digits)
        if torch.tensor(float(text), dtype=torch.float64).to(entry.dtype).item() == number:
            return text
    return repr(number)


def entries_at(
    place: tuple[tuple[int, ...], tuple[int, ...]], named: Iterable[tuple[str, Any]]
) -> list[tuple[str, str]]:
    """Return those entries of ``named`` values that stand at ``place``, a shape and an index in it,
    each with its name: of tensors of that shape.
    """
    shape, index = place
    where, entries = ", ".join(map(str, index)), []
    for name, value in named:
        if isinstance(value, torch.Tensor) and value.shape == shape:
            with contextlib.suppress(RuntimeError):  # it holds no numbers, or none to be read here
                entries.append((f"{name}[{where}]", write_out(value[index])))
    return entries


def bits_apart(one: torch.Tensor, other: torch.Tensor) -> tuple[str, str] | None:
    """Return the bits of two tensors' only elements; None if these tell nothing of the difference.

    They do where a number is rounded wrongly, and where integers are bit patterns.
    """
    if one.dtype in _FIELDS:
        return _bits_of_floats(one, other)
    if one.dtype.is_complex or one.dtype.is_floating_point or one.dtype is torch.bool:
        return None
    numbers = int(one), int(other)
    if min(numbers, key=abs) == 0 or max(map(abs, numbers)) < _SMALLEST_PATTERN:
        return None
    width = next(w for w in (16, 32, 64) if max(map(abs, numbers)) < 2**w)
    told = _told(numbers[0], (width,)), _told(numbers[1], (width,))
    return told if told[0] != told[1] else None  # -1 and 65535 have the same 16 bits


def _bits_of_floats(one: torch.Tensor, other: torch.Tensor) -> tuple[str, str] | None:
    numbers = float(one), float(other)
    gap, size = abs(numbers[0] - numbers[1]), max(map(abs, numbers))
    if one.dtype.itemsize > 1 and not gap <= _ROUNDING * size:
        return None
    patterns = (int(number.view(_INTEGERS[one.dtype.itemsize])) for number in (one, other))
    fields = (1, *_FIELDS[one.dtype])
    return tuple(_told(pattern, fields) for pattern in patterns)


def _told(pattern: int, fields: tuple[int, ...]) -> str:
    """Return a pattern's bits, with a space between its fields, and the pattern in hex."""
    width = sum(fields)
    pattern %= 2**width
    bits, parts = f"{pattern:0{width}b}", []
    for size in fields:
        parts.append(bits[:size])
        bits = bits[size:]
    return f"{' '.join(parts)} = 0x{pattern:0{width // 4}x}"
