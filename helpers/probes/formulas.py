"""Probes that hand a student's function another function, which is made from plain data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers.calling import FoundFaultError

_STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs,
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
            ``["abs"]``, ``["cos"]``, ``["exp"]``, ``["square"]``,
            ``["times", 3.0]`` or ``["power", 3]``.
        *args: what else ``function`` takes.
    """
    return function(_made_of(formula), *args)


def with_formula_on_a_leaf(
    function: Callable,
    formula: list[list],
    x: torch.Tensor,
    factor: torch.Tensor,
    left_over: torch.Tensor,
    *,
    by_way_of_a_copy: bool = False,
) -> dict[str, Any]:
    """Do what ``with_formula`` does, with an ``x`` that requires a gradient, and use ``x`` again.

    Args:
        function: takes a function of one tensor, and ``x``.
        formula: as ``with_formula`` has it.
        x: floating-point numbers.
        factor: of a further loss, the sum of ``factor * x**2 * output``.
        left_over: what is in the leaf's ``grad`` before the call.
        by_way_of_a_copy: whether ``x`` is no leaf but computed from one, as a copy of it.

    Returns:
        ``{"output", "stored", "gradient", "after", "graph"}``: what came back; what is in the
        leaf's ``grad`` after the call; what is in it once the gradient of the further loss was
        added, where a graph behind the output shows; ``x`` after the call; whether what came back
        requires a gradient.

    Raises:
        FoundFaultError: what came back is no tensor.
    """
    leaf = x.detach().clone().requires_grad_(True)
    leaf.grad = left_over.clone()
    given = leaf.clone() if by_way_of_a_copy else leaf
    output = function(_made_of(formula), given)
    if not isinstance(output, torch.Tensor):
        raise FoundFaultError(f"{output!r:.60} came back, where a tensor is expected")
    stored = None if leaf.grad is None else leaf.grad.clone()
    after, graph = given.detach().clone(), output.requires_grad
    loss = (factor * given.square() * output).sum()
    if loss.requires_grad:
        loss.backward()
    seen = {"output": output.detach(), "stored": stored, "gradient": leaf.grad}
    return {**seen, "after": after, "graph": graph}


def with_formula_twice(
    function: Callable, formula: list[list], x: torch.Tensor, factor: float
) -> list[torch.Tensor]:
    """Return what ``with_formula`` gives for ``x``, what ``x`` is after that call, and what comes
    back for the same tensor again, once it was multiplied in place by ``factor``.

    The memory of ``x`` is not contiguous where it has two dimensions or more.

    Raises:
        FoundFaultError: ``x`` requires a gradient after the first call, or has one.
    """
    given = x.detach().clone()
    if given.ndim > 1:
        given = given.transpose(0, -1).contiguous().transpose(0, -1)
    first = function(_made_of(formula), given)
    _require_no_trace(given)
    after = given.clone()
    given.mul_(factor)
    return [first, after, function(_made_of(formula), given)]


def with_formula_again(function: Callable, formula: list[list], *args: Any) -> list:
    """Return what ``with_formula`` gives, and what it gives with the very same arguments again.

    The first of ``args`` is a tensor ``x``.

    Raises:
        FoundFaultError: ``x`` requires a gradient after the first call, or has one.
    """
    x = args[0]
    first = function(_made_of(formula), *args)
    _require_no_trace(x)
    return [first, function(_made_of(formula), *args)]


def _require_no_trace(x: torch.Tensor) -> None:
    if x.requires_grad:
        raise FoundFaultError("x requires a gradient after the call, but did not before")
    if x.grad is not None:
        raise FoundFaultError("x.grad is a tensor after the call, but was None before")


def _made_of(formula: list[list]) -> Callable[[torch.Tensor], torch.Tensor]:
    def f(x: torch.Tensor) -> torch.Tensor:
        for name, *given in formula:
            x = _STEPS[name](x, *given)
        return x

    return f
