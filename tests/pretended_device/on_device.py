"""Checks, draws and probes where results are another device's. Run by test_pretended_device.py."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from comparing import find_difference

from helpers import Check, catalogue, peak_bytes, probes, saved_bytes
from helpers.catalogue import Chapter, Exercise
from helpers.drawing import Draw
from helpers.plain import plain_copy
from helpers.process_state import state_kept
from helpers.random_numbers import globals_kept, seed_globals

CUDA = torch.device("cuda", 0)
WRONG_PLACE = "a tensor on cuda:0 came back, expected one on the CPU"


@pytest.fixture(autouse=True)
def _sample_course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hints = ("a first hint", "a second hint", "a third hint")
    exercise = Exercise("double", "Twice the number", "01-sample", 3, 4, 5, 1, 1, 0, hints)
    chapters = (Chapter("01-sample", "A sample", (exercise,)),)
    monkeypatch.setattr(catalogue, "load_chapters", lambda: chapters)
    monkeypatch.chdir(tmp_path)


def check_doubling(double: Callable) -> float:
    check = Check("double")
    with check.property("doubles numbers"):
        x = check.draw.normal(3, 4)
        check.close(check.call(double, x), 2 * x)
    return check.score()


def test_the_device_is_there_and_is_not_the_cpu() -> None:
    assert torch.cuda.is_available()
    assert torch.ones(2, device="cuda").device == CUDA
    with pytest.raises(RuntimeError, match="on the same device"):
        torch.ones(2, 2, device="cuda") @ torch.ones(2, 2)


def test_a_result_on_the_device_is_another_than_one_on_the_cpu() -> None:
    x = torch.ones(3)
    assert find_difference(x.cuda(), x) == WRONG_PLACE
    back = "a tensor on the CPU came back, expected one on cuda:0"
    assert find_difference(x, x.cuda()) == back


def test_results_of_one_device_are_compared_by_their_numbers() -> None:
    x = torch.tensor([1.0, float("nan"), 1e300], dtype=torch.float64).cuda()
    assert find_difference(x.clone(), x) is None
    other = x.index_fill(0, torch.tensor([0], device="cuda"), 2.0)
    assert find_difference(other, x) == "1 of 3 values differ; at [0]: 2 came back, expected 1"


def test_a_check_says_where_a_result_lies(capsys: pytest.CaptureFixture) -> None:
    assert check_doubling(lambda x: 2 * x.cuda()) == 0
    assert WRONG_PLACE in capsys.readouterr().out


def test_a_check_gives_points_to_who_computes_there_and_comes_back() -> None:
    assert check_doubling(lambda x: (2 * x.cuda()).cpu()) == 4


def test_a_check_tells_of_a_result_that_mixes_devices(capsys: pytest.CaptureFixture) -> None:
    assert check_doubling(lambda x: x + torch.ones(4, device="cuda")) == 0
    assert "on the same device" in capsys.readouterr().out


def test_a_check_is_made_on_the_cpu_whatever_the_default_device_is() -> None:
    torch.set_default_device("cuda")
    try:
        assert check_doubling(lambda x: 2 * x) == 4
    finally:
        torch.set_default_device(None)


def test_draws_are_the_same_beside_a_device_and_leave_its_generator_alone() -> None:
    before = torch.cuda.get_rng_state()
    expected = Draw(seed=3).normal(2, 5)
    torch.set_default_device("cuda")
    try:
        drawn = Draw(seed=3).normal(2, 5)
    finally:
        torch.set_default_device(None)
    assert drawn.device.type == "cpu"
    assert torch.equal(drawn, expected)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_the_devices_generator_is_put_back() -> None:
    torch.cuda.manual_seed(5)
    expected = torch.rand(4, device="cuda")
    torch.cuda.manual_seed(5)
    with globals_kept():
        seed_globals(7)
        torch.rand(9, device="cuda")
        random.random()
    assert torch.equal(torch.rand(4, device="cuda"), expected)


def test_one_seed_is_for_all_generators() -> None:
    draws = []
    for _ in range(2):
        seed_globals(11)
        draws.append((torch.rand(3), torch.rand(3, device="cuda").cpu()))
    assert torch.equal(draws[0][0], draws[1][0])
    assert torch.equal(draws[0][1], draws[1][1])
    assert not torch.equal(draws[0][0], draws[0][1]), "the device draws numbers of its own"


def test_a_region_and_a_default_device_that_are_left_open_are_closed() -> None:
    with state_kept():
        torch.autocast("cuda", dtype=torch.bfloat16).__enter__()
        torch.set_default_device("cuda")
        assert torch.ones(2).device == CUDA
    assert torch.ones(2).device.type == "cpu"
    assert not torch.is_autocast_enabled("cuda")


def test_a_copy_stays_on_its_device_and_shares_no_memory() -> None:
    x = torch.ones(3, device="cuda", requires_grad=True)
    copy = plain_copy({"x": [x]})["x"][0]
    assert copy.device == CUDA
    assert not copy.requires_grad
    assert copy.data_ptr() != x.data_ptr()


def test_a_gradient_on_the_device_is_told_from_one_on_the_cpu() -> None:
    x = torch.tensor([1.0, 2.0])
    here = probes.gradient(lambda x: (x.cuda() ** 2).sum().cpu(), x)
    assert find_difference(here["gradient"], 2 * x) is None
    there = probes.gradient(lambda x: (x**2).sum(), x.cuda())
    assert find_difference(there["gradient"], 2 * x) == WRONG_PLACE


def test_what_a_call_does_to_arguments_on_the_device_is_seen() -> None:
    x = torch.zeros(3, device="cuda")
    seen = probes.after_call(lambda x: x.add_(1), x)
    assert find_difference(seen["arguments"][0], torch.ones(3, device="cuda")) is None


def test_bytes_on_the_device_count() -> None:
    weight = torch.ones(64, 64, device="cuda", requires_grad=True)
    x = torch.ones(64, 64, device="cuda")
    size = x.numel() * 4
    saved = saved_bytes(lambda: (x @ weight).relu().sum(), except_for=[weight, x])
    assert saved.bytes == size
    assert peak_bytes(lambda: (x + 1) * 2, except_for=[x]) == 2 * size
