"""Probes that hand a student's function another function, which is made from plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers.probes.testimony import testimony

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


@testimony
def with_formula_on_a_leaf(
    function: Callable, formula: list[list], x: torch.Tensor, *, needs_gradient: bool = True
) -> dict[str, Any]:
    """Do what ``with_formula`` does, with an ``x`` that requires a gradient if that is asked.

    Returns:
        ``{"output", "has_graph", "x", "grad", "requires_grad"}``: what came back, and whether it
        requires a gradient; then what ``x`` is after the call.
    """
    leaf = x.detach().clone().requires_grad_(needs_gradient)
    output = function(_made_of(formula), leaf)
    return {
        "output": output.detach(),
        "has_graph": output.requires_grad,
        "x": leaf.detach().clone(),
        "grad": leaf.grad,
        "requires_grad": leaf.requires_grad,
    }


def _made_of(formula: list[list]) -> Callable[[torch.Tensor], torch.Tensor]:
    def f(x: torch.Tensor) -> torch.Tensor:
        for name, *given in formula:
            x = _STEPS[name](x, *given)
        return x

    return f
