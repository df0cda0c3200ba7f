"""Probes, saved bytes, time ratios, data: they return what was really done."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch

from helpers import digits, probes, saved_bytes, time_ratio


def test_gradient_equals_autograds_own() -> None:
    x = torch.linspace(-2, 2, 5)
    weight = torch.arange(5.0)
    got = probes.gradient(lambda x, k: (k * x).sin(), x, 3.0, grad_output=weight)
    assert torch.allclose(got["output"], (3 * x).sin())
    assert torch.allclose(got["gradient"], weight * 3 * (3 * x).cos())
    assert not x.requires_grad


def test_gradient_by_another_argument_and_of_a_constant() -> None:
    got = probes.gradient(lambda a, b: a * b, torch.ones(2), torch.full((2,), 4.0), wrt=1)
    assert torch.equal(got["gradient"], torch.ones(2))
    constant = probes.gradient(lambda a: a.detach().requires_grad_() * 2, torch.ones(2))
    assert constant["gradient"] is None


def test_operators_are_those_that_ran() -> None:
    seen = probes.operators(lambda x: torch.exp(x) / torch.exp(x).sum(), torch.ones(3))
    assert seen["operators"] == ["div", "exp", "sum"]
    assert "_softmax" in probes.operators(torch.softmax, torch.ones(3), 0)["operators"]


def by_autograd(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    return torch.autograd.grad(leaf.exp().sum().log(), leaf)[0]


def by_backward(x: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().clone().requires_grad_()
    leaf.exp().sum().log().backward()
    return leaf.grad


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (by_autograd, "grad"),
        (by_backward, "backward"),
        (torch.func.grad(lambda x: x.exp().sum().log()), "grad"),
        (torch.func.jacfwd(lambda x: x.exp().sum().log()), "_make_dual"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # torch's own call
def test_functions_show_every_way_into_autograd(function: object, told: str) -> None:
    seen = probes.functions(function, torch.ones(3))
    assert told in seen["functions"]
    assert torch.allclose(seen["output"], torch.full((3,), 1 / 3))
    by_hand = probes.functions(lambda x: torch.softmax(x, 0), torch.ones(3))
    assert by_hand["functions"] == ["softmax"]


def test_saved_bytes_count_each_storage_once_and_leave_parameters_out() -> None:
    layer = torch.nn.Linear(4, 8)
    x = torch.ones(16, 4, requires_grad=True)
    counted = saved_bytes(lambda: layer(x).relu(), except_for=layer.parameters())
    assert counted.bytes == (16 * 4 + 16 * 8) * 4
    assert counted.tensors == 2
    assert saved_bytes(lambda: x * x).tensors == 1
    with torch.no_grad():
        assert saved_bytes(lambda: layer(x)).bytes == 0


def test_sigmoid_saves_its_result_and_a_shift_saves_nothing() -> None:
    x = torch.ones(10, requires_grad=True)
    assert saved_bytes(lambda: x - 2).bytes == 0
    assert saved_bytes(lambda: x.sigmoid(), except_for=[x]).bytes == 40


def test_time_ratio_tells_the_slower_one() -> None:
    ratio = time_ratio(lambda: time.sleep(0.004), lambda: time.sleep(0.001), seconds=0.2)
    assert ratio.smallest <= ratio.median <= ratio.largest
    assert ratio.median > 1.5
    assert "times" in str(ratio)


def test_time_ratio_refuses_senseless_settings() -> None:
    with pytest.raises(ValueError, match="pairs is at least 1"):
        time_ratio(lambda: None, lambda: None, pairs=0)


def test_digits_are_the_whole_test_set() -> None:
    images, labels = digits()
    assert images.shape == (1797, 8, 8)
    assert images.dtype == torch.float32
    assert (images.min(), images.max()) == (0, 16)
    # Counts per digit as the data set's own description lists them.
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_importing_helpers_pulls_in_nothing_heavy_beyond_torch() -> None:
    heavy = "matplotlib.pyplot", "ipywidgets", "IPython", "jupytext", "nbformat", "nbgrader"
    code = f"import torch, sys; import helpers; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert found.stdout.strip() == "[]"
