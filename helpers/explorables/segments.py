"""A chain of layers with checkpoints: the bytes saved over one training step, under a budget.

What moves it is written in ``segments.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from helpers.explorables import stage

_LAYERS = 12


@dataclass(frozen=True)
class Chain:
    """A chain of layers.

    Attributes:
        label: what the reader chooses it by.
        inputs: the size of each layer's input.
        inside: the size of what each layer saves besides its input.
    """

    label: str
    inputs: tuple[int, ...]
    inside: tuple[int, ...]


CHAINS = {
    "equal": Chain("12 equal layers", (1,) * _LAYERS, (1,) * _LAYERS),
    "first": Chain(
        "large layers first",
        (4, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1),
        (8, 8, 8, 8, 4, 4, 4, 4, 2, 2, 2, 2),
    ),
    "last": Chain(
        "large layers last",
        (1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4),
        (2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8),
    ),
}
# The picture, in units of its own.
_WIDTH, _STEP, _BASE, _TALLEST = 640, 640 / _LAYERS, 84, 60
_CUT, _FLOOR, _TENT, _HEIGHT = 104, 316, 150, 350


@dataclass(frozen=True)
class Step:
    """What one training step saves.

    Attributes:
        live: the saved size after each layer's forward, second and backward run.
        turn: how many of these belong to the forward pass.
    """

    live: tuple[int, ...]
    turn: int

    @property
    def peak(self) -> int:
        """The most that is saved at once."""
        return max(self.live)


def explore_segments(chain: str = "equal", starts: Sequence[int] = (0,), budget: int = 9) -> None:
    """Show what a chain of layers saves over one training step, live where the front end can.

    Args:
        chain: "equal", "first" or "last": which layers are large.
        starts: the layers at which a segment begins, rising from 0; each segment but the last is
            checkpointed.
        budget: the most that shall be saved at once.

    Raises:
        ValueError: if there is no such chain, or ``starts`` do not rise from 0 within it.
    """
    if chain not in CHAINS:
        raise ValueError(f'chain is "{chain}"; write one of: {", ".join(CHAINS)}')
    starts = list(starts)
    rising = all(a < b for a, b in pairwise(starts))
    if not starts or starts[0] != 0 or not rising or starts[-1] >= _LAYERS:
        raise ValueError(f"starts are {starts}: they rise from 0 and stay below {_LAYERS}")
    said = _say(chain, starts, budget)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    drawn = f"{_draw(chain, starts, budget)}{paragraphs}"
    state = {"chain": chain, "starts": starts, "budget": budget}
    stage.show("segments", state, "\n".join(said), drawn)


def follow(chain: Chain, starts: Sequence[int]) -> Step:
    """Return what is saved over one training step, if segments begin at ``starts``."""
    spans = list(pairwise([*starts, len(chain.inputs)]))
    live, saved = [], 0
    for start, end in spans:
        is_last = end == len(chain.inputs)
        for layer in range(start, end):
            saved += chain.inputs[layer] * (layer == start) + chain.inside[layer] * is_last
            live.append(saved)
    turn = len(live)
    for number, (start, end) in reversed(list(enumerate(spans))):
        if number < len(spans) - 1:
            for layer in range(start, end):
                saved += chain.inside[layer]
                live.append(saved)
        for layer in reversed(range(start, end)):
            saved -= chain.inside[layer] + chain.inputs[layer] * (layer == start)
            live.append(saved)
    return Step(tuple(live), turn)


def choose(chain: Chain, budget: int) -> list[int] | None:
    """Return the starts that fit into ``budget`` and make the fewest layers run twice."""
    ways = {0: (chain.inputs[0], [0])}
    for end in range(1, len(chain.inputs)):
        found = [
            (kept + chain.inputs[end], [*starts, end])
            for start, (kept, starts) in ways.items()
            if kept + sum(chain.inside[start:end]) <= budget
        ]
        if found:
            ways[end] = min(found, key=lambda way: way[0])
    fitting = (s for k, s in ways.values() if k + sum(chain.inside[s[-1] :]) <= budget)
    return next(fitting, None)


def least_peak(chain: Chain) -> int:
    """Return the smallest budget into which some choice fits."""
    return next(budget for budget in range(1, 10**6) if choose(chain, budget))


def root_rule(chain: Chain) -> list[int]:
    """Return as many equal segments as the square root of the layers, rounded."""
    count = len(chain.inputs)
    segments = math.floor(math.sqrt(count) + 0.5)
    return [math.floor(k * count / segments + 0.5) for k in range(segments)]


def _say(name: str, starts: Sequence[int], budget: int) -> list[str]:
    chain = CHAINS[name]
    root, best = root_rule(chain), choose(chain, budget)
    lines = [
        f"Yours: {_tell(chain, starts, budget)}",
        f"Square-root rule: {_tell(chain, root, budget)}",
    ]
    if best is None:
        lines.append(f"Nothing fits: the smallest possible peak is {least_peak(chain)}.")
    else:
        lines.append(
            f"Best for this budget: {_tell(chain, best, budget)} "
            f"The smallest possible peak is {least_peak(chain)}."
        )
    return lines


def _tell(chain: Chain, starts: Sequence[int], budget: int) -> str:
    peak = follow(chain, starts).peak
    if len(starts) == 1:
        places = "no checkpoint"
    else:
        layers = [str(start + 1) for start in starts]
        places = f"segments begin at layers {', '.join(layers[:-1])} and {layers[-1]}"
    twice = f"{starts[-1]} layer{'s' * (starts[-1] != 1)} run{'s' * (starts[-1] == 1)} twice"
    fits = "fits" if peak <= budget else f"exceeds the budget by {peak - budget}"
    return f"{places}; the peak is {peak}, which {fits}; {twice}."


def _draw(name: str, starts: Sequence[int], budget: int) -> str:
    chain = CHAINS[name]
    step = follow(chain, starts)
    parts = []
    for layer, size in enumerate(chain.inside):
        height = _TALLEST * size / max(chain.inside)
        kind = "twice" if layer < starts[-1] else "once"
        parts.append(
            f'<rect x="{layer * _STEP + 4:.1f}" y="{_BASE - height:.1f}" '
            f'width="{_STEP - 8:.1f}" height="{height:.1f}" class="bits-{kind}"/>'
        )
    for start in range(_LAYERS):
        kind = "bits-set" if start in starts else "bits-unset"
        x = max(start * _STEP, 10)
        parts.append(f'<circle cx="{x:.1f}" cy="{_CUT}" r="9" class="{kind}"/>')
    top = max(follow(chain, [0]).peak, budget)
    width = _WIDTH / len(step.live)
    heights = [_FLOOR - (_FLOOR - _TENT) * size / top for size in step.live]
    path = f"M0 {_FLOOR}" + "".join(
        f"L{k * width:.1f} {y:.1f}L{(k + 1) * width:.1f} {y:.1f}" for k, y in enumerate(heights)
    )
    line = _FLOOR - (_FLOOR - _TENT) * budget / top
    turn = step.turn * width
    parts += [
        f'<path d="{path}L{_WIDTH} {_FLOOR}Z" class="bits-tent"/>',
        f'<line x1="0" x2="{_WIDTH}" y1="{line:.1f}" y2="{line:.1f}" class="bits-budget"/>',
        f'<line x1="{turn:.1f}" x2="{turn:.1f}" y1="{_TENT - 14}" y2="{_FLOOR}" '
        'class="bits-turn"/>',
        f'<text x="{turn - 6:.1f}" y="{_HEIGHT - 10}" text-anchor="end">forward</text>',
        f'<text x="{turn + 6:.1f}" y="{_HEIGHT - 10}">backward</text>',
    ]
    alt = html.escape(
        f"The layers of a chain ({chain.label}) and below them the size saved over one training "
        f"step, with a budget of {budget}. {' '.join(_say(name, starts, budget))}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-segments" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )
