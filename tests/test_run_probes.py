"""Probes for what keeps a run the same, and what they tell of good and bad code."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable

import pytest
import torch

from helpers import probes


def test_flags_are_read_and_left_as_they_were() -> None:
    cudnn = torch.backends.cudnn

    def odd(on: bool) -> None:
        cudnn.benchmark = not on
        cudnn.enable = True
        torch.use_deterministic_algorithms(on)

    before = cudnn.enabled, cudnn.benchmark, cudnn.deterministic
    seen = probes.backend_flags(odd, True, before=False)
    assert seen == {
        "enabled": True,
        "benchmark": False,
        "deterministic": False,
        "algorithms": True,
        "only warns": False,
        "callable": True,
        "invented": ["torch.backends.cudnn.enable"],
    }
    seen = probes.backend_flags(odd, False, before=True)
    assert (seen["benchmark"], seen["deterministic"], seen["algorithms"]) == (True, True, False)
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == before
    assert not torch.are_deterministic_algorithms_enabled()
    assert not hasattr(cudnn, "enable")


def test_a_function_that_was_replaced_is_told_and_put_back() -> None:
    own = torch.use_deterministic_algorithms

    def replaces(on: bool) -> None:
        torch.use_deterministic_algorithms = on

    assert probes.backend_flags(replaces, True, before=False)["callable"] is False
    assert torch.use_deterministic_algorithms is own


def test_a_loose_source_changes_the_result_every_so_many_runs() -> None:
    def look(run: Callable, sources: list[str]) -> list:
        return [[run(fixed)[0] for _ in range(4)] for fixed in (["b"], ["a"], sources, "a")]

    loose, others, fixed, by_name = probes.with_sources(look, ["a", "b"], {"a": 2}, most=20)
    assert [(value - 1.0) * 2.0**52 for value in loose] == [0.0, 1.0, 1.0, 2.0]
    assert others == fixed == by_name == [1.0] * 4
    with pytest.raises(RuntimeError, match="more than 14 times"):
        probes.with_sources(look, ["a", "b"], {"a": 1}, most=7)
    with pytest.raises(ValueError, match="no source called 'c'"):
        probes.with_sources(lambda run, sources: run(["c"]), ["a"], {}, most=9)


class Walk:
    """Adds a random number in each step."""

    def __init__(self) -> None:
        self.place = 0.0

    def step(self) -> dict[str, float]:
        self.place += random.random()
        return {"place": self.place}

    def state_dict(self) -> dict:
        return {"place": self.place, "random": random.getstate()}

    def load_state_dict(self, state: dict) -> None:
        self.place = state["place"]
        random.setstate(state["random"])


def test_a_training_is_killed_and_goes_on_from_its_state() -> None:
    before = random.getstate()
    whole = probes.resumed_training(Walk, 3, stops=[], total=6)
    assert len({step["place"] for step in whole}) == 6
    for stops in ([0], [2], [5], [1, 1, 4]):
        assert probes.resumed_training(Walk, 3, stops=stops, total=6) == whole
    assert random.getstate() == before

    class Forgets(Walk):
        def load_state_dict(self, state: dict) -> None:
            self.place = state["place"]

    got = probes.resumed_training(Forgets, 3, stops=[2], total=6)
    assert got[:2] == whole[:2]
    assert got[2] != whole[2]


def straight(write: Callable, path: str) -> None:
    write(path)


def aside(write: Callable, path: str) -> None:
    write(path + ".new")
    os.replace(path + ".new", path)


def test_a_write_that_is_cut_off_shows_who_wrote_where() -> None:
    contents = [("old one", "written"), ("torn", "killed"), ("torn", "failed"), ("new", "written")]
    torn = probes.writes(straight, contents)
    assert [seen["during"] for seen in torn] == ["old", "to", "to", "n"]
    assert [seen["after"] for seen in torn] == ["old one", "to", "to", "new"]
    assert [seen["raised"] for seen in torn] == ["", "Killed", "OSError", ""]
    whole = probes.writes(aside, contents)
    assert [seen["during"] for seen in whole] == [None, "old one", "old one", "old one"]
    assert [seen["after"] for seen in whole] == ["old one", "old one", "old one", "new"]
    assert all(seen["beside"] and seen["moved"] for seen in whole)

    def copies(write: Callable, path: str) -> None:
        write(path + ".new")
        shutil.copyfile(path + ".new", path)

    assert not probes.writes(copies, contents[:1])[0]["moved"]
    elsewhere = probes.writes(lambda write, path: write(os.devnull), contents[:1])
    assert not elsewhere[0]["beside"]
