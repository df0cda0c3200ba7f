"""Probes for what segments volumes: networks that see patches, passes and trainings in a budget."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from helpers.calling import is_from_stub
from helpers.peak_memory import PeakMeter, peak_bytes
from helpers.probes.networks import build
from helpers.probes.runs import as_bytes
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
        ``{"output", "with_graph", "keeps_graph"}``: what came back; whether autograd was on while
        ``predict`` ran; and whether what came back requires a gradient.
    """
    factor = weights.clone().requires_grad_(True)
    with_graph = []

    def predict(x: torch.Tensor) -> torch.Tensor:
        with_graph.append(torch.is_grad_enabled())
        return x * factor

    output = function(predict, volume, patch, step)
    return {
        "output": output,
        "with_graph": any(with_graph),
        "keeps_graph": getattr(output, "requires_grad", False),
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
) -> dict[str, Any]:
    """Call ``function(network, loss_function, needs, volumes, masks, budget)``.

    The loss is the binary cross-entropy with logits. ``network(x, checkpointed)`` runs its parts
    one after another, with ``checkpointed`` under torch's checkpoint; ``needs(samples,
    checkpointed)`` returns what this very network was measured to need.

    Args:
        function: the student's.
        layers: the network's parts, each a list of layers, as ``network`` has them.
        state: the network's state dict.
        volumes: float32, shape (samples, channels, depth, height, width).
        masks: likewise, with one channel.
        fits: the budget is what passes of so many samples need, with or without checkpointing, and
            0.3 of what one more needs; for (0, True) it is half of what one needs.
        left_over: every entry of all gradients before the call; there are none if None.

    Returns:
        ``{"output", "errors", "gradients"}``: what came back; if an exception came where nothing
        fits, the names of its class and of those that it is derived from; and the gradients by the
        parameters' names.
    """
    task = _Task(layers, state, volumes, fits, left_over)
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
) -> dict[str, Any]:
    """Do what ``gradients_in_budget`` does, and count bytes and passes.

    Arguments as ``gradients_in_budget`` has them.

    Returns:
        besides, ``"peak"``, the most bytes that were there at one moment, the batch left out; the
        ``"budget"``; and ``"passes"``, for each forward pass the number of its samples and whether
        it was checkpointed.
    """
    task = _Task(layers, state, volumes, fits, left_over)
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
        self.lines = {saving: _needs(layers, state, volumes, saving) for saving in (False, True)}
        self.anything_fits = bool(fits[0])
        self.budget = self.needs(1, True) // 2
        if self.anything_fits:
            self.budget = self.needs(*fits) + int(0.3 * self.lines[fits[1]][1])

    def needs(self, samples: int, checkpointed: bool) -> int:
        fixed, each = self.lines[bool(checkpointed)]
        return fixed + samples * each

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


def _needs(layers: list, state: dict, volumes: torch.Tensor, saving: bool) -> tuple[int, int]:
    """Measure what two passes need, by one sample and by two: a fixed part, and that of a sample.

    In the second pass there are gradients already.
    """
    network = _Parts(layers)
    network.load_state_dict(state)
    loss_function = functional.binary_cross_entropy_with_logits
    peaks = []
    for samples in (1, 2):
        x = volumes[:1].expand(samples, *volumes.shape[1:]).contiguous()

        def two_passes(x: torch.Tensor = x) -> None:
            for _ in range(2):
                loss_function(network(x, saving), x).backward()

        peaks.append(peak_bytes(two_passes, except_for=[x]))
        network.zero_grad()
    each = peaks[1] - peaks[0]
    return peaks[0] - each, each


def segmenter_steps(
    segmenter_class: Callable[[int, int], Any],
    budget: int,
    seed: int,
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
    *,
    state: torch.Tensor | None = None,
    unseen: torch.Tensor | None = None,
    process: int = 0,
) -> dict[str, Any]:
    """Make a segmenter, or go on with one from its state, and let it step through ``batches``.

    Its state is written by ``torch.save`` and read by ``torch.load`` with ``weights_only=True``.

    Args:
        segmenter_class: called with budget and seed; its objects have ``step(volumes, masks)``,
            ``predict(volumes)``, ``state_dict()`` and ``load_state_dict(state)``.
        budget: bytes.
        seed: of the segmenter.
        volumes: all that batches are made of.
        masks: theirs.
        batches: each the indices of its volumes.
        state: what an earlier call returned.
        unseen: the segmenter predicts these at the end; nothing if None.
        process: seeds the global generators, as each process begins with other numbers.

    Returns:
        ``{"state", "logits", "drawn"}``: the written state, as uint8 of shape (bytes,); the
        prediction; and what torch's global generator draws when the segmenter is made.
    """
    with globals_kept():
        seed_globals(process)
        segmenter = segmenter_class(budget, seed)
        drawn = torch.rand((), dtype=torch.float32, device="cpu").item()
        if state is not None:
            written = io.BytesIO(state.numpy().tobytes())
            segmenter.load_state_dict(torch.load(written, weights_only=True))
        for indices in batches:
            segmenter.step(volumes[indices], masks[indices])
        logits = None if unseen is None else segmenter.predict(unseen)
        return {"state": as_bytes(segmenter.state_dict()), "logits": logits, "drawn": drawn}


@testimony
def segmenter_peaks(
    segmenter_class: Callable[[int, int], Any],
    budget: int,
    seed: int,
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
) -> dict[str, Any]:
    """Make a segmenter, let it step through ``batches``, and count the bytes.

    Arguments as ``segmenter_steps`` has them.

    Returns:
        ``{"peaks", "logits", "has_graph"}``: for each batch the most bytes that were there at one
        moment of each method: ``"step"``, and after it ``"state_dict"``, ``"load_state_dict"`` and,
        for a single volume, ``"predict"``, the batch left out; what was predicted for that volume
        at last; and whether a graph hangs on it.
    """
    segmenter = segmenter_class(budget, seed)
    peaks, logits = [], None
    for indices in batches:
        x, y, one = volumes[indices], masks[indices], volumes[:1].clone()
        seen: dict[str, Any] = {}
        calls = {
            "step": functools.partial(segmenter.step, x, y),
            "state_dict": segmenter.state_dict,
            "load_state_dict": lambda seen=seen: segmenter.load_state_dict(seen["state_dict"]),
            "predict": functools.partial(segmenter.predict, one),
        }
        sizes = {}
        for name, call in calls.items():

            def keep(seen: dict = seen, name: str = name, call: Callable = call) -> None:
                seen[name] = call()

            sizes[name] = peak_bytes(keep, except_for=[x, y, one])
        peaks.append(sizes)
        logits = seen["predict"]
    has_graph = isinstance(logits, torch.Tensor) and logits.requires_grad
    return {"peaks": peaks, "logits": logits, "has_graph": has_graph}
