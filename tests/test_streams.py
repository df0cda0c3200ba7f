"""The explorable's streams are those of random, NumPy, torch, forks and a DataLoader's workers."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from helpers import explore_streams
from helpers.explorables import stage
from helpers.explorables.streams import CHILDREN, EXTRAS, OWN_SEED, OWNERS, STEPS, run, say
from helpers.random_numbers import globals_kept

EXPOSE = "\nwindow.explorer = { run, describe };\n"
STATES = [
    {
        "seed": seed,
        "extra": extra,
        "killed": kept is not None,
        "kept": list(kept or ()),
        "children": c,
    }
    for seed, (extra, kept, c) in enumerate(
        itertools.product(EXTRAS, (None, (), ("random",), ("NumPy", "torch"), OWNERS), CHILDREN)
    )
]
for number, each in enumerate(STATES):
    each["seed"] = number % 10


class Draws(torch.utils.data.Dataset):
    """Each sample is what the three generators of its process give next."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> list[float]:
        return draw_all()


def draw_all() -> list[float]:
    return [random.random(), float(np.random.random()), torch.rand(()).item()]


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def draw_in_fork() -> list[float]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(draw_all()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with open(reading) as file:
        return json.load(file)


def run_really(state: dict) -> tuple[list, list]:
    """Do with the global generators, real forks and real workers what the explorable computes."""
    seed_all(state["seed"])
    own = torch.Generator().manual_seed(OWN_SEED)
    steps, children = [], []
    for step in range(STEPS):
        if step == 1:
            extra = state["extra"]
            if extra in OWNERS:
                {"random": random.random, "NumPy": np.random.random}.get(
                    extra, lambda: torch.rand(())
                )()
            elif extra != "none":
                iter(DataLoader(range(3), generator=own if extra == "own" else None))
        if step == 3 and state["killed"]:
            states = random.getstate(), np.random.get_state(), torch.get_rng_state()
            seed_all(state["seed"])
            own = torch.Generator().manual_seed(OWN_SEED)
            restore = random.setstate, np.random.set_state, torch.set_rng_state
            for owner, function, saved in zip(OWNERS, restore, states, strict=True):
                if owner in state["kept"]:
                    function(saved)
        if step == 5 and state["children"] == "fork":
            children = [draw_in_fork(), draw_in_fork()]
        elif step == 5 and state["children"] != "none":
            generator = own if state["children"] == "own" else None
            loader = DataLoader(Draws(), batch_size=None, num_workers=2, generator=generator)
            children = list(loader)
        steps.append(draw_all())
    return steps, children


@pytest.mark.parametrize("state", [s for s in STATES if s["children"] in ("none", "fork")][::3])
def test_the_streams_are_those_of_the_global_generators(state: dict) -> None:
    with globals_kept():
        found = run(state)
        steps, children = run_really(state)
    assert found.steps == steps
    if state["children"] == "fork":
        assert [numbers[1:] for numbers in children] == [numbers[1:] for numbers in found.children]
        # Python's own generator: two children, and their parent, draw three different numbers.
        assert len({steps[5][0], *(numbers[0] for numbers in children)}) == 3
        assert [numbers[0] for numbers in found.children] == [None, None]


WORKERS = [s for s in STATES if s["children"] in ("workers", "own")][::9]


def test_the_workers_are_those_of_a_data_loader() -> None:
    # In a process of its own: a fork of one that has used threads may hang.
    code = (
        "import json, sys, torch; torch.set_num_threads(1); sys.path.insert(0, sys.argv[1])\n"
        "from test_streams import run_really, WORKERS\n"
        "print(json.dumps([run_really(state) for state in WORKERS]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, os.path.dirname(__file__)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    really = json.loads(done.stdout)
    assert really == [[run(state).steps, run(state).children] for state in WORKERS]


def test_what_the_chapter_says_of_it() -> None:
    plain = {"seed": 3, "extra": "none", "killed": False, "kept": [], "children": "none"}
    whole = run(plain).steps
    assert run(plain | {"killed": True, "kept": list(OWNERS)}).steps == whole
    again = run(plain | {"killed": True}).steps
    assert again[3:] == whole[:3]
    moved = run(plain | {"extra": "loop"}).steps
    assert [
        [a == b for a, b in zip(*pair, strict=True)] for pair in zip(moved, whole, strict=True)
    ] == [[True, True, k < 1] for k in range(STEPS)]
    assert run(plain | {"extra": "own"}).steps == whole
    forked = run(plain | {"children": "fork"})
    assert forked.children == [[None, *whole[5][1:]]] * 2
    workers = run(plain | {"children": "workers"}).children
    assert len({number for numbers in workers for number in numbers}) == 6


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page(viewport={"width": 800, "height": 900}, has_touch=True)
    page.set_content("<p>a page</p>")
    page.add_script_tag(type="module", content=stage.read_module("streams") + EXPOSE)
    page.wait_for_function("() => window.explorer")
    yield page
    page.close()


@pytest.mark.needs_system("chromium-headless-shell")
def test_the_page_computes_and_says_the_same(page) -> None:
    computed = page.evaluate("states => states.map(explorer.run)", STATES)
    assert computed == [vars(run(state)) for state in STATES]
    told = page.evaluate("states => states.map(explorer.describe)", STATES)
    assert told == [say(state) for state in STATES]


@pytest.mark.needs_system("chromium-headless-shell")
def test_events_by_mouse_touch_and_keyboard(page) -> None:
    state = {"seed": 0, "extra": "none", "killed": False, "kept": list(OWNERS), "children": "none"}
    still = stage.set_up("streams", state, "a picture")
    page.evaluate("html => { document.body.innerHTML = html }", still)
    code = stage.read_module("streams") + '\nmountAll(document, "streams", mount);\n'
    page.add_script_tag(type="module", content=code)
    said = page.get_by_role("status")
    assert "random 6 of 6, NumPy 6 of 6 and torch 6 of 6" in said.inner_text()
    page.get_by_label("Before step 2:").select_option("loop")
    assert "torch 1 of 6" in said.inner_text()
    assert page.locator("rect.bits-other:not([width='26'])").count() == 5
    page.get_by_label("Before step 2:").select_option("own")
    assert "torch 6 of 6" in said.inner_text()
    assert page.get_by_label("NumPy", exact=True).is_disabled()
    page.get_by_label("killed and resumed").tap()
    page.get_by_label("NumPy", exact=True).tap()
    assert "restores random and torch, but not NumPy" in said.inner_text()
    assert "NumPy 3 of 6" in said.inner_text()
    page.get_by_label("Before step 6:").select_option("fork")
    assert page.locator("rect.bits-copy:not([width='26'])").count() == 4
    page.get_by_role("slider").focus()
    page.keyboard.press("End")
    assert "NumPy 3 of 6" in said.inner_text()
    page.get_by_label("Before step 6:").select_option("workers")
    assert "the base seed, " in said.inner_text()
    assert page.locator("rect.bits-own:not([width='26'])").count() == 6


def test_outside_a_notebook_three_lines_tell_it(capsys: pytest.CaptureFixture) -> None:
    explore_streams(2, "torch", killed=True, kept=("torch",), children="fork")
    first, second, third = capsys.readouterr().out.splitlines()
    assert (
        first == "As in the undisturbed run: random 3 of 6, NumPy 3 of 6 and torch 1 of 6 numbers."
    )
    assert second.endswith("restores torch, but not random or NumPy.")
    assert "both children draw what the main process draws" in third


def test_what_cannot_be_drawn_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="write a number from 0 to 9"):
        explore_streams(10)
    with pytest.raises(ValueError, match="write one of: none, random"):
        explore_streams(extra="numpy")
    with pytest.raises(ValueError, match="write one of: none, fork"):
        explore_streams(children="threads")
    with pytest.raises(ValueError, match="write names out of"):
        explore_streams(kept=["python"])
