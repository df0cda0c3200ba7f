"""Chapter 12: the course's own segmenter keeps the budgets, learns, and survives being killed."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import linecache
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from course_files import cells_before, define, source

from helpers import peak_bytes

BUDGETS = (900_000, 1_200_000, 1_700_000, 8_000_000)


@cache
def defined() -> dict:
    return define("12-capstone")


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("scans")
    defined()["fill_folder"](folder, defined()["volumes"], defined()["masks"])
    names = sorted(path.name for path in folder.glob("*.npy"))
    with pytest.raises(ValueError, match="scan-64"):
        defined()["pair_files"](names)
    names.remove("scan-64.npy")
    return defined()["make_shards"](folder, defined()["pair_files"](names), folder)


def training(shards: list[str], budget: int) -> tuple:
    torch.set_num_threads(1)
    network, *_, segmenter, loader = defined()["make_training"](shards, budget, 0)
    return network, segmenter, loader


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_budget_is_kept_with_all_that_the_optimizer_holds(budget: int, shards: list[str]) -> None:
    _, segmenter, loader = training(shards, budget)
    for _, x, y in itertools.islice(loader, 3):

        def step(x: torch.Tensor = x, y: torch.Tensor = y) -> None:
            for state in segmenter.optimizer.state.values():
                for value in state.values():
                    value.detach()
            segmenter.step(x, y)

        assert peak_bytes(step, except_for=[x, y]) <= budget


def test_whole_volumes_teach_more_than_patches(shards: list[str]) -> None:
    unseen, truth = defined()["make_volumes"](32, seed=1)
    reached = {}
    for budget in (900_000, 8_000_000):
        network, segmenter, loader = training(shards, budget)
        batches = (batch for _ in range(3) for batch in loader)
        for _, x, y in itertools.islice(batches, 40):
            segmenter.step(x, y)
        with torch.no_grad():
            reached[budget] = defined()["dice"]((network(unseen) > 0).float(), truth)
    assert reached[8_000_000] > 0.6
    assert reached[900_000] < reached[8_000_000] - 0.12


@pytest.mark.parametrize("budget", [900_000, 1_200_000])
def test_a_run_over_shards_that_is_killed_after_any_step_is_the_same_run(
    budget: int, shards: list[str], tmp_path: Path
) -> None:
    """Loader and training together: no sample lost, and weights equal to the last bit."""
    steps, file = 4, tmp_path / "run.pt"

    def go_on(segmenter: object, loader: object, most: int) -> list[list[str]]:
        seen = []
        for names, x, y in itertools.islice(loader, most):
            segmenter.step(x, y)
            seen.append(names)
        return seen

    _, segmenter, loader = training(shards, budget)
    whole = go_on(segmenter, loader, steps)
    end = segmenter.state_dict()
    for stop in range(steps):
        _, segmenter, loader = training(shards, budget)
        first = go_on(segmenter, loader, stop)
        defined()["save_run"](file, stop, segmenter, loader)
        torch.manual_seed(stop)
        _, segmenter, loader = training(shards, budget)
        assert defined()["load_run"](file, segmenter, loader) == stop
        assert first + go_on(segmenter, loader, steps - stop) == whole
        assert_equal(segmenter.state_dict(), end)


def assert_equal(state: object, expected: object) -> None:
    """Require that two nested states hold the same, to the last bit."""
    if isinstance(expected, torch.Tensor):
        assert torch.equal(state, expected)
    elif isinstance(expected, dict):
        assert state.keys() == expected.keys()
        for key, value in expected.items():
            assert_equal(state[key], value)
    elif isinstance(expected, list | tuple):
        assert len(state) == len(expected)
        for one, other in zip(state, expected, strict=True):
            assert_equal(one, other)
    else:
        assert state == expected


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the chapter writes, with eight scans."""
    (writing,) = (c.source for c in source("12-capstone").cells if "def cell_of" in c.source)
    namespace: dict = {"__name__": "__main__"}
    for number, code in enumerate([*cells_before("12-capstone", "", {}), writing]):
        name = f"<chapter 12, cell {number}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        exec(compile(code, name, "exec"), namespace)
    folder = tmp_path_factory.mktemp("artifact") / "segmenter"
    shutil.copytree(namespace["project"], folder)
    for path in (folder / "scans").iterdir():
        if path.name.split(".")[0].split("_")[0] not in {f"scan-{place}" for place in range(8)}:
            path.unlink()
    return folder


@pytest.fixture
def refusal(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Start the script in an empty folder and return the sentence with which it ends at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(project))
    spec = importlib.util.spec_from_file_location("train_of_chapter_12", project / "train.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    def no_training(*given: object, **named: object) -> None:
        raise AssertionError("it began to train")

    monkeypatch.setattr(script, "make_training", no_training)

    def started(*options: object) -> str:
        given = {"--budget": 900_000, "--scans": project / "scans"}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        told = [str(part) for pair in given.items() for part in pair if part is not None]
        monkeypatch.setattr(sys, "argv", ["train.py", *told])
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as end:
            script.main()
        assert sorted(tmp_path.rglob("*")) == before
        sentence = str(end.value.code)
        assert sentence.startswith("train.py: ")
        assert "\n" not in sentence
        return sentence

    return started


def test_the_script_ends_with_one_sentence_if_there_are_no_scans_that_it_can_train_on(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    assert "there is no folder elsewhere" in refusal("--scans", "elsewhere")
    scans = tmp_path / "mine"
    scans.mkdir()
    assert "mine holds no pair" in refusal("--scans", scans)
    np.save(scans / "a.npy", np.zeros((1, 16, 16, 16), np.float32))
    assert "mine: " in refusal("--scans", scans)  # and the sentence of `pair_files`
    for shape in ((1, 16, 16, 12), (1, 15, 15, 15), (1, 4, 4, 4), (16, 16, 16), (2, 16, 16, 16)):
        np.save(scans / "a.npy", np.zeros(shape, np.float32))
        np.save(scans / "a_mask.npy", np.zeros(shape, np.float32))
        assert f"a.npy has shape {shape}" in refusal("--scans", scans)
    np.save(scans / "a.npy", np.zeros((1, 16, 16, 16)))
    assert "a.npy holds float64" in refusal("--scans", scans)
    (scans / "a.npy").write_bytes(b"no array")
    assert f"cannot read {scans / 'a.npy'}" in refusal("--scans", scans)


def test_the_script_checks_the_scan_to_predict_and_its_options_before_it_trains(
    refusal: Callable[..., str], project: Path, tmp_path: Path
) -> None:
    assert "cannot read none.npy" in refusal("--predict", "none.npy")
    for shape in ((16, 16, 16), (1, 16, 12, 16), (2, 16, 16, 16)):
        np.save(tmp_path / "new.npy", np.zeros(shape, np.float32))
        assert f"new.npy has shape {shape}" in refusal("--predict", "new.npy")
    (tmp_path / "scan-3_found.npy").touch()
    scan = project / "scans" / "scan-3.npy"
    assert "scan-3_found.npy exists" in refusal("--predict", scan)
    assert "--steps must be" in refusal("--steps", 0)
    assert "--seed must be" in refusal("--seed", -1)
    assert "there is no folder away" in refusal("--checkpoint", "away/run.pt")


def test_the_script_overwrites_no_run_and_resumes_only_the_same_one(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    assert "there is no file run.pt" in refusal("--resume", None)
    (tmp_path / "run.pt").write_bytes(b"no checkpoint")
    assert "--resume" in refusal()
    assert "cannot read the checkpoint run.pt" in refusal("--resume", None)
    settings = {"budget": 900_000, "seed": 0, "scans": 8, "side": 16}
    for name, other in (("budget", 8_000_000), ("seed", 1), ("scans", 64), ("side", 24)):
        torch.save({"step": 2, "settings": {**settings, name: other}}, tmp_path / "run.pt")
        told = f"run.pt was written with {name} {other}, not {settings[name]}"
        assert told in refusal("--resume", None)
    torch.save({"step": 20, "settings": settings}, tmp_path / "run.pt")
    assert "at step 20 already" in refusal("--resume", None, "--steps", 10)


def test_the_script_imports_only_what_it_uses(project: Path) -> None:
    tree = ast.parse((project / "train.py").read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = [
        name.asname or name.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    ]
    assert set(imported) <= used
    assert "MIT License" in (project / "LICENSE").read_text()


def test_the_script_keeps_its_budget_and_resumes_bit_for_bit(project: Path) -> None:
    """Scans of 24³ voxels, in the smallest budget in which a patch of them fits."""
    scans = project / "larger"
    scans.mkdir()
    volumes, masks = defined()["make_volumes"](5, seed=3, sides=(24, 24, 24))
    defined()["fill_folder"](scans, volumes, masks)
    (scans / "scan-5.npy").unlink()

    def run(file: str, steps: int, *more: str) -> subprocess.CompletedProcess:
        options = f"--scans larger --budget 2200000 --checkpoint {file} --steps {steps}".split()
        return subprocess.run(
            [sys.executable, "train.py", *options, *more],
            cwd=project,
            # torch 2.4's own checkpointing warns of torch 2.4's autocast.
            env=os.environ | {"PYTHONWARNINGS": "ignore::FutureWarning:torch.utils.checkpoint"},
            capture_output=True,
            text=True,
        )

    whole = run("whole.pt", 3)
    assert whole.stderr == ""
    first, second = (
        run("part.pt", 2),
        run("part.pt", 3, "--resume", "--predict", "scans/scan-1.npy"),
    )
    assert "has shape (1, 16, 16, 16)" in second.stderr  # thinner than what it is trained on
    second = run("part.pt", 3, "--resume", "--predict", "larger/scan-1.npy")
    steps = [line for line in whole.stdout.splitlines() if line.startswith("step ")]
    assert [line.split(":")[0] for line in steps] == [f"step {n} of 3" for n in (1, 2, 3)]
    assert steps[2] in second.stdout
    assert steps[0].split(":")[1] in first.stdout
    (told,) = (line for line in whole.stdout.splitlines() if line.startswith("peak:"))
    predicted, measured, allowed = (
        int(word.replace(",", "")) for word in told.split() if word[0].isdigit()
    )
    assert measured <= predicted * 1.001
    assert predicted <= allowed == 2_200_000
    states = [torch.load(project / name, weights_only=True) for name in ("whole.pt", "part.pt")]
    assert_equal(*states)
    assert np.load(project / "scan-1_found.npy").shape == (1, 24, 24, 24)
    finished = run("part.pt", 3, "--resume")
    assert "is finished: 3 of 3 steps" in finished.stdout
