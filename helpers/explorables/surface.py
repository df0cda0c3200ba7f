"""An error surface over two weights, and the steps of an optimizer on it.

What moves it is written in ``surface.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence

from helpers.explorables import stage

METHODS = {"gradient": "gradient descent", "adam": "Adam"}
CONDITIONS = (1, 2, 5, 10, 14, 20, 50, 100, 200, 500, 1000, 4500)
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 1.5, 1.8, 1.9, 2.1)
MOST_TILT, MOST_STEPS, MOST_START = 45, 200, 1.2
_WIDTH, _HEIGHT, _UNIT = 320, 290, 112  # of each of the two pictures; the length of a weight of 1
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 300, 16, 246  # the frame of the loss
_DECADES = 7  # of the loss, from 10 times its first value downward
_LEAST = 10.0 ** (1 - _DECADES)  # what is drawn of it
_FAR = 30.0  # where a path that leaves the picture is cut off

Point = tuple[float, float]


def explore_surface(
    condition: float = 100,
    rate: float = 1.8,
    *,
    method: str = "gradient",
    tilt: int = 25,
    steps: int = 40,
    start: Sequence[float] = (-1.0, 0.1),
) -> None:
    """Show an error surface over two weights, and an optimizer's steps, live where possible.

    The Hessian's largest eigenvalue is 1. Plain gradient descent converges up to a rate of 2.

    Args:
        condition: the condition number, one of ``CONDITIONS``.
        rate: the learning rate, one of ``RATES``.
        method: "gradient" for plain gradient descent, or "adam".
        tilt: of the flat direction against the first weight's axis, in degrees from -45 to 45.
        steps: how many are drawn, from 0 to 200.
        start: the errors of the two weights before the first step, not both 0.

    Raises:
        ValueError: if one of these is out of its range.
    """
    for name, value, allowed in (
        ("condition", condition, CONDITIONS),
        ("rate", rate, RATES),
        ("method", method, METHODS),
    ):
        if value not in allowed:
            raise ValueError(f"{name} is {value}; write one of: {', '.join(map(str, allowed))}")
    if abs(tilt) > MOST_TILT:
        raise ValueError(f"tilt is {tilt}: it lies between -{MOST_TILT} and {MOST_TILT} degrees")
    if not 0 <= steps <= MOST_STEPS:
        raise ValueError(f"steps is {steps}: it lies between 0 and {MOST_STEPS}")
    if not any(start) or max(map(abs, start)) > MOST_START:
        raise ValueError(f"start is {start}: both lie within {MOST_START}, and one is not 0")
    state = {
        "method": method,
        "condition": condition,
        "rate": rate,
        "tilt": tilt,
        "steps": steps,
        "start": list(start),
    }
    said = describe(**state)
    drawn = (
        f'<div class="bits-pair">{_draw_surface(**state)}{_draw_loss(**state)}</div>'
        f'<p class="bits-said">{html.escape(said)}</p>'
    )
    stage.show("surface", state, said, drawn)


def descend(
    method: str, condition: float, rate: float, tilt: float, start: Sequence[float]
) -> list[Point]:
    """Return the errors of both weights before the first step and after each of all steps."""
    x, y = map(float, start)
    path, memory = [(x, y)], [[0.0, 0.0], [0.0, 0.0]]
    for step in range(1, MOST_STEPS + 1):
        slopes = gradient(condition, tilt, (x, y))
        if method == "adam":
            slopes = _scale_as_adam(slopes, memory, step)
        x, y = x - rate * slopes[0], y - rate * slopes[1]
        path.append((x, y))
    return path


def gradient(condition: float, tilt: float, point: Sequence[float]) -> Point:
    """Return the gradient of the loss with respect to the two weights."""
    flat, steep = split(tilt, point)
    cos, sin = _direction(tilt)
    return flat * cos / condition - steep * sin, flat * sin / condition + steep * cos


def split(tilt: float, point: Sequence[float]) -> Point:
    """Return the error along the flat direction, and along the steep one."""
    cos, sin = _direction(tilt)
    return cos * point[0] + sin * point[1], cos * point[1] - sin * point[0]


def losses(condition: float, tilt: float, point: Sequence[float]) -> Point:
    """Return the two parts of the loss: of the flat direction, and of the steep one."""
    flat, steep = split(tilt, point)
    return flat * flat / condition / 2, steep * steep / 2


def describe(
    method: str, condition: float, rate: float, tilt: float, steps: int, start: Sequence[float]
) -> str:
    """Say in words what is drawn."""
    path = descend(method, condition, rate, tilt, start)
    (flat, steep), (flat_then, steep_then) = (split(tilt, path[k]) for k in (0, steps))
    share = sum(losses(condition, tilt, path[steps])) / sum(losses(condition, tilt, path[0]))
    down = gradient(condition, tilt, start)
    turn = abs(math.degrees(math.atan2(*_cross_and_dot(down, start))))
    too_large = method == "gradient" and rate > 2
    limit = " The rate is above the limit, 2, so the steep error grows." if too_large else ""
    return (
        f"Condition number {_tell(condition)}, {METHODS[method]}, learning rate {_tell(rate)}: "
        f"in {steps} steps, the steep error goes from {_tell(abs(steep))} to "
        f"{_tell(abs(steep_then))}, the flat one from {_tell(abs(flat))} to "
        f"{_tell(abs(flat_then))}, and the loss falls to {_tell(100 * share)}% of its first "
        f"value. At the start, the negative gradient points {math.floor(turn + 0.5)}° away from "
        f"the minimum.{limit}"
    ).replace("falls to", "falls to" if share <= 1 else "rises to")


def _scale_as_adam(slopes: Point, memory: list[list[float]], step: int) -> Point:
    mean, square = memory
    scaled = []
    for k, slope in enumerate(slopes):
        mean[k] = 0.9 * mean[k] + 0.1 * slope
        square[k] = 0.999 * square[k] + 0.001 * slope * slope
        size = math.sqrt(square[k]) / math.sqrt(1 - 0.999**step) + 1e-8
        scaled.append(mean[k] / (1 - 0.9**step) / size)
    return scaled[0], scaled[1]


def _direction(tilt: float) -> Point:
    return math.cos(math.radians(tilt)), math.sin(math.radians(tilt))


def _cross_and_dot(one: Sequence[float], other: Sequence[float]) -> Point:
    return one[0] * other[1] - one[1] * other[0], one[0] * other[0] + one[1] * other[1]


def _tell(number: float) -> str:
    if 0 < number < 1e-5:
        return "less than 0.00001"
    return "more than 100000" if number > 1e5 else stage.shorten(number)


def _place(point: Sequence[float]) -> str:
    x, y = _WIDTH / 2 + _UNIT * point[0], _HEIGHT / 2 - _UNIT * point[1]
    return f"{x:.1f},{y:.1f}"


def _draw_surface(
    method: str, condition: float, rate: float, tilt: float, steps: int, start: Sequence[float]
) -> str:
    rings = "".join(
        f'<ellipse rx="{radius * _UNIT:.1f}" ry="{radius / math.sqrt(condition) * _UNIT:.1f}" '
        f'transform="translate({_WIDTH / 2} {_HEIGHT / 2}) rotate({-tilt})" class="bits-ring"/>'
        for radius in _radii(condition)
    )
    path = [
        point
        for point in descend(method, condition, rate, tilt, start)[: steps + 1]
        if max(map(abs, point)) < _FAR
    ]
    dots = "".join(
        f'<circle cx="{x}" cy="{y}" r="2.5" class="bits-step"/>'
        for x, y in (_place(point).split(",") for point in path)
    )
    x, y = _place(start).split(",")
    alt = html.escape(
        f"Contour lines of the loss over the errors of two weights, and a path of steps. "
        f"{describe(method, condition, rate, tilt, steps, start)}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-surface" role="img" '
        f'aria-label="{alt}">{rings}'
        f'<path d="M{_place(start)} L{_place((0, 0))}" class="bits-straight"/>'
        f'<polyline points="{" ".join(map(_place, path))}" class="bits-path"/>{dots}'
        f'<path d="{_star()}" class="bits-minimum"/>'
        f'<path d="{_arrow(condition, tilt, start)}" class="bits-down"/>'
        f'<circle cx="{x}" cy="{y}" r="7" class="bits-start"/>'
        f'<text x="8" y="{_HEIGHT - 8}">error of weight 1 →</text>'
        f'<text x="8" y="18">↑ error of weight 2</text></svg>'
    )


def _radii(condition: float) -> Iterator[float]:
    radius = 0.2  # along the flat direction; the loss is four times as high at the next
    while radius / math.sqrt(condition) < 2:
        yield radius
        radius *= 2


def _star() -> str:
    x, y = _WIDTH / 2, _HEIGHT / 2
    return f"M{x - 7} {y} H{x + 7} M{x} {y - 7} V{y + 7}"


def _arrow(condition: float, tilt: float, start: Sequence[float]) -> str:
    """Return the way from the start against the gradient, as an arrow of one length."""
    slope = gradient(condition, tilt, start)
    size = math.hypot(*slope)
    x, y = (-part / size for part in slope)
    tip = (start[0] + 0.45 * x, start[1] + 0.45 * y)
    back = (tip[0] - 0.1 * x, tip[1] - 0.1 * y)
    one, other = (back[0] - 0.06 * y, back[1] + 0.06 * x), (back[0] + 0.06 * y, back[1] - 0.06 * x)
    return f"M{_place(start)} L{_place(tip)} M{_place(one)} L{_place(tip)} L{_place(other)}"


def _draw_loss(
    method: str, condition: float, rate: float, tilt: float, steps: int, start: Sequence[float]
) -> str:
    path = descend(method, condition, rate, tilt, start)
    first = sum(losses(condition, tilt, start))
    parts = [losses(condition, tilt, point) for point in path]
    curves = {
        "bits-whole": [flat + steep for flat, steep in parts],
        "bits-flat": [flat for flat, _ in parts],
        "bits-steep": [steep for _, steep in parts],
    }
    drawn = []
    for decade, label in ((0, "100%"), (-2, "1%"), (-4, "0.01%"), (-6, "10⁻⁴%")):
        y = _height_of(10.0**decade)
        drawn.append(
            f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="bits-grid"/>'
            f'<text x="{_LEFT - 5}" y="{y + 5:.1f}" text-anchor="end">{label}</text>'
        )
    for count in (0, 100, 200):
        drawn.append(
            f'<text x="{_across(count):.1f}" y="{_BOTTOM + 17}" text-anchor="middle">{count}</text>'
        )
    x = f"{_across(steps):.1f}"
    drawn.append(f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_BOTTOM}" class="bits-now"/>')
    for name, curve in curves.items():
        points = " ".join(
            f"{_across(k):.1f},{_height_of(value / first):.1f}"
            for k, value in enumerate(curve)
            if value / first >= _LEAST
        )
        drawn.append(f'<polyline points="{points}" class="{name}"/>')
    drawn.append(
        f'<text x="{_RIGHT}" y="{_TOP + 4}" text-anchor="end">loss, of its first value</text>'
        f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 36}" text-anchor="middle">'
        f'steps; <tspan class="bits-of-steep">steep part</tspan>, '
        f'<tspan class="bits-of-flat">flat part</tspan></text>'
    )
    alt = "The loss over 200 steps, as a share of its first value, with its steep and its flat part"
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-loss" role="img" '
        f'aria-label="{alt}">{"".join(drawn)}</svg>'
    )


def _across(step: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * step / MOST_STEPS


def _height_of(share: float) -> float:
    decades = 1 - math.log10(max(share, 1e-30))
    return _TOP + (_BOTTOM - _TOP) * min(max(decades / _DECADES, 0), 1)
