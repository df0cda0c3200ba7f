"""Probes that hand a student's function another function, and what they tell."""

from __future__ import annotations

import pytest
import torch

from helpers import probes


def test_a_formula_is_done_step_by_step() -> None:
    x = torch.tensor([0.5, -2.0], dtype=torch.float64)
    formula = [["square"], ["times", -0.5], ["exp"], ["power", 3], ["sin"], ["cos"]]
    got = probes.with_formula(lambda f, x, factor: factor * f(x), formula, x, 2.0)
    assert torch.equal(got, 2.0 * (-0.5 * x.square()).exp().pow(3).sin().cos())
    with pytest.raises(KeyError):
        probes.with_formula(lambda f, x: f(x), [["fly"]], x)


def test_on_a_leaf_it_tells_what_became_of_x() -> None:
    x = torch.tensor([1.0, 2.0])

    def careful(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x).detach()

    seen = probes.with_formula_on_a_leaf(careful, [["square"]], x)
    assert torch.equal(seen["output"], x * x)
    assert (seen["grad"], seen["has_graph"], seen["requires_grad"]) == (None, False, True)

    def careless(f: object, x: torch.Tensor) -> torch.Tensor:
        y = f(x)
        y.sum().backward()
        return y

    seen = probes.with_formula_on_a_leaf(careless, [["square"]], x)
    assert torch.equal(seen["grad"], 2.0 * x)
    assert seen["has_graph"]
    assert not x.requires_grad


def test_an_outcome_is_a_value_or_an_error() -> None:
    def divide(x: float, y: float) -> float:
        return x / y

    assert probes.outcome(divide, 6.0, 3.0) == {"output": 2.0}
    failed = probes.outcome(divide, 1.0, 0.0)
    assert failed == {
        "error": "ZeroDivisionError",
        "errors": ["ZeroDivisionError", "ArithmeticError", "Exception"],
        "message": "float division by zero",
    }

    def stub() -> None:
        raise NotImplementedError("nothing is written here yet")

    with pytest.raises(NotImplementedError):
        probes.outcome(stub)
