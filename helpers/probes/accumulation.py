"""Probes of training in micro-batches: what is left in ``.grad``, in weights and in buffers."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from helpers.probes.networks import build, set_modes
from helpers.probes.testimony import testimony
from helpers.probes.watched_saving import saving_watched

Pairs = list[tuple[torch.Tensor, torch.Tensor]]
_WITH_MOMENTUM = tuple(
    getattr(torch.nn, f"{kind}Norm{dimensions}d")
    for kind in ("Batch", "Instance")
    for dimensions in (1, 2, 3)
)


def accumulated(
    function: Callable,
    model: list,
    micro_batches: Pairs,
    *,
    loss_function: str | None = None,
    state_dict: dict[str, torch.Tensor],
    old_gradients: dict[str, torch.Tensor] | None = None,
    training: bool = True,
    in_eval: tuple[str, ...] = (),
    afterwards: torch.Tensor | None = None,
) -> dict[str, Any]:
    """Call ``function`` with a network, and return what it left in the network.

    Args:
        function: takes the network, a loss function if one is named, then ``micro_batches``.
        model: the network's layers, as ``network`` has them.
        micro_batches: handed on.
        loss_function: the name of a function of ``torch.nn.functional``, which is handed over.
        state_dict: the network's before the call.
        old_gradients: what lies in ``.grad`` before the call, by the parameters' names.
        training: the network's mode before the call.
        in_eval: the names of layers that are in evaluation mode all the same.
        afterwards: what the network is called with when all is over, in the mode it is in then.

    Returns:
        ``{"output", "gradients", "state_dict", "modes", "outputs"}``: what came back; after the
        call the gradients, the state dict and whether each module is in training mode, by its
        name; and what the network makes of ``afterwards``, or None.
    """
    network = _load(model, state_dict, old_gradients)
    set_modes(network, training, in_eval)
    _watch(network)  # as forward_passes does: so no call can be distinguished from another
    output = function(network, *_loss_function(loss_function), micro_batches)
    left = _left_behind(network, output) | {"modes": _modes(network)}
    return left | {"outputs": _call(network, afterwards)}


@testimony
def forward_passes(
    function: Callable,
    model: list,
    micro_batches: Pairs,
    *,
    loss_function: str | None = None,
    state_dict: dict[str, torch.Tensor],
    **training: Any,
) -> dict[str, Any]:
    """Call ``function`` as ``accumulated`` does, or as ``trained_in_windows`` does if there are
    keyword arguments of that one's, and return how its forward passes were held.

    Returns:
        ``{"output", "gradients", "state_dict"}`` as ``accumulated`` has them, and ``{"passes",
        "rows", "entries", "waiting", "held", "ahead", "micro_batches"}``: how many forward passes
        there were, the most rows and the most entries that one of them saw, the most at once that
        were waiting for their backward pass, the most earlier ones whose outputs were still there
        when one began, the most micro-batches that had been taken beyond the window of a step, and
        the micro-batches after the call.
    """
    network = _load(model, state_dict)
    seen, ahead = _watch(network), 0
    if training:
        output, *_, ahead = _train(function, network, micro_batches, **training)
    else:
        output = function(network, *_loss_function(loss_function), micro_batches)
    return _left_behind(network, output) | seen | {"ahead": ahead, "micro_batches": micro_batches}


def _watch(network: torch.nn.Module) -> dict[str, int]:
    forward = network.forward
    kept: weakref.WeakSet[_Graph] = weakref.WeakSet()
    waiting: weakref.WeakSet[_Graph] = weakref.WeakSet()
    outputs: list[weakref.ref[torch.Tensor]] = []
    seen = {"passes": 0, "rows": 0, "entries": 0, "waiting": 0, "held": 0}

    def watched(x: torch.Tensor) -> torch.Tensor:
        held = sum(output() is not None for output in outputs)
        output = _Mark.apply(_run_watched(forward, x, kept), waiting)
        outputs.append(weakref.ref(output))
        seen["passes"] += 1
        seen["held"] = max(seen["held"], held)
        seen["waiting"] = max(seen["waiting"], len(kept), len(waiting))
        seen["rows"] = max(seen["rows"], len(x))
        seen["entries"] = max(seen["entries"], x.numel())
        return output

    network.forward = watched
    return seen


class _Graph:
    """Is there for as long as autograd keeps anything of a forward pass."""


def _run_watched(forward: Callable, x: torch.Tensor, kept: weakref.WeakSet) -> torch.Tensor:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return forward(x)  # torch.func refuses hooks for what is saved
    graph = _Graph()
    kept.add(graph)
    with saving_watched(lambda _: graph):
        return forward(x)


class _Mark(torch.autograd.Function):
    """Changes nothing; a graph is in ``waiting`` until its backward pass, or until it is gone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: torch.Tensor, waiting: weakref.WeakSet) -> torch.Tensor:
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
        ctx.graph, ctx.waiting = _Graph(), inputs[1]
        ctx.waiting.add(ctx.graph)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> tuple:
        ctx.waiting.discard(ctx.graph)
        return slope, None


def trained_in_windows(
    function: Callable,
    model: list,
    micro_batches: Pairs,
    *,
    state_dict: dict[str, torch.Tensor],
    old_gradients: dict[str, torch.Tensor] | None = None,
    **training: Any,
) -> dict[str, Any]:
    """Train a network by ``function`` with SGD and ``torch.nn.functional.cross_entropy``.

    Args:
        function: takes the network, the optimizer, the loss function, an iterator over
            ``micro_batches`` that has no length, ``steps``, and what else of ``max_norm``, a
            scaler and a scheduler there is.
        model: the network's layers, as ``network`` has them.
        micro_batches: inputs and targets.
        state_dict: the network's at the start.
        old_gradients: what lies in ``.grad`` at the start, by the parameters' names.
        **training: ``optimizer``, the SGD's keyword arguments, whose weight decay is for
            parameters of two and more dimensions, while the others are a group without it;
            ``steps`` and ``max_norm``, handed on; ``scaler``, the keyword arguments of a
            ``torch.amp.GradScaler`` for the CPU; ``scheduler``, those of a ``StepLR``.

    Returns:
        ``{"output", "steps", "state_dict", "modes", "learning_rate", "scale"}``: what came back,
        how often the optimizer stepped, and the rest as it is afterwards, ``modes`` as
        ``accumulated`` has them; the scale is None without a scaler.
    """
    network = _load(model, state_dict, old_gradients)
    _watch(network)  # as forward_passes does: so no call can be distinguished from another
    output, steps, optimizer, grad_scaler, _ = _train(function, network, micro_batches, **training)
    return {
        "output": output,
        "steps": steps,
        "state_dict": dict(network.state_dict()),
        "modes": _modes(network),
        "learning_rate": optimizer.param_groups[0]["lr"],
        "scale": None if grad_scaler is None else grad_scaler.get_scale(),
    }


def _train(
    function: Callable,
    network: torch.nn.Module,
    micro_batches: Pairs,
    *,
    optimizer: dict[str, float],
    steps: int,
    max_norm: float | None = None,
    scaler: dict[str, Any] | None = None,
    scheduler: dict[str, Any] | None = None,
) -> tuple[Any, int, torch.optim.Optimizer, Any, int]:
    parameters = list(network.parameters())
    groups = [
        {"params": [parameter for parameter in parameters if parameter.dim() > 1]},
        {"params": [parameter for parameter in parameters if parameter.dim() < 2]},
    ]
    groups[1]["weight_decay"] = 0.0
    sgd = torch.optim.SGD(groups, **optimizer)
    taken: list[None] = []
    ahead: list[int] = []  # at each step
    sgd.register_step_post_hook(lambda *_: ahead.append(len(taken) - steps * (len(ahead) + 1)))
    grad_scaler = None if scaler is None else torch.amp.GradScaler("cpu", **scaler)
    further = [steps, max_norm, grad_scaler]
    if scheduler is not None:
        further.append(torch.optim.lr_scheduler.StepLR(sgd, **scheduler))
    output = function(
        *(network, sgd, torch.nn.functional.cross_entropy, _hand_out(micro_batches, taken)),
        *(value for value in further if value is not None),
    )
    return output, len(ahead), sgd, grad_scaler, max([0, *ahead])


def _hand_out(micro_batches: Pairs, taken: list[None]) -> Iterator[tuple]:
    for pair in micro_batches:
        taken.append(None)
        yield pair


def after_batches(
    function: Callable,
    model: list,
    count: int,
    *,
    state_dict: dict[str, torch.Tensor],
    batches: list[torch.Tensor],
    also_at: dict[str, str] | None = None,
    training: bool = True,
    in_eval: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Call ``function(network, count)``, then feed ``batches`` to the network as it is then.

    Args:
        function: the student's.
        model: the network's layers, as ``network`` has them.
        count: handed on.
        state_dict: the network's before the call.
        batches: what is fed in afterwards, one forward pass each.
        also_at: places in the network, and the name of the layer that stands there, too.
        training: the network's mode before the call.
        in_eval: the names of layers that are in evaluation mode all the same.

    Returns:
        ``{"outputs", "state_dict", "modes", "settings"}``: what came out for each batch, and at the
        end the network's state dict, its modes as ``accumulated`` has them, and by its name the
        momentum and the eps of each layer that has them. All show what the function left.
    """
    network = build(model)
    for place, name in (also_at or {}).items():
        parent, _, child = place.rpartition(".")
        network.get_submodule(parent).add_module(child, network.get_submodule(name))
    network.load_state_dict(state_dict)
    set_modes(network, training, in_eval)
    function(network, count)
    outputs = [_call(network, batch) for batch in batches]
    return {
        "outputs": outputs,
        "state_dict": dict(network.state_dict()),
        "modes": _modes(network),
        "settings": {
            name: {"momentum": layer.momentum, "eps": layer.eps}
            for name, layer in network.named_modules()
            if isinstance(layer, _WITH_MOMENTUM)
        },
    }


def _modes(network: torch.nn.Module) -> dict[str, bool]:
    return {name: module.training for name, module in network.named_modules()}


def _left_behind(network: torch.nn.Module, output: Any) -> dict[str, Any]:
    return {
        "output": output,
        "gradients": {name: weight.grad for name, weight in network.named_parameters()},
        "state_dict": {name: value.clone() for name, value in network.state_dict().items()},
    }


def _call(network: torch.nn.Module, batch: torch.Tensor | None) -> torch.Tensor | None:
    if batch is None:
        return None
    with torch.no_grad():
        return network(batch)


def _load(
    model: list,
    state_dict: dict[str, torch.Tensor],
    old_gradients: dict[str, torch.Tensor] | None = None,
) -> torch.nn.Module:
    network = build(model)
    network.load_state_dict(state_dict)
    for name, value in (old_gradients or {}).items():
        network.get_parameter(name).grad = value.clone()
    return network


def _loss_function(name: str | None) -> list[Callable]:
    return [] if name is None else [getattr(torch.nn.functional, name)]
