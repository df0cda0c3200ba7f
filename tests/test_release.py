"""The package as it is released: built from its sources alone, installed somewhere else, used."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from course_files import EXERCISES, ROOT, find_cell, release, source

from helpers import __version__

NAME = f"bits_and_gradients-{__version__}"
INFO = f"{NAME}.dist-info"
_NOT_COPIED = ("__pycache__", "*.egg-info", "*.pyc")


@dataclass(frozen=True)
class Built:
    """What ``make release`` writes, and the sources that it was made from."""

    sources: Path
    wheel: Path
    sdist: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    sources = tmp_path_factory.mktemp("sources")
    for folder in ("helpers", "tests", "benchmarks", "course/book"):
        shutil.copytree(
            ROOT / folder, sources / folder, ignore=shutil.ignore_patterns(*_NOT_COPIED)
        )
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, sources)
    # Without isolation, as make release does: what builds it is here, and nothing is fetched.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=sources)
    (wheel,) = (sources / "dist").glob("*.whl")
    (sdist,) = (sources / "dist").glob("*.tar.gz")
    return Built(sources, wheel, sdist)


def run(*command: object, cwd: Path) -> str:
    """Run a command without network and without a path to the repository; return what it says."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def test_the_wheel_has_all_of_the_package_and_nothing_else(built: Built) -> None:
    names = set(zipfile.ZipFile(built.wheel).namelist())
    package = {n for n in names if not n.startswith(f"{INFO}/")}
    files = (file for file in (built.sources / "helpers").rglob("*") if file.is_file())
    assert package == {file.relative_to(built.sources).as_posix() for file in files}
    assert built.wheel.name == f"{NAME}-py3-none-any.whl"


def test_the_sdist_holds_what_the_wheel_was_built_from(built: Built) -> None:
    # `build` makes the wheel from the sdist alone.
    with tarfile.open(built.sdist) as archive:
        files = {m.name.removeprefix(f"{NAME}/") for m in archive.getmembers() if m.isfile()}
    names = set(zipfile.ZipFile(built.wheel).namelist())
    assert {name for name in names if not name.startswith(f"{INFO}/")} <= files
    beside = {file for file in files if not file.startswith(("helpers/", "bits_and_gradients."))}
    assert beside == {
        *("CHANGELOG.md", "LICENSE", "LICENSE-CODE", "MANIFEST.in", "PKG-INFO", "README.md"),
        *("pyproject.toml", "setup.cfg"),
    }


def test_the_metadata_tell_version_and_licenses(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{INFO}/METADATA"))
        for name in ("LICENSE", "LICENSE-CODE"):
            assert archive.read(f"{INFO}/licenses/{name}") == (ROOT / name).read_bytes()
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT AND CC-BY-4.0"
    assert metadata.get_all("License-File") == ["LICENSE", "LICENSE-CODE"]


def test_what_is_built_can_be_uploaded(built: Built) -> None:
    said = run(
        sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist, cwd=ROOT
    )
    assert said.count("PASSED") == 2


def test_the_changelogs_newest_version_is_this_one() -> None:
    versions = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$",
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert versions[0][0] == __version__
    assert [day for _, day in versions] == sorted((day for _, day in versions), reverse=True)


@pytest.fixture(scope="module")
def elsewhere(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the wheel installed, far from the repository."""
    venv = tmp_path_factory.mktemp("elsewhere") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=venv.parent)
    pip = [sys.executable, "-m", "pip", "--python", venv / "bin" / "python"]
    run(*pip, "install", "--no-deps", "--no-index", built.wheel, cwd=venv.parent)
    # Only now, so that pip saw this environment alone. What .pth files stand in that folder is not
    # looked at, and so neither is the repository that is installed there to be edited.
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return venv


_CHECK = """
import sys
from importlib import metadata, resources
import helpers
assert helpers.__file__.startswith(sys.prefix), helpers.__file__
assert sys.argv[1] not in sys.path
assert not [name for name in sys.modules if "__editable__" in name]
assert metadata.version("bits-and-gradients") == helpers.__version__
needed, stub, answer, test = (open(name, encoding="utf-8").read() for name in sys.argv[2:])
for solution in (stub, answer):
    names = {"__name__": "__main__"}
    exec(needed, names)
    exec(solution, names)
    exec(test, names)
from helpers.catalogue import load_chapters
print(len(load_chapters()), "chapters")
print(len(helpers.digits()[0]), "digits")
from helpers.lab import _SETTINGS
for who in ("student", "staff"):
    assert len(list((_SETTINGS / who).rglob("*.json"))) == 3
from helpers.explorables.bits import explore_bits
pages = resources.files("helpers.grading.report.pages")
assert {p.name for p in pages.iterdir()} >= {"base.html", "feedback.html", "sort.js", "style.css"}
import helpers.authoring.publish, helpers.grading.engine.engine
"""


def test_it_works_where_it_is_installed(elsewhere: Path, tmp_path: Path) -> None:
    exercise = next(e for e in EXERCISES if e.name == "softmax")
    notebook = release(exercise.chapter)
    needed = [c.source for c in notebook.cells if "needed" in c.metadata.get("tags", ())]
    texts = {
        "needed.py": "\n\n".join(needed),
        "stub.py": find_cell(notebook, "softmax").source,
        "answer.py": find_cell(source(exercise.chapter), "softmax").source,
        "test.py": find_cell(notebook, "test-softmax").source,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    said = run(elsewhere / "bin" / "python", "-c", _CHECK, ROOT, *texts, cwd=tmp_path)
    assert "nothing is written here yet" in said
    assert "4 of 4 points" in said
    assert "13 chapters" in said
    assert "1797 digits" in said


def test_its_command_answers_where_it_is_installed(elsewhere: Path, tmp_path: Path) -> None:
    bits = elsewhere / "bin" / "bits"
    assert "As an instructor" in run(bits, "--help", cwd=tmp_path)
    assert run(bits, "--version", cwd=tmp_path) == f"bits, version {__version__}\n"
    told = subprocess.run([bits, "lab"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 1
    assert "this folder is not inside a copy of the course" in told.stderr
