"""A GPU's memory under PyTorch's caching allocator: segments, blocks, and events replayed on them.

What moves it is written in ``allocator.js``; here are the same model and the same still picture.

Source: ``c10/cuda/CUDACachingAllocator.cpp`` (PyTorch), with its settings as they come. Left out
are streams, CUDA graphs, and what CUDA itself and other programs take.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from helpers.explorables import stage

KIB, MIB = 2**10, 2**20
_SMALLEST_BLOCK = 512
_SMALL = MIB  # the largest allocation of the small pool
_SMALL_SEGMENT, _LARGE_SEGMENT = 2 * MIB, 20 * MIB
_SHARES_A_SEGMENT = 10 * MIB  # from this size on, an allocation has a segment of its own size
_ROUND_LARGE = 2 * MIB
_MOST_CAPACITY, _MOST_EVENTS = 2**20, 2000
# The picture, in units of its own.
_WIDTH, _LEFT, _ROW, _MOST_ROWS, _CHART, _LETTER = 640, 96, 38, 10, 96, 12

# One thing that happens: ["+", name, bytes], ["-", name] or ["empty"].
Event = list


def _letters(count: int, size: int) -> list[Event]:
    return [["+", chr(97 + k), size] for k in range(count)]


EXAMPLES: dict[str, list[Event]] = {
    "second": [
        *_letters(8, 8 * MIB),
        *(["-", name] for name in "aceg"),
        ["+", "i", 16 * MIB],
    ],
    "first": [
        *_letters(8, 8 * MIB),
        *(["-", name] for name in "abcd"),
        ["+", "i", 16 * MIB],
    ],
    "growing": [
        event
        for name, size in zip("abcd", (20, 22, 24, 26), strict=True)
        for event in (["+", name, size * MIB], ["-", name])
    ],
    "small": [
        *_letters(9, 600 * KIB),
        *(["-", name] for name in "abdegh"),
        ["empty"],
    ],
}
CAPACITY = 80  # MiB, of the examples


@dataclass
class Block:
    """A piece of a segment."""

    address: int
    size: int
    name: str | None = None

    @property
    def is_free(self) -> bool:
        """Whether no tensor has it."""
        return self.name is None


@dataclass
class Segment:
    """A piece of memory that the allocator has got from the driver."""

    address: int
    size: int
    is_small: bool
    blocks: list[Block] = field(default_factory=list)


class SimulatedCard:
    """A card's memory under PyTorch's caching allocator.

    Attributes:
        capacity: in bytes.
        segments: in the order of their addresses.
    """

    def __init__(self, capacity: int) -> None:
        """Begin with nothing reserved."""
        self.capacity = capacity
        self.segments: list[Segment] = []
        self._next_address = self._next_name = 0

    @property
    def reserved(self) -> int:
        """Bytes that the allocator has got from the driver."""
        return sum(segment.size for segment in self.segments)

    @property
    def allocated(self) -> int:
        """Bytes of blocks that are in use."""
        return sum(block.size for block in self._blocks() if not block.is_free)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free block."""
        return max((block.size for block in self._blocks() if block.is_free), default=0)

    def allocate(self, size: int, name: str = "") -> str:
        """Return the name of the block that is now in use; one is made up if none is given.

        Raises:
            MemoryError: in PyTorch's words, if there is no room.
        """
        if not name:
            self._next_name += 1
            name = f"block {self._next_name}"
        self.place(name, size)
        return name

    def place(self, name: str, size: int) -> str:
        """Give a block this name, and return in words where it comes from."""
        rounded = -(-max(size, 1) // _SMALLEST_BLOCK) * _SMALLEST_BLOCK
        is_small = rounded <= _SMALL
        found = [
            (block.size, block.address, place, segment)
            for segment in self.segments
            if segment.is_small == is_small
            for place, block in enumerate(segment.blocks)
            if block.is_free and block.size >= rounded
        ]
        if found:
            room, _, place, segment = min(found, key=lambda fit: fit[:2])
            told = f"in a free block of {tell_size(room)}"
        else:
            segment, told = self._get_segment(rounded, is_small, size)
            place = 0
        block = segment.blocks[place]
        block.name, rest = name, block.size - rounded
        if rest >= _SMALLEST_BLOCK if is_small else rest > _SMALL:
            block.size = rounded
            segment.blocks.insert(place + 1, Block(block.address + rounded, rest))
            told += f", which is split; {tell_size(rest)} stays free"
        return told

    def _get_segment(self, rounded: int, is_small: bool, size: int) -> tuple[Segment, str]:
        needed = -(-rounded // _ROUND_LARGE) * _ROUND_LARGE
        if is_small:
            needed = _SMALL_SEGMENT
        elif rounded < _SHARES_A_SEGMENT:
            needed = _LARGE_SEGMENT
        told = f"in a new segment of {tell_size(needed)}"
        if self.reserved + needed > self.capacity:
            released = self.empty_cache()
            if self.reserved + needed > self.capacity:
                raise MemoryError(self._complaint(size))
            told = f"after {tell_size(released)} went back to the driver, {told}"
        segment = Segment(self._next_address, needed, is_small)
        segment.blocks.append(Block(segment.address, needed))
        self._next_address += needed
        self.segments.append(segment)
        return segment, told

    def _complaint(self, size: int) -> str:
        unused = self.reserved - self.allocated
        return (
            f"out of memory. Tried to allocate {tell_size(size)}. The card has a total capacity of "
            f"{tell_size(self.capacity)} of which {tell_size(self.capacity - self.reserved)} is "
            f"free. {tell_size(self.allocated)} is allocated by PyTorch, and "
            f"{tell_size(unused)} is reserved by PyTorch but unallocated."
        )

    def free(self, name: str) -> int:
        """Free the block, and return the size of the free block that it is now part of.

        Raises:
            KeyError: if no block in use has this name.
        """
        for segment in self.segments:
            for place, block in enumerate(segment.blocks):
                if block.name == name:
                    block.name = None
                    for neighbor in (place, place - 1):
                        _merge(segment.blocks, neighbor)
                    return next(
                        b.size
                        for b in segment.blocks
                        if b.address <= block.address < b.address + b.size
                    )
        raise KeyError(f"no block in use is called {name}")

    def empty_cache(self) -> int:
        """Give segments that are wholly free back to the driver; return how many bytes."""
        before = self.reserved
        self.segments = [
            segment
            for segment in self.segments
            if len(segment.blocks) > 1 or not segment.blocks[0].is_free
        ]
        return before - self.reserved

    def _blocks(self) -> list[Block]:
        return [block for segment in self.segments for block in segment.blocks]


def _merge(blocks: list[Block], place: int) -> None:
    """Merge the block at ``place`` with the next one, if there are both and both are free."""
    if 0 <= place < len(blocks) - 1 and blocks[place].is_free and blocks[place + 1].is_free:
        blocks[place].size += blocks.pop(place + 1).size


def explore_allocator(
    trace: str | Sequence[Event] = "second", *, capacity: int = CAPACITY, step: int | None = None
) -> None:
    """Show a card's memory as segments and blocks, live where the front end can.

    Args:
        trace: "second", "first", "growing" or "small", or a list of ["+", name, bytes], ["-", name]
            and ["empty"].
        capacity: of the card, in MiB.
        step: how many events have happened; all, if it is not given.

    Raises:
        ValueError: if one of them is nothing of the kind.
    """
    if isinstance(trace, str):
        if trace not in EXAMPLES:
            raise ValueError(f'trace is "{trace}"; write one of: {", ".join(EXAMPLES)}')
        trace = EXAMPLES[trace]
    events = [list(event) for event in trace]
    for event in events:
        if not _is_event(event):
            raise ValueError(f'{event} is none of ["+", name, bytes], ["-", name], ["empty"]')
    if not 0 < len(events) <= _MOST_EVENTS:
        raise ValueError(f"there are {len(events)} events; 1 to {_MOST_EVENTS} can be shown")
    if not 2 <= capacity <= _MOST_CAPACITY:
        raise ValueError(f"capacity is {capacity}; it lies between 2 and {_MOST_CAPACITY} MiB")
    step = len(events) if step is None else step
    if not 0 <= step <= len(events):
        raise ValueError(f"step is {step}; it lies between 0 and {len(events)}")
    state = {"capacity": capacity, "trace": events, "step": step}
    said = say(state)
    paragraphs = "".join(f'<p class="bits-said">{html.escape(line)}</p>' for line in said)
    stage.show("allocator", state, "\n".join(said), f"{_draw(state)}{paragraphs}")


def _is_event(event: Event) -> bool:
    match event:
        case ["+", str(), int(size)]:
            return size > 0
        case ["-", str()] | ["empty"]:
            return True
    return False


@dataclass(frozen=True)
class Replay:
    """What a card holds after some events, and what it held on the way there.

    Attributes:
        card: after the last of them.
        told: what the last one came to, in words.
        touched: the name of the block that it was about.
        allocated: in bytes, before the first event and after each.
        reserved: likewise.
        failed: the numbers of the allocations that found no room, from 1.
    """

    card: SimulatedCard
    told: str
    touched: str
    allocated: list[int]
    reserved: list[int]
    failed: list[int]


def replay(trace: Sequence[Event], capacity: int) -> Replay:
    """Return what a card of ``capacity`` bytes holds after the events of ``trace``."""
    card, told, touched = SimulatedCard(capacity), "nothing has happened yet", ""
    allocated, reserved, failed = [0], [0], []
    lost = set()
    for number, event in enumerate(trace, start=1):
        kind, touched, size = [*event, "", 0][:3]
        if kind == "+":
            told = f"allocate {touched}, {tell_size(size)}: "
            try:
                told += card.place(touched, size)
            except MemoryError:
                told += "out of memory"
                failed.append(number)
                lost.add(touched)
        elif kind == "-" and touched in lost:
            told = f"free {touched}: it was never allocated"
            lost.discard(touched)
        elif kind == "-":
            told = f"free {touched}, now part of a free block of {tell_size(card.free(touched))}"
        else:
            touched = ""
            told = f"empty_cache(): {tell_size(card.empty_cache())} goes back to the driver"
        allocated.append(card.allocated)
        reserved.append(card.reserved)
    return Replay(card, told, touched, allocated, reserved, failed)


def tell_size(size: int) -> str:
    """Return a number of bytes in MiB, or in KiB where it is less than 1 MiB."""
    if size == 0:
        return "0 MiB"
    unit, name = (MIB, "MiB") if size >= MIB else (KIB, "KiB")
    return f"{stage.shorten(size / unit)} {name}"


def say(state: stage.State) -> list[str]:
    """Return in three lines what the picture shows."""
    trace, step, capacity = state["trace"], state["step"], state["capacity"] * MIB
    found = replay(trace[:step], capacity)
    card = found.card
    free = [b for segment in card.segments for b in segment.blocks if b.is_free]
    count = f"{len(free)} free block{'' if len(free) == 1 else 's'}"
    return [
        f"Event {step} of {len(trace)}: {found.told}.",
        f"Allocated {tell_size(card.allocated)}, reserved {tell_size(card.reserved)} of "
        f"{tell_size(capacity)}.",
        f"{count} with {tell_size(card.reserved - card.allocated)} in all, the largest "
        f"{tell_size(card.largest_free)}; the driver has {tell_size(capacity - card.reserved)} "
        "left.",
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> str:
    class_ = f' class="bits-{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{class_}>{html.escape(text)}</text>'


def _bar(x: float, y: float, width: float, kind: str) -> str:
    return (
        f'<rect x="{x:.6g}" y="{y:g}" width="{max(width, 1):.6g}" height="{_ROW - 8}" '
        f'class="bits-{kind}"/>'
    )


def _draw(state: stage.State) -> str:
    capacity = state["capacity"] * MIB
    found = replay(state["trace"][: state["step"]], capacity)
    card = found.card
    rest = capacity - card.reserved
    shown = card.segments[:_MOST_ROWS]
    widest = max([segment.size for segment in shown], default=0)
    scale = (_WIDTH - _LEFT) / max(widest, min(rest, _LARGE_SEGMENT), 1)
    parts = []
    for row, segment in enumerate(shown):
        y = row * _ROW
        parts.append(_text(0, y + 22, tell_size(segment.size)))
        for block in segment.blocks:
            x, width = _LEFT + (block.address - segment.address) * scale, block.size * scale
            kind = "free" if block.is_free else "small" if segment.is_small else "used"
            kind += " bits-touched" if block.name and block.name == found.touched else ""
            parts.append(_bar(x, y, width, kind))
            if block.name and len(block.name) * _LETTER < width:
                parts.append(_text(x + width / 2, y + 22, block.name, "middle"))
    floor = len(shown) * _ROW
    hidden = len(card.segments) - len(shown)
    if hidden:
        parts.append(_text(0, floor + 18, f"and {hidden} more segments"))
        floor += 28
    parts.append(_text(0, floor + 22, "driver"))
    parts.append(_bar(_LEFT, floor, min(rest * scale, _WIDTH - _LEFT) if rest else 1, "driver"))
    parts.append(_text(_LEFT + 10, floor + 22, f"{tell_size(rest)} left"))
    top = floor + _ROW + 14
    parts += _draw_chart(state, top, capacity)
    alt = html.escape(
        f"A card's segments, one in a row, cut into blocks. {' '.join(say(state))} Below, "
        "allocated and reserved memory over the events."
    )
    height = top + _CHART + 30
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" class="bits-allocator" role="img" '
        f'aria-label="{alt}">{"".join(parts)}</svg>'
    )


def _draw_chart(state: stage.State, top: int, capacity: int) -> list[str]:
    whole = replay(state["trace"], capacity)
    count = len(whole.allocated)
    column = (_WIDTH - _LEFT) / count
    parts = []
    for kind, sizes in (("reserved", whole.reserved), ("allocated", whole.allocated)):
        heights = [top + _CHART * (1 - size / capacity) for size in sizes]
        steps = "".join(
            f"L{_LEFT + k * column:.6g} {y:.6g}L{_LEFT + (k + 1) * column:.6g} {y:.6g}"
            for k, y in enumerate(heights)
        )
        path = f"M{_LEFT} {top + _CHART}{steps}L{_WIDTH} {top + _CHART}Z"
        parts.append(f'<path d="{path}" class="bits-{kind}"/>')
    for number in whole.failed:
        x = _LEFT + (number + 0.5) * column
        parts.append(_text(x, top + 14, "✗", "middle", "failed"))
    x = _LEFT + (state["step"] + 0.5) * column
    parts.append(f'<line x1="{x:.6g}" x2="{x:.6g}" y1="{top - 6}" y2="{top + _CHART}"/>')
    parts.append(_text(0, top + 14, tell_size(capacity)))
    parts.append(_text(0, top + _CHART, "0 MiB"))
    for place, kind in ((_LEFT, "reserved"), (_LEFT + 150, "allocated")):
        y = top + _CHART + 10
        parts.append(f'<rect x="{place}" y="{y}" width="22" height="16" class="bits-{kind}"/>')
        parts.append(_text(place + 30, y + 14, kind))
    parts.append(_text(_WIDTH, top + _CHART + 24, "events", "end"))
    return parts
