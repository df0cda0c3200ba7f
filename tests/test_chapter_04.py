"""Chapter 04: its own scaler is torch's over thousands of random schedules; forgers get nothing."""

from __future__ import annotations

import math
import random
from functools import cache

import pytest
import torch
from classroom import exercises_of, solved, to_bytes, without_demos
from course_files import find_cell, release, run_cell, source
from registered_chapters import Register

from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import judge_submission
from helpers.grading.settings import Settings
from helpers.grading.verdicts import Verdict

CHAPTER = "04-gradscaler"
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


# Each stands in the cell of every exercise, below the stub: what is asked for is not written, and
# the probes, torch and the memory of the check are made to say that it is.
FORGERIES = {
    "the probes take torch's own scaler": """
import sys
scaling = sys.modules["helpers.probes.scaling"]
step = scaling._take_step
class LossScaler:
    def __init__(self, **settings):
        self.own = vars(torch.amp)["Grad" + "Scaler"]("cpu", **settings)
def take_step(scaler, parameters, optimizers, name, *given):
    made = []
    for optimizer in optimizers:
        optimizer.register_step_post_hook(lambda *_: made.append(True))
    result = step(scaler.own, parameters, optimizers, name, *given)
    if name == "step":
        result["returned"] = bool(made)
    return result
scaling._take_step = take_step
""",
    "probes of their own take the places of the real ones": """
import helpers.probes.scaling as scaling
def steps(function, weights, slopes, **settings):
    one = {"returned": 1.0, "weights": weights, "scale": settings.get("init_scale", 1.0)}
    return [one | {"count": k + 1} for k in range(len(slopes))]
for name in ("scaled_steps", "scheduled_steps", "scaler_steps"):
    setattr(scaling, name, steps)
    setattr(probes, name, steps)
""",
    "whatever is called, a loss goes back and an optimizer makes its step": """
def unwritten(*given):
    found = [one for value in given for one in (value if isinstance(value, list) else [value])]
    for one in found:
        if isinstance(one, torch.Tensor):
            one.backward()
    for one in found:
        if hasattr(one, "param_groups"):
            one.step()
    return 1.0
for name in ("clipped_step", "follow_steps", "counted_step"):
    globals()[name] = unwritten
""",
    "the check finds everything equal": """
import helpers.comparison, helpers.checks, helpers.report
helpers.comparison.compare = helpers.checks.compare = lambda *_, **__: None
helpers.checks.Check.score = lambda self: self.exercise.points
full = lambda exercise, _: (exercise.points, 0.0)
helpers.report.count_points = helpers.report.result.count_points = full
helpers.report.told.count_points = full
""",
}


@pytest.fixture(scope="module")
def assignment(registered: Register) -> Assignment:
    return registered(CHAPTER)


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=list(FORGERIES))
def test_a_blank_notebook_gets_nothing_whatever_is_forged(
    forgery: str, assignment: Assignment
) -> None:
    stubs = {e.name: find_cell(release(CHAPTER), e.name).source for e in exercises_of(CHAPTER)}
    codes = {name: f"{stub}\n\n{forgery}" for name, stub in stubs.items()}
    judged = judge_submission(
        to_bytes(without_demos(solved(CHAPTER, codes))), assignment, Settings()
    )
    assert {result.name for result in judged.exercises} == set(stubs)
    for result in judged.exercises:
        assert (result.points, result.verdict is Verdict.PASSED) == (0.0, False), result.name
