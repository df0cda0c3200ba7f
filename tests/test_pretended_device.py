"""Chapters and checks on a device that is not the CPU: a pretended one, which every machine has.

Of each chapter, the cells that touch a device run in a process of their own, with those that they
build on; what they print is what is stored, but for a list of differences. That the device notices
anything is shown by faults that are planted in the chapters' own cells.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest
from course_files import CHAPTERS, COURSE, ROOT, source
from nbformat.notebooknode import NotebookNode
from pretended_device.building import build_library, find_obstacle
from pretended_device.cells import Fault, choose_cells, is_measured
from pretended_device.faults import FAULTS

from helpers.authoring.build import STRICT_WARNINGS

_OBSTACLE = find_obstacle()
pytestmark = [
    pytest.mark.skipif(bool(_OBSTACLE), reason=f"no pretended device: {_OBSTACLE}"),
    # Seconds of work, and a compiler's; on a busy machine they take many times as long.
    pytest.mark.timeout(3000),
]

ON_DEVICE = Path(__file__).parent / "pretended_device" / "on_device.py"

# What is printed otherwise on a card, and why: patterns of stored lines, and of those that come.
ALLOWED = {
    # CUDA's list of what is computed in float32 is longer than the CPU's: the chapter's subject.
    ("03-autocast", r"measured on cpu:"): r"measured on cuda:",
    ("03-autocast", r" float32: cdist, mse_loss, cross_entropy, prod"): (
        r" float32: cdist, mse_loss, cross_entropy, exp, log, square, sum, prod, cumsum, softmax, "
        r"layer_norm, vector_norm"
    ),
    ("03-autocast", r"  widest: add, mul, relu, gelu, exp, .*"): (
        r"  widest: add, mul, relu, gelu, mean"
    ),
    # There is a card.
    ("11-looking-inside", r"the device prints as cpu and in a list as \[device\(type='cpu'\)\]"): (
        r"the device prints as cuda and in a list as \[device\(type='cuda'\)\]"
    ),
    # Pooling is float32 under the CPU's autocast and 16 bits under CUDA's: fewer bytes are kept.
    ("12-capstone", r"checkpointed, bfloat16 .*: 1: 1\.1, 2: 1\.9, 4: 3\.6"): (
        r"checkpointed, bfloat16 .*: 1: 1\.0, 2: 1\.7, 4: 3\.0"
    ),
}


def code_cells(chapter: str) -> list[NotebookNode]:
    return [cell for cell in source(chapter).cells if cell.cell_type == "code"]


def names_a_device(chapter: str) -> bool:
    return any(word in cell.source for cell in code_cells(chapter) for word in ("device", "cuda"))


WITH_DEVICE = [chapter for chapter in CHAPTERS if names_a_device(chapter)]
# They ask what device there is, and put nothing on it.
ONLY_ASKING = {"11-looking-inside"}


def run_on_device(command: list[str], folder: Path) -> subprocess.CompletedProcess:
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    environment["PYTHONWARNINGS"] = STRICT_WARNINGS
    command = [sys.executable, *command]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def on_device(tmp_path_factory: pytest.TempPathFactory):
    """Return a function that returns what a chapter came to, with all faults that it has."""
    build_library()

    @cache
    def run(chapter: str) -> dict:
        folder = tmp_path_factory.mktemp(chapter)
        faults = [vars(fault) for fault in FAULTS if fault.chapter == chapter]
        job = {"notebook": str(COURSE.source(chapter)), "faults": faults, "results": "results.json"}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        done = run_on_device(["-m", "pretended_device.chapter_run", "job.json"], folder)
        assert done.returncode == 0, done.stderr
        return json.loads((folder / "results.json").read_text(encoding="utf-8"))

    return run


@pytest.mark.parametrize("chapter", WITH_DEVICE)
def test_a_chapter_prints_on_a_card_what_is_stored(chapter: str, on_device) -> None:
    results = on_device(chapter)
    assert (results["operations"] == 0) is (chapter in ONLY_ASKING)
    cells = choose_cells(code_cells(chapter))
    assert cells
    allowed = {old: new for (where, old), new in ALLOWED.items() if where == chapter}
    for cell, ran in zip(cells, results["cells"], strict=False):
        assert not ran["error"], f"{cell.source}\n\n{ran['error']}"
        if not is_measured(cell):
            compare(stored_text(cell), ran["output"], allowed)
    assert len(results["cells"]) == len(cells)
    assert not allowed, "differences that are allowed, and are none"


def stored_text(cell: NotebookNode) -> str:
    """Return what a cell has shown, each thing in its text form."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "stream":
            parts.append(output.text)
        else:
            parts.append(output.data.get("text/plain", "") + "\n")
    return "".join(parts)


def compare(stored: str, came: str, allowed: dict[str, str]) -> None:
    """Require the same lines; of ``allowed`` differences, take out those that are there."""
    now = iter(came.splitlines())
    for line in stored.splitlines():
        other = next(now, "")
        if line == other:
            continue
        known = [old for old in allowed if re.fullmatch(old, line)]
        assert [old for old in known if re.fullmatch(allowed[old], other)], f"{line}\n{other}"
        del allowed[known[0]]
    assert not list(now)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.chapter}: {fault.meaning}")
def test_a_device_fault_in_a_chapters_cell_is_found(fault: Fault, on_device) -> None:
    assert sum(fault.old in cell.source for cell in code_cells(fault.chapter)) == 1
    mine = [each for each in FAULTS if each.chapter == fault.chapter]
    ran = on_device(fault.chapter)["faults"][mine.index(fault)]
    assert fault.error in ran[-1]["error"], ran[-1]
    (cell,) = (cell for cell in code_cells(fault.chapter) if cell.id == ran[-1]["cell"])
    assert (fault.shows_in or fault.old) in cell.source


def checks_on_device() -> list[str]:
    tree = ast.parse(ON_DEVICE.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if getattr(node, "name", "").startswith("test_")]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what went wrong in each test of ``on_device.py``; an empty text if nothing did."""
    build_library()
    folder = tmp_path_factory.mktemp("on_device")
    command = ["-m", "pytest", "-q", "-p", "pretended_device.plugin", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    done = run_on_device([*command, "--junitxml=tests.xml", str(ON_DEVICE)], folder)
    assert (folder / "tests.xml").exists(), done.stdout + done.stderr
    cases = ElementTree.parse(folder / "tests.xml").iter("testcase")
    return {case.get("name"): "\n".join(part.text or "" for part in case) for case in cases}


@pytest.mark.parametrize("name", checks_on_device())
def test_on_the_device(name: str, outcomes: dict[str, str]) -> None:
    assert outcomes[name] == ""
