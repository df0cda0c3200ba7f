"""Two shapes, aligned at the right: the broadcast, its strides, and the copies that are never made.

What moves it is written in ``broadcast.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from helpers.explorables import stage

MOST_AXES, LARGEST = 4, 999
_BYTES, _SHOWN = 4, 6  # of a float32; the entries of an axis that are drawn
# The picture, in units of its own.
_WIDTH, _COLUMN, _CELL, _TOP = 480, 160, 20, 24
_BAR, _BAR_HEIGHT, _FULL, _HEIGHT = 206, 18, 476, 300

Shape = Sequence[int]


@dataclass(frozen=True)
class Aligned:
    """What two shapes come to.

    Attributes:
        result: the shape of the broadcast, or None.
        clash: the axis that does not fit, counted in the longer shape.
        sizes: of both tensors there.
    """

    result: tuple[int, ...] | None
    clash: int | None = None
    sizes: tuple[int, int] | None = None


@dataclass(frozen=True)
class Memory:
    """Bytes of both tensors, of the result, and of the copies that repeating first would make."""

    tensors: int
    result: int | None
    copies: int | None


def explore_broadcast(first: Shape, second: Shape) -> None:
    """Show two shapes and their broadcast, live where the front end can.

    Args:
        first: a shape of at most four axes, each of size 0 to 999.
        second: another one.

    Raises:
        ValueError: if a shape has more axes, or larger or negative ones.
    """
    first, second = list(first), list(second)
    for shape in (first, second):
        if len(shape) > MOST_AXES or not all(0 <= size <= LARGEST for size in shape):
            raise ValueError(
                f"a shape is {shape}: write at most {MOST_AXES} sizes from 0 to {LARGEST}"
            )
    said = describe(first, second)
    lines = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    drawn = f'<div class="bits-shapes">{_draw_shapes(first, second)}</div>{_draw(first, second)}'
    stage.show("broadcast", {"first": first, "second": second}, "\n".join(said), drawn + lines)


def align(first: Shape, second: Shape) -> Aligned:
    """Return the shape of the broadcast, or the axis that does not fit."""
    count = max(len(first), len(second))
    filled = ((1,) * (count - len(shape)) + tuple(shape) for shape in (first, second))
    pairs = list(zip(*filled, strict=True))
    for axis in reversed(range(count)):
        a, b = pairs[axis]
        if a != b and 1 not in (a, b):
            return Aligned(None, axis, (a, b))
    return Aligned(tuple(b if a == 1 else a for a, b in pairs))


def strides_of(shape: Shape) -> list[int]:
    """Return the strides of a tensor of ``shape`` that has just been made."""
    return [math.prod(max(size, 1) for size in shape[k + 1 :]) for k in range(len(shape))]


def expanded_strides(shape: Shape, result: Shape) -> list[int]:
    """Return the strides of that tensor after ``expand(result)``."""
    if not shape:
        return [0] * len(result)
    own, strides = strides_of(shape), [1] * len(result)
    for axis in reversed(range(len(result))):
        place = axis - (len(result) - len(shape))
        size = shape[place] if place >= 0 else 1
        if place >= 0:
            strides[axis] = own[place]
        elif axis + 1 < len(result):
            strides[axis] = result[axis + 1] * strides[axis + 1]
        if size != result[axis]:
            strides[axis] = 0
    return strides


def memory_of(first: Shape, second: Shape) -> Memory:
    """Return what both tensors, the result and the copies of repeating take."""
    result = align(first, second).result
    tensors = _BYTES * (math.prod(first) + math.prod(second))
    if result is None:
        return Memory(tensors, None, None)
    whole = _BYTES * math.prod(result)
    return Memory(tensors, whole, whole * sum(tuple(s) != result for s in (first, second)))


def describe(first: Shape, second: Shape) -> list[str]:
    """Return in a few sentences what comes of two shapes."""
    aligned = align(first, second)
    both = f"{tuple(first)} and {tuple(second)}"
    if aligned.result is None:
        a, b = aligned.sizes
        return [
            f"{both} do not fit.",
            f"PyTorch raises: The size of tensor a ({a}) must match the size of tensor b ({b}) "
            f"at non-singleton dimension {aligned.clash}",
        ]
    strides = [tuple(expanded_strides(shape, aligned.result)) for shape in (first, second)]
    copies = memory_of(first, second).copies
    return [
        f"{both} give {aligned.result}. Strides: {strides[0]} and {strides[1]}.",
        f"Repeating first would copy {_size(copies)}. Broadcasting copies nothing."
        if copies
        else "Nothing is repeated.",
    ]


def _size(count: float) -> str:
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while count >= 1000 and len(units) > 1:
        count /= 1000
        units.pop(0)
    return f"{stage.shorten(count)} {units[0]}"


def _draw_shapes(first: Shape, second: Shape) -> str:
    aligned = align(first, second)
    count = max(len(first), len(second))
    rows = []
    for name, shape in (("first", first), ("second", second), ("result", aligned.result)):
        slots = []
        for axis in range(count - MOST_AXES, count):
            place = axis - (count - len(shape)) if shape is not None else axis
            if axis < 0:
                kind, text = "bits-none", ""
            elif shape is None:
                kind, text = ("bits-clash", "✗") if axis == aligned.clash else ("", "")
            else:
                size = shape[place] if place >= 0 else 1
                text = f"{size}" if place >= 0 else '<span class="bits-missing">1</span>'
                kind = "bits-clash" if axis == aligned.clash else ""
                if aligned.result is not None and size != aligned.result[axis]:
                    kind = "bits-repeated"
            slots.append(f'<span class="{f"bits-slot {kind}".strip()}">{text}</span>')
        rows.append(
            f'<div class="bits-shape"><span class="bits-name">{name}</span>'
            f'<span class="bits-axes"></span>{"".join(slots)}</div>'
        )
    return "".join(rows)


def _draw(first: Shape, second: Shape) -> str:
    result = align(first, second).result
    if result is None:
        parts = ['<text x="0" y="40" class="bits-error">an error: no broadcast</text>']
    else:
        shapes = {"first": first, "second": second, "result": result}
        parts = [
            part
            for column, (name, shape) in enumerate(shapes.items())
            for part in _draw_sheet(column, name, shape, result)
        ]
        parts += _draw_bars(memory_of(first, second))
    alt = html.escape(" ".join(describe(first, second)))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" class="bits-sheets" role="img" '
        f'aria-label="Filled entries are stored, outlined ones are copies that are never made. '
        f'{alt}">{"".join(parts)}</svg>'
    )


def _draw_sheet(column: int, name: str, shape: Shape, result: Shape) -> Iterator[str]:
    left = column * _COLUMN
    yield f'<text x="{left}" y="14">{name} {tuple(shape)}</text>'
    rows, columns = (1, 1, *result)[-2:]
    sheets = math.prod(result[:-2])
    down, across = (1, 1, *expanded_strides(shape, result))[-2:]
    for i in range(min(rows, _SHOWN)):
        for j in range(min(columns, _SHOWN)):
            is_copy = (i > 0 and down == 0) or (j > 0 and across == 0)
            yield (
                f'<rect x="{left + 2 + j * _CELL}" y="{_TOP + i * _CELL}" width="{_CELL - 4}" '
                f'height="{_CELL - 4}" rx="2" class="bits-{"copy" if is_copy else "stored"}"/>'
            )
    below = _TOP + _SHOWN * _CELL
    if columns > _SHOWN:
        yield f'<text x="{left + 4 + _SHOWN * _CELL}" y="{_TOP + 12}">…</text>'
    if rows > _SHOWN:
        yield f'<text x="{left + 6}" y="{below + 12}">⋮</text>'
    if sheets > 1:
        yield f'<text x="{left + 22}" y="{below + 14}">one of {sheets}</text>'


def _draw_bars(memory: Memory) -> Iterator[str]:
    most = max(memory.tensors + memory.result + memory.copies, 1)
    tensors, result = ("stored", memory.tensors), ("result", memory.result)
    bars = {
        "broadcast": (tensors, result),
        "repeat, then add": (tensors, ("waste", memory.copies), result),
    }
    for row, (label, parts) in enumerate(bars.items()):
        y, x = _BAR + row * 48, 0.0
        yield f'<text x="0" y="{y - 5}">{label}: {_size(sum(size for _, size in parts))}</text>'
        for kind, size in parts:
            width = _FULL * size / most
            yield (
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR_HEIGHT}" '
                f'class="bits-{kind}"/>'
            )
            x += width
