"""A small network in autocast regions: which dtype goes into each operation, and which computes.

What moves it is written in ``autocast.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from helpers.explorables import stage

# Each operation, and what it takes besides its input. That tensor is float32.
LAYERS = (
    ("linear", "weight"),
    ("layer_norm", ""),
    ("gelu", ""),
    ("linear", "weight"),
    ("softmax", ""),
    ("mse_loss", "target"),
)
# Chapter 03 measures these.
POLICIES = {
    "cpu": {"linear": "lower", "mse_loss": "float32"},
    "cuda": {
        **{"linear": "lower", "mse_loss": "float32"},
        **{"layer_norm": "float32", "softmax": "float32"},
    },
}
_MARKS = {"none": "none", "region": "autocast", "disabled": "disabled"}
_KINDS = {"cpu": "CPU", "cuda": "CUDA"}
_LOWER = ("bfloat16", "float16")
_WIDTH, _ROW, _TOP = 480, 76, 30


@dataclass(frozen=True)
class Step:
    """What happens in one operation.

    Attributes:
        given: the dtype of its input; "" if an earlier operation raised an error.
        casts: what autocast casts, as in "input float32 → bfloat16".
        computes: the dtype in which it computes, and of its result; "" with an error.
    """

    given: str
    casts: tuple[str, ...]
    computes: str


def explore_autocast(
    marks: Sequence[str] = ("region",) * len(LAYERS), device: str = "cpu", lower: str = "bfloat16"
) -> None:
    """Show in which dtype each operation of a small network computes, live where it can be.

    Args:
        marks: for each operation "region", if it is in an autocast region, "disabled", if it is
            in a disabled region, or "none".
        device: whose policies hold, ``"cpu"`` or ``"cuda"``.
        lower: the dtype of the region, ``"bfloat16"`` or ``"float16"``.

    Raises:
        ValueError: if there are not as many marks as operations, or a word is none of these.
    """
    marks = list(marks)
    if len(marks) != len(LAYERS) or not set(marks) <= set(_MARKS):
        raise ValueError(f"marks is {marks}: write {len(LAYERS)} of: {', '.join(_MARKS)}")
    if device not in _KINDS:
        raise ValueError(f'device is "{device}"; write one of: {", ".join(_KINDS)}')
    if lower not in _LOWER:
        raise ValueError(f'lower is "{lower}"; write one of: {", ".join(_LOWER)}')
    said = describe(marks, device, lower)
    drawn = f'{_draw(marks, device, lower)}<p class="bits-said">{html.escape(said)}</p>'
    stage.show("autocast", {"marks": marks, "device": device, "lower": lower}, said, drawn)


def follow(marks: Sequence[str], device: str, lower: str) -> list[Step]:
    """Return what happens in each operation to an input that is float32."""
    steps, given = [], "float32"
    for (name, other), mark in zip(LAYERS, marks, strict=True):
        if not given:
            steps.append(Step("", (), ""))
            continue
        policy = POLICIES[device].get(name, "widest") if mark == "region" else "widest"
        computes = {"lower": lower, "float32": "float32", "widest": given}[policy]
        if policy == "widest" and other and given != "float32":
            # Type promotion widens what goes into a loss; a product has to get equal dtypes.
            computes = "float32" if other == "target" else ""
        inputs = {"input": given, **({other: "float32"} if other else {})}
        casts = tuple(
            f"{what} {dtype} → {computes}"
            for what, dtype in inputs.items()
            if policy != "widest" and dtype != computes
        )
        steps.append(Step(given, casts, computes))
        given = computes
    return steps


def describe(marks: Sequence[str], device: str, lower: str) -> str:
    """Return in words what the drawing shows."""
    steps = follow(marks, device, lower)
    told = [
        f"{name} computes in {step.computes}" if step.computes else f"{name} raises an error"
        for (name, _), step in zip(LAYERS, steps, strict=True)
        if step.given
    ]
    count = sum(len(step.casts) for step in steps)
    casts = f"{count} cast{'' if count == 1 else 's'}"
    regions = "no region" if "region" not in marks else f"{lower} region"
    return f"{_KINDS[device]}, {regions}, {casts}: {', '.join(told)}."


def _draw(marks: Sequence[str], device: str, lower: str) -> str:
    steps = follow(marks, device, lower)
    parts = [*_frames(marks)]
    for number, (step, mark) in enumerate(zip(steps, marks, strict=True)):
        parts += _draw_row(number, step, mark)
    end = _TOP + _ROW * len(LAYERS) + 8
    result = steps[-1].computes
    parts.append(_arrow(end, f"loss: {result}" if result else ""))
    alt = html.escape(f"A column of six operations. {describe(marks, device, lower)}")
    return (
        f'<svg viewBox="0 0 {_WIDTH} {end + 20}" class="bits-autocast" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )


def _frames(marks: Sequence[str]) -> Iterator[str]:
    for first, last in _runs([mark != "none" for mark in marks]):
        if "region" in marks[first : last + 1]:
            yield _frame("bits-region", first, last, 72, 14)
    for first, last in _runs([mark == "disabled" for mark in marks]):
        yield _frame("bits-disabled", first, last, 79, 17)


def _runs(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last place of each run of true flags."""
    first = None
    for place, flag in enumerate([*flags, False]):
        if flag and first is None:
            first = place
        elif not flag and first is not None:
            yield first, place - 1
            first = None


def _frame(name: str, first: int, last: int, x: int, y: int) -> str:
    top, bottom = _TOP + first * _ROW + y, _TOP + last * _ROW + 86 - y
    return (
        f'<rect x="{x}" y="{top}" width="{_WIDTH - 4 - 2 * x + 72}" height="{bottom - top}" '
        f'rx="8" class="{name}"/>'
    )


def _draw_row(number: int, step: Step, mark: str) -> Iterator[str]:
    y = _TOP + number * _ROW
    name = LAYERS[number][0]
    yield (
        f'<rect x="2" y="{y + 20}" width="66" height="46" rx="5" class="bits-mark"/>'
        f'<text x="35" y="{y + 48}" text-anchor="middle">{_MARKS[mark]}</text>'
    )
    yield _arrow(y, step.given if number else f"x: {step.given}")
    kind = step.computes or ("fails" if step.given else "unreached")
    told = f"in {step.computes}" if step.computes else ("error" if step.given else "not reached")
    yield (
        f'<rect x="90" y="{y + 20}" width="150" height="46" rx="5" class="bits-box bits-{kind}"/>'
        f'<text x="165" y="{y + 39}" text-anchor="middle" class="bits-name">{name}</text>'
        f'<text x="165" y="{y + 58}" text-anchor="middle">{told}</text>'
    )
    for line, cast in enumerate(step.casts):
        yield f'<text x="250" y="{y + 39 + 19 * line}" class="bits-cast">{cast}</text>'


def _arrow(y: int, text: str) -> str:
    return (
        f'<path d="M165 {y - 10} V{y + 18} m-4 -7 l4 7 l4 -7" class="bits-arrow"/>'
        f'<text x="176" y="{y + 6}">{text}</text>'
    )
