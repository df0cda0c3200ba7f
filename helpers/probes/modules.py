"""Probes that make a module of a student's class and drive it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from helpers.peak_memory import PeakMeter
from helpers.probes.calls import gradients_of
from helpers.probes.made import Made
from helpers.probes.testimony import testimony
from helpers.probes.watched_saving import saving_watched


def module(
    factory: Callable[..., torch.nn.Module],
    *args: Any,
    steps: list[tuple],
    functions: dict[str, str] | None = None,
    **kwargs: Any,
) -> list[Any]:
    """Make a module and take it through ``steps``.

    While it is made, memory that nothing has set holds nan, in integers the largest number.

    Args:
        factory: a class of modules, or a function that returns one.
        *args: its arguments.
        steps: what is done, one after another; each is a name and what it takes:
            ``("call", *inputs)``;
            ``("no_grad", *inputs)``, a call with autograd switched off;
            ``("after_call", x)``, a call, and what the input is after it;
            ``("gradient", x, grad_output)``, a call with one input, and the backward pass;
            ``("gradients", inputs, grad_output)``, likewise with several;
            ``("train",)`` or ``("eval",)``, the mode;
            ``("load", state)``, tensors by their names in the module's state, which may hold more;
            ``("to", "float64")``, a dtype by its name;
            ``("parameters",)`` or ``("state",)``, a look at them;
            ``("another", *args)``, another module is made of these, and stays;
            ``("together", calls)``, calls in sequence, and one backward pass through all; each is
            ``("train", x, grad_output)`` or ``("eval", x, grad_output)``.
        functions: keyword arguments that are functions of torch, by their names there.
        **kwargs: its other keyword arguments.

    Returns:
        what each step gave: the output; the output and the input in a list;
        ``{"output", "gradient", "parameters"}`` with the gradients with respect to the input (or
        ``"gradients"``, a list) and by the parameters' names; None; tensors by their names; or the
        gradients with respect to each call's input.
    """
    called = {name: getattr(torch, function) for name, function in (functions or {}).items()}
    with _unset_memory_filled():
        made = factory(*args, **called, **kwargs)
    seen, others = [], []
    for name, *given in steps:
        if name == "another":
            others.append(factory(*given, **called, **kwargs))
        seen.append(None if name == "another" else _take_step(made, name, *given))
    return seen


@contextlib.contextmanager
def _unset_memory_filled() -> Iterator[None]:
    required = torch.are_deterministic_algorithms_enabled()
    only_warn = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.utils.deterministic.fill_uninitialized_memory = True
    # The public function imports a large part of torch, which takes seconds.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch._C._set_deterministic_algorithms(required, warn_only=only_warn)
        torch.utils.deterministic.fill_uninitialized_memory = fills


def _load(made: torch.nn.Module, state: dict[str, torch.Tensor]) -> None:
    unknown = made.load_state_dict(state, strict=False).unexpected_keys
    if unknown:
        raise AttributeError(f"the module's state has no {', '.join(unknown)}")


def _take_step(made: torch.nn.Module, name: str, *given: Any) -> Any:
    match name:
        case "call":
            return made(*given)
        case "no_grad":
            with torch.no_grad():
                return made(*given)
        case "after_call":
            return [made(*given), *given]
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
            _load(made, *given)
            return None
        case "to":
            made.to(getattr(torch, given[0]))
            return None
        case "parameters":
            return dict(made.named_parameters())
        case "state":
            return dict(made.state_dict())
        case "together":
            return _gradients_together(made, *given)
    raise ValueError(f'there is no step "{name}"')


def _module_gradients(
    made: torch.nn.Module, inputs: list[torch.Tensor], grad_output: torch.Tensor
) -> dict[str, Any]:
    leaves = [x.detach().clone().requires_grad_(True) for x in inputs]
    learned = {name: value for name, value in made.named_parameters() if value.requires_grad}
    output = made(*leaves)
    grads = gradients_of(output, [*leaves, *learned.values()], grad_output)
    by_name = dict(zip(learned, grads[len(leaves) :], strict=True))
    return {
        "output": output.detach(),
        "gradients": grads[: len(leaves)],
        "parameters": by_name,
    }


def _gradients_together(
    made: torch.nn.Module, calls: list[tuple[str, torch.Tensor, torch.Tensor]]
) -> list[torch.Tensor | None]:
    leaves, losses = [], []
    for mode, x, grad_output in calls:
        made.train(mode == "train")
        leaves.append(x.detach().clone().requires_grad_(True))
        losses.append((made(leaves[-1]) * grad_output).sum())
    total = torch.stack(losses).sum()
    return gradients_of(total, leaves, torch.ones_like(total))


@testimony
def is_none(factory: Callable[..., torch.nn.Module], name: str, *args: Any, **kwargs: Any) -> bool:
    """Make a module of ``args`` and ``kwargs``, and return whether its attribute ``name`` is there
    and is None.
    """
    return getattr(factory(*args, **kwargs), name, "missing") is None


@testimony
def saved_by_module(
    factory: Callable[..., torch.nn.Module],
    *args: Any,
    inputs: list[torch.Tensor],
    state: dict[str, torch.Tensor],
    **kwargs: Any,
) -> dict[str, Any]:
    """Make a module, call it, and count what autograd saves meanwhile, and what else of all that is
    made there stays. Then call it with autograd switched off.

    Args:
        factory: a class of modules, or a function that returns one.
        *args: its arguments.
        inputs: what the module is called with.
        state: its state dict.
        **kwargs: its keyword arguments.

    Returns:
        ``{"output", "bytes", "peak"}``, the last one the most bytes that are there at once in the
        second call; a storage counts once, and those of parameters and inputs do not.
    """
    made = factory(*args, **kwargs)
    _load(made, state)
    own = [*made.parameters(), *inputs]
    left_out = {tensor.untyped_storage().data_ptr() for tensor in own}
    storages: dict[int, torch.UntypedStorage] = {}

    def note(tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in left_out:
            # Held until the count is done: a freed storage's address could be used again.
            storages[storage.data_ptr()] = storage

    with Made() as inside, saving_watched(note):
        output = made(*inputs)
    sizes = inside.sizes_alive(except_for=output)
    sizes |= {address: storage.nbytes() for address, storage in storages.items()}
    with torch.no_grad(), PeakMeter(own) as meter:
        made(*inputs)
    return {"output": output.detach(), "bytes": sum(sizes.values()), "peak": meter.peak}
