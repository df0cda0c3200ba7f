"""Probes that call a function: once, and back, or again and again."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

from helpers.calling import FoundFaultError, is_from_stub
from helpers.probes.testimony import testimony
from helpers.probes.watched_saving import saving_watched


def gradient(
    function: Callable[..., torch.Tensor],
    *args: Any,
    with_respect_to: int = 0,
    grad_output: torch.Tensor | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Run ``function`` forward and backward.

    Args:
        function: returns one tensor.
        *args: its arguments.
        with_respect_to: the position of the argument, a floating-point tensor, to differentiate by.
        grad_output: the gradient of the loss with respect to the output, of the output's shape;
            ones if None.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output": tensor, "gradient": tensor}``; the gradient is None where the output does
        not depend on the argument.
    """
    arguments = list(args)
    leaf = arguments[with_respect_to].detach().clone().requires_grad_(True)
    arguments[with_respect_to] = leaf
    output = function(*arguments, **kwargs)
    if grad_output is None:
        grad_output = torch.ones_like(output)
    (grad,) = gradients_of(output, [leaf], grad_output)
    return {"output": output.detach(), "gradient": grad}


def gradients_of(
    output: torch.Tensor, leaves: list[torch.Tensor], grad_output: torch.Tensor
) -> list[torch.Tensor | None]:
    """Return the gradient for each of ``leaves``; None where ``output`` does not depend on it.

    torch raises an error where it depends on none of them, which tells a student less.
    """
    if isinstance(output, torch.Tensor) and not output.requires_grad:
        return [None] * len(leaves)
    return list(torch.autograd.grad(output, leaves, grad_outputs=grad_output, allow_unused=True))


@testimony
def after_call(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "arguments": [...]}``: the positional
    arguments as they are after the call.

    Raises:
        FoundFaultError: a tensor among the arguments requires a gradient, but did not before.
    """
    with no_gradient_asked(args):
        output = function(*args, **kwargs)
    return {"output": output, "arguments": list(args)}


@contextlib.contextmanager
def no_gradient_asked(args: Sequence[Any]) -> Iterator[None]:
    """Require that no tensor of ``args`` comes to require a gradient in the block.

    Raises:
        FoundFaultError: one does.
    """
    tensors = [(n, x) for n, x in enumerate(args, 1) if isinstance(x, torch.Tensor)]
    without_gradient = [(n, x) for n, x in tensors if not x.requires_grad]
    yield
    for number, x in without_gradient:
        if x.requires_grad:
            told = f"argument {number} requires a gradient after the call, but did not before"
            raise FoundFaultError(told)


@testimony
def autograd_watched(function: Callable, *args: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "recorded": ...}``: what it returned, and
    whether autograd saved a tensor for a backward pass.

    If no argument requires a gradient, autograd saves nothing unless ``function`` asks for it.
    What leaves no record, such as forward-mode differentiation, goes unseen.
    """
    saved = itertools.count()
    # torch.vmap refuses to run where saving is watched, though it may have nothing to save.
    refusal = mock.patch.object(torch._C._autograd, "_saved_tensors_hooks_disable")
    with refusal, saving_watched(lambda tensor: next(saved)):
        output = function(*args)
    return {"output": output, "recorded": next(saved) > 0}


def called_twice(function: Callable, *args: Any) -> list:
    """Return what ``function(*args)`` returns, and what it returns with the very same arguments
    again: one that it has changed shows in that.
    """
    return [function(*args), function(*args)]


def outcome(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ...}``, or ``{"error", "errors", "message"}``: the
    name of the class of the exception that it raised, the names of this class and of the exceptions
    it is derived from, and what it said. A stub's own goes on.

    Raises:
        FoundFaultError: an exception was returned.
    """
    try:
        output = function(*args, **kwargs)
    except Exception as error:
        if is_from_stub(error):
            raise
        kind = type(error)
        errors = [base.__name__ for base in kind.__mro__ if issubclass(base, Exception)]
        return {"error": kind.__name__, "errors": errors, "message": str(error)}
    if isinstance(output, Exception):
        raise FoundFaultError(f"a {type(output).__name__} was returned instead of raised")
    return {"output": output}


def for_each(function: Callable, calls: list) -> list:
    """Return what ``function(*arguments)`` returns for each of ``calls``, a list of arguments."""
    return [function(*arguments) for arguments in calls]


def fold(step: Callable, state: list, items: list) -> list:
    """Call ``step(*state, item)`` for each of ``items``, each time with the state that came back.

    Args:
        step: returns the new state, a tuple or list of as many values.
        state: the values at the start.
        items: what is handed over, one a step.

    Returns:
        the state after each step.
    """
    states = []
    for item in items:
        state = step(*state, item)
        states.append(state)
    return states
