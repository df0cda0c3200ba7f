"""Measure what training costs: the bytes that autograd saves, and one time against another."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class SavedTensors:
    """What autograd keeps for the backward pass.

    ``bytes`` counts every storage once, ``tensors`` every storage as one.
    """

    bytes: int
    tensors: int


def saved_bytes(
    function: Callable[[], Any], *, except_for: Iterable[torch.Tensor] = ()
) -> SavedTensors:
    """Run ``function`` and count what autograd saves for its backward pass.

    A storage shared by several saved tensors counts once. The storages of ``except_for``
    (a model's parameters, say) do not count: they are there anyway.

    Source: ``torch.autograd.graph.saved_tensors_hooks`` (PyTorch documentation, "Autograd
    mechanics: Hooks for saved tensors").
    """
    left_out = {tensor.untyped_storage().data_ptr() for tensor in except_for}
    storages: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in left_out:
            # Held until the count is done: a freed storage's address could be used again.
            storages[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = function()
    total = sum(storage.nbytes() for storage in storages.values())
    del output
    return SavedTensors(bytes=total, tensors=len(storages))


@dataclass(frozen=True)
class TimeRatio:
    """How many times longer one function takes than another: over pairs of runs, run in turn."""

    median: float
    smallest: float
    largest: float

    def __str__(self) -> str:
        """Return the ratio with its spread, in two digits."""
        median, smallest, largest = map(_two_digits, (self.median, self.smallest, self.largest))
        return f"{median} times ({smallest} to {largest})"


def _two_digits(number: float) -> str:
    return f"{float(f'{number:.2g}'):g}"


def seconds_of(function: Callable[[], Any], repeats: int = 1) -> float:
    """Return the seconds that ``repeats`` runs of ``function`` take together.

    A first run, which may load or compile something, does not count; what a GPU still has to
    compute does. One measurement is at the mercy of everything else that the machine does: use it
    to choose a size, and :func:`time_ratio` to compare.
    """
    function()
    _wait_for_gpu()
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    _wait_for_gpu()
    return max(time.perf_counter() - start, 1e-9)


def time_ratio(
    slow: Callable[[], Any], fast: Callable[[], Any], *, pairs: int = 7, seconds: float = 1.0
) -> TimeRatio:
    """Return how many times longer ``slow`` takes than ``fast``.

    Both run in turn, so that a machine whose speed drifts does not favor one; each is warmed
    up first; a GPU's queue is waited for. ``seconds`` is about how long all of it takes.

    Raises:
        ValueError: if ``pairs`` is less than 1 or ``seconds`` is not positive.
    """
    if pairs < 1 or seconds <= 0:
        raise ValueError(f"pairs is at least 1 and seconds positive, not {pairs} and {seconds}")
    share = seconds / pairs / 2
    repeats = [max(1, int(share / max(seconds_of(f), 1e-7))) for f in (slow, fast)]
    ratios = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(pairs):
            slow_time = seconds_of(slow, repeats[0]) / repeats[0]
            fast_time = seconds_of(fast, repeats[1]) / repeats[1]
            ratios.append(slow_time / fast_time)
    finally:
        if collecting:
            gc.enable()
    return TimeRatio(statistics.median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True)
class OperationTime:
    """One kind of operation in a profile: its share of the time, and how often it was called."""

    name: str
    share: float
    calls: int


def time_shares(function: Callable[[], Any], *, repeats: int = 20) -> list[OperationTime]:
    """Run ``function`` under torch's profiler, and return where its time on the CPU went.

    Returns:
        one entry for each operation of torch, the one that took longest first; the time of the
        operations that it calls is not in it. ``calls`` are those of one run.

    Source: ``torch.profiler`` (PyTorch documentation).
    """
    from torch.profiler import ProfilerActivity, profile

    function()
    with _quiet_stderr(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(repeats):
            function()
    events = [event for event in profiled.key_averages() if event.key.startswith("aten::")]
    total = sum(event.self_cpu_time_total for event in events)
    events.sort(key=lambda event: -event.self_cpu_time_total)
    return [
        OperationTime(
            event.key.removeprefix("aten::"),
            event.self_cpu_time_total / total,
            event.count // repeats,
        )
        for event in events
    ]


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Drop what libraries write to stderr: the profiler reports when it begins and ends."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _wait_for_gpu() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
