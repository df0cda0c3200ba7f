"""The order of the calls around an optimizer step, with a gradient scaler, over four windows.

What moves it is written in ``steps.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.explorables import stage

CALLS = {
    "backward": "scaler.scale(loss).backward()",
    "unscale": "scaler.unscale_(optimizer)",
    "clip": "clip_grad_norm_(parameters, 1.0)",
    "step": "scaler.step(optimizer)",
    "update": "scaler.update()",
    "schedule": "if stepped: scheduler.step()",
    "clear": "optimizer.zero_grad()",
}
# One weight's gradient, in one window after the other.
GRADIENTS = (0.5, 4.0, 2.0, 0.8)
SCALE, MOST_NORM, RATE, DECAY = 1024.0, 1.0, 0.1, 0.5
_LEAST, _MOST = 2.0**-5, 2.0**13  # where a bar is empty, and where it is full


@dataclass(frozen=True)
class Entry:
    """What one call leaves behind.

    Attributes:
        call: its name.
        kind: of ``value``: "grad", "norm", "move" of the weight, "scale", "rate"; "" with an error.
        value: None for what is none.
        grad: the stored gradient afterwards.
        error: what torch raises.
    """

    call: str
    kind: str = ""
    value: float | None = None
    grad: float | None = None
    error: str = ""


def explore_steps(order: Sequence[str] = tuple(CALLS), inf: int = 0) -> None:
    """Show what each call of a training step leaves behind, live where the front end can.

    Args:
        order: of the calls: "backward", "unscale", "clip", "step", "update", "schedule" and
            "clear", each once.
        inf: the window, counted from 1, whose gradient is infinite; 0 for none.

    Raises:
        ValueError: if a call is missing, twice there or unknown, or there is no such window.
    """
    order = list(order)
    if sorted(order) != sorted(CALLS):
        raise ValueError(f"order is {order}: each of these stands there once: {', '.join(CALLS)}")
    if inf not in range(len(GRADIENTS) + 1):
        raise ValueError(f"inf is {inf}: it is a window from 1 to {len(GRADIENTS)}, or 0 for none")
    said = describe(order, inf)
    drawn = f'{_draw(order, inf)}<p class="bits-said">{html.escape(said)}</p>'
    stage.show("steps", {"order": order, "inf": inf}, said, drawn)


class _Scaled:
    """One weight's gradient, its scaler and its schedule, with the rules of ``GradScaler``."""

    def __init__(self) -> None:
        self.grad: float | None = None
        self.scale = self.scale_before = SCALE
        self.rate = RATE
        self.stage = "ready"
        self.found_inf: bool | None = None
        self.has_scale = False

    def backward(self, gradient: float) -> tuple[str, float | None]:
        self.has_scale = True
        self.grad = (self.grad or 0.0) + self.scale * gradient
        return "grad", self.grad

    def unscale(self, gradient: float) -> tuple[str, float | None]:
        if not self.has_scale:
            raise RuntimeError("Attempted unscale_ but _scale is None.")
        if self.stage == "unscaled":
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if self.stage == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        if self.grad is not None:
            self.grad /= self.scale
            self.found_inf = not math.isfinite(self.grad)
        self.stage = "unscaled"
        return "grad", self.grad

    def clip(self, gradient: float) -> tuple[str, float | None]:
        norm = abs(self.grad or 0.0)
        if self.grad is not None:
            self.grad *= min(1.0, MOST_NORM / (norm + 1e-6))
        return "norm", norm

    def step(self, gradient: float) -> tuple[str, float | None]:
        if not self.has_scale:
            raise RuntimeError("Attempted step but _scale is None.")
        if self.stage == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if self.stage == "ready":
            self.unscale(gradient)
        if self.found_inf is None:
            raise RuntimeError("No inf checks were recorded for this optimizer.")
        self.stage = "stepped"
        return "move", None if self.found_inf else self.rate * (self.grad or 0.0)

    def update(self, gradient: float) -> tuple[str, float | None]:
        if not self.has_scale:
            raise RuntimeError("Attempted update but _scale is None.")
        if self.found_inf is None:
            raise RuntimeError("No inf checks were recorded prior to update.")
        if self.found_inf:
            self.scale /= 2
        self.stage, self.found_inf = "ready", None
        return "scale", self.scale

    def schedule(self, gradient: float) -> tuple[str, float | None]:
        if self.scale < self.scale_before:
            return "rate", None
        self.rate *= DECAY
        return "rate", self.rate

    def clear(self, gradient: float) -> tuple[str, float | None]:
        self.grad = None
        return "grad", None


def run(order: Sequence[str], inf: int) -> list[list[Entry]]:
    """Return for each window what each call of ``order`` leaves behind.

    What torch would raise ends the run: the last entry tells it.
    """
    now = _Scaled()
    windows: list[list[Entry]] = []
    for number, gradient in enumerate(GRADIENTS, start=1):
        now.scale_before = now.scale
        windows.append([])
        for call in order:
            try:
                kind, value = getattr(now, call)(math.inf if number == inf else gradient)
            except RuntimeError as error:
                windows[-1].append(Entry(call, error=str(error)))
                return windows
            windows[-1].append(Entry(call, kind, value, now.grad))
    return windows


def describe(order: Sequence[str], inf: int) -> str:
    """Return in a sentence where ``order`` first differs from the right one, by what it does."""
    for number, (entries, right) in enumerate(
        zip(run(order, inf), run(tuple(CALLS), inf), strict=False), start=1
    ):
        window = f"In window {number}"
        if entries[-1].error:
            return f"{window}, {CALLS[entries[-1].call]} raises “{entries[-1].error}”"
        for kind, tell in (("norm", _tell_norm), ("move", _tell_move), ("rate", _tell_rate)):
            got, wanted = (
                next(e.value for e in all_ if e.kind == kind) for all_ in (entries, right)
            )
            if not _is_same(got, wanted):
                return f"{window}, {tell(got, wanted)}"
    told = f" Window {inf} is skipped, the scale is halved, and the schedule waits." if inf else ""
    return f"Every window does what it should.{told}"


def _tell_norm(got: float | None, wanted: float | None) -> str:
    return f"clipping sees the norm {_short(got)}, and the gradient’s is {_short(wanted)}."


def _tell_move(got: float | None, wanted: float | None) -> str:
    if got is None:
        return "the optimizer skips its step, and it should step."
    if wanted is None:
        return "the optimizer steps, and it should skip."
    return f"the weight moves by {_short(got)}, and it should move by {_short(wanted)}."


def _tell_rate(got: float | None, wanted: float | None) -> str:
    if wanted is None:
        return "no step is made, and the rate changes all the same."
    return f"the rate becomes {_short(got)}, and it should become {_short(wanted)}."


def _is_same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    both_nan = math.isnan(one) and math.isnan(other)
    return both_nan or one == other or math.isclose(one, other, rel_tol=1e-5)


def _short(number: float | None) -> str:
    return "none" if number is None else stage.shorten(number)


def _tell(entry: Entry) -> str:
    if entry.error:
        return "raises"
    if entry.kind == "move":
        return "skipped" if entry.value is None else f"moves {_short(entry.value)}"
    if entry.kind == "rate" and entry.value is None:
        return "waits"
    return f"{'.grad' if entry.kind == 'grad' else entry.kind} {_short(entry.value)}"


def _draw(order: Sequence[str], inf: int) -> str:
    windows = run(order, inf)
    titles = "".join(
        f'<span class="bits-cell">window {k}</span>' for k in range(1, len(GRADIENTS) + 1)
    )
    rows = [f'<div class="bits-row bits-head"><span class="bits-call">call</span>{titles}</div>']
    for place, call in enumerate(order):
        cells = "".join(
            _cell(entries[place] if place < len(entries) else None) for entries in windows
        )
        empty = '<span class="bits-cell"></span>' * (len(GRADIENTS) - len(windows))
        name = f'<span class="bits-call">{html.escape(CALLS[call])}</span>'
        rows.append(f'<div class="bits-row">{name}{cells}{empty}</div>')
    return f'<div class="bits-steps">{"".join(rows)}</div>'


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return '<span class="bits-cell"></span>'
    is_infinite = entry.grad is not None and not math.isfinite(entry.grad)
    marks = " bits-raises" if entry.error else " bits-infinite" if is_infinite else ""
    share = f"--bits-share: {100 * _fill_share(entry.grad):.0f}%"
    return f'<span class="bits-cell{marks}" style="{share}">{_tell(entry)}</span>'


def _fill_share(grad: float | None) -> float:
    if not grad:
        return 0.0
    if not math.isfinite(grad):
        return 1.0
    share = math.log2(abs(grad) / _LEAST) / math.log2(_MOST / _LEAST)
    return min(max(share, 0.02), 1.0)
