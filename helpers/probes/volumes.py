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
from helpers.probes.testimony import testimony
from helpers.random_numbers import globals_kept, seed_globals


def joined_patches(
    function: Callable[..., Any],
    weights: torch.Tensor,
    volume: torch.Tensor,
    patch: int,
    step: int,
) -> dict[str, Any]:
    """Call ``function(predict, volume, patch, step)``.

    ``predict`` multiplies what it gets by ``weights``, so that a voxel's value depends on where in
    the patch it lies.

    Args:
        function: the student's.
        weights: shape (patch, patch, patch).
        volume: handed on.
        patch: handed on.
        step: handed on.

    Returns:
        ``{"output", "shapes", "with_graph", "keeps_graph", "volume"}``: what came back; the shape
        of each input of ``predict``; whether autograd was on while it ran; whether what came back
        requires a gradient; and what the volume holds after the call.
    """
    factor = weights.clone().requires_grad_(True)
    shapes, with_graph = [], []

    def predict(x: torch.Tensor) -> torch.Tensor:
        shapes.append(list(x.shape))
        with_graph.append(torch.is_grad_enabled())
        return x * factor

    output = function(predict, volume, patch, step)
    return {
        "output": output,
        "shapes": shapes,
        "with_graph": any(with_graph),
        "keeps_graph": getattr(output, "requires_grad", False),
        "volume": volume.clone(),
    }


@testimony
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
        ``{"output", "raised", "gradients", "peak", "budget", "passes"}``: what came back; the name
        of the exception's class that came instead, or ""; the gradients by the parameters' names;
        the most bytes that were there at one moment, the batch left out; the budget; and for each
        forward pass the number of its samples and whether it was checkpointed.
    """
    network = _Parts(layers)
    network.load_state_dict(state)

    lines = {saving: _needs(layers, state, volumes, saving) for saving in (False, True)}

    def needs(samples: int, checkpointed: bool) -> int:
        fixed, each = lines[bool(checkpointed)]
        return fixed + samples * each

    budget = needs(1, True) // 2
    if fits[0]:
        budget = needs(*fits) + int(0.3 * lines[fits[1]][1])
    weights = dict(network.named_parameters())
    for weight in weights.values():
        weight.grad = None if left_over is None else torch.full_like(weight, left_over)
    raised, output = "", None
    passes = network.passes
    loss_function = functional.binary_cross_entropy_with_logits
    with PeakMeter([volumes, masks]) as meter:
        try:
            output = function(network, loss_function, needs, volumes, masks, budget)
        except Exception as error:
            if is_from_stub(error) or fits[0]:
                raise
            raised = type(error).__name__
    return {
        "output": output,
        "raised": raised,
        "gradients": {name: weight.grad for name, weight in weights.items()},
        "peak": meter.peak,
        "budget": budget,
        "passes": passes,
    }


class _Parts(torch.nn.Module):
    """Runs its parts one after another; writes down what it was called with."""

    def __init__(self, layers: list) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(build(part) for part in layers)
        self.passes: list[list] = []

    def forward(self, x: torch.Tensor, checkpointed: bool = False) -> torch.Tensor:
        self.passes.append([len(x), bool(checkpointed)])
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


@testimony
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
        ``{"state", "logits", "peaks", "kept_generator"}``: the written state, as uint8 of shape
        (bytes,); the prediction; the most bytes of each step, the batch left out; and whether
        making the segmenter left torch's global generator as it was.
    """
    peaks = []
    with globals_kept():
        seed_globals(process)
        generator = torch.get_rng_state()
        segmenter = segmenter_class(budget, seed)
        kept_generator = torch.equal(torch.get_rng_state(), generator)
        if state is not None:
            written = io.BytesIO(state.numpy().tobytes())
            segmenter.load_state_dict(torch.load(written, weights_only=True))
        for indices in batches:
            x, y = volumes[indices], masks[indices]
            step = functools.partial(segmenter.step, x, y)
            peaks.append(peak_bytes(step, except_for=[x, y]))
        logits = None if unseen is None else segmenter.predict(unseen)
        written = io.BytesIO()
        torch.save(segmenter.state_dict(), written)
    content = torch.frombuffer(bytearray(written.getvalue()), dtype=torch.uint8)
    return {
        "state": content,
        "logits": logits,
        "peaks": peaks,
        "kept_generator": kept_generator,
    }


@testimony
def segmenter_peaks(
    segmenter_class: Callable[[int, int], Any],
    budget: int,
    seed: int,
    volumes: torch.Tensor,
    masks: torch.Tensor,
    batches: list[list[int]],
) -> list[dict[str, int]]:
    """Make a segmenter, let it step through ``batches``, and count the bytes.

    Arguments as ``segmenter_steps`` has them.

    Returns:
        for each batch the most bytes that were there at one moment of each method: ``"step"``, and
        after it ``"state_dict"``, ``"load_state_dict"`` and, for a single volume, ``"predict"``.
        The batch is left out.
    """
    segmenter = segmenter_class(budget, seed)
    peaks = []
    for indices in batches:
        x, y = volumes[indices], masks[indices]
        one = volumes[:1].clone()
        states: list[Any] = []
        calls = {
            "step": lambda x=x, y=y: segmenter.step(x, y),
            "state_dict": lambda states=states: states.append(segmenter.state_dict()),
            "load_state_dict": lambda states=states: segmenter.load_state_dict(states[0]),
            "predict": lambda one=one: segmenter.predict(one),
        }
        left_out = [x, y, one]
        peaks.append({name: peak_bytes(call, except_for=left_out) for name, call in calls.items()})
    return peaks
