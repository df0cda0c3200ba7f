"""Probes that take a network or an optimizer through steps."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from helpers.calling import FoundFaultError
from helpers.probes.networks import build, one_step, set_modes
from helpers.probes.testimony import testimony
from helpers.probes.watched_saving import saving_watched


def training_steps(
    step: Callable,
    layers: list,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    state: dict[str, torch.Tensor],
    learning_rate: float,
    float32_layers: list | None = None,
    training: bool = True,
    in_eval: Sequence[str] = (),
    left_over: float | None = None,
    loss_matrix: torch.Tensor | None = None,
    factors: tuple[torch.Tensor, torch.Tensor] | None = None,
    weight_decay: float = 0.0,
    region_default: str | None = None,
) -> dict[str, Any]:
    """Train a network by ``step(model, optimizer, loss_function, inputs, targets)``.

    The optimizer is SGD, the loss function ``torch.nn.functional.cross_entropy``.

    Args:
        step: the student's; its return value is kept.
        layers: the network's, as ``network`` has it; its parameters' names begin with ``body.``.
        batches: inputs and targets of each step.
        state: the state dict at the start.
        learning_rate: the optimizer's.
        float32_layers: layers behind the others that leave every autocast region; their
            parameters' names begin with ``head.``.
        training: the network's mode.
        in_eval: the names of layers that are in evaluation mode all the same.
        left_over: every entry of the gradients before the first step; there are none if None.
        loss_matrix: what the loss function multiplies the outputs by before anything else.
        factors: two matrices, multiplied after the last step, outside of any region that was not
            left on.
        weight_decay: the optimizer's.
        region_default: the name of the dtype of regions of the CPU that name none; torch's own if
            None.

    Returns:
        ``{"losses": [...], "states": [...], "product": tensor or None, "in_region": bool}``: what
        came back from each step, the state dict after it, the product of the factors, and whether
        the optimizer took a step inside an autocast region.
    """
    model = _Network(layers, float32_layers)
    model.load_state_dict(state)
    set_modes(model, training, in_eval)
    _leave_over(model.parameters(), left_over)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, weight_decay=weight_decay)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        scores = outputs if loss_matrix is None else outputs @ loss_matrix
        return torch.nn.functional.cross_entropy(scores, targets)

    losses, states, in_region = [], [], []
    optimizer.register_step_pre_hook(lambda *_: in_region.append(torch.is_autocast_enabled("cpu")))
    with _autocast_put_back():
        if region_default is not None:
            torch.set_autocast_dtype("cpu", getattr(torch, region_default))
        for inputs, targets in batches:
            losses.append(step(model, optimizer, loss_function, inputs, targets))
            states.append(_copy_of_state(model))
        product = None if factors is None else factors[0] @ factors[1]
    seen = {"losses": losses, "states": states, "product": product}
    return {**seen, "in_region": any(in_region)}


@contextlib.contextmanager
def _autocast_put_back() -> Iterator[None]:
    """Whether autocast is on for the CPU, and its default, are afterwards as they were before.

    A region would do that, too, but the casts in its cache would stay from one step to the next.
    """
    enabled, default = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
    try:
        yield
    finally:
        torch.set_autocast_enabled("cpu", enabled)
        torch.set_autocast_dtype("cpu", default)


def adversarial_steps(
    step: Callable,
    generator: list,
    discriminator: list,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    states: list[dict[str, torch.Tensor]],
    learning_rates: list[float | list[float]],
    left_over: float | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    training: bool = True,
    in_eval: Sequence[str] = (),
    frozen: Sequence[str] = (),
    then: list[tuple[torch.Tensor, torch.Tensor]],
    seed: int,
) -> dict[str, Any]:
    """Train two networks by ``step(generator, discriminator, optimizer, optimizer, noise, real)``.

    Both optimizers are SGD, with a group for each parameter. Afterwards each network is trained by
    one step more, for itself: its modes show in that, and which parameters require a gradient.

    Args:
        step: the student's.
        generator: its layers, as ``network`` has them.
        discriminator: likewise.
        batches: noise and real data of each step.
        states: the state dicts of the two at the start.
        learning_rates: of the two, one for all groups or a list with one for each.
        left_over: every entry of all gradients before the first step; there are none if None.
        momentum: of both optimizers.
        weight_decay: likewise.
        training: the networks' mode.
        in_eval: the names of layers of both that are in evaluation mode all the same.
        frozen: names of parameters that require no gradient, in whichever network has them.
        then: for each of the two, inputs and the gradient of the output, for the last step.
        seed: of the global generator in the last step, for dropout.

    Returns:
        ``{"states", "then", "returned"}``: after each step the two state dicts, by
        ``"generator"`` and ``"discriminator"``; by these names again, what ``one_step`` returns
        for the last one; the type of what the student's last step returned.

    Raises:
        FoundFaultError: autograd is switched off after a step.
    """
    networks = {"generator": build(generator), "discriminator": build(discriminator)}
    optimizers = []
    for network, state, rate in zip(networks.values(), states, learning_rates, strict=True):
        network.load_state_dict(state)
        set_modes(network, training, in_eval)
        for name, weight in network.named_parameters():
            weight.requires_grad_(name not in frozen)
        weights = list(network.parameters())
        rates = rate if isinstance(rate, list) else [rate] * len(weights)
        groups = [{"params": [w], "lr": r} for w, r in zip(weights, rates, strict=True)]
        options = {"momentum": momentum, "weight_decay": weight_decay}
        optimizers.append(torch.optim.SGD(groups, lr=rates[0], **options))
    _leave_over([p for network in networks.values() for p in network.parameters()], left_over)
    seen, returned = [], None
    for noise, real in batches:
        returned = step(*networks.values(), *optimizers, noise, real)
        if not torch.is_grad_enabled():
            raise FoundFaultError("autograd is switched off after the step, but was on before")
        seen.append({name: _copy_of_state(network) for name, network in networks.items()})
    last = {}
    for (name, network), given in zip(networks.items(), then, strict=True):
        network.zero_grad()
        last[name] = one_step(network, *given, seed)
    return {"states": seen, "then": last, "returned": type(returned).__name__}


def _leave_over(parameters: Iterable[torch.nn.Parameter], value: float | None) -> None:
    """Fill all gradients with ``value``, as an earlier step would; leave them if it is None."""
    if value is not None:
        for weight in parameters:
            weight.grad = torch.full_like(weight, value)


def _copy_of_state(network: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


@testimony
def alive_while_looping(
    function: Callable,
    layers: list,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    state: dict[str, torch.Tensor],
) -> dict[str, Any]:
    """Call ``function(network, batches)``, and count what autograd keeps alive meanwhile.

    Args:
        function: goes through the batches once.
        layers: the network's, as ``network`` has them.
        batches: pairs of input and target.
        state: the network's state dict.

    Returns:
        ``{"output", "alive"}``: the output, and how many saved tensors were alive whenever the
        network was called, or the first of its parts past the network.
    """
    made = build(layers)
    made.load_state_dict(state)
    saved: weakref.WeakSet[_Saved] = weakref.WeakSet()
    alive: list[int] = []

    def note(tensor: torch.Tensor) -> _Saved:
        kept = _Saved()
        saved.add(kept)
        return kept

    inside = False

    def before(part: torch.nn.Module, inputs: Any) -> None:
        nonlocal inside
        if part is made or not inside:
            alive.append(len(saved))
        inside = inside or part is made

    def after(part: torch.nn.Module, inputs: Any, outputs: Any) -> None:
        nonlocal inside
        inside = False

    first = next(made.children(), made)
    for part in {made, first}:
        part.register_forward_pre_hook(before)
    made.register_forward_hook(after, always_call=True)
    with saving_watched(note):
        output = function(made, batches)
    return {"output": output, "alive": alive}


class _Saved:
    """Is there for as long as autograd keeps a tensor."""


class _Network(torch.nn.Module):
    def __init__(self, layers: list, float32_layers: list | None) -> None:
        super().__init__()
        self.body = build(layers)
        self.head = build(float32_layers) if float32_layers else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if self.head is None:
            return x
        with torch.autocast(x.device.type, enabled=False):
            return self.head(x.float())


def optimizer_steps(
    factory: Callable[..., Any],
    weights: list[torch.Tensor],
    gradients: list[list[torch.Tensor | None]],
    *args: Any,
    slopes: list[torch.Tensor] | None = None,
    second_optimizer: tuple[list[torch.Tensor], float] | None = None,
) -> list[dict[str, list]]:
    """Make an optimizer for parameters of given values, and take it through steps.

    After each step there is one backward pass more if ``slopes`` are given: what it adds up to in
    ``.grad`` shows what the step has left there, and that the parameters require gradients.

    Args:
        factory: takes an iterator over the parameters, then ``args``; what it returns has a
            method ``step()``.
        weights: the parameters' values at the start.
        gradients: for each step, what every parameter's ``.grad`` is before it.
        *args: what else ``factory`` takes.
        slopes: for each parameter, the gradient of the loss of those backward passes.
        second_optimizer: values of other parameters, whose gradients are ones, and the learning
            rate of the optimizer that is made for them, after the first; it takes no step.

    Returns:
        for each step ``{"weights": [...], "gradients": [...]}`` as they are in the end, and with a
        second optimizer its parameters as ``"others"``.
    """
    parameters = [weight.detach().clone().requires_grad_(True) for weight in weights]
    optimizer = factory(iter(parameters), *args)
    if second_optimizer is not None:
        others = [weight.detach().clone().requires_grad_(True) for weight in second_optimizer[0]]
        factory(iter(others), second_optimizer[1])
        for parameter in others:
            parameter.grad = torch.ones_like(parameter)
    states = []
    for given in gradients:
        for parameter, slope in zip(parameters, given, strict=True):
            parameter.grad = None if slope is None else slope.clone()
        optimizer.step()
        for parameter, slope in zip(parameters, slopes or (), strict=slopes is not None):
            loss = (parameter * slope).sum()
            if loss.requires_grad:
                loss.backward()
        states.append(
            {
                "weights": [parameter.detach().clone() for parameter in parameters],
                "gradients": [parameter.grad for parameter in parameters],
            }
        )
        if second_optimizer is not None:
            states[-1]["others"] = [parameter.detach().clone() for parameter in others]
    return states
