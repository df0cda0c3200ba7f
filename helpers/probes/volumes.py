"""Probes for what segments volumes: networks that see patches, passes and trainings in a budget."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from helpers.calling import is_from_stub
from helpers.peak_memory import PeakMeter, peak_bytes
from helpers.probes.networks import build
from helpers.probes.states import as_bytes, find_unreadable, from_bytes
from helpers.probes.testimony import testimony
from helpers.random_numbers import globals_kept, seed_globals


@testimony
def joined_patches(
    function: Callable[..., Any],
    weights: torch.Tensor,
    volume: torch.Tensor,
    patch: int,
    step: int,
) -> dict[str, Any]:
    """Call ``function(predict, volume, patch, step)``.

    ``predict`` multiplies what it gets by ``weights``, which require a gradient.

    Args:
        function: the student's.
        weights: shape (patch, patch, patch).
        volume: handed on.
        patch: handed on.
        step: handed on.

    Returns:
        ``{"output", "with_graph", "keeps_graph", "left_off", "left_on"}``: what came back; whether
        autograd was on while ``predict`` ran; whether what came back requires a gradient; whether
        autograd is off after the call, before which it was on; and whether it is on after another
        call, before which it was off.
    """
    factor = weights.clone().requires_grad_(True)
    with_graph = []

    def predict(x: torch.Tensor) -> torch.Tensor:
        with_graph.append(torch.is_grad_enabled())
        return x * factor

    with torch.enable_grad():
        output = function(predict, volume, patch, step)
        left_off = not torch.is_grad_enabled()
    with torch.no_grad():
        function(predict, volume, patch, step)
        left_on = torch.is_grad_enabled()
    return {
        "output": output,
        "with_graph": any(with_graph),
        "keeps_graph": getattr(output, "requires_grad", False),
        "left_off": left_off,
        "left_on": left_on,
    }


def gradients_in_budget(
    function: Callable[..., Any],
    layers: list,
    state: dict[str, torch.Tensor],
    volumes: torch.Tensor,
    masks: torch.Tensor,
    *,
    fits: tuple[int, bool],
    left_over: float | None = None,
    spare: float = 0.3,
    bend: tuple[int, float] = (2, 0.8),
) -> dict[str, Any]:
    """Call ``function(network, loss_function, needs, volumes, masks, budget)``.

    The loss is the binary cross-entropy with logits. ``network(x, checkpointed)`` runs its parts
    one after another, with ``checkpointed`` under torch's checkpoint; ``needs(samples,
    checkpointed)`` returns what this very network was measured to need, and a little more, so that
    it is no straight line.

    Args:
        function: the student's.
        layers: the network's parts, each a list of layers, as ``network`` has them.
        state: the network's state dict.
        volumes: float32, shape (samples, channels, depth, height, width).
        masks: likewise, with one channel.
        fits: the budget is what passes of so many samples need, with or without checkpointing, and
            ``spare``; for (0, True) it is half of what one needs.
        left_over: every entry of all gradients before the call; there are none if None.
        spare: a part of what one more sample needs.
        bend: from so many samples on, ``needs`` says so much of a sample more than was measured.

    Returns:
        ``{"output", "errors", "gradients"}``: what came back; if an exception came where nothing
        fits, the names of its class and of those that it is derived from; and the gradients by the
        parameters' names.
    """
    task = _Task(layers, state, volumes, fits, left_over, spare, bend)
    return task.run(function, volumes, masks)


@testimony
def budget_kept(
    function: Callable[..., Any],
    layers: list,
    state: dict[str, torch.Tensor],
    volumes: torch.Tensor,
    masks: torch.Tensor,
    *,
    fits: tuple[int, bool],
    left_over: float | None = None,
    spare: float = 0.3,
    bend: tuple[int, float] = (2, 0.8),
) -> dict[str, Any]:
    """Do what ``gradients_in_budget`` does, and count bytes and passes.

    Arguments as ``gradients_in_budget`` has them.

    Returns:
        besides, ``"peak"``, the most bytes that were there at one moment, the batch left out; the
        ``"budget"``; and ``"passes"``, for each forward pass the number of its samples and whether
        it was checkpointed.
    """
    task = _Task(layers, state, volumes, fits, left_over, spare, bend)
    with PeakMeter([volumes, masks]) as meter:
        seen = task.run(function, volumes, masks)
    passes = task.passes
    # What was computed past the network, by its parts, counts as if each sample had its own pass.
    missing = 0 if seen["errors"] else len(volumes) - sum(samples for samples, _ in passes)
    passes += [[1, fits[1]]] * missing
    return {**seen, "peak": meter.peak, "budget": task.budget, "passes": passes}


class _Task:
    """A network with gradients, and a budget that was measured for it."""

    def __init__(
        self,
        layers: list,
        state: dict[str, torch.Tensor],
        volumes: torch.Tensor,
        fits: tuple[int, bool],
        left_over: float | None,
        spare: float,
        bend: tuple[int, float],
    ) -> None:
        self.passes: list[list] = []
        passes = self.passes

        class Noting(_Parts):
            # Only this function knows the list: no attribute of the network leads to it.
            def forward(self, x: torch.Tensor, checkpointed: bool = False) -> torch.Tensor:
                passes.append([len(x), bool(checkpointed)])
                return super().forward(x, checkpointed)

        self.network = Noting(layers)
        self.network.load_state_dict(state)
        self.weights = dict(self.network.named_parameters())
        for weight in self.weights.values():
            weight.grad = None if left_over is None else torch.full_like(weight, left_over)
        self.bend = bend
        self.lines = {saving: _needs(layers, volumes, saving) for saving in (False, True)}
        self.anything_fits = bool(fits[0])
        self.budget = self.needs(1, True) // 2
        if self.anything_fits:
            self.budget = self.needs(*fits) + int(spare * self.lines[fits[1]][1])

    def needs(self, samples: int, checkpointed: bool) -> int:
        fixed, each = self.lines[bool(checkpointed)]
        first, more = self.bend
        return fixed + samples * each + (int(more * each) if samples >= first else 0)

    def run(
        self, function: Callable[..., Any], volumes: torch.Tensor, masks: torch.Tensor
    ) -> dict[str, Any]:
        errors: list[str] = []
        output = None
        loss_function = functional.binary_cross_entropy_with_logits
        try:
            output = function(self.network, loss_function, self.needs, volumes, masks, self.budget)
        except Exception as error:
            if is_from_stub(error) or self.anything_fits:
                raise
            errors = [kind.__name__ for kind in type(error).__mro__]
        gradients = {name: weight.grad for name, weight in self.weights.items()}
        return {"output": output, "errors": errors, "gradients": gradients}


class _Parts(torch.nn.Module):
    """Runs its parts one after another."""

    def __init__(self, layers: list) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(build(part) for part in layers)

    def forward(self, x: torch.Tensor, checkpointed: bool = False) -> torch.Tensor:
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False) if checkpointed else part(x)
        return x


def _needs(
    layers: list, volumes: torch.Tensor, saving: bool, half: bool = False
) -> tuple[int, int]:
    """Return what two passes need, by one sample and by two: a fixed part, and that of a sample.

    In the second pass there are gradients already.
    """
    # Bytes do not depend on values: measured once, they hold for every network of the same parts.
    sizes = tuple(volumes.shape[1:])
    return _measured_needs(json.dumps(layers), sizes, volumes.device.type, saving, half)


@functools.cache
def _measured_needs(
    parts: str, sizes: tuple[int, ...], device: str, saving: bool, half: bool
) -> tuple[int, int]:
    with globals_kept():
        network = _Parts(json.loads(parts)).to(device)
    loss_function = functional.binary_cross_entropy_with_logits
    peaks = []
    for samples in (1, 2):
        x = torch.ones(samples, *sizes, device=device)

        def two_passes(x: torch.Tensor = x) -> None:
            for _ in range(2):
                with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
                    logits = network(x, saving)
                loss_function(logits.float(), x).backward()

        peaks.append(peak_bytes(two_passes, except_for=[x]))
        network.zero_grad()
    each = peaks[1] - peaks[0]
    return peaks[0] - each, each


def segmenter_steps(
    segmenter_class: Callable[..., Any],
    layers: list,
    weights: dict[str, torch.Tensor],
    costs: dict[str, int],
    budget: int,
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
    *,
    seed: int = 0,
    saved: torch.Tensor | None = None,
    left_over: float | None = None,
    process: int = 0,
) -> dict[str, Any]:
    """Make a segmenter, or go on with one from its state, and let it step through ``batches``.

    Its network is that of ``gradients_in_budget``; its optimizer is SGD with momentum 0.9 and a
    learning rate of 0.05; its loss is a hundred times the binary cross-entropy with logits.
    ``needs(samples, checkpointed, bfloat16, patches)`` returns ``costs["fixed"]``, and for each
    sample ``costs["whole"]``, a half of it for each of ``checkpointed`` and ``bfloat16``, or a
    sixth for a patch, a ninth if that is checkpointed.

    Args:
        segmenter_class: called with network, optimizer, loss function, ``needs``, budget and seed;
            its objects have ``step(volumes, masks)``, ``state_dict()`` and
            ``load_state_dict(state)``. The state is written by ``torch.save`` and read with
            ``weights_only=True``.
        layers: the network's parts, each a list of layers, as ``network`` has them.
        weights: the network's state dict.
        costs: what ``needs`` is computed from.
        budget: bytes.
        volumes: all that batches are made of.
        masks: theirs.
        batches: each the indices of its volumes.
        seed: of the segmenter.
        saved: the state that an earlier call returned.
        left_over: every entry of all gradients before each step; if None, they are what the
            segmenter has left.
        process: seeds the global generators, as each process begins with other numbers.

    Returns:
        ``{"weights", "losses", "state", "unreadable", "drawn", "errors"}``: the network's weights
        in the end by their names; what each step returned; the written state, as uint8 of shape
        (bytes,), which is empty if there is none; what part of the state cannot be written or read,
        or ""; what torch's global generator draws in the end; and the names of the class of a
        ValueError and of those that it is derived from, if one was raised when the segmenter was
        made.
    """
    network = _Noting(layers, weights)
    needs = functools.partial(_cost, costs)
    with globals_kept():
        seed_globals(process)
        data = [(volumes[indices], masks[indices]) for indices in batches]
        given = (network, needs, budget, seed, data)
        seen = _run_segmenter(segmenter_class, *given, saved=saved, left_over=left_over)
        seen["drawn"] = torch.rand((), dtype=torch.float32, device="cpu").item()
    state = seen.pop("state", {})
    unreadable = find_unreadable(state, "state")
    is_written = not (seen["errors"] or unreadable)
    written = as_bytes(state) if is_written else torch.zeros(0, dtype=torch.uint8)
    return {**seen, "state": written, "unreadable": unreadable}


@testimony
def segmenter_passes(
    segmenter_class: Callable[..., Any],
    layers: list,
    weights: dict[str, torch.Tensor],
    costs: dict[str, int],
    budget: int,
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
    *,
    seed: int = 0,
    process: int = 0,
) -> dict[str, Any]:
    """Do what ``segmenter_steps`` does, and note what the network gets.

    Arguments as ``segmenter_steps`` has them.

    Returns:
        ``{"weights", "losses", "errors", "passes", "inputs", "logits"}``: the first three as
        ``segmenter_steps`` has them; for each forward pass the number of its samples, whether it
        was checkpointed, and autocast's dtype as text, or None outside of it; what the network
        got in each; and the dtypes of the logits that the loss function got, as text.
    """
    passes: list[list] = []
    inputs: list[torch.Tensor] = []
    network = _Noting(layers, weights, passes, inputs)
    needs = functools.partial(_cost, costs)
    with globals_kept():
        seed_globals(process)
        data = [(volumes[indices], masks[indices]) for indices in batches]
        dtypes: list[str] = []
        seen = _run_segmenter(segmenter_class, network, needs, budget, seed, data, dtypes=dtypes)
    told = {name: seen[name] for name in ("weights", "losses", "errors")}
    return {**told, "passes": passes, "inputs": inputs, "logits": dtypes}


@testimony
def segmenter_peak(
    segmenter_class: Callable[..., Any],
    layers: list,
    weights: dict[str, torch.Tensor],
    fits: tuple[int, bool, bool],
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
) -> dict[str, Any]:
    """Do what ``segmenter_steps`` does with what the network was measured to need; count bytes.

    Arguments as ``segmenter_steps`` has them, but one:

    Args:
        fits: the budget is what passes of so many samples need, with or without checkpointing and
            autocast, with the optimizer's momentum, and 0.4 of what one more needs.

    Returns:
        ``{"weights", "peak", "budget"}``: the weights in the end, and the most bytes that were
        there at one moment of the steps, the batches left out.
    """
    lines = {
        levers: _needs(layers, volumes, *levers)
        for levers in itertools.product((False, True), repeat=2)
    }
    momentum = sum(weight.nbytes for weight in weights.values())

    def needs(
        samples: int, checkpointed: bool, bfloat16: bool = False, patches: bool = False
    ) -> int:
        fixed, each = lines[bool(checkpointed), bool(bfloat16)]
        return momentum + fixed + samples * (each // 6 if patches else each)

    budget = needs(*fits) + int(0.4 * lines[fits[1], fits[2]][1])
    network = _Noting(layers, weights)
    data = [(volumes[indices], masks[indices]) for indices in batches]
    with PeakMeter([tensor for pair in data for tensor in pair]) as meter:
        seen = _run_segmenter(segmenter_class, network, needs, budget, 0, data)
    return {"weights": seen["weights"], "peak": meter.peak, "budget": budget}


def _cost(
    costs: dict[str, int],
    samples: int,
    checkpointed: bool,
    bfloat16: bool = False,
    patches: bool = False,
) -> int:
    divisor = (2 if checkpointed else 1) * (2 if bfloat16 else 1)
    if patches:
        divisor = 9 if checkpointed else 6
    return costs["fixed"] + samples * costs["whole"] // divisor


class _Noting(_Parts):
    """Runs its parts, and notes each pass in lists that no attribute leads to."""

    def __init__(
        self,
        layers: list,
        weights: dict[str, torch.Tensor],
        passes: list | None = None,
        inputs: list | None = None,
    ) -> None:
        super().__init__(layers)
        self.load_state_dict(weights)
        if passes is None:
            return
        plain = _Parts.forward

        class Watched(type(self)):
            def forward(self, x: torch.Tensor, checkpointed: bool = False) -> torch.Tensor:
                inside = torch.is_autocast_enabled(x.device.type)
                dtype = str(torch.get_autocast_dtype(x.device.type)) if inside else None
                passes.append([len(x), bool(checkpointed), dtype])
                inputs.append(x.detach().clone())
                return plain(self, x, checkpointed)

        self.__class__ = Watched


def _run_segmenter(
    segmenter_class: Callable[..., Any],
    network: torch.nn.Module,
    needs: Callable[..., int],
    budget: int,
    seed: int,
    data: list[tuple[torch.Tensor, torch.Tensor]],
    saved: torch.Tensor | None = None,
    dtypes: list[str] | None = None,
    left_over: float | None = None,
) -> dict[str, Any]:
    own = dict(network.named_parameters())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)

    def loss_function(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        if dtypes is not None:
            dtypes.append(str(logits.dtype))
        return 100 * functional.binary_cross_entropy_with_logits(logits, masks)

    seen: dict[str, Any] = {"losses": [], "errors": []}
    try:
        segmenter = segmenter_class(network, optimizer, loss_function, needs, budget, seed)
    except ValueError as error:
        if is_from_stub(error):
            raise
        seen["errors"] = [kind.__name__ for kind in type(error).__mro__]
    else:
        if saved is not None:
            segmenter.load_state_dict(from_bytes(saved))
        for x, y in data:
            for weight in own.values() if left_over is not None else ():
                weight.grad = torch.full_like(weight, left_over)
            seen["losses"].append(segmenter.step(x, y))
        seen["state"] = segmenter.state_dict()
    seen["weights"] = {name: weight.detach().clone() for name, weight in own.items()}
    return seen
