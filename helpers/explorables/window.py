"""The window: rows in micro-batches, and what each row weighs in the accumulated gradient.

What moves it is written in ``window.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from helpers.explorables import stage

_RULES = {
    "count": "divided by the number of micro-batches",
    "none": "not divided",
    "share": "times its share of the rows",
}
_WIDTH, _HEIGHT, _BASE, _TALLEST, _UNIT = 640, 190, 150, 120, 15


def explore_window(sizes: Sequence[int], rule: str = "count") -> None:
    """Show what one row of each micro-batch weighs, live where the front end can.

    Args:
        sizes: how many rows each micro-batch has, at least 1 each.
        rule: what becomes of each micro-batch's mean loss: "count" divides it by the number of
            micro-batches, "share" multiplies it by its share of the rows, "none" leaves it.

    Raises:
        ValueError: if a size is below 1, or there is no such rule.
    """
    sizes = list(sizes)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes is {sizes}: every micro-batch has at least one row")
    if rule not in _RULES:
        raise ValueError(f'rule is "{rule}"; write one of: {", ".join(_RULES)}')
    said = _say(sizes, rule)
    drawn = f'{_draw(sizes, rule)}<p class="bits-said">{html.escape(said)}</p>'
    stage.show("window", {"sizes": sizes, "rule": rule}, said, drawn)


def weigh(sizes: Sequence[int], rule: str) -> list[float]:
    """Return what one row of each micro-batch weighs; each loss is a mean over its own rows."""
    factors = {"count": 1 / len(sizes), "none": 1.0}
    total = sum(sizes)
    return [factors.get(rule, size / total) / size for size in sizes]


def _draw(sizes: Sequence[int], rule: str) -> str:
    total, row, parts = sum(sizes), 0, []
    step = _WIDTH / total
    for number, (size, weight) in enumerate(zip(sizes, weigh(sizes, rule), strict=True)):
        height = min(_TALLEST, _UNIT * weight * total)
        x, middle = row * step + 0.5, (row + size / 2) * step
        row += size
        parts.append(
            f'<rect x="{x:.1f}" y="{_BASE - height:.1f}" width="{max(size * step - 1, 1):.1f}" '
            f'height="{height:.1f}" class="bits-{"odd" if number % 2 else "even"}"/>'
            f'<text x="{middle:.1f}" y="{_BASE + 38}" text-anchor="middle">{size}</text>'
        )
    level = _BASE - _UNIT
    parts.append(f'<line x1="0" x2="{_WIDTH}" y1="{level}" y2="{level}" class="bits-wanted"/>')
    alt = html.escape(
        f"Bars as wide as the micro-batches, as high as a row weighs. {_say(sizes, rule)}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-window" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )


def _say(sizes: Sequence[int], rule: str) -> str:
    total, weights = sum(sizes), weigh(sizes, rule)
    if len(sizes) == 1:
        rows = f"{total} rows in one piece"
    else:
        listed = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"
        rows = f"{total} rows in micro-batches of {listed}"
    begin = f"{rows}, each loss {_RULES[rule]}"
    if all(abs(weight * total - 1) < 1e-9 for weight in weights):
        return f"{begin}: every row weighs {_percent(1 / total)}, as in the full batch."
    if max(weights) / min(weights) > 1 + 1e-9:
        apart = f"a row weighs from {_percent(min(weights))} to {_percent(max(weights))}"
    else:
        apart = f"every row weighs {_percent(max(weights))}"
    return f"{begin}: {apart}; in the full batch it weighs {_percent(1 / total)}."


def _percent(weight: float) -> str:
    return f"{stage.shorten(100 * weight)}%"
