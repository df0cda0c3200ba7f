"""The norms: a tensor (N, C, L), which of its entries share statistics, and what becomes of them.

What moves it is written in ``norms.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from helpers.explorables import stage

NORMS = ("batch", "instance", "group", "layer", "features", "rms")
EPS = 1e-5
LOWEST, HIGHEST = -10.0, 50.0  # what the chosen entry can be set to
_PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9")
_VISIBLE = 0.005  # the smallest change that two decimals can show

# Six examples of six channels at three positions, in halves, channel after channel. Channels differ
# in size and spread, and so do examples.
_HALVES = (
    (3, 1, 4, 6, 8, 7, -2, -1, -4, 1, 2, 0, 10, 14, 12, 0, -1, 1),
    (1, 2, -1, 7, 6, 10, -4, -2, 0, 3, 1, 2, 8, 4, 12, 1, 0, 2),
    (5, 2, 3, 12, 9, 10, -5, -6, -3, 2, 5, 4, 16, 12, 18, 2, 0, -2),
    (0, 1, -2, 4, 5, 6, 1, -2, 0, -1, 1, 0, 6, 8, 2, -1, 1, 0),
    (2, 4, 0, 8, 6, 5, -3, 1, -2, 4, 3, 1, 12, 10, 14, 1, 3, -1),
    (-1, 3, 2, 7, 11, 8, -1, -5, -3, 0, 2, 3, 14, 6, 10, -2, 1, 0),
)
VALUES = tuple(
    tuple(tuple(half / 2 for half in row[k : k + 3]) for k in range(0, 18, 3)) for row in _HALVES
)


@dataclass(frozen=True)
class Statistics:
    """What a group of entries shares: how many they are, their mean and their variance.

    Of RMSNorm's groups the mean is 0, which is what it subtracts.
    """

    count: int
    mean: float
    variance: float


def explore_norms(
    norm: str = "batch",
    *,
    batch: int = 4,
    groups: int = 2,
    mode: str = "train",
    entry: tuple[int, int, int] = (0, 1, 1),
    value: float | None = None,
) -> None:
    """Show which entries of a tensor share statistics, live where the front end can.

    Args:
        norm: "batch", "instance", "group", "layer" over channels and positions, or "features" and
            "rms" over the channels of one position.
        batch: how many examples there are, 1 to 6.
        groups: of GroupNorm, a divisor of the 6 channels.
        mode: "train" or "eval"; only BatchNorm knows the difference.
        entry: the example, the channel and the position of the entry that is chosen.
        value: what the chosen entry is changed to, from -10 to 50; None leaves it.

    Raises:
        ValueError: if there is no such norm, batch, number of groups, mode, entry or value.
    """
    _require_sense(norm, batch, groups, mode, entry)
    n, c, k = entry
    given = VALUES[n][c][k] if value is None else float(value)
    if not LOWEST <= given <= HIGHEST:
        raise ValueError(f"value is {given}; it lies between {LOWEST:g} and {HIGHEST:g}")
    state = {
        "values": [[list(row) for row in example] for example in VALUES],
        "norm": norm,
        "batch": batch,
        "groups": groups,
        "mode": mode,
        "entry": list(entry),
        "value": given,
    }
    said = describe(state)
    stage.show("norms", state, said, _draw(state, said))


def group_of(state: dict[str, Any], entry: tuple[int, int, int]) -> int:
    """Return the number of the group that ``entry`` belongs to."""
    n, c, k = entry
    channels, positions = len(state["values"][0]), len(state["values"][0][0])
    return {
        "batch": c,
        "instance": n * channels + c,
        "layer": n,
        "group": n * state["groups"] + c * state["groups"] // channels,
        "features": n * positions + k,
        "rms": n * positions + k,
    }[state["norm"]]


def find_statistics(state: dict[str, Any], value: float | None = None) -> list[Statistics]:
    """Return each group's statistics, with ``value`` in the place of the chosen entry."""
    value = state["value"] if value is None else value
    # In evaluation mode, what is stored: the statistics of all examples as they were.
    stored = _uses_stored(state)
    source = {**state, "batch": len(state["values"])} if stored else state
    groups: dict[int, list[float]] = {}
    for entry in _entries(source):
        n, c, k = entry
        is_chosen = not stored and list(entry) == list(state["entry"])
        number = value if is_chosen else state["values"][n][c][k]
        groups.setdefault(group_of(source, entry), []).append(number)
    found = []
    for _, numbers in sorted(groups.items()):
        mean = 0.0 if state["norm"] == "rms" else sum(numbers) / len(numbers)
        squares = sum((number - mean) ** 2 for number in numbers)
        # Running variances are unbiased.
        found.append(Statistics(len(numbers), mean, squares / (len(numbers) - stored)))
    return found


def normalize_all(state: dict[str, Any], value: float | None = None) -> list[list[list[float]]]:
    """Return the normalized entries, as nested as the tensor."""
    value = state["value"] if value is None else value
    found = find_statistics(state, value)
    result = [[list(row) for row in example] for example in state["values"][: state["batch"]]]
    n, c, k = state["entry"]
    result[n][c][k] = value
    for n, c, k in _entries(state):
        own = found[group_of(state, (n, c, k))]
        result[n][c][k] = (result[n][c][k] - own.mean) / math.sqrt(own.variance + EPS)
    return result


def describe(state: dict[str, Any]) -> str:
    """Return in words what the chosen entry shares, and what becomes of it."""
    n, c, k = state["entry"]
    own = find_statistics(state)[group_of(state, (n, c, k))]
    mean, spread = stage.shorten(own.mean), stage.shorten(math.sqrt(own.variance))
    if _uses_stored(state):
        told = (
            f"The stored statistics of channel {c} are used: mean {mean}, standard deviation "
            f"{spread}."
        )
    elif state["norm"] == "rms":
        told = (
            f"{own.count} entries share a root mean square: {_name_group(state)}. It is {spread}."
        )
    else:
        told = (
            f"{own.count} entries share a mean: {_name_group(state)}. It is {mean}, and their "
            f"standard deviation is {spread}."
        )
    output = stage.shorten(normalize_all(state)[n][c][k])
    told += f" The chosen entry, {stage.shorten(state['value'])}, becomes {output}."
    before = state["values"][n][c][k]
    if before != state["value"]:
        count, most = _effect(state, before)
        others = "1 other output" if count == 1 else f"{count} other outputs"
        told += (
            f" Since it was changed from {stage.shorten(before)}, {others} changed, by "
            f"{stage.shorten(most)} at most."
            if count
            else f" It was changed from {stage.shorten(before)}, and no other output changed."
        )
    return told


def _effect(state: dict[str, Any], before: float) -> tuple[int, float]:
    now, then = normalize_all(state), normalize_all(state, before)
    changes = [
        abs(now[n][c][k] - then[n][c][k])
        for n, c, k in _entries(state)
        if [n, c, k] != list(state["entry"])
    ]
    return sum(change > _VISIBLE for change in changes), max(changes)


def _require_sense(norm: str, batch: int, groups: int, mode: str, entry: tuple) -> None:
    channels, positions = len(VALUES[0]), len(VALUES[0][0])
    if norm not in NORMS:
        raise ValueError(f'norm is "{norm}"; write one of: {", ".join(NORMS)}')
    if mode not in ("train", "eval"):
        raise ValueError(f'mode is "{mode}"; write "train" or "eval"')
    if not 1 <= batch <= len(VALUES):
        raise ValueError(f"batch is {batch}; there are 1 to {len(VALUES)} examples")
    if groups < 1 or channels % groups:
        raise ValueError(f"groups is {groups}, which does not divide {channels} channels")
    limits = (batch, channels, positions)
    if not all(0 <= place < limit for place, limit in zip(entry, limits, strict=True)):
        raise ValueError(f"there is no entry {tuple(entry)} in a tensor of shape {limits}")


def _uses_stored(state: dict[str, Any]) -> bool:
    return state["norm"] == "batch" and state["mode"] == "eval"


def _entries(state: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    for n in range(state["batch"]):
        for c, row in enumerate(state["values"][n]):
            for k in range(len(row)):
                yield n, c, k


def _name_group(state: dict[str, Any]) -> str:
    (n, c, k), norm, batch = state["entry"], state["norm"], state["batch"]
    channels = len(state["values"][0])
    size = channels // state["groups"]
    first = c // size * size
    whole = f"all of example {n}"
    channel = f"channel {c} of example {n}"
    if norm == "batch":
        return f"channel {c}, " + (
            "of the only example" if batch == 1 else f"of all {batch} examples"
        )
    if norm == "group":
        several = f"channels {first} to {first + size - 1} of example {n}"
        return whole if size == channels else channel if size == 1 else several
    several = f"all channels of example {n} at position {k}"
    return {"layer": whole, "instance": channel}.get(norm, several)


def _draw(state: dict[str, Any], said: str) -> str:
    n, c, k = state["entry"]
    before = [[list(row) for row in example] for example in state["values"][: state["batch"]]]
    before[n][c][k] = state["value"]
    parts = []
    for title, tensor, digits in (
        ("before the norm", before, 1),
        ("after the norm", normalize_all(state), 2),
    ):
        alt = html.escape(f"The tensor {title}, one block for each example. {said}")
        parts.append(
            f'<p class="bits-tensor-name">{title}</p>'
            f'<div class="bits-tensor" role="img" aria-label="{alt}">'
            f"{_draw_tensor(state, tensor, digits)}</div>"
        )
    return f'{"".join(parts)}<p class="bits-said">{html.escape(said)}</p>'


def _draw_tensor(state: dict[str, Any], tensor: list, digits: int) -> str:
    count, own = len(find_statistics(state)), group_of(state, tuple(state["entry"]))
    blocks: list[list[str]] = [[] for _ in tensor]
    for n, c, k in _entries(state):
        group = group_of(state, (n, c, k))
        kinds = "bits-entry"
        if group == own and not _uses_stored(state):
            kinds += " bits-shares"
        if [n, c, k] == list(state["entry"]):
            kinds += " bits-chosen"
        blocks[n].append(
            f'<span class="{kinds}" style="background: {_paint(group, count)}">'
            f"{_write(tensor[n][c][k], digits)}</span>"
        )
    return "".join(
        f'<div class="bits-example"><span class="bits-example-name">example {n}</span>'
        f'<div class="bits-entries">{"".join(cells)}</div></div>'
        for n, cells in enumerate(blocks)
    )


def _paint(group: int, count: int) -> str:
    if count <= len(_PALETTE):
        return f"{_PALETTE[group]}40"
    return f"hsl({group * 137 % 360} 85% 50% / 28%)"


def _write(number: float, digits: int) -> str:
    text = f"{number:.{digits}f}"
    if len(text) > 5 and digits:
        return _write(number, digits - 1)
    return text.removeprefix("-") if set(text) <= set("-0.") else text
