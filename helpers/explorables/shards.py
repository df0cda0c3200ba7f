"""Shards, workers and shuffle buffers: who reads what, and in which order samples arrive.

What moves it is written in ``shards.js``; here is the still picture, which is the same.
"""

from __future__ import annotations

import html
import math
import random
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from helpers.explorables import stage

SHARDS = (7, 4, 6, 2, 5)
BATCH = 2
RULES = {
    "everything": "every worker reads everything",
    "turn": "whole shards in turn",
    "equal": "equal shares",
}
_COUNT = sum(SHARDS)
_STARTS = (0, *accumulate(SHARDS))
_MOST_WORKERS, _MOST_BUFFER = 4, 8
# The picture, in units of its own.
_WIDTH, _CELL, _LANE, _TOP, _ROW = 480, 30, 68, 100, 32
_STREAM, _SHOWN, _IN_ROW = 254, 6, 16
_SECOND_ROW = 2  # the shard that begins it


@dataclass(frozen=True)
class Lane:
    """What one worker does.

    Attributes:
        stream: the samples that it reads, in order.
        out: the same samples as its shuffle buffer hands them out.
        bins: what the buffer holds after 0, 1, 2, ... samples have come out.
    """

    stream: tuple[int, ...]
    out: tuple[int, ...]
    bins: tuple[tuple[int, ...], ...]


def explore_shards(
    rule: str = "everything", workers: int = 2, buffer: int = 1, *, seed: int = 0, step: int = 3
) -> None:
    """Show workers that read shards through shuffle buffers, live where the front end can.

    Args:
        rule: "everything", "turn" or "equal": what a worker reads.
        workers: how many there are, from 1 to 4.
        buffer: the size of each worker's shuffle buffer, from 1 to 8.
        seed: of the buffers, from 0.
        step: how many batches have arrived.

    Raises:
        ValueError: if there is no such rule, or a number lies outside.
    """
    if rule not in RULES:
        raise ValueError(f'rule is "{rule}"; write one of: {", ".join(RULES)}')
    for name, value, least, most in (
        ("workers", workers, 1, _MOST_WORKERS),
        ("buffer", buffer, 1, _MOST_BUFFER),
        ("seed", seed, 0, 10**6),
        ("step", step, 0, 10**6),
    ):
        if not least <= value <= most:
            raise ValueError(f"{name} is {value}; it lies between {least} and {most}")
    lanes = run_lanes(rule, workers, buffer, seed)
    step = min(step, len(arrivals(lanes)))
    said = _say(lanes, buffer, step)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    drawn = f"{_draw(rule, lanes, buffer, step)}{paragraphs}"
    state = {"rule": rule, "workers": workers, "buffer": buffer, "seed": seed, "step": step}
    stage.show("shards", state, "\n".join(said), drawn)


def read_by(rule: str, worker: int, workers: int) -> list[int]:
    """Return the samples that ``worker`` of ``workers`` reads, in order."""
    if rule == "everything":
        return list(range(_COUNT))
    if rule == "turn":
        mine = range(worker, len(SHARDS), workers)
        return [sample for shard in mine for sample in range(_STARTS[shard], _STARTS[shard + 1])]
    each, rest = divmod(_COUNT, workers)
    first = worker * each + min(worker, rest)
    return list(range(first, first + each + (worker < rest)))


def run_lanes(rule: str, workers: int, buffer: int, seed: int) -> list[Lane]:
    """Return what each worker reads and hands out; each buffer has a seed of its own."""
    return [
        _run_lane(read_by(rule, worker, workers), buffer, buffer_seed(seed, worker))
        for worker in range(workers)
    ]


def buffer_seed(seed: int, worker: int) -> int:
    """Return the seed of a worker's buffer."""
    return seed * _MOST_WORKERS + worker


def _run_lane(stream: list[int], size: int, seed: int) -> Lane:
    chance = random.Random(seed)
    held, out, bins = stream[:size], [], [()]
    for sample in stream[size:]:
        place = chance.randrange(size)
        out.append(held[place])
        held[place] = sample
        bins.append(tuple(held))
    chance.shuffle(held)
    for place, sample in enumerate(held):
        out.append(sample)
        bins.append(tuple(held[place + 1 :]))
    return Lane(tuple(stream), tuple(out), tuple(bins))


def places_after_buffer(count: int, size: int, seed: int = 0) -> list[int]:
    """Return the places at which samples 0, 1, ... of a stream leave a shuffle buffer.

    Args:
        count: how many samples the stream has.
        size: of the buffer.
        seed: of the buffer.
    """
    out = _run_lane(list(range(count)), size, seed).out
    return sorted(range(count), key=out.__getitem__)


def arrivals(lanes: list[Lane]) -> list[tuple[int, tuple[int, ...]]]:
    """Return (worker, batch) in the order in which a data loader hands batches on."""
    rounds = range(0, max(len(lane.out) for lane in lanes), BATCH)
    return [
        (worker, lane.out[start : start + BATCH])
        for start in rounds
        for worker, lane in enumerate(lanes)
        if start < len(lane.out)
    ]


def travel(lanes: list[Lane]) -> tuple[int, int]:
    """Return by how many places a sample leaves its worker early, and late, at most."""
    moves = [
        place - lane.stream.index(sample) for lane in lanes for place, sample in enumerate(lane.out)
    ]
    return max(-min(moves, default=0), 0), max(*moves, 0)


def _counts(lanes: list[Lane], step: int) -> list[int]:
    counts = [0] * len(lanes)
    for worker, batch in arrivals(lanes)[:step]:
        counts[worker] += len(batch)
    return counts


def _say(lanes: list[Lane], buffer: int, step: int) -> list[str]:
    batches = arrivals(lanes)
    every = Counter(sample for _, batch in batches for sample in batch)
    times = max(every.values())
    once = "each once" if times == 1 else f"each {times} times"
    busiest = max(len(lane.stream) for lane in lanes)
    early, late = travel(lanes)
    counts = _counts(lanes, step)
    waiting = sum(len(lane.bins[count]) for lane, count in zip(lanes, counts, strict=True))
    return [
        f"An epoch: {every.total()} samples in {len(batches)} batches; "
        f"{len(every)} different samples, {once}.",
        f"The busiest worker reads {busiest} samples; an equal share is "
        f"{-(-_COUNT // len(lanes))}.",
        f"In its worker's stream, a sample moves at most {early} {_places(early)} forward and "
        f"{late} {_places(late)} back; the buffer's size minus 1 is {buffer - 1}.",
        f"After {step} of {len(batches)} batches: {sum(counts)} samples have arrived, and "
        f"{waiting} wait in buffers.",
    ]


def _places(count: int) -> str:
    return "place" if count == 1 else "places"


def _draw(rule: str, lanes: list[Lane], buffer: int, step: int) -> str:
    counts = _counts(lanes, step)
    read = Counter(
        sample
        for lane, count in zip(lanes, counts, strict=True)
        for sample in (*lane.out[:count], *lane.bins[count])
    )
    parts = [f'<text x="0" y="18">{len(SHARDS)} shards</text>']
    for sample in range(_COUNT):
        shard = _shard_of(sample)
        first = _SECOND_ROW if shard >= _SECOND_ROW else 0
        x = (sample - _STARTS[first]) * _CELL + 4 * (shard - first)
        parts.append(_item(sample, x, 58 if first else 26, again=read[sample] > 1))
    for worker, (lane, count) in enumerate(zip(lanes, counts, strict=True)):
        top, held = _TOP + worker * _LANE, lane.bins[count]
        rest = lane.stream[count + len(held) :]
        parts += [
            f'<text x="0" y="{top + 16}">worker {worker} reads {len(lane.stream)}: buffer</text>',
            f'<text x="{_STREAM}" y="{top + 16}" class="bits-next">still to read</text>',
            f'<rect x="0" y="{top + 23}" width="{buffer * _CELL}" height="{_CELL}" '
            'class="bits-bin"/>',
        ]
        parts += [_item(sample, k * _CELL, top + 24) for k, sample in enumerate(held)]
        parts += [
            _item(sample, _STREAM + k * _CELL, top + 24) for k, sample in enumerate(rest[:_SHOWN])
        ]
        if len(rest) > _SHOWN:
            x = _STREAM + _SHOWN * _CELL + 4
            parts.append(f'<text x="{x}" y="{top + 44}">+{len(rest) - _SHOWN}</text>')
    floor = _TOP + len(lanes) * _LANE
    parts.append(f'<text x="0" y="{floor + 16}">arrived, in this order</text>')
    came = [sample for _, batch in arrivals(lanes)[:step] for sample in batch]
    for place, sample in enumerate(came):
        row, column = divmod(place, _IN_ROW)
        again = sample in came[:place]
        parts.append(_item(sample, column * _CELL, floor + 24 + row * _ROW, again=again))
    alt = html.escape(
        f"{len(SHARDS)} shards, {len(lanes)} workers ({RULES[rule]}), and the samples that have "
        f"arrived. {' '.join(_say(lanes, buffer, step))}"
    )
    height = _height(rule, len(lanes))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" class="bits-shards" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )


def _height(rule: str, workers: int) -> int:
    rows = math.ceil(_COUNT * (workers if rule == "everything" else 1) / _IN_ROW)
    return _TOP + workers * _LANE + 24 + rows * _ROW


def _shard_of(sample: int) -> int:
    return next(k for k in range(len(SHARDS)) if sample < _STARTS[k + 1])


def _item(sample: int, x: int, y: int, *, again: bool = False) -> str:
    kind = f"bits-item bits-shard-{_shard_of(sample)}{' bits-again' if again else ''}"
    return (
        f'<g class="{kind}" transform="translate({x} {y})">'
        f'<rect x="1" y="1" width="{_CELL - 2}" height="{_CELL - 4}" rx="3"/>'
        f'<text x="{_CELL // 2}" y="20" text-anchor="middle">{sample}</text></g>'
    )
