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
