"""The global generators of random numbers: Python's, NumPy's and torch's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

# torch initializes these devices at their first use; until then it keeps their seeds in a queue.
_STARTED_LATE = ("cuda", "xpu")

# Multipliers that people choose for an epoch: round numbers, primes, powers of two, and constants
# of hash functions. Each stands for the 63 numbers before it, too.
_MULTIPLIERS = (
    *(2**power for power in range(13, 32)),
    *(10**power for power in range(4, 10)),
    *(5000, 7919, 9001, 10_009, 12_345, 20_011, 30_011, 31_337, 40_009, 50_000, 54_321, 65_537),
    *(99_991, 100_019, 104_729, 123_457, 500_000, 999_983, 1_000_003, 1_234_567, 1_299_709),
    *(10_000_019, 12_345_678, 15_485_863, 16_777_619, 100_000_007, 123_456_789, 998_244_353),
    *(1_000_000_009, 2_654_435_769),
)


@contextlib.contextmanager
def globals_kept() -> Iterator[None]:
    """Leave the global generators as they were, those of initialized devices included.

    Nothing here initializes a device. If the body does, that device's generator stays as the body
    leaves it.
    """
    states = read_globals()
    put_back_devices = _keep_devices()
    try:
        yield
    finally:
        put_back_globals(states)
        for put_back in put_back_devices:
            put_back()


def read_globals() -> tuple:
    """Return the states of Python's, NumPy's and torch's global generators on the CPU."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def put_back_globals(states: tuple) -> None:
    """Go on from what ``read_globals`` has returned."""
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def _keep_devices() -> list[Callable[[], None]]:
    """Return what puts the generators of devices back."""
    kept: list[Callable[[], None]] = []
    for backend in (getattr(torch, name) for name in _STARTED_LATE):
        if backend.is_initialized():
            kept.append(partial(backend.set_rng_state_all, backend.get_rng_state_all()))
        elif (queue := getattr(backend, "_lazy_seed_tracker", None)) is not None:
            kept.append(partial(vars(queue).update, dict(vars(queue))))
    if torch.backends.mps.is_available():
        kept.append(partial(torch.mps.set_rng_state, torch.mps.get_rng_state()))
    return kept


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch; ``seed`` is below 2³²."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def first_draws(seed: int) -> dict[str, float]:
    """Return what each global generator draws first after ``seed_globals(seed)``.

    The numbers come from generators of its own.
    """
    generator = torch.Generator(device="cpu").manual_seed(seed)
    drawn = torch.rand((), generator=generator, dtype=torch.float32, device="cpu")
    return {
        "random": random.Random(seed).random(),
        "numpy": float(np.random.RandomState(seed).random_sample()),
        "torch": drawn.item(),
    }


def crossing_seeds() -> list[tuple[int, int]]:
    """Return seeds, and of each how many of its first epochs are to be compared, so that orders
    are equal where a generator is seeded with ``seed + k * epoch``.

    They are for every k from 1 to 4096, and for many that people choose: epoch 1 of one of the
    first seeds, which have no gap, meets epoch 0 of a later one.
    """
    first = [(seed, 10 if seed < 2 else 2) for seed in range(64)]
    return first + [(seed, 1) for seed in (*range(64, 4097, 64), *_MULTIPLIERS)]
