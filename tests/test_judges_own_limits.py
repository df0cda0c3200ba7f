"""What a student's process sends can cost the judge a time and a memory that its length bounds."""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from comparing import find_difference
from hypothesis import given
from hypothesis import strategies as st
from test_wire import TENSOR, colliding_keys, frame_of, one, read, tensors_of

from helpers.plain import NotPlainError, describe, plain_copy

EXPECTED = [
    None,
    True,
    5,
    0.5,
    1j,
    "text",
    (torch.ones(2), 0.5),
    [1, 2, 3],
    {"a": torch.ones(2, 3), 1: "x"},
    torch.ones(2, 3),
    torch.ones(2, 3, dtype=torch.float64),
    torch.ones(2, 3, dtype=torch.complex64),
    torch.tensor([True, False]),
    torch.arange(4),
    np.ones(3),
    torch.ones(0),
]


def take(frame: bytes) -> None:
    """Do with a message what a check does with an answer."""
    message = read(frame)
    if message is None:
        return
    for value in (message, *message.values()):
        copied = plain_copy(value)
        assert len(describe(copied)) < 900
        for expected in EXPECTED:
            difference = find_difference(copied, expected)
            assert difference is None or len(difference) < 3_000
        find_difference(copied, value, rtol=0.0, atol=0.0)


# --- Whatever comes ---------------------------------------------------------------------------

KINDS = ["list", "tuple", "dict", "int", "float", "complex", "tensor", "array", "key", "name", "x"]
odd_numbers = st.sampled_from(
    [0, 1, -1, 2**31, 2**53 + 1, 2**61 - 1, 2 * (2**61 - 1), 2**64, 10**400, 1e308, 0.5, True]
)
odd_texts = st.sampled_from(["", "0", "1", "nan", "-inf", "0x" + "f" * 9_000, "\ud800", "\0", "é"])
leaves = st.none() | odd_numbers | st.floats() | odd_texts
encoded = st.recursive(
    leaves
    | st.sampled_from(["0", "1"]).map(lambda key: {"tensor": {"key": key}})
    | st.sampled_from(["0", "1"]).map(lambda key: {"array": {"key": key}})
    | st.sampled_from(["0", "1"]).map(lambda key: {"tensor": {"key": key, "complex": True}}),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: {"list": items})
        | st.lists(inner, max_size=4).map(lambda items: {"tuple": items})
        | st.lists(st.tuples(inner, inner), max_size=4).map(lambda pairs: {"dict": pairs})
        | st.dictionaries(st.sampled_from(KINDS), inner, max_size=2)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)
# What safetensors calls them, and how many bytes an element takes.
WIDTHS = {
    **dict.fromkeys(("BOOL", "U8", "F8_E5M2", "F8_E8M0"), 1),
    **dict.fromkeys(("U16", "BF16", "F16"), 2),
    **dict.fromkeys(("F32", "U32"), 4),
    **dict.fromkeys(("F64", "U64", "I64", "C64"), 8),
}
sizes = st.integers(0, 3) | st.sampled_from([1, 1, 1, 2**16, 2**31, 2**40, -1, 2**63])
described = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*WIDTHS, "F4", "I8", "F8_E4M3", "I16", "I32"]),
        "shape": st.lists(sizes, max_size=5) | st.integers(0, 70).map(lambda count: [1] * count),
        "data_offsets": st.tuples(st.integers(0, 40), st.integers(0, 40)).map(list),
    }
)


@st.composite
def sound_tensors(draw: Callable) -> bytes:
    """Return tensors that safetensors takes, of any dtype."""
    shape = draw(st.lists(st.integers(0, 3), max_size=4) | st.just([1] * 32))
    dtype = draw(st.sampled_from(list(WIDTHS)))
    count = WIDTHS[dtype] * int(np.prod(shape))
    return one(dtype, shape, (draw(st.binary(min_size=1, max_size=40)) * (count + 1))[:count])


blobs = (
    sound_tensors()
    | st.just(b"")
    | st.builds(
        tensors_of, st.dictionaries(st.sampled_from("01"), described, max_size=2), st.binary()
    )
)


@given(encoded, blobs)
def test_any_message_is_taken_described_and_compared(value: Any, blob: bytes) -> None:
    take(frame_of(json.dumps({"dict": [["value", value]]}), blob))


@given(st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=5)))
def test_any_value_is_copied_or_refused_and_described(value: Any) -> None:
    for times in (24, 24, 1):
        value = [value] * times
        assert len(describe(value)) < 900
        assert find_difference(value, plain_copy(value)) is None


# --- How long it takes ------------------------------------------------------------------------


def dict_of(pairs: list[str]) -> bytes:
    return frame_of('{"dict": [["v", {"dict": [' + ", ".join(pairs) + "]}]]}")


def list_of(item: str, count: int) -> bytes:
    return frame_of('{"dict": [["v", {"list": [' + ", ".join([item] * count) + "]}]]}")


# Each takes how much there is of it; the last number is how much of it fits into a message.
SHAPES: dict[str, tuple[Callable[[int], bytes], int]] = {
    "numbers": (lambda n: list_of("0.5", n), 800_000),
    "short lists": (lambda n: list_of('{"list": []}', n), 280_000),
    "bare brackets": (lambda n: frame_of("[" + ",".join(["[]"] * n) + "]"), 1_000_000),
    "texts as keys": (lambda n: dict_of([f'["{i}", 1]' for i in range(n)]), 250_000),
    "integers as keys": (lambda n: dict_of([f"[{i}, 1]" for i in range(n)]), 300_000),
    "integers with one hash": (lambda n: frame_of(colliding_keys(n)), 100_000),
    "integers with one hash, few in each dict": (
        lambda n: list_of(colliding_keys(500)[len('{"dict": [["v", ') : -len("]]}")], n // 500),
        100_000,
    ),
    "multiples of a power of two": (
        lambda n: dict_of([f"[{i * 2**35}, 1]" for i in range(n)]),
        180_000,
    ),
    "long integers": (lambda n: list_of('{"int": "' + "f" * 9_999 + '"}', n // 10_000), 4_000_000),
    "digits": (lambda n: list_of("9" * 4_000, n // 4_000), 4_000_000),
    "one text": (lambda n: frame_of('{"dict": [["v", "' + "\\\\ud800" * n + '"]]}'), 690_000),
    "brackets": (lambda n: frame_of("[" * n), 4_000_000),
    "empty tensors": (
        lambda n: frame_of(
            TENSOR,
            tensors_of(
                {str(i): {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for i in range(n)}
            ),
        ),
        15_000,
    ),
    "dimensions": (lambda n: frame_of(TENSOR, one("U8", [1] * n, b"x")), 500_000),
    "bytes of a tensor": (lambda n: frame_of(TENSOR, one("U8", [n], bytes(n))), 32_000_000),
    "small numbers of a tensor": (
        lambda n: frame_of(TENSOR, one("F8_E5M2", [n], bytes(n))),
        32_000_000,
    ),
    "a tensor of one column": (
        lambda n: frame_of(TENSOR, one("BOOL", [n, 1], bytes(n))),
        32_000_000,
    ),
}
MOST_SECONDS = 8.0  # of a processor; all of them together take about as long


@pytest.mark.parametrize(("make", "most"), SHAPES.values(), ids=SHAPES.keys())
def test_four_times_as_much_takes_about_four_times_as_long(
    make: Callable[[int], bytes], most: int
) -> None:
    # What is quadratic takes sixteen times as long; what is refused, no time.
    frames = [make(size) for size in (most // 4, most)]
    best = [float("inf")] * len(frames)
    for tries in range(1, 7):
        best = [min(seen, seconds_for(frame)) for seen, frame in zip(best, frames, strict=True)]
        quarter, whole = best
        if tries > 1 and whole < 9 * max(quarter, 0.1) and whole < MOST_SECONDS:
            return
    pytest.fail(f"{quarter:.2f} s for a quarter, {whole:.2f} s for all of it")


@pytest.fixture(autouse=True)
def garbage_of_others() -> Iterator[None]:
    """Keep the collector from walking over what was there before, which no length bounds."""
    gc.freeze()
    yield
    gc.unfreeze()


def seconds_for(frame: bytes) -> float:
    """Return how much of a processor's time it takes to take ``frame``."""
    before = time.process_time()
    with_refusals(frame)
    return time.process_time() - before


def with_refusals(frame: bytes) -> None:
    with contextlib.suppress(NotPlainError):  # more than a copy may have
        take(frame)
