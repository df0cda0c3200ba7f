"""Probes that hand a student's function another function, and what they tell."""

from __future__ import annotations

import pytest
import torch

from helpers import probes
from helpers.calling import FoundFaultError


def test_a_formula_is_done_step_by_step() -> None:
    x = torch.tensor([0.5, -2.0], dtype=torch.float64)
    formula = [["square"], ["times", -0.5], ["exp"], ["power", 3], ["sin"], ["cos"]]
    got = probes.with_formula(lambda f, x, factor: factor * f(x), formula, x, 2.0)
    assert torch.equal(got, 2.0 * (-0.5 * x.square()).exp().pow(3).sin().cos())
    with pytest.raises(KeyError):
        probes.with_formula(lambda f, x: f(x), [["fly"]], x)


def test_on_a_leaf_the_gradient_shows_what_became_of_x() -> None:
    x, factor, left_over = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 5.0]), torch.ones(2)

    def careful(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x).detach()

    seen = probes.with_formula_on_a_leaf(careful, [["square"]], x, factor, left_over)
    assert torch.equal(seen["output"], x * x)
    # Of 3 x² * x² and 5 x² * x², where the second x² is a constant.
    assert seen["gradient"].tolist() == [1.0 + 6.0, 1.0 + 80.0]

    def with_a_graph(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x)

    seen = probes.with_formula_on_a_leaf(with_a_graph, [["square"]], x, factor, left_over)
    assert seen["gradient"].tolist() == [1.0 + 12.0, 1.0 + 160.0]

    def careless(f: object, x: torch.Tensor) -> torch.Tensor:
        f(x).sum().backward()
        return f(x).detach()

    seen = probes.with_formula_on_a_leaf(careless, [["square"]], x, factor, left_over)
    assert seen["gradient"].tolist() == [1.0 + 6.0 + 2.0, 1.0 + 80.0 + 4.0]

    assert seen["stored"].tolist() == [1.0 + 2.0, 1.0 + 4.0]
    given = [["square"]], x, factor, left_over
    seen = probes.with_formula_on_a_leaf(careless, *given, by_way_of_a_copy=True)
    assert seen["stored"].tolist() == [1.0 + 2.0, 1.0 + 4.0]

    def cut_off(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x.requires_grad_(False))

    seen = probes.with_formula_on_a_leaf(cut_off, [["square"]], x, factor, left_over)
    assert seen["gradient"].tolist() == [1.0, 1.0]
    assert not x.requires_grad


def test_a_second_call_shows_an_x_that_begins_to_require_a_gradient() -> None:
    x = torch.tensor([1.0, 2.0])
    twice = probes.with_formula_twice(lambda f, x: f(x), [["square"]], x, 3.0)
    assert [output.tolist() for output in twice] == [[1.0, 4.0], [1.0, 2.0], [9.0, 36.0]]
    assert x.tolist() == [1.0, 2.0]
    twice = probes.with_formula_twice(lambda f, x: f(x.add_(1.0)), [["square"]], x, 3.0)
    assert [output.tolist() for output in twice] == [[4.0, 9.0], [2.0, 3.0], [49.0, 100.0]]

    def switches_on(f: object, x: torch.Tensor) -> torch.Tensor:
        return f(x.requires_grad_(True)).detach()

    with pytest.raises(FoundFaultError, match="x requires a gradient after the call"):
        probes.with_formula_twice(switches_on, [["square"]], x, 3.0)


def test_a_second_call_shows_a_gradient_where_there_was_none() -> None:
    def leaves_zeros(f: object, x: torch.Tensor) -> torch.Tensor:
        x.grad = torch.zeros_like(x)
        return f(x)

    for probe, more in ((probes.with_formula_twice, [3.0]), (probes.with_formula_again, [])):
        with pytest.raises(FoundFaultError, match="x.grad is a tensor after the call"):
            probe(leaves_zeros, [["square"]], torch.ones(2, 3), *more)


def test_the_same_arguments_again_show_what_was_changed_in_them() -> None:
    def empties(f: object, x: torch.Tensor, steps: list[float]) -> list[float]:
        return [steps.pop() for _ in range(len(steps))]

    got = probes.with_formula_again(empties, [["square"]], torch.ones(2), [1.0, 2.0])
    assert got == [[2.0, 1.0], []]
    assert probes.called_twice(lambda items: [items.pop()], [1, 2]) == [[2], [1]]
    with pytest.raises(FoundFaultError, match="x requires a gradient after the call"):
        probes.with_formula_again(lambda f, x: f(x.requires_grad_(True)), [["abs"]], torch.ones(2))


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


def test_an_error_that_was_returned_is_told_as_such() -> None:
    with pytest.raises(FoundFaultError, match="a ValueError was returned instead of raised"):
        probes.outcome(lambda: ValueError("no"))
