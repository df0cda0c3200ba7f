"""Chapter 04: its own scaler is torch's over thousands of random schedules."""

from __future__ import annotations

import math
import random
from functools import cache

import pytest
import torch
from course_files import find_cell, run_cell, source

SCHEDULES = 2000


@cache
def own_class() -> type:
    namespace: dict = {"__name__": "__main__", "torch": torch}
    run_cell(find_cell(source("04-gradscaler"), "own-scaler").source, namespace)
    return namespace["LossScaler"]


def draw_schedule(luck: random.Random) -> list[list[tuple[float, bool]]]:
    """Return for each iteration, for each optimizer, its gradient and whether it is unscaled
    before the step; some gradients overflow by the scale.
    """
    kinds = [1.0, -0.5, 3.0, 0.0, 2.0**117, math.inf, -math.inf, math.nan]
    weights = [12, 8, 8, 2, 3, 2, 1, 2]
    optimizers = luck.choice([1, 1, 2])
    return [
        [(luck.choices(kinds, weights)[0], luck.random() < 0.3) for _ in range(optimizers)]
        for _ in range(luck.randint(5, 10))
    ]


def run_schedule(scaler: object, schedule: list[list[tuple[float, bool]]]) -> list[tuple]:
    weights = [torch.ones(2, requires_grad=True) for _ in schedule[0]]
    optimizers = [torch.optim.SGD([weight], lr=2.0**-10) for weight in weights]
    trace = []
    for iteration in schedule:
        for weight, (slope, _) in zip(weights, iteration, strict=True):
            weight.grad = scaler.scale(torch.tensor([1.0, slope]))
        for optimizer, (_, first) in zip(optimizers, iteration, strict=True):
            if first:
                scaler.unscale_(optimizer)
        made = []
        for weight, optimizer in zip(weights, optimizers, strict=True):
            before = weight.detach().clone()
            scaler.step(optimizer)
            made.append(not torch.equal(weight.detach(), before))
        scaler.update()
        trace.append((scaler.get_scale(), made, [weight.tolist() for weight in weights]))
    return trace


@pytest.mark.parametrize("part", range(4))
def test_the_references_trace_is_torchs(part: int) -> None:
    luck = random.Random(part)
    for _ in range(SCHEDULES // 4):
        schedule = draw_schedule(luck)
        settings = {
            "init_scale": 2.0 ** luck.randint(4, 16),
            "growth_factor": luck.choice([2.0, 4.0]),
            "backoff_factor": luck.choice([0.5, 0.25]),
            "growth_interval": luck.randint(1, 5),
        }
        own = run_schedule(own_class()(**settings), schedule)
        theirs = run_schedule(torch.amp.GradScaler("cpu", **settings), schedule)
        assert own == theirs, (settings, schedule)
