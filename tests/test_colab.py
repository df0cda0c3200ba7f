"""A chapter on Colab: its first cell installs the helpers from the repository, and nothing else.

Colab is a machine with torch, Jupyter's kernel and no helpers. Here that is a virtual environment
of its own, which sees the packages of the running one through a .pth file, and in which
``google.colab`` is loaded when a kernel starts. git fetches the repository from a copy on the disk.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from classroom import as_colab_saves, exercises_of, full_points, solved, to_bytes
from course_files import CHAPTERS, COURSE, ROOT, find_cell, release
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook
from registered_chapters import Register

from helpers.authoring.chapter import read_chapter
from helpers.grading.assignment import Assignment
from helpers.grading.judge.judge import judge_submission
from helpers.grading.settings import Settings

ADDRESS = tomllib.loads((ROOT / "book.toml").read_text(encoding="utf-8"))["output"]["html"][
    "git-repository-url"
]
# Where the class's copy would be: the course's own address may not be set yet.
PUBLISHED = "https://github.com/A_CLASS/a-course"
CHAPTER = "00-warm-up"
FAILED = "The helpers could not be fetched: run this cell again in a minute."
WHERE_THINGS_COME_FROM = """
import importlib.metadata, json, torch
try:
    import helpers
except ModuleNotFoundError:
    helpers = None
print(json.dumps({
    "helpers": helpers and helpers.__file__,
    "torch": [torch.__version__, torch.__file__, importlib.metadata.version("torch")],
}))
"""
# Run in a kernel's environment when it starts, before any cell.
LOADS_COLAB = "import os; 'ON_COLAB' in os.environ and __import__('google.colab')\n"


@dataclass(frozen=True)
class Colab:
    """A machine such as Colab's: its Python, its own packages, what its kernels start with."""

    python: Path
    packages: Path
    environment: Mapping[str, str]

    def run(self, cells: list[NotebookNode], *, on_colab: bool = True, **options: object) -> list:
        """Run ``cells`` in a new kernel, and return them with their outputs."""
        notebook = new_notebook(cells=cells)
        manager = AsyncKernelManager(kernel_name="there", kernel_spec_manager=self._kernels())
        environment = {**os.environ, **self.environment, **({"ON_COLAB": "1"} if on_colab else {})}
        # Not in the repository: Python would find its helpers there.
        place = {"metadata": {"path": str(self.packages.parent)}}
        client = NotebookClient(notebook, km=manager, timeout=120, resources=place, **options)
        client.owns_km = True  # and ends the kernel
        client.execute(env=environment)
        return notebook.cells

    def _kernels(self) -> KernelSpecManager:
        folder = self.packages.parent / "kernels"
        (folder / "there").mkdir(parents=True, exist_ok=True)
        command = [str(self.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel = {"argv": command, "display_name": "there", "language": "python"}
        (folder / "there" / "kernel.json").write_text(json.dumps(kernel))
        return KernelSpecManager(kernel_dirs=[str(folder)])

    def own_packages(self) -> set[str]:
        return {path.name for path in self.packages.iterdir() if path.name != "__pycache__"}

    def forget_helpers(self) -> None:
        """Make it a new machine again."""
        for path in [*self.packages.glob("helpers"), *self.packages.glob("bits_and_gradients*")]:
            shutil.rmtree(path)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Colab:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("colab")
    # Without a pip of its own: it finds that of the running environment, as it finds torch.
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")]
    subprocess.run(command, check=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder / "venv")}))
    stand_in = packages / "google" / "colab"
    stand_in.mkdir(parents=True)
    for package in (stand_in.parent, stand_in):
        (package / "__init__.py").touch()
    running = sysconfig.get_path("purelib")
    (packages / "seen_from_here.pth").write_text(f"{running}\n{LOADS_COLAB}")
    environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{copy_of_the_repository(folder)}.insteadOf",
        "GIT_CONFIG_VALUE_0": PUBLISHED,
        "IPYTHONDIR": str(folder / "ipython"),
        "PIP_NO_INDEX": "1",
        # Off by "0", in spite of its name: https://github.com/pypa/pip/issues/5735
        "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONPATH": "",
    }
    return Colab(folder / "venv" / "bin" / "python", packages, environment)


def copy_of_the_repository(folder: Path) -> Path:
    """Return a repository of one commit that holds the working tree as it is now."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    copy = folder / "repository"
    for name in set(listed.stdout.split("\0")) - {""}:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    author = ["-c", "user.name=a test", "-c", "user.email=test@localhost"]
    for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "-qm", "as it is"]):
        subprocess.run(["git", *command], cwd=copy, check=True)
    return copy


@pytest.fixture
def colab(machine: Colab) -> Colab:
    """Return the machine as a student finds it: without the helpers."""
    machine.forget_helpers()
    return machine


def first_code_cell(notebook: NotebookNode) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.cell_type == "code")


def setup_cell(address: str = PUBLISHED) -> NotebookNode:
    """Return the cell as it is written into every chapter."""
    notebook, _ = read_chapter(COURSE.chapters[0], address)
    return new_code_cell(first_code_cell(notebook).source)


def look() -> NotebookNode:
    """Return a cell that tells where helpers and torch come from."""
    return new_code_cell(WHERE_THINGS_COME_FROM)


def printed(cell: NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def origins(cell: NotebookNode) -> dict:
    return json.loads(printed(cell))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_chapter_begins_with_the_same_cell(chapter: str) -> None:
    cell = setup_cell(ADDRESS)
    assert first_code_cell(release(chapter)).source == cell.source
    assert f"git+{ADDRESS}" in cell.source
    assert len([line for line in cell.source.splitlines() if line]) <= 10


def test_the_cell_installs_the_helpers_and_leaves_torch_alone(colab: Colab) -> None:
    before = colab.own_packages()
    first, then, second, at_last = colab.run([setup_cell(), look(), setup_cell(), look()])
    for cell in (first, second):
        assert all(output.output_type == "stream" for output in cell.outputs)
        assert len(printed(cell).splitlines()) <= 1
    assert origins(then) == origins(at_last)
    assert Path(origins(then)["helpers"]).is_relative_to(colab.packages)
    (here,) = colab.run([look()], on_colab=False)
    assert origins(here)["torch"] == origins(then)["torch"]
    added = colab.own_packages() - before
    assert {re.sub(r"-[\d.]+\.dist-info$", "", name) for name in added} == {
        "helpers",
        "bits_and_gradients",
    }


def test_elsewhere_the_cell_does_nothing(colab: Colab) -> None:
    before = colab.own_packages()
    cell, then = colab.run([setup_cell(), look()], on_colab=False)
    assert cell.outputs == []
    assert origins(then)["helpers"] is None, "the running environment's helpers are in sight"
    assert colab.own_packages() == before


def test_an_address_that_was_never_set_is_told_apart_from_a_network_out_of_reach(
    colab: Colab,
) -> None:
    unset = setup_cell("https://github.com/YOUR_ORG/a-course")
    (cell,) = colab.run([unset], allow_errors=True)
    (error,) = cell.outputs
    assert error.evalue.startswith("This copy does not say where the helpers are")
    assert "again does not help" in error.evalue


def test_where_the_repository_is_out_of_reach_one_sentence_says_so(
    colab: Colab, tmp_path: Path
) -> None:
    nowhere = {"GIT_CONFIG_KEY_0": f"url.{tmp_path / 'nothing'}.insteadOf"}
    cut_off = Colab(colab.python, colab.packages, {**colab.environment, **nowhere})
    (cell,) = cut_off.run([setup_cell()], allow_errors=True)
    (error,) = cell.outputs
    assert (error.ename, error.evalue) == ("RuntimeError", FAILED)
    assert "helpers" not in colab.own_packages()


WITHOUT_WIDGETS = """
import sys
sys.modules["anywidget"] = sys.modules["ipywidgets"] = None
from helpers import explore_bits, new_figure, play
def draw(x):
    figure, axes = new_figure()
    axes.plot([0, x])
    axes.set(title="a line", xlabel="x", ylabel="y")
    return figure
explore_bits(0.1)
play(draw, label="x", values=[1, 2], start=1, alt="A line that goes up from zero.")
"""


def test_without_widget_libraries_a_picture_stands_in_their_place(colab: Colab) -> None:
    _, cell = colab.run([setup_cell(), new_code_cell(WITHOUT_WIDGETS)])
    bits, line = cell.outputs
    for output in (bits, line):
        assert set(output.data) == {"text/plain", "text/html"}
    assert "bits-explorable" in bits.data["text/html"]
    assert 'alt="A line that goes up from zero."' in line.data["text/html"]


@pytest.fixture(scope="module")
def brought_back(machine: Colab) -> NotebookNode:
    """Return a chapter that was run from top to bottom on Colab, and saved there.

    All is solved but the last exercise.
    """
    machine.forget_helpers()
    last = exercises_of(CHAPTER)[-1].name
    stub = find_cell(release(CHAPTER), last).source
    notebook = solved(CHAPTER, {last: stub})
    first = first_code_cell(notebook)
    first.source = first.source.replace(ADDRESS, PUBLISHED)
    notebook.cells = machine.run(notebook.cells, allow_errors=True)
    return notebook


@pytest.fixture
def assignment(registered: Register) -> Assignment:
    return registered(CHAPTER)


def test_a_chapter_runs_there_and_its_checks_answer(brought_back: NotebookNode) -> None:
    *others, last = exercises_of(CHAPTER)
    for exercise in others:
        check = find_cell(brought_back, f"test-{exercise.name}")
        assert "Every property shown here holds" in shown(check)
    assert "nothing is written here yet" in shown(find_cell(brought_back, f"test-{last.name}"))
    failed = [cell.source for cell in brought_back.cells if has_error(cell)]
    assert failed == []


@pytest.mark.needs_system("bubblewrap")
def test_what_was_done_there_gets_its_points(
    brought_back: NotebookNode, assignment: Assignment
) -> None:
    last = exercises_of(CHAPTER)[-1]
    judged = judge_submission(to_bytes(as_colab_saves(brought_back)), assignment, Settings())
    expected = {**full_points(exercises_of(CHAPTER)), last.name: 0.0}
    assert {result.name: result.points for result in judged.exercises} == expected


def shown(cell: NotebookNode) -> str:
    return json.dumps(cell.outputs)


def has_error(cell: NotebookNode) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", []))
