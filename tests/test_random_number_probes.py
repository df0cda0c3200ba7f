"""Probes for code that seeds, keeps or restores the global generators."""

from __future__ import annotations

import contextlib
import os
import random
import types

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

from helpers import crossing_seeds, first_draws, probes
from helpers.calling import FoundFaultError
from helpers.random_numbers import globals_kept, seed_globals


def test_global_draws_show_who_touched_the_generators_and_leave_them() -> None:
    seed_globals(1)
    own = probes.global_draws(lambda: None, seed=5)
    assert own == probes.global_draws(lambda: None, seed=5) == first_draws(5)
    assert probes.global_draws(random.random, seed=5)["random"] != own["random"]
    assert probes.global_draws(np.random.random, seed=5)["numpy"] != own["numpy"]
    assert probes.global_draws(lambda: torch.rand(()).item(), seed=5)["torch"] != own["torch"]
    after = random.random(), np.random.random(), torch.rand(()).item()
    seed_globals(1)
    assert after == (random.random(), np.random.random(), torch.rand(()).item())


def test_what_is_not_seeded_is_never_the_same() -> None:
    first, second = probes.seeded_draws(torch.manual_seed, [3, 3])
    assert first["torch"] == second["torch"]
    assert first["numpy"] != second["numpy"]
    assert first["random"] != second["random"]
    first, second = probes.seeded_draws(seed_globals, [3, 3])
    assert first == second


def capture() -> dict:
    version, numbers, kept = random.getstate()
    kind, keys, place, has_kept, kept_normal = np.random.get_state()
    return {
        "random": [version, list(numbers), kept],
        "numpy": [kind, torch.from_numpy(keys.astype(np.int64)), place, has_kept, kept_normal],
        "torch": torch.get_rng_state(),
    }


def restore(states: dict) -> None:
    version, numbers, kept = states["random"]
    random.setstate((version, tuple(numbers), kept))
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(states["torch"])


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_restored_states_go_on_and_what_is_left_out_does_not(rounds: int) -> None:
    seen = probes.captured_states(capture, 7, rounds)
    assert seen["next"] == probes.captured_states(capture, 7, rounds)["next"]
    restored = probes.restored_draws(restore, seen["written"], 1)
    assert restored == {"got": seen["next"], "again": seen["next"]}

    def forgets_numpy(states: dict) -> None:
        kept = np.random.get_state()
        restore(states)
        np.random.set_state(kept)

    for restored in probes.restored_draws(forgets_numpy, seen["written"], 1).values():
        assert restored["torch"] == seen["next"]["torch"]
        assert restored["numpy"] != seen["next"]["numpy"]


def test_states_that_are_no_plain_data_or_cannot_be_loaded_are_told() -> None:
    def with_dtype() -> dict:
        return {**capture(), "keys": [torch.float32]}

    assert probes.captured_states(capture, 7, 0)["others"] == []
    told = probes.captured_states(with_dtype, 7, 0)["others"]
    assert told == ["states['keys'][0] is of type torch.dtype"]
    for state, place in (
        (np.random.get_state(), r"\[1\] is of type numpy\.ndarray"),
        ({"a": [1, {"b": object()}]}, r"\['a'\]\[1\]\['b'\] is of type object"),
        (contextlib, " is of type module"),
    ):
        with pytest.raises(FoundFaultError, match=f"states{place}, which torch.load does not load"):
            probes.captured_states(lambda state=state: state, 7, 0)


def test_a_capture_that_draws_moves_what_comes_next() -> None:
    def draws() -> dict:
        random.random()
        return capture()

    before = random.getstate(), np.random.get_state()[2], torch.get_rng_state()
    quiet, moved = (probes.captured_states(function, 7, 3)["next"] for function in (capture, draws))
    assert moved["random"] != quiet["random"]
    assert moved["torch"] == quiet["torch"]
    after = random.getstate(), np.random.get_state()[2], torch.get_rng_state()
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def test_another_process_has_another_number_and_is_a_worker_where_asked() -> None:
    def told() -> tuple[int, int | None]:
        info = get_worker_info()
        return os.getpid(), info and info.seed

    number = os.getpid()
    assert probes.as_another_process(told, salt=0) == (number, None)
    assert probes.as_another_process(told, salt=5) == (number + 5, None)
    assert probes.as_another_process(told, salt=5, worker=True) == (number + 5, 5)
    assert told() == (number, None)


def test_another_process_has_other_hashes_of_texts_and_the_same_of_numbers() -> None:
    def hashes(*, letter: str) -> list[int]:
        return [hash(letter), hash((letter, 1)), hash((1, 2)), hash(3)]

    here, there = (probes.as_another_process(hashes, salt=salt, letter="a") for salt in (0, 5))
    assert here == hashes(letter="a")
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, False, True, True]
    assert hash("a") == here[0]


class Card:
    """A device's generator, as far as it matters here."""

    def __init__(self, state: int) -> None:
        self.state = torch.tensor([state])

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [self.state.clone()]

    def set_rng_state_all(self, states: list[torch.Tensor]) -> None:
        (self.state,) = states


@pytest.mark.parametrize("backend", [torch.cuda, torch.xpu], ids=["cuda", "xpu"])
def test_the_generators_of_a_device_in_use_are_kept(
    backend: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = Card(7)
    monkeypatch.setattr(backend, "is_initialized", lambda: True)
    for name in ("get_rng_state_all", "set_rng_state_all"):
        monkeypatch.setattr(backend, name, getattr(card, name))
    with contextlib.suppress(ValueError), globals_kept():
        card.state += 1
        raise ValueError
    assert card.state.item() == 7


def test_a_device_that_is_not_in_use_is_not_started_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        pytest.fail("the device was started up")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    for name in ("_lazy_init", "init", "get_rng_state_all", "set_rng_state_all"):
        monkeypatch.setattr(torch.cuda, name, started)
    with globals_kept():
        seed_globals(3)


def test_a_seed_that_waits_for_a_device_to_be_used_still_waits_after_a_check() -> None:
    torch.manual_seed(1)
    queue = torch.cuda._lazy_seed_tracker
    before = dict(vars(queue))
    with globals_kept():
        seed_globals(2)
        assert vars(queue) != before
    assert vars(queue) == before


def test_a_notebooks_defaults_change_nothing_of_what_untouched_generators_draw() -> None:
    expected = first_draws(5)
    try:
        torch.set_default_device("meta")
        torch.set_default_dtype(torch.float64)
        got = first_draws(5)
    finally:
        torch.set_default_device(None)
        torch.set_default_dtype(torch.float32)
    assert got == expected


def test_seeds_cross_for_small_multipliers_of_the_epoch_and_usual_large_ones() -> None:
    usual = [7907, 7919, 9973, 10_000, 10_007, 12_345, 2**16 - 1, 65_537, 10**5, 10**6, 1_000_003]
    pairs = [(seed, epoch) for seed, epochs in crossing_seeds() for epoch in range(epochs)]
    assert len(set(pairs)) == len(pairs)
    assert max(pairs)[0] < 2**32
    for k in [*range(1, 4097), *usual, 10**9 + 7, 2**31 - 1]:
        assert len({seed + k * epoch for seed, epoch in pairs}) < len(pairs), k
