"""Probes that run things inside a context: an autocast region, a mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers.probes.calls import gradients_of
from helpers.probes.networks import build


def in_autocast(
    function: Callable[..., torch.Tensor],
    *args: Any,
    factors: tuple[torch.Tensor, torch.Tensor],
    lower: str | None = "bfloat16",
    with_respect_to: int | None = None,
    grad_output: torch.Tensor | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Call ``function`` inside an autocast region of the CPU, and go backward outside of it.

    Args:
        function: returns one tensor.
        *args: its arguments.
        factors: two matrices, multiplied in the same region after the call.
        lower: the name of the region's dtype; no region if None.
        with_respect_to: the position of the argument to differentiate with respect to; no backward
            pass if None.
        grad_output: the gradient of the loss with respect to the output; ones if None.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output": tensor, "gradient": tensor or None, "product": tensor}``.
    """
    arguments = list(args)
    if with_respect_to is not None:
        arguments[with_respect_to] = (
            arguments[with_respect_to].detach().clone().requires_grad_(True)
        )
    with _region(lower):
        output = function(*arguments, **kwargs)
        product = factors[0] @ factors[1]
    slope = None
    if with_respect_to is not None:
        grad_output = torch.ones_like(output) if grad_output is None else grad_output
        (slope,) = gradients_of(output, [arguments[with_respect_to]], grad_output)
    return {"output": output.detach(), "gradient": slope, "product": product}


def wrapped_in_autocast(
    factory: Callable[[torch.nn.Module], torch.nn.Module],
    *,
    layers: list,
    inputs: list[torch.Tensor],
    state: dict[str, torch.Tensor],
    factors: tuple[torch.Tensor, torch.Tensor],
    lower: str | None = "bfloat16",
    training: bool = True,
    times_bytes: bool = False,
) -> dict[str, Any]:
    """Wrap a module, and run the wrapper inside an autocast region of the CPU and back.

    Args:
        factory: takes a module and returns one.
        layers: what is wrapped, as ``network`` has it.
        inputs: of the wrapper.
        state: the state dict of what is wrapped.
        factors: as ``in_autocast`` has them.
        lower: the name of the region's dtype; no region if None.
        training: the mode of what is wrapped.
        times_bytes: whether what is wrapped has a forward hook, which multiplies its output by the
            bytes of an entry of its first input.

    Returns:
        ``{"output", "product", "gradients", "by_inputs", "state"}``: the product of the factors,
        the gradients of the output's sum, by the wrapped parameters' names inside, and one for each
        input, None where there is none; and what is wrapped has as its state dict afterwards.
    """
    inner = build(layers)
    inner.train(training).load_state_dict(state)
    if times_bytes:
        inner.register_forward_hook(_multiply_by_bytes)
    outer = factory(inner)
    given = [x.detach().clone().requires_grad_(x.is_floating_point()) for x in inputs]
    with _region(lower):
        output = outer(*given)
        product = factors[0] @ factors[1]
    if output.is_floating_point():  # what came back as integers is told by its dtype
        output.float().sum().backward()
    return {
        "output": output.detach(),
        "product": product,
        "gradients": {name: parameter.grad for name, parameter in inner.named_parameters()},
        "by_inputs": [x.grad for x in given],
        "state": {name: value.clone() for name, value in inner.state_dict().items()},
    }


def _multiply_by_bytes(inner: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> torch.Tensor:
    return output * inputs[0].element_size()


def _region(lower: str | None) -> torch.autocast:
    if lower is None:
        return torch.autocast("cpu", enabled=False)
    return torch.autocast("cpu", dtype=getattr(torch, lower))


def in_function_mode(
    factory: Callable[..., Any],
    *args: Any,
    lower: str,
    steps: list[tuple],
    values: dict[str, torch.Tensor | list[torch.Tensor]],
    with_respect_to: str | None = None,
) -> dict[str, Any]:
    """Run a small program inside a context manager.

    Args:
        factory: returns the context manager.
        *args: its arguments, before ``lower``.
        lower: the name of a dtype, of which the factory gets the dtype itself.
        steps: ``(result, function, arguments)`` or, with a dict behind them, keyword arguments; the
            function is named as in ``torch.nn.functional`` or ``torch``, and a string among the
            arguments, or in a list there, names an earlier value; ``"parts#1"`` is entry 1 of the
            list ``parts``.
        values: the tensors at the start, or lists of them, by name.
        with_respect_to: the name of a tensor that becomes a ``Parameter``; the sum of the last
            result is differentiated with respect to it, outside.

    Returns:
        the results by name, and under ``"gradient"`` the gradient if ``with_respect_to`` is given.
    """
    known = dict(values)
    if with_respect_to is not None:
        known[with_respect_to] = torch.nn.Parameter(known[with_respect_to].detach().clone())
    results = {}
    with factory(*args, getattr(torch, lower)):
        for result, name, given, *rest in steps:
            operation = getattr(torch.nn.functional, name, None) or getattr(torch, name)
            keywords = _look_up(known, rest[0]) if rest else {}
            known[result] = results[result] = operation(*_look_up(known, given), **keywords)
    if with_respect_to is not None:
        (results["gradient"],) = torch.autograd.grad(
            results[steps[-1][0]].float().sum(), known[with_respect_to], allow_unused=True
        )
    return results


def _look_up(known: dict[str, torch.Tensor], given: Any) -> Any:
    match given:
        case str():
            name, _, place = given.partition("#")
            return known[name][int(place)] if place else known[name]
        case list() | tuple():
            return type(given)(_look_up(known, item) for item in given)
        case dict():
            return {key: _look_up(known, item) for key, item in given.items()}
    return given
