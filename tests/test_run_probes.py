"""Probes for what keeps a run the same, and what they tell of good and bad code."""

from __future__ import annotations

import math
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers import probes
from helpers.calling import FoundFaultError

COMPUTED = {
    "numbers": torch.tensor([1.5, -2.0]),
    "places": torch.tensor([2, 0]),
    "size": 3,
}


def required(seen: dict) -> bool:
    """Return whether results are those of deterministic algorithms; they are if not the others."""
    if "put" in seen:
        assert seen["put"].tolist() == [-2.0, 0.0, 1.5]
        return False
    assert seen["error"] == "RuntimeError"
    assert seen["longer"][:2].tolist() == [1.5, -2.0]
    return math.isnan(seen["longer"][2])


def test_deterministic_algorithms_show_in_what_is_computed() -> None:
    for before in (False, True):
        for on in (False, True):
            seen = probes.deterministic_results(
                torch.use_deterministic_algorithms, on, before=before, **COMPUTED
            )
            assert (required(seen), seen["callable"]) == (on, True)
        seen = probes.deterministic_results(lambda: None, before=before, **COMPUTED)
        assert required(seen) is before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_warning_in_the_place_of_an_error_shows() -> None:
    def only_warns() -> None:
        torch.use_deterministic_algorithms(True, warn_only=True)

    with pytest.warns(UserWarning, match="put_ does not have"):
        seen = probes.deterministic_results(only_warns, before=True, **COMPUTED)
    assert not required(seen)
    assert seen["required"] is True
    assert not torch.is_deterministic_algorithms_warn_only_enabled()


def test_flags_are_read_and_left_as_they_were() -> None:
    cudnn = torch.backends.cudnn

    def odd(on: bool) -> None:
        cudnn.benchmark = not on
        cudnn.enable = True
        torch.use_deterministic_algorithms(on)

    before = cudnn.enabled, cudnn.benchmark, cudnn.deterministic
    seen = probes.backend_flags(odd, True, before=False, **COMPUTED)
    assert required(seen)
    assert (seen["enabled"], seen["benchmark"], seen["deterministic"]) == (True, False, False)
    assert seen["invented"] == ["torch.backends.cudnn.enable"]
    seen = probes.backend_flags(odd, False, before=True, **COMPUTED)
    assert not required(seen)
    assert (seen["enabled"], seen["benchmark"], seen["deterministic"]) == (True, True, True)
    flags = (False, True, False)
    seen = probes.backend_flags(lambda: None, before=True, cudnn_before=flags, **COMPUTED)
    assert (seen["benchmark"], seen["deterministic"], seen["enabled"]) == flags
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == before
    assert not torch.are_deterministic_algorithms_enabled()
    assert not hasattr(cudnn, "enable")


@pytest.mark.parametrize("probe", [probes.deterministic_results, probes.backend_flags])
def test_a_function_that_was_replaced_is_told_and_put_back(probe: Callable) -> None:
    own = torch.use_deterministic_algorithms

    def replaces(on: bool) -> None:
        torch.use_deterministic_algorithms = on

    seen = probe(replaces, True, before=False, **COMPUTED)
    assert not required(seen)
    assert seen["callable"] is False
    assert torch.use_deterministic_algorithms is own
    torch.use_deterministic_algorithms = True  # as an experiment in another cell does
    assert probe(lambda: None, before=False, **COMPUTED)["callable"]
    assert torch.use_deterministic_algorithms is own


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


class Forgets(Walk):
    """Loads less than it saves."""

    def load_state_dict(self, state: dict) -> None:
        self.place = state["place"]


def test_a_training_goes_on_from_its_state_alone() -> None:
    before = random.getstate()
    whole = probes.trained_part(Walk, 3, 6)["trace"]
    assert len({step["place"] for step in whole}) == 6
    first, other = (probes.trained_part(Walk, seed, 2) for seed in (3, 4))
    assert first["trace"] == whole[:2] != other["trace"]
    rest = probes.trained_part(Walk, 9, 4, first["state"])["trace"]
    assert first["trace"] + rest == whole
    assert probes.trained_part(Forgets, 9, 4, first["state"])["trace"] != rest
    assert random.getstate() == before


def test_a_state_that_cannot_be_loaded_is_told_without_torchs_advice() -> None:
    class Whole(Walk):
        def state_dict(self) -> dict:
            return {"place": self.place, "model": torch.nn.Linear(1, 1)}

    with pytest.raises(FoundFaultError, match=r"^state\['model'\] is of type torch.nn.*Linear"):
        probes.trained_part(Whole, 3, 1)


class Disk:
    """Hands out contents in two halves, and notes where they go."""

    def __init__(self, *fates: str) -> None:
        self.fates = fates
        self.targets: list[str] = []

    def begin(self, target: str) -> str:
        self.targets.append(target)
        return f"{len(self.targets)}: "

    def go_on(self) -> str | None:
        fate = self.fates[len(self.targets) - 1]
        if fate == "failed":
            raise OSError("no space left")
        return None if fate == "killed" else "whole"


def straight(write: Callable, path: str) -> None:
    write(path)


def aside(write: Callable, path: str) -> None:
    write(path + ".new")
    os.replace(path + ".new", path)


FATES = ("written", "killed", "failed", "written")


def test_a_write_that_is_cut_off_shows_what_the_path_holds() -> None:
    torn = probes.writes(straight, (disk := Disk(*FATES)).begin, disk.go_on, 4)
    assert [seen["after"] for seen in torn] == ["1: whole", "2: ", "3: ", "4: whole"]
    assert [seen["raised"] for seen in torn] == ["", "KilledError", "OSError", ""]
    assert torn[2]["said"] == "no space left"
    assert disk.targets == [seen["path"] for seen in torn]
    whole = probes.writes(aside, (disk := Disk(*FATES)).begin, disk.go_on, 4)
    assert [seen["after"] for seen in whole] == ["1: whole", "1: whole", "1: whole", "4: whole"]
    assert disk.targets == [seen["path"] + ".new" for seen in whole]
    assert "moments" not in whole[0]


def test_an_interrupted_write_raises_what_ctrl_c_does_and_a_persons_own_goes_on() -> None:
    def begin(target: str) -> str:
        return "half"

    (torn,) = probes.writes(straight, begin, lambda: False, 1)
    assert (torn["after"], torn["raised"]) == ("half", "KeyboardInterrupt")

    def interrupts(write: Callable, path: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probes.writes(interrupts, begin, lambda: "whole", 1)


def test_a_path_that_is_watched_tells_what_it_held_meanwhile() -> None:
    def in_turn(write: Callable, path: str) -> None:
        write(path + ".new")
        if os.path.exists(path):
            os.remove(path)
        Path(path + ".new").rename(path)

    def copies(write: Callable, path: str) -> None:
        write(path + ".new")
        shutil.copyfile(path + ".new", path)

    def watched(function: Callable) -> list[dict]:
        return probes.writes_watched(
            function, (disk := Disk("written", "written")).begin, disk.go_on, 2
        )

    first, second = watched(aside)
    assert set(first["moments"]) == {None, "1: whole"}
    assert set(second["moments"]) == {"1: whole", "2: whole"}
    assert first["moved"]
    assert second["moved"]
    assert "2: " in watched(straight)[1]["moments"]
    assert None in watched(in_turn)[1]["moments"]
    assert not watched(copies)[0]["moved"]


@pytest.mark.parametrize("command", [None, ["mv"], ["ln"]])
def test_a_path_that_is_linked_or_moved_by_a_program_is_seen(command: list[str] | None) -> None:
    def in_turn(write: Callable, path: str) -> None:
        write(path + ".new")
        if os.path.exists(path):
            os.remove(path)
        if command is None:
            os.link(path + ".new", path)
        else:
            subprocess.run([*command, path + ".new", path], check=True)

    disk = Disk("written", "written")
    _, second = probes.writes_watched(in_turn, disk.begin, disk.go_on, 2)
    assert None in second["moments"]


def test_a_file_that_moves_by_another_name_is_seen() -> None:
    remove, rename = os.remove, os.rename

    def in_turn(write: Callable, path: str) -> None:
        write(path + ".new")
        if os.path.exists(path):
            remove(path)
        rename(path + ".new", path)

    disk = Disk("written", "written")
    _, second = probes.writes_watched(in_turn, disk.begin, disk.go_on, 2)
    assert None in second["moments"]


def test_what_else_a_function_raises_is_its_own_affair() -> None:
    def fails(write: Callable, path: str) -> None:
        raise KeyError(path)

    with pytest.raises(KeyError):
        probes.writes(fails, (disk := Disk("written")).begin, disk.go_on, 1)


@pytest.mark.parametrize("probe", [probes.writes, probes.writes_watched])
def test_a_relative_path_is_in_the_current_folder(probe: Callable) -> None:
    before, given = os.getcwd(), []

    def noting(write: Callable, path: str) -> None:
        given.append((path, os.getcwd()))
        aside(write, path)

    for path, is_relative in (("a.txt", True), (".../runs.v2/b", False)):
        disk = Disk("written")
        (seen,) = probe(noting, disk.begin, disk.go_on, 1, path=path)
        assert seen["after"] == "1: whole"
        told, folder = given.pop()
        assert seen["path"] == os.path.join(folder, told)
        assert (told == path, folder == before) == (is_relative, not is_relative)
        assert seen["path"].endswith(path.removeprefix("..."))
    assert os.getcwd() == before
