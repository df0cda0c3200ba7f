"""Three logits on the number line of a format: softmax by the book, and shifted by the largest.

What moves it is written in ``logits.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from helpers.explorables import stage

FORMATS = ("float32", "bfloat16", "float16")
LEAST, MOST = -150, 110  # what the number line shows, and where logits may be
_NAMES = "abc"
_TICKS = (-150, -100, -50, 0, 50, 100)
_WIDTH, _HEIGHT, _SIDE = 400, 158, 14
_TOP, _LANE, _BASE = 22, 30, 118  # of the window, between logits, of the axis


@dataclass(frozen=True)
class Way:
    """What one way of computing softmax comes to, each operation rounded to the format.

    Attributes:
        z: the arguments of exp.
        exp: their exponentials.
        sum: of the exponentials.
        softmax: the exponentials over their sum.
        log_softmax: the logarithms of the probabilities.
        log_sum_exp: the logarithm of the sum.
    """

    z: list[float]
    exp: list[float]
    sum: float
    softmax: list[float]
    log_softmax: list[float]
    log_sum_exp: float


def explore_logits(logits: Sequence[int], format: str = "float32") -> None:
    """Show softmax and log-sum-exp of three logits, computed in two ways, live where possible.

    Args:
        logits: three integers, from -150 to 110.
        format: the name of a dtype of torch: "float32", "bfloat16" or "float16".

    Raises:
        ValueError: if a logit lies outside, there are not three, or there is no such format.
    """
    logits = [int(logit) for logit in logits]
    if len(logits) != len(_NAMES) or not all(LEAST <= logit <= MOST for logit in logits):
        raise ValueError(f"logits is {logits}: write three integers from {LEAST} to {MOST}")
    if format not in FORMATS:
        raise ValueError(f'format is "{format}"; write one of: {", ".join(FORMATS)}')
    said = describe(format, logits)
    ways = _draw("By the book", format, by_the_book(format, logits), "z") + _draw(
        "Shifted by the largest", format, shifted(format, logits), "z \N{MINUS SIGN} max"
    )
    drawn = f'<div class="bits-ways">{ways}</div><p class="bits-said">{html.escape(said)}</p>'
    stage.show("logits", {"format": format, "logits": logits}, said, drawn)


def window_of(format: str) -> tuple[float, float, float]:
    """Return the arguments where exp becomes 0, where it becomes normal, and where inf."""
    info = torch.finfo(getattr(torch, format))
    normal = math.log(info.smallest_normal)
    return normal + math.log(info.eps / 2), normal, math.log(info.max)


def by_the_book(format: str, logits: Sequence[float]) -> Way:
    """Return softmax and log-sum-exp of ``logits`` as the formula has them."""
    z = torch.tensor(logits, dtype=getattr(torch, format))
    exp = z.exp()
    total = exp.sum()
    softmax = exp / total
    return Way(
        z.tolist(),
        exp.tolist(),
        total.item(),
        softmax.tolist(),
        softmax.log().tolist(),
        total.log().item(),
    )


def shifted(format: str, logits: Sequence[float]) -> Way:
    """Return the same, with the largest logit moved to zero first."""
    z = torch.tensor(logits, dtype=getattr(torch, format))
    largest = z.max()
    z = z - largest
    exp = z.exp()
    total = exp.sum()
    log = total.log()
    return Way(
        z.tolist(),
        exp.tolist(),
        total.item(),
        (exp / total).tolist(),
        (z - log).tolist(),
        (largest + log).item(),
    )


def describe(format: str, logits: Sequence[int]) -> str:
    """Return in two sentences what either way gives."""
    book, moved = by_the_book(format, logits), shifted(format, logits)
    begin = f"{format}, logits {stage.list_words([str(logit) for logit in logits])}. By the book, "
    end = (
        f" Shifted by the largest, softmax is {_values(moved.softmax)}, and its logarithm "
        f"{_values(moved.log_softmax)}."
    )
    softmax = _values(book.softmax)
    over = _named(book.exp, math.isinf)
    if over:
        told = f"exp overflows for {over}: softmax is {softmax}."
    elif math.isinf(book.sum):
        told = f"the sum overflows: softmax is {softmax}."
    elif book.sum == 0:
        told = "exp underflows for all three, and 0 / 0 is nan."
    elif 0 in book.softmax:
        gone = _named(book.softmax, lambda p: p == 0)
        told = f"softmax is {softmax}, and its logarithm is -inf for {gone}."
    elif any(abs(p - q) > 0.01 for p, q in zip(book.softmax, moved.softmax, strict=True)):
        told = f"exp is subnormal and has lost digits: softmax is {softmax}."
    else:
        told = "nothing leaves the range."
    return begin + told + end


def brief(number: float) -> str:
    """Return ``number`` with three digits, or with two and a power of ten."""
    size = abs(number)
    if not math.isfinite(number) or size == 0 or 0.001 <= size < 1000:
        return re.sub(r"^-0$", "0", stage.shorten(number))
    return re.sub(r"e([+-])0", r"e\1", f"{number:.1e}")


def _values(numbers: Sequence[float]) -> str:
    return ", ".join(map(brief, numbers))


def _named(numbers: Sequence[float], is_it: Callable[[float], bool]) -> str:
    return stage.list_words(
        [name for name, number in zip(_NAMES, numbers, strict=True) if is_it(number)]
    )


def _to_x(z: float) -> float:
    share = (min(max(z, LEAST), MOST) - LEAST) / (MOST - LEAST)
    return _SIDE + share * (_WIDTH - 2 * _SIDE)


def _draw(title: str, format: str, way: Way, argument: str) -> str:
    low, normal, high = map(_to_x, window_of(format))
    height, anchor = _BASE - _TOP, "end" if high > _WIDTH - 90 else "start"
    parts = [
        f'<rect x="{low:.1f}" y="{_TOP}" width="{high - low:.1f}" height="{height}" '
        'class="bits-safe"/>',
        f'<rect x="{low:.1f}" y="{_TOP}" width="{normal - low:.1f}" height="{height}" '
        'class="bits-subnormal"/>',
        f'<path d="M0 {_BASE} H{_WIDTH}" class="bits-axis"/>',
        *(
            f'<text x="{_to_x(z):.1f}" y="{_BASE + 18}" text-anchor="middle">{z}</text>'
            for z in _TICKS
        ),
        f'<text x="{low:.1f}" y="{_TOP - 8}" text-anchor="end">exp is 0</text>',
        f'<text x="{high:.1f}" y="{_TOP - 8}" text-anchor="{anchor}">exp is inf</text>',
    ]
    for place, (name, z, e) in enumerate(zip(_NAMES, way.z, way.exp, strict=True)):
        fate = "over" if math.isinf(e) else "under" if e == 0 else "in"
        parts.append(
            f'<g class="bits-logit bits-{fate}" '
            f'transform="translate({_to_x(z):.1f} {_TOP + 18 + place * _LANE})">'
            f'<circle r="12"/><text y="5" text-anchor="middle">{name}</text></g>'
        )
    picture = (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-line" role="img" '
        f'aria-label="The number line, {title}">{"".join(parts)}</svg>'
    )
    rows = (
        ("", [*_NAMES, "sum"]),
        (argument, [*way.z, None]),
        ("exp", [*way.exp, way.sum]),
        ("softmax", [*way.softmax, None]),
        ("its log", [*way.log_softmax, None]),
        ("log-sum-exp", [None, None, None, way.log_sum_exp]),
    )
    cells = "".join(
        f'<div class="bits-row"><span>{label}</span>'
        f"{''.join(_cell(value, label in ('exp', 'softmax')) for value in values)}</div>"
        for label, values in rows
    )
    return (
        f'<div class="bits-way"><p class="bits-title">{title}</p>{picture}'
        f'<div class="bits-values">{cells}</div></div>'
    )


def _cell(value: float | str | None, zero_is_gone: bool) -> str:
    if value is None or isinstance(value, str):
        return f"<span>{value or ''}</span>"
    kind = "bits-over" if not math.isfinite(value) else ""
    if zero_is_gone and value == 0:
        kind = "bits-under"
    return f"<span{kind and f' class={chr(34)}{kind}{chr(34)}'}>{brief(value)}</span>"
