"""Probes that drive a module, or hand one over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from helpers.measuring import saved_bytes
from helpers.probes.testimony import testimony


def module(
    factory: Callable[..., torch.nn.Module],
    *args: Any,
    steps: list[tuple],
    functions: dict[str, str] | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Make a module and take it through ``steps``.

    Args:
        factory: a class of modules, or a function that returns one.
        *args: its arguments.
        steps: what is done, one after another; each is a name and what it takes:
            ``("call", *inputs)``;
            ``("gradient", x, grad_output)``, a call, and the way back;
            ``("train",)`` or ``("eval",)``, the mode;
            ``("load", state)``, a state dict that must fit exactly;
            ``("to", "float64")``, a dtype by its name;
            ``("parameters",)`` or ``("state",)``, a look at them;
            ``("graph",)``, a look at which buffers autograd would go back through;
            ``("classes",)``, a look at its class and those that it inherits from.
        functions: keyword arguments that are functions of torch, by their names there.
        **kwargs: its other keyword arguments.

    Returns:
        what each step gave: the output; ``{"output", "gradient", "parameters"}`` with the
        gradients by the input and by the parameters' names; None; tensors by their names; or
        names of buffers or of classes, these with their modules' names before them.
    """
    called = {name: getattr(torch, function) for name, function in (functions or {}).items()}
    made = factory(*args, **called, **kwargs)
    return [_take_step(made, name, *given) for name, *given in steps]


def _take_step(made: torch.nn.Module, name: str, *given: Any) -> Any:
    match name:
        case "call":
            return made(*given)
        case "gradient":
            return _module_gradients(made, *given)
        case "train" | "eval":
            made.train(name == "train")
            return None
        case "load":
            made.load_state_dict(*given)
            return None
        case "to":
            made.to(getattr(torch, given[0]))
            return None
        case "parameters":
            return dict(made.named_parameters())
        case "state":
            return dict(made.state_dict())
        case "graph":
            return [name for name, buffer in made.named_buffers() if buffer.requires_grad]
        case "classes":
            return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(made).__mro__]
    raise ValueError(f'there is no step "{name}"')


def _module_gradients(
    made: torch.nn.Module, x: torch.Tensor, grad_output: torch.Tensor
) -> dict[str, Any]:
    leaf = x.detach().clone().requires_grad_(True)
    learned = {name: value for name, value in made.named_parameters() if value.requires_grad}
    output = made(leaf)
    grads = torch.autograd.grad(
        output, [leaf, *learned.values()], grad_outputs=grad_output, allow_unused=True
    )
    by_name = dict(zip(learned, grads[1:], strict=True))
    return {"output": output.detach(), "gradient": grads[0], "parameters": by_name}


@testimony
def saved_by_module(
    factory: Callable[..., torch.nn.Module],
    *args: Any,
    inputs: list[torch.Tensor],
    state: dict[str, torch.Tensor],
    **kwargs: Any,
) -> dict[str, Any]:
    """Make a module, call it, and count what autograd saves meanwhile.

    Args:
        factory: a class of modules, or a function that returns one.
        *args: its arguments.
        inputs: what the module is called with.
        state: its state dict.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output", "bytes"}``; a storage counts once, and parameters do not.
    """
    made = factory(*args, **kwargs)
    made.load_state_dict(state)
    outputs: list[torch.Tensor] = []
    counted = saved_bytes(lambda: outputs.append(made(*inputs)), except_for=made.parameters())
    return {"output": outputs[0].detach(), "bytes": counted.bytes}


def network(
    function: Callable,
    layers: list,
    *args: Any,
    state: dict[str, torch.Tensor] | None = None,
    training: list[bool] | None = None,
    tied: Sequence[tuple[str, str]] = (),
    frozen: Sequence[str] = (),
    **kwargs: Any,
) -> dict[str, Any]:
    """Call ``function`` with a network, and tell what became of the network.

    Args:
        function: takes a ``torch.nn.Sequential``, then ``args``.
        layers: the network's, each ``["Linear", 4, 3]``, the name of a class of ``torch.nn`` and
            its arguments; a list of such is a ``Sequential`` inside.
        *args: what else ``function`` takes.
        state: the network's state dict before the call; its own if None.
        training: the mode of each module, in the order of ``network.modules()``.
        tied: pairs of names of parameters; the second becomes the first one.
        frozen: names of parameters that require no gradient.
        **kwargs: keyword arguments of ``function``.

    Returns:
        ``{"output": ..., "state": {...}, "training": [...]}``, the last two after the call.
    """
    made = build(layers)
    if state is not None:
        made.load_state_dict(state)
    for part, mode in zip(made.modules(), training or (), strict=training is not None):
        part.training = mode
    for first, second in tied:
        place, _, name = second.rpartition(".")
        setattr(made.get_submodule(place), name, made.get_parameter(first))
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)
    output = function(made, *args, **kwargs)
    return {
        "output": output,
        "state": dict(made.state_dict()),
        "training": [part.training for part in made.modules()],
    }


def build(layers: list) -> torch.nn.Module:
    """Return the network that ``layers`` describes, as ``network`` has it."""
    if isinstance(layers[0], str):
        return getattr(torch.nn, layers[0])(*layers[1:])
    return torch.nn.Sequential(*(build(layer) for layer in layers))
