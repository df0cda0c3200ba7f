"""The card's memory is that of an allocator written anew, in Python, JavaScript and by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import SimulatedCard, allocations_of, explore_allocator, trace_of_snapshot
from helpers.explorables import stage
from helpers.explorables.allocator import EXAMPLES, KIB, MIB, _is_event, replay, say

EXPOSE = "\nwindow.explorer = { replay, describe, EXAMPLES };\n"
ROOMY = 10**6 * MIB


class Gaps:
    """The same allocator, told by what is in use: a free block is a gap between tensors."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.segments: dict[int, tuple[int, bool]] = {}  # start: (size, whether for small tensors)
        self.used: dict[str, tuple[int, int]] = {}
        self.end = 0

    def gaps(self) -> list[tuple[int, int, bool]]:
        found = []
        for start, (size, small) in self.segments.items():
            inside = sorted(span for span in self.used.values() if start <= span[0] < start + size)
            place = start
            for first, last in [*inside, (start + size, start + size)]:
                if first > place:
                    found.append((first - place, place, small))
                place = last
        return found

    def release(self) -> None:
        whole = {(place, size) for size, place, _ in self.gaps()}
        self.segments = {
            start: told for start, told in self.segments.items() if (start, told[0]) not in whole
        }

    def allocate(self, name: str, size: int) -> bool:
        size = 512 * ((size + 511) // 512)
        small = size <= 1048576
        fitting = [gap for gap in self.gaps() if gap[0] >= size and gap[2] == small]
        if not fitting:
            if small:
                new = 2097152
            elif size < 10485760:
                new = 20971520
            else:
                new = 2097152 * ((size + 2097151) // 2097152)
            if self.reserved() + new > self.capacity:
                self.release()
            if self.reserved() + new > self.capacity:
                return False
            self.segments[self.end] = (new, small)
            fitting = [(new, self.end, small)]
            self.end += new
        room, start, _ = min(fitting)
        splits = room - size >= 512 if small else room - size > 1048576
        self.used[name] = (start, start + (size if splits else room))
        return True

    def reserved(self) -> int:
        return sum(size for size, _ in self.segments.values())

    def allocated(self) -> int:
        return sum(last - first for first, last in self.used.values())


SIZES = st.one_of(
    st.integers(1, 3 * KIB), st.integers(1, 3 * MIB), st.integers(MIB, 30 * MIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB - 512, 10 * MIB, 19 * MIB, 19 * MIB - 512]),
)  # fmt: skip
ACTIONS = st.lists(st.one_of(SIZES, st.integers(-40, -1), st.just(0)), max_size=60)


def trace_of(actions: list[int]) -> list[list]:
    """Above 0, a number is allocated; below, something alive is freed; 0 empties the cache."""
    trace, alive = [], []
    for number, action in enumerate(actions):
        if action > 0:
            alive.append(f"t{number}")
            trace.append(["+", alive[-1], action])
        elif action == 0:
            trace.append(["empty"])
        elif alive:
            trace.append(["-", alive.pop(action % len(alive))])
    return trace


@given(ACTIONS, st.sampled_from([21 * MIB, 64 * MIB, 150 * MIB, ROOMY]))
@settings(deadline=None)
def test_segments_and_blocks_are_those_of_an_allocator_written_anew(
    actions: list[int], capacity: int
) -> None:
    trace = trace_of(actions)
    found, model = replay(trace, capacity), Gaps(capacity)
    failed, allocated, reserved = [], [0], [0]
    for number, (kind, *rest) in enumerate(trace, start=1):
        if kind == "+" and not model.allocate(*rest):
            failed.append(number)
        elif kind == "-":
            model.used.pop(rest[0], None)
        elif kind == "empty":
            model.release()
        allocated.append(model.allocated())
        reserved.append(model.reserved())
    assert (found.allocated, found.reserved, found.failed) == (allocated, reserved, failed)
    blocks = [b for segment in found.card.segments for b in segment.blocks]
    used = {b.name: (b.address, b.address + b.size) for b in blocks if b.name}
    assert used == model.used
    free = sorted((b.size, b.address) for b in blocks if b.is_free)
    assert free == sorted(gap[:2] for gap in model.gaps())
    assert found.card.reserved <= capacity
    for segment in found.card.segments:
        assert sum(b.size for b in segment.blocks) == segment.size


def test_what_the_source_says_by_hand() -> None:
    card = SimulatedCard(100 * MIB)
    card.allocate(1, "one byte")
    assert (card.allocated, card.reserved) == (512, 2 * MIB)
    card.allocate(MIB, "small")
    assert card.reserved == 2 * MIB
    card.allocate(MIB + 1, "large")
    assert (card.reserved, len(card.segments)) == (22 * MIB, 2)
    card.allocate(10 * MIB, "its own")
    assert (card.reserved, len(card.segments)) == (22 * MIB, 2), "18.9 MiB were still free"
    card.allocate(11 * MIB, "another")
    assert card.segments[-1].size == 12 * MIB
    assert len(card.segments[-1].blocks) == 1, "1 MiB is too little for a block of the large pool"
    assert card.free("another") == 12 * MIB
    assert card.empty_cache() == 12 * MIB
    with pytest.raises(MemoryError, match=r"Tried to allocate 90 MiB.* 78 MiB is free"):
        card.allocate(90 * MIB)
    with pytest.raises(KeyError, match="no block in use is called another"):
        card.free("another")


def test_what_the_chapter_says_of_the_examples() -> None:
    capacity = 80 * MIB
    assert replay(EXAMPLES["second"], capacity).failed == [13]
    assert replay(EXAMPLES["first"], capacity).failed == []
    growing = replay(EXAMPLES["growing"], capacity)
    assert growing.failed == []
    assert max(growing.reserved) == 66 * MIB
    assert growing.reserved[-1] == 26 * MIB
    assert replay(EXAMPLES["growing"], ROOMY).reserved[-1] == 92 * MIB
    assert replay(EXAMPLES["small"], capacity).reserved[-1] == 6 * MIB
    assert replay([["+", "a", 9 * MIB], ["-", "a"]], 8 * MIB).told.endswith("never allocated")


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_what_a_function_allocates_is_recorded(device: str) -> None:
    x = torch.ones(64, 64, device=device, requires_grad=True)

    def run() -> torch.Tensor:
        y = torch.tanh(x)
        z = (y.view(-1) * 2).sum()
        del y
        z.backward()
        return z

    trace = allocations_of(run)
    assert all(map(_is_event, trace))
    names = [name.split()[0] for _, name, *_ in trace]
    sizes = {name.split()[0]: rest[0] for sign, name, *rest in trace if sign == "+"}
    assert sizes["tanh"] == sizes["mul"] == 16384
    assert sizes["sum"] == 4
    # The graph keeps what tanh gave until it has run backward; the product is gone at once.
    assert names.index("tanh") < names.index("mul") < names.index("sum")
    gone = [name.split()[0] for sign, name, *_ in trace if sign == "-"]
    assert gone.index("mul") < gone.index("tanh")
    assert "sum" not in gone, "the result is still there at the end"
    assert x.grad.nbytes == 16384
    assert replay(trace, ROOMY).allocated[-1] == 16384 + 512


def test_a_snapshot_of_a_card_becomes_a_trace() -> None:
    events = [
        {"action": "free_completed", "addr": 7, "size": 512},  # allocated before the recording
        {"action": "segment_alloc", "addr": 100, "size": 2 * MIB},
        {"action": "alloc", "addr": 100, "size": 600},
        {"action": "free_requested", "addr": 100, "size": 600},
        {"action": "free_completed", "addr": 100, "size": 600},
        {"action": "alloc", "addr": 100, "size": 700},
        {"action": "snapshot", "addr": 0, "size": 0},
    ]
    trace = trace_of_snapshot({"segments": [], "device_traces": [events, []]})
    assert trace == [["+", "1", 600], ["-", "1"], ["+", "2", 700]]
    assert trace_of_snapshot({"device_traces": [[], events]}, device=0) == []


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("allocator") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


def flattened(found: dict) -> dict:
    """Blocks as JavaScript has them."""
    return found | {
        "card": [
            [segment["address"], segment["size"], segment.get("small", segment.get("is_small"))]
            + [[b["address"], b["size"], b["name"]] for b in segment["blocks"]]
            for segment in found["card"]["segments"]
        ]
    }


def in_python(trace: list, capacity: int) -> dict:
    found = replay(trace, capacity)
    segments = [
        vars(segment) | {"blocks": [vars(b) for b in segment.blocks]}
        for segment in found.card.segments
    ]
    return flattened(vars(found) | {"card": {"segments": segments}})


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_page_computes_and_says_the_same(page) -> None:
    assert page.evaluate("explorer.EXAMPLES") == EXAMPLES
    draw = torch.Generator().manual_seed(torch.seed() % 2**63)

    def drawn(count: int) -> list[int]:
        kinds = torch.randint(0, 7, (count,), generator=draw).tolist()
        sizes = torch.rand(count, 2, generator=draw).tolist()
        tops = [MIB, 3 * MIB, 30 * MIB]
        return [
            0 if kind == 6 else -1 - int(40 * one) if kind > 3 else 1 + int(one * tops[kind % 3])
            for kind, (one, _) in zip(kinds, sizes, strict=True)
        ]

    traces = [*EXAMPLES.values(), *(trace_of(drawn(50)) for _ in range(20))]
    for trace in traces:
        for capacity in (21, 80, 10**6):
            there = page.evaluate("([t, c]) => explorer.replay(t, c)", [trace, capacity * MIB])
            assert flattened(there) == in_python(trace, capacity * MIB)
            for step in range(0, len(trace) + 1, 3):
                state = {"capacity": capacity, "trace": trace, "step": step}
                assert page.evaluate("s => explorer.describe(s)", state) == say(state)


@pytest.fixture
def card(page):
    trace = EXAMPLES["second"]
    state = {"capacity": 80, "trace": trace, "step": len(trace)}
    still = stage.set_up("allocator", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("allocator") + '\nmountAll(document, "allocator", mount);\n'
    page.add_script_tag(type="module", content=code)
    page.get_by_role("status").wait_for()
    return page


@pytest.mark.needs_system("chromium-headless-shell")
def test_events_are_replayed_by_keyboard_and_touch(card) -> None:
    said = card.get_by_role("status")
    assert "allocate i, 16 MiB: out of memory." in said.inner_text()
    assert card.locator("rect.bits-free").count() == 8
    slider = card.get_by_label("Event:", exact=True)
    slider.focus()
    card.keyboard.press("Home")
    assert "nothing has happened yet" in said.inner_text()
    assert card.get_by_role("button", name="one event back").is_disabled()
    card.get_by_role("button", name="one event on").tap()
    assert "allocate a, 8 MiB: in a new segment of 20 MiB, which is split" in said.inner_text()
    card.get_by_label("Events:").select_option("first")
    assert "in a free block of 20 MiB, which is split; 4 MiB stays free" in said.inner_text()
    card.get_by_label("Events:").select_option("growing")
    slider.fill("7")
    assert "after 66 MiB went back to the driver" in said.inner_text()
    card.get_by_label("Card:").fill("92")
    assert "allocate d, 26 MiB: in a new segment of 26 MiB." in said.inner_text()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_reader_allocates_and_frees(card) -> None:
    said = card.get_by_role("status")
    card.get_by_role("button", name="free h, 8 MiB").click()
    assert "free h, now part of a free block of 20 MiB" in said.inner_text()
    assert card.get_by_label("Events:").input_value() == "own"
    card.get_by_role("button", name="Allocate").click()
    assert "allocate new 1, 16 MiB: in a free block of 20 MiB" in said.inner_text()
    card.get_by_role("button", name="free b, 8 MiB").focus()
    card.keyboard.press("Enter")
    assert "free b, now part of a free block of 20 MiB" in said.inner_text()
    assert card.evaluate("document.activeElement.dataset.name") == "d"
    card.keyboard.press(" ")
    assert "free d" in said.inner_text()
    card.get_by_role("button", name="empty_cache()").tap()
    assert "empty_cache(): 40 MiB goes back to the driver" in said.inner_text()
    card.get_by_label("MiB:").fill("0")
    card.get_by_role("button", name="Allocate").click()
    assert "Write how many MiB to allocate" in said.inner_text()
    card.get_by_label("MiB:").fill("0.25")
    card.get_by_role("button", name="Allocate").click()
    assert "allocate new 2, 256 KiB: in a new segment of 2 MiB" in said.inner_text()


def test_outside_a_notebook_three_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_allocator("small", step=12)
    assert capsys.readouterr().out == (
        "Event 12 of 16: free d, now part of a free block of 600 KiB.\n"
        "Allocated 3.52 MiB, reserved 6 MiB of 80 MiB.\n"
        "5 free blocks with 2.48 MiB in all, the largest 1.17 MiB; the driver has 74 MiB left.\n"
    )


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match='trace is "third"; write one of: second, first'):
        explore_allocator("third")
    with pytest.raises(ValueError, match="is none of"):
        explore_allocator([["+", "a", 0]])
    with pytest.raises(ValueError, match="there are 0 events"):
        explore_allocator([])
    with pytest.raises(ValueError, match="capacity is 1; it lies between 2 and"):
        explore_allocator(capacity=1)
    with pytest.raises(ValueError, match="step is 14; it lies between 0 and 13"):
        explore_allocator(step=14)
