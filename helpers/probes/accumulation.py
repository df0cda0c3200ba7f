"""Probes of training in micro-batches: what is left in ``.grad``, in weights and in buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from helpers.probes.modules import build
from helpers.probes.testimony import testimony


def accumulated(
    function: Callable,
    layers: list,
    *args: Any,
    state: dict[str, torch.Tensor],
    loss: str | None = None,
    before: dict[str, torch.Tensor] | None = None,
) -> dict[str, Any]:
    """Call ``function`` with a network, and tell what it left in the parameters' ``.grad``.

    Args:
        function: takes the network, a loss function if ``loss`` is given, then ``args``.
        layers: the network's, as ``network`` has it.
        *args: what else ``function`` takes.
        state: the network's state dict before the call.
        loss: the name of a function of ``torch.nn.functional``, which is handed over.
        before: what lies in ``.grad`` before the call, by the parameters' names.

    Returns:
        ``{"output": ..., "gradients": {...}, "state": {...}}`` after the call.
    """
    model = _load(layers, state)
    for name, value in (before or {}).items():
        model.get_parameter(name).grad = value.clone()
    output = function(model, *_loss_function(loss), *args)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"output": output, "gradients": gradients, "state": dict(model.state_dict())}


@testimony
def forward_passes(
    function: Callable,
    layers: list,
    *args: Any,
    state: dict[str, torch.Tensor],
    loss: str | None = None,
) -> dict[str, int]:
    """Call ``function`` as ``accumulated`` does, and tell how its forward passes were held.

    Returns:
        ``{"rows": most, "waiting": most}``: the most rows that one forward pass saw, and the most
        passes at once that were waiting for their backward pass.
    """
    model = _load(layers, state)
    forward = model.forward
    waiting: set[int] = set()
    seen = {"rows": 0, "waiting": 0}
    passes = iter(range(1_000_000))

    def watched(x: torch.Tensor) -> torch.Tensor:
        output = forward(x)
        seen["rows"] = max(seen["rows"], len(x))
        if output.requires_grad:
            number = next(passes)
            waiting.add(number)
            output.register_hook(lambda slope: waiting.discard(number))
            seen["waiting"] = max(seen["waiting"], len(waiting))
        return output

    model.forward = watched
    function(model, *_loss_function(loss), *args)
    return seen


def trained_in_windows(
    function: Callable,
    layers: list,
    micro_batches: list[tuple[torch.Tensor, torch.Tensor]],
    *args: Any,
    state: dict[str, torch.Tensor],
    learning_rate: float,
    before: dict[str, torch.Tensor] | None = None,
    scaler: dict[str, Any] | None = None,
    schedule: tuple[int, float] | None = None,
) -> dict[str, Any]:
    """Train a network by ``function`` with plain SGD and ``torch.nn.functional.cross_entropy``.

    Args:
        function: takes the network, the optimizer, the loss function, an iterator over
            ``micro_batches`` that has no length, ``args``, a scaler if there is one, and a
            scheduler if there is one.
        layers: the network's, as ``network`` has it.
        micro_batches: inputs and targets.
        *args: what else ``function`` takes.
        state: the network's state dict at the start.
        learning_rate: the optimizer's at the start.
        before: what lies in ``.grad`` at the start, by the parameters' names.
        scaler: keyword arguments of a ``torch.amp.GradScaler`` for the CPU.
        schedule: the step size and the factor of a ``StepLR``.

    Returns:
        ``{"output", "state", "learning_rate", "scale"}``: what came back, and the rest as it is
        afterwards; the scale is None without a scaler.
    """
    model = _load(layers, state)
    for name, value in (before or {}).items():
        model.get_parameter(name).grad = value.clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    further: list[Any] = []
    if scaler is not None:
        further.append(torch.amp.GradScaler("cpu", **scaler))
    if schedule is not None:
        further.append(torch.optim.lr_scheduler.StepLR(optimizer, *schedule))
    output = function(
        model, optimizer, *_loss_function("cross_entropy"), iter(micro_batches), *args, *further
    )
    return {
        "output": output,
        "state": dict(model.state_dict()),
        "learning_rate": optimizer.param_groups[0]["lr"],
        "scale": further[0].get_scale() if scaler is not None else None,
    }


def after_batches(
    function: Callable,
    layers: list,
    batches: list[torch.Tensor],
    *args: Any,
    state: dict[str, torch.Tensor] | None = None,
) -> dict[str, torch.Tensor]:
    """Call ``function`` with a network, then feed ``batches`` to it in training mode.

    Returns:
        the network's state dict afterwards.
    """
    model = build(layers) if state is None else _load(layers, state)
    function(model, *args)
    model.train()
    with torch.no_grad():
        for batch in batches:
            model(batch)
    return dict(model.state_dict())


def _load(layers: list, state: dict[str, torch.Tensor]) -> torch.nn.Module:
    model = build(layers)
    model.load_state_dict(state)
    return model


def _loss_function(name: str | None) -> list[Callable]:
    return [] if name is None else [getattr(torch.nn.functional, name)]
