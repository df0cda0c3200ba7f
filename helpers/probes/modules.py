"""Probes that drive a module, or hand one over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from helpers.measuring import saved_bytes
from helpers.probes.refusing import refusing, refusing_functions
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
            ``("gradient", x, grad_output)``, a call with one input, and the way back;
            ``("gradients", inputs, grad_output)``, likewise with several;
            ``("train",)`` or ``("eval",)``, the mode;
            ``("load", state)``, a state dict that must fit exactly;
            ``("to", "float64")``, a dtype by its name;
            ``("parameters",)`` or ``("state",)``, a look at them;
            ``("graph",)``, a look at which buffers autograd would go back through;
            ``("classes",)``, a look at its class and those that it inherits from;
            ``("is_none", "bias")``, whether an attribute is there and is None.
        functions: keyword arguments that are functions of torch, by their names there.
        **kwargs: its other keyword arguments.

    Returns:
        what each step gave: the output; ``{"output", "gradient", "parameters"}`` with the
        gradients by the input (or ``"gradients"``, a list) and by the parameters' names; None;
        tensors by their names; names of buffers or of classes, these with their modules' names
        before them; or a bool.
    """
    called = {name: getattr(torch, function) for name, function in (functions or {}).items()}
    made = factory(*args, **called, **kwargs)
    return [_take_step(made, name, *given) for name, *given in steps]


def _take_step(made: torch.nn.Module, name: str, *given: Any) -> Any:
    match name:
        case "call":
            return made(*given)
        case "gradient":
            seen = _module_gradients(made, [given[0]], given[1])
            (seen["gradient"],) = seen.pop("gradients")
            return seen
        case "gradients":
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
        case "is_none":
            return getattr(made, given[0], "missing") is None
    raise ValueError(f'there is no step "{name}"')


def _module_gradients(
    made: torch.nn.Module, inputs: list[torch.Tensor], grad_output: torch.Tensor
) -> dict[str, Any]:
    leaves = [x.detach().clone().requires_grad_(True) for x in inputs]
    learned = {name: value for name, value in made.named_parameters() if value.requires_grad}
    output = made(*leaves)
    grads = torch.autograd.grad(
        output, [*leaves, *learned.values()], grad_outputs=grad_output, allow_unused=True
    )
    by_name = dict(zip(learned, grads[len(leaves) :], strict=True))
    return {
        "output": output.detach(),
        "gradients": list(grads[: len(leaves)]),
        "parameters": by_name,
    }


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
    order: Sequence[int] | None = None,
    dtype: str = "float32",
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
        order: which layers are called, one after another; each once, if None.
        dtype: of the parameters and buffers, by its name.
        **kwargs: keyword arguments of ``function``.

    Returns:
        ``{"output", "state", "training", "trained", "gradients", "hooks", "autograd",
        "autograd_after"}``: the output; then, after the call, the state dict, the mode of each
        module, whether each parameter, by its name, requires a gradient, how many have one, and how
        many hooks are left; whether autograd was on, for each time the network ran, and afterwards.
    """
    made = build(layers) if order is None else _InOrder(layers, order)
    made.to(getattr(torch, dtype))
    if state is not None:
        made.load_state_dict(state)
    for first, second in tied:
        place, _, name = second.rpartition(".")
        setattr(made.get_submodule(place), name, made.get_parameter(first))
    set_up(made, training, frozen)
    autograd: list[bool] = []
    watch = made.register_forward_pre_hook(lambda *_: autograd.append(torch.is_grad_enabled()))
    output = function(made, *args, **kwargs)
    watch.remove()
    return {
        "output": output,
        "state": dict(made.state_dict()),
        "training": [part.training for part in made.modules()],
        "trained": requires_gradients(made),
        "gradients": sum(weight.grad is not None for weight in made.parameters()),
        "hooks": sum(len(part._forward_hooks) for part in made.modules()),
        "autograd": autograd,
        "autograd_after": torch.is_grad_enabled(),
    }


def network_untrained(function: Callable, layers: list, *args: Any, **options: Any) -> Any:
    """Do what ``network`` does, while backward passes and new optimizers raise an error."""
    with (
        refusing(
            RuntimeError("there was a backward pass"), (torch.autograd, "_engine_run_backward")
        ),
        refusing(RuntimeError("an optimizer was made"), (torch.optim.Optimizer, "__init__")),
    ):
        return network(function, layers, *args, **options)


@testimony
def without_torchs_folding(function: Callable, *args: Any, **kwargs: Any) -> Any:
    """Return ``function(*args, **kwargs)``, while torch's functions that fold a BatchNorm raise."""
    fusion = torch.nn.utils.fusion
    with refusing_functions(fusion.fuse_conv_bn_weights, fusion.fuse_linear_bn_weights):
        return function(*args, **kwargs)


class _InOrder(torch.nn.Sequential):
    """Calls its layers in a given order, some perhaps more than once."""

    def __init__(self, layers: list, order: Sequence[int]) -> None:
        super().__init__(*(build(layer) for layer in layers))
        self.order = list(order)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place in self.order:
            x = self[place](x)
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
