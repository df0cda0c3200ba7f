"""Chapter 10: the reference run survives real kills, and real sources of difference are found."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path

import pytest
import torch
from course_files import define

from helpers.random_numbers import globals_kept, seed_globals

STEPS = 14


@cache
def defined() -> dict:
    return define("10-reproducibility")


def train(training: object, count: int) -> list:
    trace = []
    for _ in range(count):
        seen = training.step()
        seen["weights"] = [value.tolist() for value in seen["weights"]]
        seen["average"] = [value.tolist() for value in seen["average"]]
        trace.append(seen)
    return trace


def whole_trace() -> list:
    with globals_kept():
        seed_globals(11)
        return train(defined()["ResumableTraining"](), STEPS)


def train_until_killed(steps: int, checkpoint: Path) -> None:
    """Train in a process of its own, with a checkpoint after each step, and kill -9 it then."""
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)
        seed_globals(11)
        training = defined()["ResumableTraining"]()
        for step in range(steps + 1):
            state = {"made": step, "training": training.state_dict()}
            defined()["save_safely"](lambda target, s=state: torch.save(s, target), str(checkpoint))
            if step < steps:
                training.step()
        # In the middle of the next checkpoint.
        defined()["save_safely"](write_half_and_die, str(checkpoint))
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL


def write_half_and_die(target: str) -> None:
    Path(target).write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_run_killed_at_any_step_goes_on_to_the_last_bit(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        whole = whole_trace()
        for step in range(STEPS):
            checkpoint = tmp_path / f"{step}.pt"
            train_until_killed(step, checkpoint)
            saved = torch.load(checkpoint, weights_only=True)
            assert saved["made"] == step
            with globals_kept():
                seed_globals(99 + step)
                resumed = defined()["ResumableTraining"]()
                resumed.load_state_dict(saved["training"])
                assert train(resumed, STEPS - step) == whole[step:]
    finally:
        torch.set_num_threads(threads)


def test_the_training_has_all_that_a_state_must_hold() -> None:
    whole = whole_trace()
    assert len({tuple(step["samples"]) for step in whole}) == STEPS
    assert len({step["scale"] for step in whole}) > 1
    assert len({step["learning rate"] for step in whole}) > 2


LOOSE = [
    [],
    *([source] for source in ("random", "numpy", "torch", "order of files", "threads", "clock")),
    ["numpy", "threads"],
    ["random", "torch", "clock"],
]


@pytest.mark.parametrize("loose", LOOSE, ids=" and ".join)
def test_every_source_of_the_pipeline_is_produced_and_found(loose: list[str]) -> None:
    sources, run_pipeline = defined()["SOURCES"], defined()["run_pipeline"]

    def run(fixed: list[str]) -> list[float]:
        return run_pipeline([s for s in sources if s in fixed or s not in loose])

    with globals_kept():
        assert defined()["guilty_sources"](run, sources) == loose


def test_all_sources_together_are_found() -> None:
    with globals_kept():
        found = defined()["guilty_sources"](defined()["run_pipeline"], defined()["SOURCES"])
    assert found == defined()["SOURCES"]
