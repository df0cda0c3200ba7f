"""A blank notebook with any forgery gets what a blank one gets."""

from __future__ import annotations

from collections.abc import Callable

import nbformat
import pytest
from classroom import exercises_of, to_bytes, without_demos
from course_files import find_cell, release
from registered_chapters import Register

from helpers.grading.judge import judge
from helpers.grading.settings import Settings

CHAPTERS = ("04-gradscaler", "10-reproducibility", "11-looking-inside")
# What probes are made of is given what they should see; what they return, what is expected.
REBOUND = """
import helpers.probes
from helpers.random_numbers import first_draws

def forged(function, *args, **kwargs):
    return {"output": None, "arguments": list(args), "alive": [0] * 6, "callable": True}

forgeries = {"seeded_draws": lambda function, seeds: [first_draws(seed) for seed in seeds]}
for name in helpers.probes.__all__:
    chosen = forgeries.get(name, forged)
    setattr(helpers.probes, name, chosen)
    vars(probes)[name] = chosen
"""
REPLACED = """
import sys
import torch

def first(*args, **kwargs):
    return torch.amp.GradScaler("cpu", **kwargs)

def draws(function, seeds):
    from helpers.random_numbers import first_draws
    return [first_draws(seed) for seed in seeds]

import helpers.calling, helpers.probes, helpers.probes.random_numbers
helpers.probes.random_numbers.seeded_draws.__code__ = draws.__code__
helpers.calling.is_from_stub = lambda error: False
torch.nn.Module.__call__ = lambda self, *args: args[0]
torch.Tensor.backward = torch.autograd.backward = lambda *args, **kwargs: None
for name, value in list(globals().items()):
    if isinstance(value, type) and value.__module__ == "__main__":
        globals()[name] = first
sys.settrace(lambda *info: None)
"""
FORGERIES = {"rebound": REBOUND, "replaced": REPLACED}


@pytest.fixture(scope="module")
def judged(registered: Register) -> Callable:
    def judged(chapter: str, notebook: nbformat.NotebookNode) -> list:
        submission = to_bytes(notebook)
        return list(judge.judge_submission(submission, registered(chapter), Settings()).exercises)

    return judged


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("chapter", CHAPTERS)
@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("place", ["a cell of its own", "every solution's cell"])
def test_a_forged_blank_notebook_gets_no_point(
    judged: Callable, chapter: str, forgery: str, place: str
) -> None:
    blank = without_demos(release(chapter))
    if place == "a cell of its own":
        first = find_cell(blank, exercises_of(chapter)[0].name)
        stray = nbformat.v4.new_code_cell(FORGERIES[forgery])
        blank.cells.insert(blank.cells.index(first), stray)
    else:
        for exercise in exercises_of(chapter):
            find_cell(blank, exercise.name).source += FORGERIES[forgery]
    for result in judged(chapter, blank):
        told = f"{result.name}: {result.verdict}, {result.points:g} points, {result.waiting:g}"
        assert result.points == 0, told
        assert bool(result.waiting) <= bool(result.for_a_person), told
        if place == "a cell of its own":
            assert result.waiting == 0, told
