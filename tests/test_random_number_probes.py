"""Probes for code that seeds, keeps or restores the global generators."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from helpers import first_draws, probes
from helpers.random_numbers import seed_globals


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


@pytest.mark.parametrize("draws", [0, 1, 2])
def test_restored_states_go_on_and_what_is_left_out_does_not(draws: int) -> None:
    seen = probes.restored_draws(capture, restore, 7, draws)
    assert seen["got"] == seen["again"] == seen["expected"]

    def forgets_numpy(states: dict) -> None:
        kept = np.random.get_state()
        restore(states)
        np.random.set_state(kept)

    seen = probes.restored_draws(capture, forgets_numpy, 7, draws)
    assert seen["got"]["torch"] == seen["expected"]["torch"]
    assert seen["got"]["numpy"] != seen["expected"]["numpy"]


def test_another_process_has_other_hashes_of_texts_and_the_same_of_numbers() -> None:
    def hashes() -> list[int]:
        return [hash("a"), hash(("a", 1)), hash((1, 2)), hash(3)]

    here, there = (probes.with_string_hashes(hashes, salt=salt) for salt in (0, 5))
    assert here == hashes()
    assert [a == b for a, b in zip(here, there, strict=True)] == [False, False, True, True]
    assert hash("a") == here[0]
