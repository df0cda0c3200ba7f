"""Probes for code that seeds, keeps or restores the global generators of random numbers."""

from __future__ import annotations

import builtins
import contextlib
import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch

from helpers.probes.feeding import feeds
from helpers.probes.forgetting import forgotten
from helpers.probes.states import as_safe_bytes, find_others, from_bytes
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


def as_another_process(
    function: Callable, *args: Any, salt: int, worker: bool = False, **kwargs: Any
) -> Any:
    """Call ``function(*args, **kwargs)`` in what its number and ``hash`` make another process:
    texts, and what holds texts, have other hashes there.

    Args:
        function: called once.
        *args: what it takes.
        salt: other numbers are other processes; 0 is this one.
        worker: whether torch tells of a DataLoader's worker there, whose seed is ``salt``.
        **kwargs: what it takes by name.
    """
    own, number = builtins.hash, os.getpid()

    def salted(value: Any) -> int:
        holds_text = isinstance(value, str | bytes) or (
            isinstance(value, tuple | frozenset)
            and any(isinstance(part, str | bytes) for part in value)
        )
        return own(value) ^ salt if holds_text else own(value)

    workers = torch.utils.data._utils.worker
    told = workers.WorkerInfo(id=1, num_workers=2, seed=salt, dataset=None) if worker else None
    with (
        mock.patch.object(builtins, "hash", salted),
        mock.patch.object(os, "getpid", return_value=number + salt),
        mock.patch.object(workers, "_worker_info", told),
    ):
        return function(*args, **kwargs)


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


@feeds("seeds")
def seeded_rounds(
    function: Callable[[int], Any], seeds: list[int], rounds: int, salt: int
) -> dict[str, Any]:
    """Call ``function(seed)`` for each of ``seeds``, and draw a round of numbers after it, in what
    the number of the process and ``hash`` make another process.

    Args:
        function: seeds the global generators.
        seeds: what it is called with.
        rounds: how many rounds are drawn before each call. In each, a generator draws an odd number
            of normal ones, of which it keeps one back.
        salt: other numbers are other processes.

    Returns:
        ``{"drawn", "returned"}``: for each seed the numbers of the round, a uniform and a normal
        one of each generator; and the name of the class of what the last call returned.
    """
    drawn = []
    with globals_kept():
        for number, seed in enumerate(seeds):
            seed_globals(1000 + number + salt)
            for _ in range(rounds):
                _all_kinds()
            returned = as_another_process(function, seed, salt=salt)
            drawn.append(_all_kinds())
    return {"drawn": drawn, "returned": type(returned).__name__}


def seeded_gpus(function: Callable[[int], Any], seeds: list[int]) -> list[list[float]]:
    """Call ``function(seed)`` for each of ``seeds`` where torch tells of two GPUs, and draw a
    number from the generator of each.
    """
    seen = []
    with globals_kept(), _two_gpus() as generators:
        for number, seed in enumerate(seeds):
            seed_globals(1000 + number)
            function(seed)
            seen.append(_one_each(generators))
    return seen


def captured_states(
    capture: Callable[[], Any], seed: int, rounds: int, gpus: bool = False
) -> dict[str, Any]:
    """Draw numbers of every kind from the global generators, capture the states, and draw on; then
    seed them anew and capture others, which are thrown away. What is kept of them is forgotten.

    A round draws an odd number of normal ones, of which a generator keeps one back.

    Args:
        capture: returns the states.
        seed: of the generators at the start.
        rounds: how often numbers are drawn before.
        gpus: whether torch tells of two GPUs meanwhile. Before the rounds, the second draws a
            number.

    Returns:
        ``{"written", "next", "others"}``: what ``torch.save`` writes of the states, uint8 of shape
        (bytes,), the numbers of the round after the capture, and a sentence for the first part of
        the states that is no plain data, if there is one.
    """
    pretended = _two_gpus() if gpus else contextlib.nullcontext([])
    with globals_kept(), forgotten(capture), pretended as generators:
        seed_globals(seed)
        _one_each(generators[1:])
        for _ in range(rounds):
            _all_kinds(generators)
        states = capture()
        seen = {"written": as_safe_bytes(states, "states"), "next": _all_kinds(generators)}
        seen["others"] = list(itertools.islice(find_others(states, "states"), 1))
        seed_globals(seed + 1)
        capture()
        return seen


def restored_draws(
    restore: Callable[[Any], Any],
    written: torch.Tensor,
    seed: int,
    gpus: bool = False,
    later: int = 0,
) -> dict[str, Any]:
    """Restore states, and draw a round of numbers; both once more.

    Args:
        restore: takes the states, as ``torch.load`` reads them with ``weights_only=True``.
        written: what ``captured_states`` returned.
        seed: of the global generators before.
        gpus: whether torch tells of two GPUs meanwhile.
        later: how many more rounds are drawn in the end.

    Returns:
        ``{"got", "again"}``, the numbers of the two rounds; and ``"later"``, those of the last one,
        if more are drawn.
    """
    seen = {}
    with globals_kept(), _two_gpus() if gpus else contextlib.nullcontext([]) as generators:
        seed_globals(seed)
        for name in ("got", "again"):
            _all_kinds(generators)
            restore(from_bytes(written))
            seen[name] = _all_kinds(generators)
        for _ in range(later):
            seen["later"] = _all_kinds(generators)
    return seen


def _draws() -> dict[str, float]:
    return {
        "random": random.random(),
        "numpy": float(np.random.random()),
        "torch": torch.rand((), **_PLAIN).item(),
    }


def _all_kinds(gpus: Sequence[torch.Generator] = ()) -> dict[str, Any]:
    seen = {"gpus": _one_each(gpus)} if gpus else {}
    return seen | {
        "random": [random.random(), random.gauss(0.0, 1.0)],
        "numpy": [float(np.random.random()), float(np.random.randn())],
        "torch": [torch.rand((), **_PLAIN).item(), torch.randn((), **_PLAIN).item()],
    }


def _one_each(generators: Sequence[torch.Generator]) -> list[float]:
    return [torch.rand((), generator=one, **_PLAIN).item() for one in generators]


@contextlib.contextmanager
def _two_gpus() -> Iterator[tuple[torch.Generator, ...]]:
    """Have torch tell of two GPUs, whatever there is, and give the generators of these: two of the
    CPU's. What torch offers to seed, read and set a GPU's generator works on them.
    """
    generators = torch.Generator(), torch.Generator()
    chosen = [0]

    def choose(number: Any) -> int:
        before, chosen[0] = chosen[0], getattr(number, "index", number) or 0
        return before

    pretended = {
        "_exchange_device": choose,
        "_lazy_call": lambda call, **_: call(),
        "_lazy_init": lambda: None,
        "_maybe_exchange_device": choose,
        "current_device": lambda: chosen[0],
        "default_generators": generators,
        "device_count": lambda: len(generators),
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "set_device": choose,
    }
    with contextlib.ExitStack() as patched:
        for place in (torch.cuda, torch.cuda.random):
            for name, value in pretended.items():
                if hasattr(place, name):
                    patched.enter_context(mock.patch.object(place, name, value))
        yield generators
