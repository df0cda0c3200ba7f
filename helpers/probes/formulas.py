"""Probes that hand a student's function another function, which is made from plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "cos": torch.cos,
    "exp": torch.exp,
    "power": torch.pow,
    "sin": torch.sin,
    "square": torch.square,
    "times": torch.mul,
}


def with_formula(function: Callable, formula: list[list], *args: Any) -> Any:
    """Return ``function(f, *args)``, where ``f`` does the steps of ``formula``.

    Args:
        function: takes a function of one tensor, then ``args``.
        formula: what ``f`` does to its tensor entry by entry, one step after another: ``["sin"]``,
            ``["cos"]``, ``["exp"]``, ``["square"]``, ``["times", 3.0]`` or ``["power", 3]``.
        *args: what else ``function`` takes.
    """
    return function(_made_of(formula), *args)


def with_formula_on_a_leaf(
    function: Callable,
    formula: list[list],
    x: torch.Tensor,
    factor: torch.Tensor,
    left_over: torch.Tensor,
) -> dict[str, Any]:
    """Do what ``with_formula`` does, with an ``x`` that requires a gradient, and use ``x`` again.

    Args:
        function: takes a function of one tensor, and ``x``.
        formula: as ``with_formula`` has it.
        x: floating-point numbers.
        factor: of a further loss, the sum of ``factor * x**2 * output``.
        left_over: what is in ``x.grad`` before the call.

    Returns:
        ``{"output", "gradient"}``: what came back, and what is in ``x.grad`` once the gradient of
        the further loss was added. A graph behind the output or another ``x.grad`` shows in it.
    """
    leaf = x.detach().clone().requires_grad_(True)
    leaf.grad = left_over.clone()
    output = function(_made_of(formula), leaf)
    loss = (factor * leaf.square() * output).sum()
    if loss.requires_grad:
        loss.backward()
    return {"output": output.detach(), "gradient": leaf.grad}


def with_formula_twice(
    function: Callable, formula: list[list], x: torch.Tensor, factor: float
) -> list[torch.Tensor]:
    """Return what ``with_formula`` gives for ``x`` and, once ``x`` was multiplied in place by
    ``factor``, for the same tensor again.

    Raises:
        RuntimeError: ``x`` requires a gradient after the first call, and cannot be written to.
    """
    given = x.detach().clone()
    first = function(_made_of(formula), given)
    try:
        given.mul_(factor)
    except RuntimeError as error:
        raise RuntimeError("x requires a gradient after the call, and did not before") from error
    return [first, function(_made_of(formula), given)]


def _made_of(formula: list[list]) -> Callable[[torch.Tensor], torch.Tensor]:
    def f(x: torch.Tensor) -> torch.Tensor:
        for name, *given in formula:
            x = _STEPS[name](x, *given)
        return x

    return f
