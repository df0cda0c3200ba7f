"""Probes for code that seeds, keeps or restores the global generators of random numbers."""

from __future__ import annotations

import builtins
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from helpers.probes.testimony import testimony
from helpers.random_numbers import globals_kept, seed_globals


@testimony
def global_draws(function: Callable, *args: Any, seed: int) -> dict[str, float]:
    """Seed the global generators, call ``function(*args)``, and draw a number from each; then
    they are again as they were.

    Returns:
        ``{"random": float, "numpy": float, "torch": float}``.
    """
    with globals_kept():
        seed_globals(seed)
        function(*args)
        return _draws()


def with_string_hashes(function: Callable, *args: Any, salt: int) -> Any:
    """Call ``function(*args)`` in what ``hash`` makes another process: texts, and what holds
    texts, have other hashes there.
    """
    own = builtins.hash

    def salted(value: Any) -> int:
        holds_text = isinstance(value, str | bytes) or (
            isinstance(value, tuple | frozenset)
            and any(isinstance(part, str | bytes) for part in value)
        )
        return own(value) ^ salt if holds_text else own(value)

    builtins.hash = salted
    try:
        return function(*args)
    finally:
        builtins.hash = own


def seeded_draws(function: Callable[[int], Any], seeds: list[int]) -> list[dict[str, float]]:
    """Call ``function(seed)`` for each of ``seeds``, and draw a number from each global generator
    after it. Before each call the generators are somewhere else.

    Returns:
        for each seed ``{"random": float, "numpy": float, "torch": float}``.
    """
    seen = []
    with globals_kept():
        for number, seed in enumerate(seeds):
            seed_globals(1000 + number)
            function(seed)
            seen.append(_draws())
    return seen


def restored_draws(
    capture: Callable[[], Any], restore: Callable[[Any], Any], seed: int, draws: int
) -> dict[str, Any]:
    """Draw, capture the states, draw on; then restore them in what is a new process to them.

    What ``capture`` returns is written by ``torch.save`` and read by ``torch.load`` with
    ``weights_only=True``. Numbers are drawn of every kind, an odd number of normal ones, of which
    a generator keeps one back.

    Args:
        capture: returns the states.
        restore: takes them.
        seed: of the generators at the start.
        draws: how many rounds of numbers are drawn before.

    Returns:
        ``{"expected", "got", "again"}``: the numbers that followed the capture, those that follow
        when the states are restored, and those that follow when it is done once more.
    """
    with globals_kept():
        seed_globals(seed)
        for _ in range(draws):
            _all_kinds()
        written = io.BytesIO()
        torch.save(capture(), written)
        seen = {"expected": _all_kinds()}
        for name in ("got", "again"):
            seed_globals(seed + len(name))
            _all_kinds()
            written.seek(0)
            restore(torch.load(written, weights_only=True))
            seen[name] = _all_kinds()
    return seen


def _draws() -> dict[str, float]:
    return {
        "random": random.random(),
        "numpy": float(np.random.random()),
        "torch": float(torch.rand(())),
    }


def _all_kinds() -> dict[str, Any]:
    return {
        "random": [random.random(), random.gauss(0.0, 1.0)],
        "numpy": [float(np.random.random()), float(np.random.randn())],
        "torch": [float(torch.rand(())), float(torch.randn(()))],
    }
