"""Probes of what the forward pass keeps for the backward pass: saved bytes, and a second run."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from helpers.calling import FoundFaultError, is_from_stub
from helpers.peak_memory import PeakMeter
from helpers.probes.made import Made
from helpers.probes.networks import set_modes
from helpers.probes.testimony import testimony


def counted(
    counter: Callable,
    layers: list,
    data: torch.Tensor,
    *,
    left_out: list[str],
    passes: int = 1,
    backward: bool = False,
    state: dict[str, torch.Tensor] | None = None,
) -> Any:
    """Hand a forward pass to ``counter``, with the tensors that it shall leave out.

    Args:
        counter: takes a function without arguments, which may be called once, and a list of
            tensors.
        layers: the network's; each ``["Linear", 4, 3]``, the name of a class of ``torch.nn``, or
            of one below, and its arguments; a list of such is a network inside.
        data: what the first layer gets.
        left_out: which tensors those are, ``"parameters"``, ``"buffers"``, ``"data"``, and
            ``"last rows"``: of the data all rows but the first, a part of the data's storage.
        passes: how many the function makes; only the last one's result is kept.
        backward: whether the function makes the backward pass of the last result as well.
        state: entries of the network's state dict, its own where there are none.

    Returns:
        what the counter returned.

    Raises:
        FoundFaultError: where it called the function a second time.
    """
    made = _build(layers)
    made.load_state_dict(state or {}, strict=False)
    there = {
        "parameters": made.parameters(),
        "buffers": made.buffers(),
        "data": [data],
        "last rows": [data[1:]],
    }

    calls = itertools.count(1)

    def run() -> torch.Tensor:
        if next(calls) > 1:
            raise FoundFaultError("`run` was called a second time")
        for _ in range(passes - 1):
            made(data)
        output = made(data)
        if backward:
            output.sum().backward()
        return output

    return counter(run, [tensor for name in left_out for tensor in there[name]])


@testimony
def counted_and_freed(counter: Callable, layers: list, data: torch.Tensor) -> dict[str, Any]:
    """Do what ``counted`` does, with the parameters left out, and count the bytes that stay.

    Returns:
        ``"count"``, what the counter returned; ``"kept"``, how many bytes that the passes made are
        still there afterwards.
    """
    with Made() as made:
        count = counted(counter, layers, data, left_out=["parameters"])
    return {"count": count, "kept": sum(made.sizes_alive(except_for=data).values())}


def forward_and_backward(
    function: Callable,
    layers: list,
    *inputs: Any,
    state: dict[str, torch.Tensor],
    grad_output: torch.Tensor,
    with_respect_to: tuple[int, ...] = (0,),
    seed: int = 0,
    dial_positions: tuple[float, float] = (1.0, 1.0),
    as_leaves: bool = False,
    training: bool = True,
    in_eval: Sequence[str] = (),
    in_training: Sequence[str] = (),
    frozen: Sequence[str] = (),
    as_function: bool = False,
    steps: int = 1,
    uses: int = 1,
    own_networks: bool = False,
    growing: float | None = None,
    fading: float | None = None,
    changed_before: bool = False,
) -> dict[str, Any]:
    """Call ``function`` with a network, and run the backward pass of what it returned.

    A layer ``["Dial"]`` computes sin(x)² times its position. All dials are turned between
    the forward and the backward pass. What the forward pass saved has the first position; what the
    backward pass computes again, and nothing else, has the second.

    Args:
        function: takes the network, then ``inputs``.
        layers: the network's, as ``counted`` has it.
        *inputs: what else ``function`` takes.
        state: the network's state dict at the start.
        grad_output: the gradient of the loss with respect to the output.
        with_respect_to: which inputs require a gradient.
        seed: of torch's global generator.
        dial_positions: in the forward and in the backward pass.
        as_leaves: whether the inputs that require a gradient are leaves of the graph. Else they are
            results, as what a block gets mostly is.
        training: the network's mode.
        in_eval: names of its layers that are in evaluation mode all the same.
        in_training: names of its layers that are in training mode all the same.
        frozen: names of parameters that require no gradient.
        as_function: whether ``function`` takes a function that closes over the network instead.
        steps: how often this is done; gradients add up.
        uses: how often the function is called before each backward pass, which covers all calls.
        own_networks: whether each of these calls gets a network of its own, equal to the first.
        growing: what floating-point inputs are multiplied by from one of these calls to the next.
        fading: what the inputs that require no gradient are multiplied by after each step, in
            place.
        changed_before: whether the inputs have been changed in place before the function is called,
            to the values that they have; no leaf that requires a gradient can be.

    Returns:
        ``{"output", "gradients", "parameters", "state", "drawn", "others", "modes",
        "settings", "runs"}``: the last output, the gradients with respect to the inputs of
        ``with_respect_to`` and to the (first) network's parameters, by name, its state dict
        afterwards, and random numbers drawn after each forward and each backward pass; for each
        other input, by its place, whether it requires a gradient afterwards, and its ``.grad``;
        for each module of the network, by name, its mode and what it says of its settings;
        and how often its dials have computed, the most of each.

    Raises:
        RuntimeError: the output requires no gradient.
    """
    made = _build(layers)
    set_modes(made, training, in_eval, in_training)
    made.load_state_dict(state)
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)
    networks = [made, *(copy.deepcopy(made) if own_networks else made for _ in range(uses - 1))]
    leaves = {
        place: inputs[place].detach().clone().requires_grad_(True) for place in with_respect_to
    }
    drawn = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(steps):
            given = list(inputs)
            for place, leaf in leaves.items():
                given[place] = leaf if as_leaves else leaf * 1
            if changed_before:
                for value in given:
                    value.mul_(1)
            _turn(networks, dial_positions[0])
            outputs = [
                function(_closed_over(network) if as_function else network, *_grown(given, factor))
                for network, factor in zip(networks, _powers(growing, uses), strict=True)
            ]
            drawn.append(torch.rand(3))
            _turn(networks, dial_positions[1])
            _require_gradients(outputs)
            torch.autograd.backward(outputs, [grad_output] * uses)
            drawn.append(torch.rand(3))
            others = {place: value for place, value in enumerate(given) if place not in leaves}
            left = {place: _trace_on(value) for place, value in others.items()}
            if fading is not None:
                with torch.no_grad():
                    for value in others.values():
                        value.mul_(fading)
    return {
        "output": outputs[-1].detach(),
        "gradients": [leaf.grad for leaf in leaves.values()],
        "parameters": {name: value.grad for name, value in made.named_parameters()},
        "state": dict(made.state_dict()),
        "drawn": drawn,
        "others": left,
        "modes": {name: part.training for name, part in made.named_modules()},
        "settings": {name: part.extra_repr() for name, part in made.named_modules()},
        "runs": max((part.runs for part in made.modules() if isinstance(part, _Dial)), default=0),
    }


def _closed_over(network: torch.nn.Module) -> Callable:
    def run(*given: torch.Tensor) -> torch.Tensor:
        return network(*given)

    return run


def _powers(base: float | None, count: int) -> list[float | None]:
    return [None if base is None else base**place for place in range(count)]


def _grown(values: list, factor: float | None) -> list:
    if factor is None:
        return values
    return [value * factor if value.is_floating_point() else value for value in values]


def _require_gradients(outputs: list) -> None:
    if any(isinstance(output, torch.Tensor) and not output.requires_grad for output in outputs):
        raise FoundFaultError("the output requires no gradient, though an input or a weight does")


def _trace_on(tensor: torch.Tensor) -> dict[str, Any]:
    return {"requires_grad": tensor.requires_grad, "grad": tensor.grad}


@testimony
def bytes_kept(function: Callable, layers: list, *inputs: Any, **options: Any) -> dict[str, Any]:
    """Do what ``forward_and_backward`` does, and count the bytes kept between its two passes.

    Returns:
        what ``forward_and_backward`` returns; ``"kept"``: of all bytes that the function makes,
        those that are still there after the forward pass, its output left out; and ``"peak"``: the
        most of those that are there at once in the forward pass.
    """
    kept = peak = 0

    def watched(made: torch.nn.Module, *given: torch.Tensor) -> torch.Tensor:
        nonlocal kept, peak
        there = [*made.parameters(), *made.buffers(), *given]
        with PeakMeter(there) as meter, Made() as inside:
            output = function(made, *given)
        kept = sum(inside.sizes_alive(except_for=output).values())
        peak = meter.peak
        return output

    told = forward_and_backward(watched, layers, *inputs, **options)
    return told | {"kept": kept, "peak": peak}


@testimony
def changed_between(
    function: Callable,
    layers: list,
    *inputs: torch.Tensor,
    changed: Sequence[int] = (0,),
    **options: Any,
) -> dict[str, Any]:
    """Do what ``forward_and_backward`` does, and change inputs in place between its passes.

    Args:
        function: as ``forward_and_backward`` has it.
        layers: likewise.
        *inputs: likewise.
        changed: which inputs change; floating-point numbers are tripled, integers become 0.
        **options: likewise.

    Returns:
        ``"error"``, the name of the error that this raised, or ""; then with all that
        ``forward_and_backward`` returns.
    """

    def changing(made: torch.nn.Module, *given: torch.Tensor) -> torch.Tensor:
        output = function(made, *given)
        with torch.no_grad():
            for place in changed:
                given[place].mul_(3 if given[place].is_floating_point() else 0)
        return output

    try:
        return {"error": "", **forward_and_backward(changing, layers, *inputs, **options)}
    except Exception as error:
        if is_from_stub(error):
            raise
        return {"error": type(error).__name__}


class _Dial(torch.nn.Module):
    """Its position is a tensor of its own each time: one that changed in place would be noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.position = torch.tensor(1.0)
        self.runs = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return x.sin().square() * self.position


def _turn(networks: list[torch.nn.Module], position: float) -> None:
    for part in itertools.chain.from_iterable(network.modules() for network in networks):
        if isinstance(part, _Dial):
            part.position = torch.tensor(position)


class _Columns(torch.nn.Module):
    """Returns the first columns, a part of its input's storage."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, : self.count]


class _Halves(torch.nn.Module):
    """Adds the GELUs of two halves, which are parts of one storage."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x.chunk(2, dim=1)
        return torch.nn.functional.gelu(left) + torch.nn.functional.gelu(right)


class _Repeat(torch.nn.Module):
    """Returns its input again and again, without a copy."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.expand(self.times, *x.shape)


class _LastRows(torch.nn.Linear):
    """A linear layer that uses its weight and its bias without their first entries."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight[1:], self.bias[1:])


class _FunctionalDropout(torch.nn.Module):
    """Drops entries without a layer of torch's."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, self.p, self.training)


class _Residual(torch.nn.Module):
    """Adds its input to what its inner network makes of it; no ``Sequential``."""

    def __init__(self, layers: list) -> None:
        super().__init__()
        self.inner = _build(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


class _Second(torch.nn.Module):
    """Returns the second of two inputs, and does not use the first."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y


class _Rows(torch.nn.Module):
    """Returns the rows of a tensor that integers name."""

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return x[places]


class _Chain(torch.nn.Sequential):
    """A Sequential whose first part takes all inputs."""

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        first, *others = self
        x = first(*inputs)
        for part in others:
            x = part(x)
        return x


_PARTS = {
    "Columns": _Columns,
    "Dial": _Dial,
    "FunctionalDropout": _FunctionalDropout,
    "Halves": _Halves,
    "LastRows": _LastRows,
    "Repeat": _Repeat,
    "Residual": _Residual,
    "Rows": _Rows,
    "Second": _Second,
}


def _build(layers: list) -> torch.nn.Module:
    if isinstance(layers[0], str):
        kind = _PARTS.get(layers[0]) or getattr(torch.nn, layers[0])
        return kind(*layers[1:])
    return _Chain(*(_build(layer) for layer in layers))
