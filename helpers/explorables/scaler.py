"""A gradient scaler over the steps of a training run, and one step's gradients in float16.

What moves it is written in ``scaler.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.explorables import stage

# How many gradients have which exponent, in every step.
COUNTS = dict(
    zip(
        range(-34, -3),
        [
            *(1, 2, 3, 4, 6, 8, 11, 14, 18, 22, 27, 32, 36, 40, 42, 43),
            *(42, 40, 37, 33, 29, 25, 20, 16, 12, 9, 7, 5, 3, 2, 1),
        ],
        strict=True,
    )
)
INTERVALS = (2, 4, 8)
MOST_STEPS = 48
_SCALES = range(33)  # the exponents that the reader can start from
_FIRST_NORMAL, _FIRST_KEPT, _LAST_FINITE = -14, -25, 15
# The picture, in units of its own.
_WIDTH, _LEFT, _BIN, _BASE, _TALLEST = 640, -60, 640 / 104, 150, 110
_TOP, _FLOOR, _LEARNED, _SHARE, _HEIGHT = 216, 318, 398, 44, 406
_COLUMN = _WIDTH / MOST_STEPS
_LEGEND = (("count", "made", 400), ("grow", "growth", 470), ("skip", "skipped", 555))
_KINDS = ("zero", "subnormal", "normal", "inf")


@dataclass(frozen=True)
class Step:
    """One step of the run.

    Attributes:
        scale: the exponent of the scale that it was made with.
        kind: "count", "grow" if the scale doubles afterwards, or "skip".
        learned: how many gradients reached the weights as a number other than 0.
    """

    scale: int
    kind: str
    learned: int


def explore_scaler(scale: int = 16, interval: int = 4, events: str = "") -> None:
    """Show what a gradient scaler makes of a run of steps, live where the front end can.

    Args:
        scale: the exponent of the first scale, 0 to 32.
        interval: the growth interval: 2, 4 or 8.
        events: a letter for each step: "." an ordinary one, "i" one in which a gradient is inf.

    Raises:
        ValueError: if one of them is nothing of the kind.
    """
    if scale not in _SCALES:
        raise ValueError(f"scale is {scale}: it is an exponent from 0 to {_SCALES[-1]}")
    if interval not in INTERVALS:
        raise ValueError(f"interval is {interval}; write one of: 2, 4, 8")
    if set(events) - {".", "i"} or len(events) > MOST_STEPS:
        raise ValueError(f'events are "{events}": at most {MOST_STEPS} letters, each . or i')
    said = _say(scale, interval, events)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    drawn = f"{_draw(scale, interval, events)}{paragraphs}"
    state = {"scale": scale, "interval": interval, "events": events}
    stage.show("scaler", state, "\n".join(said), drawn)


def sort_gradients(scale: int) -> dict[str, int]:
    """Return how many gradients, scaled by 2**scale, are what in float16."""
    found = dict.fromkeys(_KINDS, 0)
    for exponent, count in COUNTS.items():
        found[_kind_of(exponent + scale)] += count
    return found


def run(scale: int, interval: int, events: Sequence[str]) -> tuple[list[Step], int, int]:
    """Return the steps, and the exponent of the scale and the counter after them."""
    steps, counter = [], 0
    for event in events:
        found = sort_gradients(scale)
        if event == "i" or found["inf"]:
            steps.append(Step(scale, "skip", 0))
            scale, counter = scale - 1, 0
            continue
        counter += 1
        grows = counter == interval
        learned = found["subnormal"] + found["normal"]
        steps.append(Step(scale, "grow" if grows else "count", learned))
        if grows:
            scale, counter = scale + 1, 0
    return steps, scale, counter


def _kind_of(place: int) -> str:
    if place < _FIRST_KEPT:
        return "zero"
    if place < _FIRST_NORMAL:
        return "subnormal"
    return "normal" if place <= _LAST_FINITE else "inf"


def _share(count: int) -> str:
    return f"{int(100 * count / sum(COUNTS.values()) + 0.5)}%"


def _say(scale: int, interval: int, events: str) -> list[str]:
    steps, now, counter = run(scale, interval, events)
    if not steps:
        last = "No step yet."
    else:
        before = steps[-1].scale
        last = (
            f"Step {len(steps)}, scale 2^{before}: "
            + {
                "skip": f"inf, so the step is skipped and the scale is halved to 2^{now}.",
                "grow": f"made; the counter reaches {interval}, and the scale doubles to 2^{now}.",
                "count": f"made; the counter is {counter} of {interval}.",
            }[steps[-1].kind]
        )
    made = sum(step.kind != "skip" for step in steps)
    reached = sum(step.learned for step in steps)
    mean = (
        f"; over all steps, {_share(reached / len(steps))} of the gradients arrived"
        if steps
        else ""
    )
    found = sort_gradients(now)
    return [
        last,
        f"Made: {made} of {len(steps)} steps{mean}.",
        f"The next step at 2^{now}: {_share(found['zero'])} become 0, "
        f"{_share(found['subnormal'])} are subnormal, {_share(found['normal'])} normal, "
        f"{_share(found['inf'])} inf.",
    ]


def _draw(scale: int, interval: int, events: str) -> str:
    steps, now, _ = run(scale, interval, events)

    def x(place: int) -> float:
        return min(max((place - _LEFT) * _BIN, 0), _WIDTH)

    parts = []
    for kind, start, end in (
        ("subnormal", _FIRST_KEPT, _FIRST_NORMAL),
        ("normal", _FIRST_NORMAL, _LAST_FINITE + 1),
    ):
        parts.append(
            f'<rect x="{x(start):.1f}" y="24" width="{x(end) - x(start):.1f}" '
            f'height="{_BASE - 24}" class="bits-zone bits-{kind}"/>'
        )
    for exponent, count in COUNTS.items():
        height = _TALLEST * count / max(COUNTS.values())
        parts.append(
            f'<rect x="{x(exponent + now) + 0.5:.1f}" y="{_BASE - height:.1f}" '
            f'width="{_BIN - 1:.1f}" height="{height:.1f}" '
            f'class="bits-{_kind_of(exponent + now)}"/>'
        )
    for kind, place in (("0", -42), ("subnormal", -19.5), ("normal", 1), ("inf", 30)):
        label = f'<text x="{x(place):.1f}" y="{_BASE + 22}" text-anchor="middle">{kind}</text>'
        parts.append(label)
    parts.append('<text x="0" y="16">gradients by exponent, scaled</text>')
    low, high = _range_of(steps, now)
    for place, level in enumerate([*(step.scale for step in steps), now]):
        kind = steps[place].kind if place < len(steps) else "next"
        y = _FLOOR - (_FLOOR - _TOP) * (level - low) / (high - low)
        cx = min(place + 0.5, MOST_STEPS - 0.5) * _COLUMN
        parts.append(f'<circle cx="{cx:.1f}" cy="{y:.1f}" r="5" class="bits-{kind}"/>')
        if place < len(steps):
            height = _SHARE * steps[place].learned / sum(COUNTS.values())
            parts.append(
                f'<rect x="{place * _COLUMN + 1:.1f}" y="{_LEARNED - height:.1f}" '
                f'width="{_COLUMN - 2:.1f}" height="{height:.1f}" class="bits-learned"/>'
            )
    parts.append(f'<text x="0" y="{_TOP - 14}">scale of each step, 2^{low} to 2^{high}</text>')
    for kind, name, place in _LEGEND:
        parts.append(f'<text x="{place}" y="{_TOP - 14}" class="bits-{kind}">{name}</text>')
    parts.append(f'<text x="0" y="{_LEARNED - _SHARE - 6}">share of gradients that arrive</text>')
    parts.append(f'<line x1="0" x2="{_WIDTH}" y1="{_BASE}" y2="{_BASE}"/>')
    parts.append(f'<line x1="0" x2="{_WIDTH}" y1="{_LEARNED}" y2="{_LEARNED}"/>')
    alt = html.escape(
        "A histogram of scaled gradients by exponent over the zones of float16, and below it the "
        f"scale of each step. {' '.join(_say(scale, interval, events))}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-scaler" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )


def _range_of(steps: Sequence[Step], now: int) -> tuple[int, int]:
    scales = [*(step.scale for step in steps), now]
    low, high = min(scales) - 1, max(scales) + 1
    return low, max(high, low + 6)
