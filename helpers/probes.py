"""Probes: drive a student's function and return plain data that tells what it did.

A probe runs beside the student's code, so what it returns is evidence, not a verdict: outputs,
gradients, states. Judging them is the test cell's part.

Some tell *how* a result came about. That is testimony: code that wants to could change it, so
whoever judges strangers' work takes it only for code that does not reach for such means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


def _testimony(probe: Callable) -> Callable:
    probe.is_testimony = True
    return probe


def gradient(
    function: Callable[..., torch.Tensor],
    *args: Any,
    wrt: int = 0,
    grad_output: torch.Tensor | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Run ``function`` forward and backward.

    Args:
        function: returns one tensor.
        *args: its arguments.
        wrt: the position of the argument, a floating-point tensor, to differentiate by.
        grad_output: the gradient of the loss by the output, of the output's shape; ones if None.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output": tensor, "gradient": tensor}``; the gradient is None where the output does
        not depend on the argument.
    """
    arguments = list(args)
    leaf = arguments[wrt].detach().clone().requires_grad_(True)
    arguments[wrt] = leaf
    output = function(*arguments, **kwargs)
    if grad_output is None:
        grad_output = torch.ones_like(output)
    (grad,) = torch.autograd.grad(output, leaf, grad_outputs=grad_output, allow_unused=True)
    return {"output": output.detach(), "gradient": grad}


@_testimony
def after_call(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "arguments": [...]}``: the positional
    arguments as they are after the call.
    """
    output = function(*args, **kwargs)
    return {"output": output, "arguments": list(args)}


def module(
    factory: Callable[..., torch.nn.Module], *args: Any, steps: list[tuple], **kwargs: Any
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
            ``("graph",)``, a look at which buffers autograd would go back through.
        **kwargs: its keyword arguments.

    Returns:
        what each step gave: the output; ``{"output", "gradient", "parameters"}`` with the
        gradients by the input and by the parameters' names; None; tensors by their names; or
        names of buffers.
    """
    made = factory(*args, **kwargs)
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


def network(
    function: Callable,
    layers: list,
    *args: Any,
    state: dict[str, torch.Tensor] | None = None,
    training: list[bool] | None = None,
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
        **kwargs: keyword arguments of ``function``.

    Returns:
        ``{"output": ..., "state": {...}, "training": [...]}``, the last two after the call.
    """
    made = _build(layers)
    if state is not None:
        made.load_state_dict(state)
    for part, mode in zip(made.modules(), training or (), strict=training is not None):
        part.training = mode
    output = function(made, *args, **kwargs)
    return {
        "output": output,
        "state": dict(made.state_dict()),
        "training": [part.training for part in made.modules()],
    }


def _build(layers: list) -> torch.nn.Module:
    if isinstance(layers[0], str):
        return getattr(torch.nn, layers[0])(*layers[1:])
    return torch.nn.Sequential(*(_build(layer) for layer in layers))


def in_autocast(
    function: Callable[..., torch.Tensor],
    *args: Any,
    lower: str | None = "bfloat16",
    wrt: int | None = None,
    grad_output: torch.Tensor | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """Call ``function`` inside an autocast region of the CPU, and go back outside of it.

    Args:
        function: returns one tensor.
        *args: its arguments.
        lower: the name of the region's dtype; no region if None.
        wrt: the position of the argument to differentiate by; no way back if None.
        grad_output: the gradient of the loss by the output; ones if None.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output": tensor, "gradient": tensor or None, "afterwards": name}``; the name is that
        of a float32 product's dtype, computed in the same region after the call.
    """
    arguments = list(args)
    if wrt is not None:
        arguments[wrt] = arguments[wrt].detach().clone().requires_grad_(True)
    with _region(lower):
        output = function(*arguments, **kwargs)
        afterwards = _dtype_of_a_product()
    slope = None
    if wrt is not None:
        grad_output = torch.ones_like(output) if grad_output is None else grad_output
        (slope,) = torch.autograd.grad(
            output, arguments[wrt], grad_outputs=grad_output, allow_unused=True
        )
    return {"output": output.detach(), "gradient": slope, "afterwards": afterwards}


def wrapped_in_autocast(
    factory: Callable[[torch.nn.Module], torch.nn.Module],
    layers: list,
    *inputs: torch.Tensor,
    state: dict[str, torch.Tensor],
    lower: str | None = "bfloat16",
) -> dict[str, Any]:
    """Wrap a module, and run the wrapper inside an autocast region of the CPU and back.

    Args:
        factory: takes a module and returns one.
        layers: what is wrapped, as ``network`` has it.
        *inputs: of the wrapper.
        state: the state dict of what is wrapped.
        lower: the name of the region's dtype; no region if None.

    Returns:
        ``{"output", "afterwards", "gradients"}``: the dtype's name as ``in_autocast`` has it, and
        the gradients of the output's sum by the wrapped parameters, by their names inside.
    """
    inner = _build(layers)
    inner.load_state_dict(state)
    outer = factory(inner)
    with _region(lower):
        output = outer(*inputs)
        afterwards = _dtype_of_a_product()
    names, parameters = zip(*inner.named_parameters(), strict=True)
    slopes = torch.autograd.grad(output.float().sum(), parameters, allow_unused=True)
    gradients = dict(zip(names, slopes, strict=True))
    return {"output": output.detach(), "afterwards": afterwards, "gradients": gradients}


def _region(lower: str | None) -> torch.autocast:
    if lower is None:
        return torch.autocast("cpu", enabled=False)
    return torch.autocast("cpu", dtype=getattr(torch, lower))


def _dtype_of_a_product() -> str:
    return str((torch.ones(2, 3) @ torch.ones(3, 2)).dtype).removeprefix("torch.")


def in_function_mode(
    factory: Callable[..., Any],
    *args: Any,
    lower: str,
    steps: list[tuple],
    values: dict[str, torch.Tensor],
    wrt: str | None = None,
) -> dict[str, Any]:
    """Run a small program inside a context manager.

    Args:
        factory: returns the context manager.
        *args: its arguments, before ``lower``.
        lower: the name of a dtype, of which the factory gets the dtype itself.
        steps: ``(result, function, arguments)`` or, with a dict behind them, keyword arguments; the
            function is named as in ``torch.nn.functional`` or ``torch``, and a string among the
            arguments, or in a list there, names an earlier value.
        values: the tensors at the start, by name.
        wrt: the name of one to differentiate the sum of the last result by, outside.

    Returns:
        the results by name, and under ``"gradient"`` the gradient if ``wrt`` is given.
    """
    known = dict(values)
    if wrt is not None:
        known[wrt] = known[wrt].detach().clone().requires_grad_(True)
    results = {}
    with factory(*args, getattr(torch, lower)):
        for result, name, given, *rest in steps:
            operation = getattr(torch.nn.functional, name, None) or getattr(torch, name)
            keywords = _look_up(known, rest[0]) if rest else {}
            known[result] = results[result] = operation(*_look_up(known, given), **keywords)
    if wrt is not None:
        (results["gradient"],) = torch.autograd.grad(
            results[steps[-1][0]].float().sum(), known[wrt], allow_unused=True
        )
    return results


def _look_up(known: dict[str, torch.Tensor], given: Any) -> Any:
    match given:
        case str():
            return known[given]
        case list() | tuple():
            return type(given)(_look_up(known, item) for item in given)
        case dict():
            return {key: _look_up(known, item) for key, item in given.items()}
    return given


def training_steps(
    step: Callable,
    layers: list,
    batches: list[tuple[torch.Tensor, torch.Tensor]],
    *,
    state: dict[str, torch.Tensor],
    learning_rate: float,
    float32_layers: list | None = None,
) -> dict[str, Any]:
    """Train a network by ``step(model, optimizer, loss_function, inputs, targets)``.

    The optimizer is plain SGD, the loss function ``torch.nn.functional.cross_entropy``.

    Args:
        step: the student's; its return value is kept.
        layers: the network's, as ``network`` has it; its parameters' names begin with ``body.``.
        batches: inputs and targets of each step.
        state: the state dict at the start.
        learning_rate: the optimizer's.
        float32_layers: layers behind the others that leave every autocast region; their
            parameters' names begin with ``head.``.

    Returns:
        ``{"losses": [...], "states": [...]}``: what came back from each step, and the state dict
        after it.
    """
    model = _Network(layers, float32_layers)
    model.load_state_dict(state)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    losses, states = [], []
    for inputs, targets in batches:
        losses.append(step(model, optimizer, torch.nn.functional.cross_entropy, inputs, targets))
        states.append({name: value.clone() for name, value in model.state_dict().items()})
    return {"losses": losses, "states": states}


class _Network(torch.nn.Module):
    def __init__(self, layers: list, float32_layers: list | None) -> None:
        super().__init__()
        self.body = _build(layers)
        self.head = _build(float32_layers) if float32_layers else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.body(x)
        if self.head is None:
            return x
        with torch.autocast(x.device.type, enabled=False):
            return self.head(x.float())


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


def optimizer_steps(
    factory: Callable[..., Any],
    weights: list[torch.Tensor],
    gradients: list[list[torch.Tensor | None]],
    *args: Any,
) -> list[dict[str, list]]:
    """Make an optimizer for parameters of given values, and take it through steps.

    Args:
        factory: takes an iterator over the parameters, then ``args``; what it returns has a
            method ``step()``.
        weights: the parameters' values at the start.
        gradients: for each step, what every parameter's ``.grad`` is before it.
        *args: what else ``factory`` takes.

    Returns:
        for each step ``{"weights": [...], "gradients": [...]}`` as they are after it.
    """
    parameters = [weight.detach().clone().requires_grad_(True) for weight in weights]
    optimizer = factory(iter(parameters), *args)
    states = []
    for given in gradients:
        for parameter, slope in zip(parameters, given, strict=True):
            parameter.grad = None if slope is None else slope.clone()
        optimizer.step()
        states.append(
            {
                "weights": [parameter.detach().clone() for parameter in parameters],
                "gradients": [parameter.grad for parameter in parameters],
            }
        )
    return states


@_testimony
def operators(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "operators": [...]}``: the sorted names of
    the ATen operators that it ran, without namespace and overload ("exp", "_softmax").
    """
    recorder = _OperatorRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "operators": sorted(recorder.names)}


@_testimony
def functions(function: Callable, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Call ``function`` and return ``{"output": ..., "functions": [...]}``: the sorted names of
    the functions and tensor methods of torch that it called ("exp", "grad", "requires_grad_").
    """
    recorder = _FunctionRecorder()
    with recorder:
        output = function(*args, **kwargs)
    return {"output": output, "functions": sorted(recorder.names)}


# What torch can be handed without its calling Python code of somebody's while it works on it. A
# recorder hears nothing then: torch sets a mode aside while the mode's own method runs.
_QUIET = {
    *(torch.Tensor, torch.nn.Parameter, torch.Generator, torch.Size, torch.storage.UntypedStorage),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, np.ndarray, range),
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis)),
    *np.sctypeDict.values(),
}
_QUIET_TYPES = (bool, int, float, complex)
_RETURNED = {kind for kind in vars(torch.return_types).values() if isinstance(kind, type)}
_CONTAINERS = {list, tuple, dict, slice, *_RETURNED}


def _refuse_callbacks(value: Any) -> None:
    kind = type(value)
    if kind in _QUIET or any(value is quiet for quiet in _QUIET_TYPES):
        return
    if kind not in _CONTAINERS:
        raise TypeError(
            f"torch was given an object of the class {kind.__name__}, which the check cannot see "
            "through: pass tensors and numbers"
        )
    if kind is slice:
        inside = [value.start, value.stop, value.step]
    else:
        inside = value.values() if kind is dict else value
    for item in inside:
        _refuse_callbacks(item)


class _FunctionRecorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(getattr(func, "__name__", str(func)))
        _refuse_callbacks((*args, kwargs or {}))
        return func(*args, **(kwargs or {}))


class _OperatorRecorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        self.names.add(func.overloadpacket.__name__)
        _refuse_callbacks((*args, kwargs or {}))
        return func(*args, **(kwargs or {}))
