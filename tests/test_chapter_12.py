"""Chapter 12: the course's own segmenter keeps the budgets, learns, and survives being killed."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import itertools
import linecache
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from course_files import cells_before, define, find_cell, source

from helpers import peak_bytes

BUDGETS = (900_000, 1_200_000, 1_700_000, 8_000_000)
# What the chapter hands over, besides its report.
HANDED_OVER = {"LICENSE", "README.md", "peak_memory.py", "scans", "test-scans", "train.py"}


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


@cache
def needs_of(side: int) -> Callable[..., int]:
    """Return what the chapter measures, which takes long and depends on no weight."""
    torch.set_num_threads(1)
    loss_function = defined()["segmentation_loss"]
    return defined()["measure_needs"](defined()["seeded_network"](), loss_function, side)


def measured_once(network: object, loss_function: object, side: int = 16) -> Callable[..., int]:
    return needs_of(side)


def training(shards: list[str], budget: int, side: int = 16) -> tuple:
    needs_of(side)
    with mock.patch.dict(defined(), measure_needs=measured_once):
        network, *_, segmenter, loader = defined()["make_training"](shards, budget, 0, side=side)
    return network, segmenter, loader


def measured_peak(segmenter: object, x: torch.Tensor, y: torch.Tensor) -> int:
    """Return the peak of a step, with all that the optimizer keeps."""

    def step() -> None:
        for state in segmenter.optimizer.state.values():
            for value in state.values():
                value.detach()
        segmenter.step(x, y)

    return peak_bytes(step, except_for=[x, y])


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_budget_is_kept_with_all_that_the_optimizer_holds(budget: int, shards: list[str]) -> None:
    _, segmenter, loader = training(shards, budget)
    for _, x, y in itertools.islice(loader, 3):
        assert measured_peak(segmenter, x, y) <= budget


def save_small_scans(folder: Path, count: int = 4, side: int = 8) -> None:
    folder.mkdir()
    sides = (side, side, side)
    pairs = defined()["make_volumes"](count, seed=5, sides=sides, balls=1, rods=1)
    defined()["save_pairs"](folder, *pairs)


def test_a_budget_is_kept_to_the_byte_that_its_plan_needs(tmp_path: Path) -> None:
    save_small_scans(tmp_path / "small")
    names = [path.name for path in (tmp_path / "small").glob("*.npy")]
    pairs = defined()["pair_files"](names)
    shards = defined()["make_shards"](tmp_path / "small", pairs, tmp_path)
    needs = needs_of(8)
    plans = (
        (1, True, False, True),
        (2, False, False, True),
        (1, True, True),
        (1, True),
        (4, False),
    )
    for plan in plans:
        budget = needs(*plan)
        _, segmenter, loader = training(shards, budget, side=8)
        batches = (batch for _ in range(2) for batch in loader)
        peaks = [measured_peak(segmenter, x, y) for _, x, y in batches]
        assert len(peaks) == 2
        assert max(peaks) <= budget, plan


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
        saved = torch.load(file, weights_only=True)
        assert defined()["load_run"](saved, segmenter, loader) == stop
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


def written_project(folder: Path, answers: Mapping[str, str]) -> tuple[Path, str]:
    """Return the folder that the chapter writes, from these answers, and what it prints."""
    (writing,) = (c.source for c in source("12-capstone").cells if "def cell_of" in c.source)
    namespace: dict = {"__name__": "__main__"}
    printed = io.StringIO()
    for number, code in enumerate([*cells_before("12-capstone", "", answers), writing]):
        name = f"<chapter 12, cell {number} of {len(answers)}>"
        linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, name, "exec"), namespace)
    shutil.copytree(namespace["project"], folder)
    return folder, printed.getvalue()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the chapter writes, with eight scans."""
    folder, _ = written_project(tmp_path_factory.mktemp("artifact") / "segmenter", {})
    for path in (folder / "scans").iterdir():
        if path.name.split(".")[0].split("_")[0] not in {f"scan-{place}" for place in range(8)}:
            path.unlink()
    return folder


def test_answers_as_people_write_them_go_into_the_script_whole_and_without_trials(
    tmp_path: Path,
) -> None:
    answers = {
        name: find_cell(source("12-capstone"), name).source
        for name in ("bug-hunt-pairs", "join-patches")
    }
    answers["bug-hunt-pairs"] += (
        "\n\nENDING = '.npy'  # a setting\n\n\n"
        "def is_array(name):\n    pair = name\n    return pair.endswith(ENDING)\n\n\n"
        "pairs = pair_files(['a.npy', 'a_mask.npy'])\n"
        "for pair in pairs:\n    print('a trial', pair)\nassert pairs\n"
    )
    function = "def join_patches("
    answers["join-patches"] = answers["join-patches"].replace(
        function, f"@torch.no_grad()\n{function}"
    )
    folder, printed = written_project(tmp_path / "segmenter", answers)
    script = (folder / "train.py").read_text()
    assert f"@torch.no_grad()\n{function}" in script
    assert "ENDING = '.npy'  # a setting" in script
    assert "a trial" in printed
    assert "a trial" not in script
    assert "assert pairs" not in script
    assert "does not define: none" in printed
    done = subprocess.run(
        [sys.executable, "train.py", "--test", "test-scans"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr[:9]) == ("", "train.py:")  # there is no checkpoint


def test_the_chapter_hands_over_no_leftovers_and_its_readme_names_each_file(project: Path) -> None:
    assert {path.name for path in project.iterdir()} == HANDED_OVER
    readme = (project / "README.md").read_text()
    for name in HANDED_OVER - {"README.md"} | {"report.md", "scans.png"}:
        assert f"`{name}{'/' * (project / name).is_dir()}`" in readme
    assert all(path.suffix in (".npy", ".txt") for path in (project / "scans").iterdir())
    assert len(list((project / "test-scans").glob("*_mask.npy"))) == 32


def test_dice_is_the_share_that_two_masks_have_in_common() -> None:
    masks = torch.zeros(3, 1, 2, 2, 2)
    masks[1, 0, 0] = masks[2, 0, 0, 0] = 1
    found = torch.zeros(3, 1, 2, 2, 2)
    found[2, 0, 0, 0, 0] = 1
    each = [defined()["dice"](found[n : n + 1], masks[n : n + 1]) for n in range(3)]
    assert each == pytest.approx([1, 0, 2 / 3])  # two empty masks are equal
    assert defined()["dice"](found, masks) == pytest.approx(5 / 9)


@pytest.fixture
def script(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """The script as a module, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    spec = importlib.util.spec_from_file_location("train_of_chapter_12", project / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def refusal(
    script: object, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """Start the script in an empty folder and return the sentence with which it ends at once."""

    def no_training(*given: object, **named: object) -> None:
        raise AssertionError("it began to train")

    monkeypatch.setattr(script, "make_training", no_training)

    def started(*options: object) -> str:
        given = {"--budget": 900_000, "--scans": project / "scans"}
        given |= dict(zip(options[::2], options[1::2], strict=True))
        if "--test" in given:
            del given["--budget"]
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


@pytest.fixture
def run(
    script: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> Callable[..., tuple[str, str]]:
    """Run the script on four small scans; return what it printed, and its error message."""
    save_small_scans(Path("small"))
    monkeypatch.setattr(script, "measure_needs", measured_once)

    def started(*options: object) -> tuple[str, str]:
        given = ["--scans", "small", *options] if "--test" not in options else options
        monkeypatch.setattr(sys, "argv", ["train.py", *map(str, given)])
        capsys.readouterr()
        error = ""
        try:
            script.main()
        except SystemExit as end:
            error = str(end.code)
            assert error.startswith("train.py: ")
            assert "\n" not in error
        return capsys.readouterr().out, error

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
    with (scans / "a.npy").open("wb") as file:
        np.savez(file, np.zeros(3))
    assert f"{scans / 'a.npy'} is damaged or holds no NumPy array" in refusal("--scans", scans)
    for content in (b"no array", b"", b"\x93NUMPY\x01\x00\x02"):
        (scans / "a.npy").write_bytes(content)
        assert f"{scans / 'a.npy'} is damaged or holds no" in refusal("--scans", scans)


def test_the_script_refuses_masks_of_other_numbers_and_scans_that_are_not_finite(
    refusal: Callable[..., str], tmp_path: Path
) -> None:
    save_small_scans(tmp_path / "mine")
    scan, mask = (tmp_path / "mine" / f"scan-2{end}.npy" for end in ("", "_mask"))
    kept = np.load(mask)
    for number, told in ((255, "255"), (0.5, "0.5"), (-1, "-1"), (np.nan, "nan")):
        np.save(mask, np.where(kept > 0, np.float32(number), np.float32(0)))
        assert f"{mask} holds {told}: " in refusal("--scans", tmp_path / "mine")
    np.save(mask, kept)
    for number in (np.nan, np.inf, -np.inf):
        array = np.zeros((1, 8, 8, 8), np.float32)
        array[0, 3, 4, 5] = number
        np.save(scan, array)
        assert f"{scan} holds {number}: " in refusal("--scans", tmp_path / "mine")
        assert f"{scan} holds {number}: " in refusal("--predict", scan)


def test_the_script_checks_the_scan_to_predict_and_its_options_before_it_trains(
    refusal: Callable[..., str], project: Path, tmp_path: Path
) -> None:
    assert "there is no file none.npy" in refusal("--predict", "none.npy")
    for shape in ((16, 16, 16), (1, 16, 12, 16), (2, 16, 16, 16)):
        np.save(tmp_path / "new.npy", np.zeros(shape, np.float32))
        assert f"new.npy has shape {shape}" in refusal("--predict", "new.npy")
    (tmp_path / "scan-3_found.npy").touch()
    scan = project / "scans" / "scan-3.npy"
    assert "scan-3_found.npy exists" in refusal("--predict", scan)
    assert "--steps is 0" in refusal("--steps", 0)
    assert "--budget is -5" in refusal("--budget", -5)
    assert "--seed is -1" in refusal("--seed", -1)
    assert "--seed is 4294967296" in refusal("--seed", 2**32)
    assert "there is no folder away" in refusal("--checkpoint", "away/run.pt")
    (tmp_path / "runs").mkdir()
    for more in ((), ("--resume", None), ("--test", project / "test-scans")):
        assert "checkpoint runs is a folder" in refusal("--checkpoint", "runs", *more)


def test_the_script_overwrites_no_run_and_resumes_only_the_same_one(
    refusal: Callable[..., str], script: object, tmp_path: Path
) -> None:
    assert "there is no checkpoint run.pt" in refusal("--resume", None)
    assert "there is no checkpoint run.pt" in refusal("--test", tmp_path)
    save_small_scans(tmp_path / "small")
    settings = {"budget": 900_000, "seed": 0, "side": 8}
    file = tmp_path / "run.pt"
    *_, settings["scans"] = script.read_training_scans(tmp_path / "small")

    def save(step: int = 2, **others: object) -> None:
        parts = {"segmenter": {}, "loader": {}}
        torch.save({"step": step, "settings": settings | others, **parts}, file)

    resume = ("--scans", tmp_path / "small", "--resume", None)
    for name, other in (("budget", 8_000_000), ("seed", 1)):
        save(**{name: other})
        told = f"run.pt was trained with --{name} {other}, not {settings[name]}"
        assert told in refusal(*resume)
    for name, other in (("side", 16), ("scans", "other")):
        save(**{name: other})
        assert "run.pt is from a run on scans other than those in" in refusal(*resume)
    save(step=20)
    assert "at step 20 already" in refusal(*resume, "--steps", 10)
    assert "--resume" in refusal()


def test_the_script_says_that_a_checkpoint_is_damaged(
    refusal: Callable[..., str], project: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.pt"
    whole = {"step": 2, "settings": {"budget": 900_000, "seed": 0, "side": 16, "scans": "x"}}
    whole |= {"segmenter": {"weights": torch.arange(1000.0)}, "loader": {}}
    torch.save(whole, file)
    content = file.read_bytes()
    place = content.index(torch.tensor([500.0, 501.0]).numpy().tobytes())
    contents = [b"", b"no checkpoint", content[: len(content) // 2]]
    contents.append(content[:place] + b"\x7f" + content[place + 1 :])
    for other in ([1, 2], {}, whole | {"step": "2"}, whole | {"settings": {}}, {"step": 2}):
        torch.save(other, file)
        contents.append(file.read_bytes())
    for damaged in contents:
        file.write_bytes(damaged)
        for option, value in (("--resume", None), ("--test", project / "test-scans")):
            assert "the checkpoint run.pt is damaged or was not written by" in refusal(
                option, value
            )
    torch.save(whole, file)
    assert "written by another train.py" in refusal("--test", project / "test-scans")


def test_a_budget_below_the_least_need_is_refused_and_the_least_is_named(
    run: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    for budget in (1, 1000):
        _, error = run("--budget", budget)
        assert f"a budget of {budget:,} bytes is too small: a step needs " in error
        assert not list(tmp_path.glob("*.pt"))
    least = int(error.split("a step needs ")[1].split(";")[0].replace(",", ""))
    _, error = run("--budget", least - 1)
    assert f"a step needs {least:,}" in error
    printed, error = run("--budget", least, "--steps", 2)
    assert not error
    assert "step 2 of 2" in printed


def test_a_step_that_exceeds_its_budget_ends_the_run_with_an_error(
    script: object,
    run: Callable[..., tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    step = script.measured_step
    with monkeypatch.context() as patch:
        patch.setattr(script, "measured_step", lambda *given: (step(*given)[0], 8_000_001))
        printed, error = run("--budget", 8_000_000, "--steps", 3)
    assert "step 2 took 8,000,001 bytes, more than the budget of 8,000,000" in error
    assert "step 2 of" not in printed
    assert torch.load(tmp_path / "run.pt", weights_only=True)["step"] == 1
    with monkeypatch.context() as patch:
        patch.setattr(script.Segmenter, "step", lambda *given: float("nan"))
        _, error = run("--budget", 8_000_000, "--steps", 3, "--checkpoint", "other.pt")
    assert "the loss of step 1 is nan" in error
    assert not (tmp_path / "other.pt").exists()


def test_a_checkpoint_is_tested_on_scans_and_masks_and_read_once(
    script: object,
    run: Callable[..., tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    printed, error = run("--budget", 8_000_000, "--steps", 2)
    assert not error
    assert "whole volumes, 4 at a time; 1 micro-batch per step" in printed
    save_small_scans(tmp_path / "new", count=2, side=12)
    reads, load = [], torch.load

    def counted(*given: object, **named: object) -> object:
        reads.append(given)
        return load(*given, **named)

    monkeypatch.setattr(torch, "load", counted)
    before = (tmp_path / "run.pt").read_bytes()
    printed, error = run("--test", "new")
    assert not error
    assert (tmp_path / "run.pt").read_bytes() == before
    assert len(reads) == 1
    network = script.seeded_network()
    network.load_state_dict(load(tmp_path / "run.pt", weights_only=True)["segmenter"]["network"])
    expected = []
    for place in range(2):
        scan, mask = (np.load(f"new/scan-{place}{end}.npy") for end in ("", "_mask"))
        found = script.join_patches(network, torch.from_numpy(scan)[None], 8, 4)[0].numpy() > 0
        expected.append(2 * (found * mask).sum() / max(found.sum() + mask.sum(), 1))
        assert f"scan-{place}.npy: Dice {expected[-1]:.4f}\n" in printed
    assert f"mean Dice of 2 scans: {sum(expected) / 2:.4f}\n" in printed
    printed, error = run("--predict", "new/scan-1.npy")
    assert (printed, error) == ("mask saved as scan-1_found.npy\n", "")
    saved = np.load("scan-1_found.npy")
    assert (saved.dtype, bool((saved == found).all())) == (np.float32, True)
    _, error = run("--predict", "new/scan-1.npy")
    assert "scan-1_found.npy exists" in error
    _, error = run("--budget", 8_000_000, "--steps", 3, "--resume")
    assert not error
    assert len(reads) == 4
    np.save("new/scan-1_mask.npy", np.zeros((1, 8, 8, 8), np.float32))
    _, error = run("--test", "new")
    assert "scan-1_mask.npy has shape (1, 8, 8, 8), but its scan (1, 12, 12, 12)" in error
    save_small_scans(tmp_path / "mine", count=4)
    np.save("mine/scan-0.npy", np.load("small/scan-0.npy") + 1)
    _, error = run("--budget", 8_000_000, "--scans", "mine", "--steps", 4, "--resume")
    assert "run.pt is from a run on scans other than those in mine" in error


def test_the_options_are_explained_and_contradictory_ones_refused(
    script: object, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    contradictory = ("", "--test new --resume", "--test new --budget 9", "--predict a.npy --resume")
    for options, status in (("--help", 0), *((options, 2) for options in contradictory)):
        monkeypatch.setattr(sys, "argv", ["train.py", *options.split()])
        with pytest.raises(SystemExit) as end:
            script.main()
        assert end.value.code == status
    printed, error = capsys.readouterr()
    assert "on the CPU" in printed
    assert "--budget is required for training" in error
    assert "--test trains nothing" in error
    readme = (project / "README.md").read_text()
    commands = [part for part in readme.split("`") if part.startswith("python train.py ")]
    assert len(commands) >= 4
    for command in commands:
        for word in command.split()[2:]:
            assert not word.startswith("--") or f"{word} " in printed or f"{word}\n" in printed


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


def test_the_script_keeps_its_budget_and_resumes_bit_for_bit(project: Path, tmp_path: Path) -> None:
    """Scans of 24³ voxels, in the smallest budget in which a patch of them fits."""
    # A copy: other tests look at what the chapter has written, in any order.
    project = shutil.copytree(project, tmp_path / "segmenter")
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
    assert measured <= predicted
    assert predicted <= allowed == 2_200_000
    states = [torch.load(project / name, weights_only=True) for name in ("whole.pt", "part.pt")]
    assert_equal(*states)
    assert np.load(project / "scan-1_found.npy").shape == (1, 24, 24, 24)
    finished = run("part.pt", 3, "--resume")
    assert "is finished: 3 of 3 steps" in finished.stdout
