"""Probes that hand a network over, made from plain data, and look at what becomes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from helpers.calling import FoundFaultError
from helpers.probes.calls import no_gradient_asked
from helpers.probes.testimony import testimony


def with_network(
    function: Callable, layers: list, *args: Any, again: bool = False, **options: Any
) -> Any:
    """Return ``function(network, *args)``.

    Args:
        function: takes a ``torch.nn.Sequential``, or with ``order`` another module, then ``args``.
        layers: the network's, each ``["Linear", 4, 3]``, the name of a class of ``torch.nn`` and
            its arguments; a list of such is a ``Sequential`` inside.
        *args: what else ``function`` takes.
        again: whether it is called twice with the same network; then the second output counts.
        **options: ``state``, the network's state dict before the call, its own if None;
            ``training``, the mode of each module, in the order of ``network.modules()``;
            ``tied``, pairs of names of parameters, of which the second becomes the first one;
            ``frozen``, names of parameters that require no gradient;
            ``left_over``, every entry of all gradients, of which there are none if None;
            ``order``, which layers are called, one after another, each once if None;
            ``dtype``, of the parameters and buffers, by its name;
            ``shared``, pairs of names of modules, of which the second becomes the first one;
            ``unsaved``, names of buffers that shall not be part of the state dict.
    """
    made = _make(layers, **options)
    if again:
        function(made, *args)
    return function(made, *args)


def with_network_twice(
    function: Callable, layers: list, *args: Any, frozen_later: Sequence[str], **options: Any
) -> list:
    """Return ``function(network, *args)``, and what the same network gives with more frozen.

    Args:
        function: as ``with_network`` has it.
        layers: likewise.
        *args: likewise.
        frozen_later: names of parameters that require no gradient in the second call.
        **options: as ``with_network`` has them.
    """
    made = _make(layers, **options)
    first = function(made, *args)
    set_up(made, None, frozen_later)
    return [first, function(made, *args)]


def network_then_trained(
    function: Callable,
    layers: list,
    *args: Any,
    inputs: torch.Tensor,
    slope: torch.Tensor,
    seed: int,
    seed_first: bool = False,
    autograd: bool = True,
    untouched: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Call ``function(network, *args)``, and then train the network by one step.

    What a network does next shows in numbers what became of it: its modes, which parameters
    require a gradient, gradients, hooks and graphs that are left.

    Args:
        function: as ``with_network`` has it.
        layers: likewise.
        *args: likewise.
        inputs: a batch, handed to the network after the call.
        slope: the gradient of the loss with respect to what the network makes of it.
        seed: of the global generator meanwhile, for dropout.
        seed_first: whether the seed is set before the call and not after it: then random numbers
            that the function draws, or a seed that it sets, show in the step.
        autograd: whether it is on, in the call and in the step; where it is off, a step changes no
            parameter, unless the function has switched it on.
        untouched: whether modes, dtypes, the modules' attributes, and parameters without a
            gradient must be as before the call, and ``args`` must not come to require one.
        **options: as ``with_network`` has them.

    Raises:
        FoundFaultError: what must be untouched is not.

    Returns:
        ``{"output", "arguments", "next", "state"}``: the function's output, and ``args`` after the
        call; then, of the step, what the network returned and its state dict afterwards.
    """
    made = _make(layers, **options)
    with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(autograd):
        if seed_first:
            torch.manual_seed(seed)
        with _no_trace_left(made, args) if untouched else contextlib.nullcontext():
            output = function(made, *args)
        seed_of_step = None if seed_first else seed
        seen = one_step(made, inputs, slope, seed_of_step)
    return {"output": output, "arguments": list(args), **seen}


@contextlib.contextmanager
def _no_trace_left(made: torch.nn.Module, args: Sequence[Any]) -> Iterator[None]:
    modes = [part.training for part in made.modules()]
    attributes = [set(vars(part)) for part in made.modules()]
    dtypes = {name: value.dtype for name, value in made.state_dict().items()}
    without_gradient = [name for name, p in made.named_parameters() if p.grad is None]
    with no_gradient_asked(args):
        yield
    for name, value in made.state_dict().items():
        if value.dtype is not dtypes.get(name, value.dtype):
            told = f"{name} is {value.dtype} after the call, but was {dtypes[name]} before"
            raise FoundFaultError(told)
    for (name, part), was in zip(made.named_modules(), attributes, strict=True):
        for attribute in sorted(set(vars(part)) ^ was):
            now = "was missing before" if attribute in vars(part) else "is missing after"
            whose = f"module {name}" if name else "the model"
            raise FoundFaultError(f"{whose}: the attribute {attribute} {now} the call")
    for (name, part), was in zip(made.named_modules(), modes, strict=True):
        if part.training is not was:
            before, now = ("training", "evaluation") if was else ("evaluation", "training")
            whose = f"module {name}" if name else "the model"
            raise FoundFaultError(
                f"{whose} is in {now} mode after the call, but was in {before} mode before"
            )
    for name in without_gradient:
        if made.get_parameter(name).grad is not None:
            raise FoundFaultError(f"{name}.grad is a tensor after the call, but was None before")


def set_modes(
    network: torch.nn.Module,
    training: bool,
    in_eval: Sequence[str] = (),
    in_training: Sequence[str] = (),
) -> None:
    """Set the network's mode, and those of the layers named in ``in_eval`` and ``in_training``."""
    network.train(training)
    for name in in_eval:
        network.get_submodule(name).eval()
    for name in in_training:
        network.get_submodule(name).train()


def one_step(
    made: torch.nn.Module, inputs: torch.Tensor, slope: torch.Tensor, seed: int | None
) -> dict[str, Any]:
    """Train by one step of gradient descent, as it is done without an optimizer.

    The learning rate is 0.5; gradients that are there already count.

    Args:
        made: the network, used in the mode that it is in.
        inputs: a batch.
        slope: the gradient of the loss with respect to the output.
        seed: of the global generator during the forward pass; None goes on as it stands.

    Returns:
        ``{"next", "state"}``: the output, and the state dict after the step.
    """
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        output = made(inputs)
    total = (output * slope).sum()
    if total.requires_grad:
        total.backward()
    with torch.no_grad():
        for weight in made.parameters():
            if weight.grad is not None:
                weight -= 0.5 * weight.grad
    return {
        "next": output.detach(),
        "state": {name: value.clone() for name, value in made.state_dict().items()},
    }


@testimony
def network(function: Callable, layers: list, *args: Any, **options: Any) -> dict[str, Any]:
    """Call ``function(network, *args)`` and return what became of the network.

    Args:
        function: as ``with_network`` has it.
        layers: likewise.
        *args: likewise.
        **options: likewise.

    Returns:
        ``{"output", "state", "training", "trained", "gradients", "hooks", "autograd",
        "autograd_after", "modes", "backward"}``: the output; then, after the call, the state dict,
        the mode of each module, whether each parameter, by its name, requires a gradient, how many
        have one, and how many hooks are left; whether autograd was on, for each time the network or
        a copy of it ran, and afterwards; for each such time, the mode of each module; and whether a
        gradient was computed of anything that the network, a copy or a part of them returned, or of
        a parameter.
    """
    made = _make(layers, **options)
    autograd: list[bool] = []
    modes: list[list[bool]] = []
    backward: list[bool] = []

    # A copy of the network has the same functions as hooks: what it does is told here, too.
    def look(whole: torch.nn.Module, inputs: Any) -> None:
        autograd.append(torch.is_grad_enabled())
        modes.append([part.training for part in whole.modules()])

    def look_inside(part: torch.nn.Module, inputs: Any) -> None:
        # Only what was not told of the whole: someone called its parts.
        if torch.is_grad_enabled() and True not in autograd:
            autograd.append(True)

    def note(gradient: torch.Tensor) -> None:
        backward.append(True)

    def look_behind(part: torch.nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(note)

    watches = [
        part.register_forward_pre_hook(look if part is made else look_inside)
        for part in made.modules()
    ]
    watches += [part.register_forward_hook(look_behind) for part in made.modules()]
    watches += [weight.register_hook(note) for weight in made.parameters() if weight.requires_grad]
    output = function(made, *args)
    for watch in watches:
        watch.remove()
    return {
        "output": output,
        "state": dict(made.state_dict()),
        "training": [part.training for part in made.modules()],
        "trained": requires_gradients(made),
        "gradients": sum(weight.grad is not None for weight in made.parameters()),
        "hooks": sum(len(hooks) for part in made.modules() for hooks in _hooks_of(part)),
        "autograd": autograd,
        "autograd_after": torch.is_grad_enabled(),
        "modes": modes,
        "backward": bool(backward),
    }


def _hooks_of(part: torch.nn.Module) -> Iterator[dict]:
    yield from (part._forward_hooks, part._forward_pre_hooks)
    yield from (part._backward_hooks, part._backward_pre_hooks)


def _make(
    layers: list,
    *,
    state: dict[str, torch.Tensor] | None = None,
    training: list[bool] | None = None,
    tied: Sequence[tuple[str, str]] = (),
    frozen: Sequence[str] = (),
    left_over: float | None = None,
    order: Sequence[int] | None = None,
    dtype: str = "float32",
    shared: Sequence[tuple[str, str]] = (),
    unsaved: Sequence[str] = (),
) -> torch.nn.Module:
    made = build(layers) if order is None else _InOrder(layers, order)
    for first, second in shared:
        place, _, name = second.rpartition(".")
        setattr(made.get_submodule(place), name, made.get_submodule(first))
    made.to(getattr(torch, dtype))
    if state is not None:
        made.load_state_dict(state)
    for first, second in tied:
        place, _, name = second.rpartition(".")
        setattr(made.get_submodule(place), name, made.get_parameter(first))
    for whole in unsaved:
        place, _, name = whole.rpartition(".")
        made.get_submodule(place).register_buffer(name, made.get_buffer(whole), persistent=False)
    set_up(made, training, frozen)
    if left_over is not None:
        for weight in made.parameters():
            weight.grad = torch.full_like(weight, left_over)
    return made


class _InOrder(torch.nn.Module):
    """Calls its layers in a given order, some perhaps more than once; no ``Sequential``."""

    def __init__(self, layers: list, order: Sequence[int]) -> None:
        super().__init__()
        for place, layer in enumerate(layers):
            self.add_module(str(place), build(layer))
        self.order = list(order)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place in self.order:
            x = self.get_submodule(str(place))(x)
        return x


def requires_gradients(made: torch.nn.Module) -> dict[str, bool]:
    """Return for each parameter, by its name, whether it requires a gradient."""
    return {name: weight.requires_grad for name, weight in made.named_parameters()}


def set_up(made: torch.nn.Module, training: Sequence[bool] | None, frozen: Sequence[str]) -> None:
    """Give the modules their modes, in the order of ``made.modules()``, and freeze parameters.

    ``training`` None leaves the modes; ``frozen`` are names of parameters.
    """
    for part, mode in zip(made.modules(), training or (), strict=training is not None):
        part.training = mode
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)


def build(layers: list) -> torch.nn.Module:
    """Return the network that ``layers`` describes, as ``network`` has it."""
    if isinstance(layers[0], str):
        return getattr(torch.nn, layers[0])(*layers[1:])
    return torch.nn.Sequential(*(build(layer) for layer in layers))
