"""Probes that take a gradient scaler, or what is written around one, through training.

Every loss is the sum of the parameters, each times a given tensor: that tensor is the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def scaler_steps(
    factory: Callable[..., Any],
    weights: list[list[torch.Tensor]],
    steps: list[tuple],
    *,
    learning_rate: float,
    **settings: Any,
) -> list[Any]:
    """Make a scaler and take it, with SGD of a momentum of 0.5, through ``steps``.

    Args:
        factory: returns a scaler with the methods of ``torch.amp.GradScaler`` that steps name.
        weights: for each optimizer its parameters at the start, two to a group.
        steps: what is done, one after another; each is a name and what it takes:
            ``("scale", tensor)``;
            ``("backward", k, slopes)``, back from the scaled loss of optimizer ``k`` whose
            gradients are ``slopes``, None for a parameter that the loss does not depend on;
            ``("clear",)``, all gradients are None;
            ``("unscale", k)``, ``("step", k)`` or ``("update",)``.
        learning_rate: of every optimizer.
        **settings: keyword arguments of ``factory``.

    Returns:
        what each step gave: ``{"scaled", "loss"}``, what came back and what then became of the
        tensor; the optimizer's gradients; None; the gradients again; ``{"returned", "weights"}``;
        or what ``get_scale()`` returns. ``"RuntimeError"`` where ``unscale_`` raised one.
    """
    parameters = [[_leaf(weight) for weight in given] for given in weights]
    optimizers = [_sgd(given, learning_rate) for given in parameters]
    scaler = factory(**settings)
    return [_take_step(scaler, parameters, optimizers, *step) for step in steps]


def _take_step(
    scaler: Any,
    parameters: list[list[torch.Tensor]],
    optimizers: list[torch.optim.Optimizer],
    name: str,
    *given: Any,
) -> Any:
    match name:
        case "scale":
            loss = given[0].clone()
            return {"scaled": scaler.scale(loss), "loss": loss}
        case "backward":
            k, slopes = given
            scaler.scale(_loss(parameters[k], slopes)).backward()
            return _gradients(parameters[k])
        case "clear":
            for optimizer in optimizers:
                optimizer.zero_grad()
            return None
        case "unscale":
            try:
                scaler.unscale_(optimizers[given[0]])
            except NotImplementedError:  # a RuntimeError, and a stub's answer
                raise
            except RuntimeError:
                return "RuntimeError"
            return _gradients(parameters[given[0]])
        case "step":
            returned = scaler.step(optimizers[given[0]])
            return {"returned": returned, "weights": _values(parameters[given[0]])}
        case "update":
            scaler.update()
            return scaler.get_scale()
    raise ValueError(f'there is no step "{name}"')


def scaled_steps(
    function: Callable,
    weights: list[torch.Tensor],
    slopes: list[list[torch.Tensor]],
    *,
    max_norm: float,
    learning_rate: float,
    counted: bool = False,
    left_over: bool = True,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Train by ``function(scaler, optimizer, loss, max_norm)``, with torch's own scaler.

    Args:
        function: the student's; its return value is kept.
        weights: the parameters at the start.
        slopes: for each step, the gradient of its loss by every parameter. The gradients of one
            step are still there in the next.
        max_norm: handed on.
        learning_rate: of the optimizer, SGD with a momentum of 0.5 and two parameters to a group.
        counted: whether ``function`` gets the optimizer wrapped in ``CountedOptimizer``.
        left_over: whether there are gradients before the first step, too.
        **settings: of ``torch.amp.GradScaler("cpu", ...)``.

    Returns:
        after each step ``{"returned", "weights", "scale", "count"}``; the count is that of the
        wrapper, None without one.
    """
    parameters = [_leaf(weight) for weight in weights]
    for parameter in parameters if left_over else ():
        # So large that it is not small after a division by the scale.
        parameter.grad = torch.full_like(parameter, 2.0**24)
    optimizer = _sgd(parameters, learning_rate)
    handed = CountedOptimizer(optimizer) if counted else optimizer
    scaler = torch.amp.GradScaler("cpu", **settings)
    states = []
    for given in slopes:
        returned = function(scaler, handed, _loss(parameters, given), max_norm)
        states.append(
            {
                "returned": returned,
                "weights": _values(parameters),
                "scale": scaler.get_scale(),
                "count": handed.steps if counted else None,
            }
        )
    return states


class CountedOptimizer:
    """Wraps an optimizer and counts its steps."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        """Begin with a count of 0."""
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.steps = 0

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad()

    def step(self) -> None:
        """Make one step and count it."""
        self.optimizer.step()
        self.steps += 1


def scheduled_steps(
    function: Callable,
    weights: list[list[torch.Tensor]],
    slopes: list[list[list[torch.Tensor]]],
    *,
    learning_rate: float,
    decay: float,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Train several optimizers by ``function(scaler, optimizers, schedulers)``.

    Args:
        function: the student's, called when all scaled gradients are there, always with the same
            two lists.
        weights: for each optimizer, plain SGD, its parameters at the start, two to a group.
        slopes: for each step and every optimizer, the gradients with respect to its parameters.
        learning_rate: of every optimizer at the start.
        decay: what every scheduler's step multiplies the learning rate by.
        **settings: of ``torch.amp.GradScaler("cpu", ...)``.

    Returns:
        after each step ``{"rates", "weights", "scale", "hooks"}``, the last one the number of each
        optimizer's hooks.
    """
    parameters = [[_leaf(weight) for weight in given] for given in weights]
    optimizers = [_sgd(given, learning_rate, momentum=0.0) for given in parameters]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, decay) for o in optimizers]
    scaler = torch.amp.GradScaler("cpu", **settings)
    handed = list(optimizers), list(schedulers)
    states = []
    for of_step in slopes:
        for optimizer, own, given in zip(optimizers, parameters, of_step, strict=True):
            optimizer.zero_grad()
            scaler.scale(_loss(own, given)).backward()
        function(scaler, *handed)
        states.append(
            {
                "rates": [float(optimizer.param_groups[0]["lr"]) for optimizer in optimizers],
                "weights": [_values(own) for own in parameters],
                "scale": scaler.get_scale(),
                "hooks": [_count_hooks(optimizer) for optimizer in optimizers],
            }
        )
    return states


def _sgd(
    parameters: Sequence[torch.Tensor], learning_rate: float, momentum: float = 0.5
) -> torch.optim.SGD:
    groups = [{"params": parameters[k : k + 2]} for k in range(0, len(parameters), 2)]
    return torch.optim.SGD(groups, lr=learning_rate, momentum=momentum)


def _count_hooks(optimizer: torch.optim.Optimizer) -> int:
    return len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)


def _leaf(weight: torch.Tensor) -> torch.Tensor:
    return weight.detach().clone().requires_grad_(True)


def _loss(
    parameters: Sequence[torch.Tensor], slopes: Sequence[torch.Tensor | None]
) -> torch.Tensor:
    terms = [
        (parameter * slope).sum()
        for parameter, slope in zip(parameters, slopes, strict=True)
        if slope is not None
    ]
    return torch.stack(terms).sum()


def _gradients(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in parameters]


def _values(parameters: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in parameters]
