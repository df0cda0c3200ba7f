"""The measured plans of a training: memory against time and Dice, under a budget of bytes.

What moves it is written in ``frontier.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from itertools import product
from typing import Any

from helpers.explorables import stage

_ROUNDING = 1e-9  # 0.61 - 0.6 is a little more than 0.01
_PARTS = ("levers", "bytes", "seconds", "dice")
_UNITS = ((10**9, "GB"), (10**6, "MB"), (1000, "kB"), (1, "bytes"))
# The picture, in units of its own.
_WIDTH, _LEFT, _RIGHT, _TOP, _FLOOR, _HEIGHT = 640, 56, 616, 66, 370, 508
_DOT = 8
_LOW, _MIDDLE, _HIGH = (230, 159, 0), (0, 158, 115), (0, 114, 200)  # the colors of Dice
_BAR, _BAR_FROM, _BAR_TO = 12, 108, 240
# Where the number of a dot may stand, as its middle seen from the dot.
_SPOTS = ((0, -20), (0, 22), (36, 0), (-36, 0), (28, -20), (-28, -20), (28, 22), (-28, 22))
_WIDE, _HIGH_TEXT = 44, 20


@dataclass(frozen=True)
class Plan:
    """What was measured with some levers on.

    Attributes:
        on: the levers that are on, in the order of all levers.
        bytes: the peak.
        seconds: the time as a ratio to the plain plan.
        dice: the Dice coefficient that was reached.
    """

    on: tuple[str, ...]
    bytes: int
    seconds: float
    dice: float


def explore_frontier(
    plans: Sequence[Mapping[str, Any]],
    budgets: Iterable[float] = (),
    *,
    tie: float = 0.01,
    on: Iterable[str] = (),
    budget: float | None = None,
) -> None:
    """Show measured plans and the best one for a budget, live where the front end can.

    Args:
        plans: a dict for each measured plan: "levers" maps the name of each lever to whether it is
            on, "bytes" is the peak, "seconds" the time as a ratio to the plain plan, "dice" the
            Dice coefficient.
        budgets: numbers of bytes that are marked.
        tie: Dice coefficients that differ by no more count as equal: the quicker plan wins.
        on: the levers that are on at the beginning.
        budget: the budget at the beginning; without one, the first of ``budgets``, or the largest
            peak.

    Raises:
        ValueError: if a plan lacks something, two plans have the same levers, or a number cannot
            be one.
    """
    levers, measured = _read_plans(plans)
    marked = [_whole(number, f"budgets[{k}]") for k, number in enumerate(budgets)]
    tie = _number(tie, "tie")
    if not 0 <= tie < 1:
        raise ValueError(f"tie is {tie:g}; write a number from 0 to below 1")
    on = [on] if isinstance(on, str) else list(on)
    if unknown := [name for name in on if name not in levers]:
        raise ValueError(f'on has "{unknown[0]}"; write names out of: {", ".join(levers)}')
    if budget is None:
        budget = marked[0] if marked else max(plan.bytes for plan in measured)
    state = {
        "levers": levers,
        "plans": [vars(plan) | {"on": list(plan.on)} for plan in measured],
        "budgets": marked,
        "on": [name for name in levers if name in on],
        "budget": _whole(budget, "budget"),
        "tie": tie,
        "switched": None,
    }
    said = say(state)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    stage.show("frontier", state, "\n".join(said), f"{_draw(state)}{paragraphs}")


def _read_plans(plans: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[Plan]]:
    if isinstance(plans, Mapping) or not isinstance(plans, Iterable):
        raise ValueError(f"plans is of type {type(plans).__name__}; write a list of dicts")
    levers: list[str] = []
    found: dict[tuple[str, ...], int] = {}
    measured = []
    for k, plan in enumerate(plans):
        where = f"plans[{k}]"
        if not isinstance(plan, Mapping):
            raise ValueError(f"{where} is of type {type(plan).__name__}; write a dict")
        if missing := [part for part in _PARTS if part not in plan]:
            raise ValueError(
                f'{where} has no "{missing[0]}"; a plan is a dict with {", ".join(_PARTS)}'
            )
        switches = plan["levers"]
        if not isinstance(switches, Mapping) or not switches:
            raise ValueError(
                f'{where}["levers"] is {switches!r}; write a dict such as {{"checkpointing": True}}'
            )
        for name, value in switches.items():
            if not isinstance(name, str):
                raise ValueError(f'{where}["levers"] has the name {name!r}; write a string')
            if value not in (True, False):
                raise ValueError(f'{where}["levers"]["{name}"] is {value!r}; write True or False')
        levers = levers or list(switches)
        if set(switches) != set(levers):
            raise ValueError(
                f"{where} has the levers {', '.join(switches)}, but plans[0] has "
                f"{', '.join(levers)}; name the same levers in every plan"
            )
        on = tuple(name for name in levers if switches[name])
        if on in found:
            raise ValueError(f"{where} has the same levers as plans[{found[on]}]; keep one of them")
        found[on] = k
        seconds = _number(plan["seconds"], f'{where}["seconds"]')
        dice = _number(plan["dice"], f'{where}["dice"]')
        if seconds <= 0:
            raise ValueError(f'{where}["seconds"] is {seconds:g}; write a number above 0')
        if not 0 <= dice <= 1:
            raise ValueError(f'{where}["dice"] is {dice:g}; write a number from 0 to 1')
        measured.append(Plan(on, _whole(plan["bytes"], f'{where}["bytes"]'), seconds, dice))
    if not measured:
        raise ValueError("plans is empty; write a list with a dict for each measured plan")
    return levers, measured


def _number(value: Any, where: str) -> float:
    try:
        number = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{where} is {value!r}; write a finite number")
    return number


def _whole(value: Any, where: str) -> int:
    number = _number(value, where)
    if number <= 0 or number != math.floor(number):
        raise ValueError(f"{where} is {value!r}; write a whole number of bytes above 0")
    try:
        return operator.index(value)
    except TypeError:
        return int(number)


def beats(one: Plan, other: Plan) -> bool:
    """Return whether ``one`` is nowhere worse than ``other``, and somewhere better."""
    nowhere_worse = (
        one.bytes <= other.bytes and one.seconds <= other.seconds and one.dice >= other.dice
    )
    return nowhere_worse and (one.bytes, one.seconds, one.dice) != (
        other.bytes,
        other.seconds,
        other.dice,
    )


def find_frontier(plans: Sequence[Plan]) -> list[int]:
    """Return the places of the plans that no other beats, from few bytes to many."""
    free = [k for k, plan in enumerate(plans) if not any(beats(other, plan) for other in plans)]
    return sorted(free, key=lambda k: (plans[k].bytes, plans[k].seconds))


def find_winner(plans: Sequence[Plan], budget: int, tie: float) -> int | None:
    """Return the place of the plan that fits with the highest Dice; among equals, the quickest."""
    fitting = [k for k, plan in enumerate(plans) if plan.bytes <= budget]
    if not fitting:
        return None
    most = max(plans[k].dice for k in fitting)
    equal = [k for k in fitting if most - plans[k].dice <= tie + _ROUNDING]
    return min(equal, key=lambda k: (plans[k].seconds, plans[k].bytes))


def _find_best(plans: Sequence[Plan], places: Iterable[int]) -> int:
    return min(places, key=lambda k: (-plans[k].dice, plans[k].seconds, plans[k].bytes))


def _plans_of(state: stage.State) -> list[Plan]:
    return [Plan(**plan | {"on": tuple(plan["on"])}) for plan in state["plans"]]


def _place_of(plans: Sequence[Plan], on: Iterable[str]) -> int | None:
    wanted = set(on)
    return next((k for k, plan in enumerate(plans) if set(plan.on) == wanted), None)


def _before(state: stage.State) -> set[str]:
    """Return the levers that were on before the last switch."""
    return set(state["on"]) ^ {state["switched"]}


def say(state: stage.State) -> list[str]:
    """Return in four lines what the picture shows."""
    plans, budget = _plans_of(state), state["budget"]
    now = _place_of(plans, state["on"])
    name = _name(state["on"])
    if now is None:
        lines = [
            f"Yours: {name}. This combination was not measured.",
            "So it has no dot in the picture.",
        ]
    else:
        more = plans[now].bytes - budget
        fits = "it fits" if more <= 0 else f"it exceeds the budget by {_tell_bytes(more)}"
        stronger = [k for k, plan in enumerate(plans) if beats(plan, plans[now])]
        lines = [
            f"Yours: {_tell(plans[now])}; {fits}.",
            f"It is not on the frontier: {_tell(plans[_find_best(plans, stronger)])} beats it."
            if stronger
            else "It is on the frontier: no other plan beats it.",
        ]
    return [*lines, _say_switch(state, plans, now), _say_winner(plans, budget, state["tie"])]


def _say_switch(state: stage.State, plans: Sequence[Plan], now: int | None) -> str:
    lever = state["switched"]
    if lever is None:
        return "Switch one lever to see what it changes."
    what = f"{lever} switched {'on' if lever in state['on'] else 'off'}"
    before = _place_of(plans, _before(state))
    if before is None or now is None:
        which = "before" if before is None else "after"
        return f"{what}: the change is unknown, because the plan {which} it was not measured."
    old, new = plans[before], plans[now]
    return (
        f"{what}: bytes × {stage.shorten(new.bytes / old.bytes)}, "
        f"time × {stage.shorten(new.seconds / old.seconds)}, "
        f"Dice {_signed(new.dice - old.dice)}."
    )


def _say_winner(plans: Sequence[Plan], budget: int, tie: float) -> str:
    winner = find_winner(plans, budget, tie)
    if winner is None:
        least = min(plans, key=lambda plan: (plan.bytes, plan.seconds))
        return f"Nothing fits into {_tell_bytes(budget)}: the smallest plan is {_tell(least)}."
    fitting = [k for k, plan in enumerate(plans) if plan.bytes <= budget]
    line = (
        f"The winner within {_tell_bytes(budget)}, where {len(fitting)} of {len(plans)} "
        f"plan{'s' * (len(plans) != 1)} fit{'s' * (len(plans) == 1)}: {_tell(plans[winner])}."
    )
    best = _find_best(plans, fitting)
    if plans[best].seconds > plans[winner].seconds:
        line += (
            f" The highest Dice that fits is within {stage.shorten(tie)} of it, but slower: "
            f"{_tell(plans[best])}."
        )
    return line


def _name(on: Sequence[str]) -> str:
    if len(on) < 2:
        return "".join(on) or "plain"
    return f"{', '.join(on[:-1])} and {on[-1]}"


def _tell(plan: Plan) -> str:
    return (
        f"{_name(plan.on)} ({_tell_bytes(plan.bytes)}, time × {stage.shorten(plan.seconds)}, "
        f"Dice {_two_digits(plan.dice)})"
    )


def _tell_bytes(count: int) -> str:
    size, unit = next(pair for pair in _UNITS if count >= pair[0])
    return f"{stage.shorten(count / size)} {unit}"


def _two_digits(number: float) -> str:
    # JavaScript rounds ties away from zero.
    return f"{Decimal(number).quantize(Decimal('0.01'), ROUND_HALF_UP)}"


def _signed(number: float) -> str:
    digits = _two_digits(abs(number))
    sign = "±" if digits == "0.00" else "−" if number < 0 else "+"
    return f"{sign}{digits}"


@dataclass(frozen=True)
class _Axis:
    """A logarithmic axis: a lever's factor is the same length everywhere."""

    first: float
    last: float

    @classmethod
    def over(cls, numbers: Sequence[float]) -> _Axis:
        low, high = min(numbers), max(numbers)
        room = max((high / low) ** 0.06, 1.1)
        return cls(low / room, high * room)

    def share(self, number: float) -> float:
        """Return how far along the axis ``number`` lies, from 0 to 1."""
        share = math.log(number / self.first) / math.log(self.last / self.first)
        return min(max(share, 0), 1)

    def ticks(self) -> list[float]:
        """Return the numbers at the axis's ticks."""
        if self.last >= 4 * self.first:
            powers = range(math.floor(math.log10(self.first)), math.ceil(math.log10(self.last)))
            found = [k * 10.0**power for power in powers for k in (1, 2, 5)]
        else:
            rough = (self.last - self.first) / 4
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
            start = math.ceil(self.first / step)
            found = [k * step for k in range(start, start + 9)]
        return [tick for tick in found if self.first <= tick <= self.last]


def _color(share: float) -> str:
    (start, end), rest = (
        ((_LOW, _MIDDLE), share * 2) if share < 0.5 else ((_MIDDLE, _HIGH), share * 2 - 1)
    )
    parts = (math.floor(a + (b - a) * rest + 0.5) for a, b in zip(start, end, strict=True))
    return f"rgb({', '.join(map(str, parts))})"


def _spots(dots: Sequence[tuple[float, float]], order: Sequence[int]) -> dict[int, tuple]:
    """Return where the number of each dot stands, for those that find room."""
    placed: dict[int, tuple[float, float]] = {}
    for k, (dx, dy) in product(order, _SPOTS):
        x, y = dots[k][0] + dx, dots[k][1] + dy
        inside = _LEFT + 20 <= x <= _WIDTH - 22 and _TOP + 10 <= y <= _FLOOR - 10
        clear = all(
            abs(x - a) >= _WIDE / 2 + _DOT or abs(y - b) >= _HIGH_TEXT / 2 + _DOT for a, b in dots
        ) and all(abs(x - a) >= _WIDE or abs(y - b) >= _HIGH_TEXT for a, b in placed.values())
        if k not in placed and inside and clear:
            placed[k] = (x, y)
    return placed


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    class_ = f' class="bits-{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{class_}>{text}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="bits-{kind}"/>'


def _dot(x: float, y: float, fill: str, kind: str = "plan") -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{_DOT}" fill="{fill}" class="bits-{kind}"/>'


def _yours(x: float, y: float) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="13" class="bits-yours"/>'


def _winner(x: float, y: float) -> str:
    return f'<path d="M{x:.1f} {y - 20:.1f}l20 20l-20 20l-20 -20z" class="bits-winner"/>'


def _draw(state: stage.State) -> str:
    plans, budget = _plans_of(state), state["budget"]
    memory = _Axis.over([*(plan.bytes for plan in plans), *state["budgets"]])
    time = _Axis.over([plan.seconds for plan in plans])
    size, unit = next((pair for pair in _UNITS if memory.last >= pair[0]), _UNITS[-1])
    low, high = min(plan.dice for plan in plans), max(plan.dice for plan in plans)

    def across(number: float) -> float:
        return _LEFT + memory.share(number) * (_RIGHT - _LEFT)

    dots = [
        (across(plan.bytes), _FLOOR - time.share(plan.seconds) * (_FLOOR - _TOP)) for plan in plans
    ]
    frontier = find_frontier(plans)
    limit = across(budget)
    parts = [
        f'<rect x="{limit:.1f}" y="{_TOP}" width="{_RIGHT - limit:.1f}" '
        f'height="{_FLOOR - _TOP}" class="bits-outside"/>',
        _line(_LEFT, _FLOOR, _RIGHT, _FLOOR, "axis"),
        _line(_LEFT, _TOP, _LEFT, _FLOOR, "axis"),
        _text(0, 20, "time (× the plain plan)"),
        _text(_RIGHT, _FLOOR + 54, f"peak memory ({unit})", "end"),
        _text(
            min(max(limit, _LEFT + 84), _RIGHT - 84),
            _TOP - 12,
            f"budget {_tell_bytes(budget)}",
            "middle",
        ),
        _line(limit, _TOP - 6, limit, _FLOOR, "budget"),
    ]
    for tick in memory.ticks():
        parts.append(_line(across(tick), _FLOOR, across(tick), _FLOOR + 6, "axis"))
        parts.append(_text(across(tick), _FLOOR + 26, stage.shorten(tick / size), "middle"))
    for tick in time.ticks():
        y = _FLOOR - time.share(tick) * (_FLOOR - _TOP)
        parts.append(_line(_LEFT - 6, y, _LEFT, y, "axis"))
        parts.append(_text(_LEFT - 10, y + 7, stage.shorten(tick), "end"))
    parts += [
        _line(across(mark), _FLOOR - 12, across(mark), _FLOOR, "mark") for mark in state["budgets"]
    ]
    path = "L".join(f"{dots[k][0]:.1f} {dots[k][1]:.1f}" for k in frontier)
    parts.append(f'<path d="M{path}" class="bits-frontier"/>')
    for k, plan in enumerate(plans):
        share = (plan.dice - low) / (high - low) if high > low else 1
        dimmed = " bits-dimmed" if plan.bytes > budget else ""
        parts.append(_dot(*dots[k], _color(share), f"plan{dimmed}"))
    rest = [k for k in range(len(plans)) if k not in frontier]
    for k, (x, y) in _spots(dots, [*frontier, *rest]).items():
        dimmed = "number bits-dimmed" if plans[k].bytes > budget else "number"
        parts.append(_text(x, y + 7, _two_digits(plans[k].dice), "middle", dimmed))
    now, winner = _place_of(plans, state["on"]), find_winner(plans, budget, state["tie"])
    if winner is not None:
        parts.append(_winner(*dots[winner]))
    if now is not None:
        parts.append(_yours(*dots[now]))
    first, second = _HEIGHT - 46, _HEIGHT - 14
    parts += [
        _yours(16, first - 7),
        _text(40, first, "yours"),
        _winner(150, first - 7),
        _text(178, first, "winner"),
        f'<path d="M290 {first - 7}H340" class="bits-frontier"/>',
        _text(350, first, "frontier"),
        _dot(478, first - 7, _color(1), "plan bits-dimmed"),
        _text(498, first, "does not fit"),
        _text(0, second, f"Dice {_two_digits(low)}"),
        _text(_BAR_TO + 10, second, _two_digits(high)),
    ]
    wide = (_BAR_TO - _BAR_FROM) / _BAR
    parts += [
        f'<rect x="{_BAR_FROM + k * wide:.1f}" y="{second - 16}" width="{wide + 0.5:.1f}" '
        f'height="18" fill="{_color(k / (_BAR - 1))}"/>'
        for k in range(_BAR)
    ]
    alt = html.escape(
        f"{len(plans)} measured plans as dots, memory to the right and time upward, colored by "
        f"Dice, with a budget and the frontier. {' '.join(say(state))}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-frontiers" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )
