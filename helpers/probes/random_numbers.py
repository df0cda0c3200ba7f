"""Probes for code that seeds, keeps or restores the global generators of random numbers."""

from __future__ import annotations

import builtins
import io
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from helpers.probes.runs import as_bytes
from helpers.probes.testimony import testimony
from helpers.random_numbers import globals_kept, seed_globals

# Whatever a notebook's defaults are.
_PLAIN: dict[str, Any] = {"dtype": torch.float32, "device": "cpu"}


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


@testimony
def draws_between(
    function: Callable[..., Iterable], *args: Any, seed: int, most: int
) -> list[dict[str, float]]:
    """Seed the global generators, take at most ``most`` items of ``function(*args)``, and draw a
    number from each generator after every item, and once more at the end; then they are again as
    they were.

    Returns:
        as often ``{"random": float, "numpy": float, "torch": float}``.
    """
    with globals_kept():
        seed_globals(seed)
        drawn = [_draws() for _ in itertools.islice(function(*args), most)]
        return [*drawn, _draws()]


def with_string_hashes(function: Callable, *args: Any, salt: int, **kwargs: Any) -> Any:
    """Call ``function(*args, **kwargs)`` in what ``hash`` makes another process: texts, and what
    holds texts, have other hashes there.
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
        return function(*args, **kwargs)
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


def captured_states(capture: Callable[[], Any], seed: int, rounds: int) -> dict[str, Any]:
    """Draw numbers of every kind from the global generators, capture the states, and draw on.

    A round draws an odd number of normal ones, of which a generator keeps one back.

    Args:
        capture: returns the states.
        seed: of the generators at the start.
        rounds: how often numbers are drawn before.

    Returns:
        ``{"written", "next"}``: what ``torch.save`` writes of the states, uint8 of shape (bytes,),
        and the numbers of the round after the capture.
    """
    with globals_kept():
        seed_globals(seed)
        for _ in range(rounds):
            _all_kinds()
        return {"written": as_bytes(capture()), "next": _all_kinds()}


def restored_draws(
    restore: Callable[[Any], Any], written: torch.Tensor, seed: int
) -> dict[str, Any]:
    """Restore states, and draw a round of numbers; both once more.

    Args:
        restore: takes the states, as ``torch.load`` reads them with ``weights_only=True``.
        written: what ``captured_states`` returned.
        seed: of the global generators before.

    Returns:
        ``{"got", "again"}``: the numbers of the two rounds.
    """
    seen = {}
    with globals_kept():
        seed_globals(seed)
        for name in ("got", "again"):
            _all_kinds()
            restore(torch.load(io.BytesIO(written.numpy().tobytes()), weights_only=True))
            seen[name] = _all_kinds()
    return seen


def _draws() -> dict[str, float]:
    return {
        "random": random.random(),
        "numpy": float(np.random.random()),
        "torch": torch.rand((), **_PLAIN).item(),
    }


def _all_kinds() -> dict[str, Any]:
    return {
        "random": [random.random(), random.gauss(0.0, 1.0)],
        "numpy": [float(np.random.random()), float(np.random.randn())],
        "torch": [torch.rand((), **_PLAIN).item(), torch.randn((), **_PLAIN).item()],
    }
