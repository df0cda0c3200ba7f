"""The global generators of random numbers: Python's, NumPy's and torch's."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np
import torch


@contextlib.contextmanager
def globals_kept() -> Iterator[None]:
    """Leave the global generators as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python, NumPy and torch; ``seed`` is below 2³²."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def first_draws(seed: int) -> dict[str, float]:
    """Return what each global generator draws first after ``seed_globals(seed)``.

    The numbers come from generators of its own.
    """
    return {
        "random": random.Random(seed).random(),
        "numpy": float(np.random.RandomState(seed).random_sample()),
        "torch": torch.rand((), generator=torch.Generator().manual_seed(seed)).item(),
    }
