"""Figures of a card: recorded where there is one, printed everywhere, invented nowhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from course_files import CHAPTERS, COURSE, ROOT, source
from pretended_device.building import build_library, find_obstacle

from helpers import card_figures, recorded
from helpers.authoring.build import BuildError, Course
from helpers.authoring.record import TAG, figures_name, record
from helpers.cli import main

MARKED = "A card that is none"
ENTRY = {
    "chapter": "01-sample",
    "card": "H200",
    "driver": "570.1",
    "torch": "2.13.0",
    "date": "2026-11-22",
    "lines": ["1 segment: 37 tensors", "6 segments: 13 tensors"],
}
CHAPTER = '''# %% [markdown]
"""
# 01 Sample
"""

# %% tags=["needed"]
import torch
from helpers import recorded

# %%
count = 3

# %% tags=["nbval-ignore-output", "recorded"]
print("tensors:", count)
print("on", torch.ones(count, device="cuda").device)
recorded("tensors")

# %%
raise RuntimeError("what stands behind the last tagged cell is not run")
'''


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A course of one chapter, which needs a card."""
    for folder in ("course/chapters", "course/release", "helpers"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "course" / "chapters" / "01_sample.py").write_text(CHAPTER, encoding="utf-8")
    for name in ("book.toml", "course/nbgrader_config.py"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return Course(tmp_path)


def read_back(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(card_figures, "FILE", str(file))


def test_figures_are_printed_with_the_card_that_gave_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"segments": ENTRY}), encoding="utf-8")
    read_back(monkeypatch, file)
    recorded("segments")
    assert capsys.readouterr().out == (
        "\nRecorded on H200 (driver 570.1, 2026-11-22):\n"
        "  torch 2.13.0\n"
        "  1 segment: 37 tensors\n"
        "  6 segments: 13 tensors\n"
    )
    recorded("nothing of that name")
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a card here")
def test_without_a_card_nothing_is_run_or_written(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "figures.json"
    assert record(course, file=file) == []
    assert not file.exists()
    monkeypatch.chdir(course.root)
    result = CliRunner().invoke(main, ["record", "--output", str(file)])
    assert result.output == "recorded: nothing, torch finds no GPU here\n"
    assert result.exit_code == 0
    assert not file.exists()


def test_an_unknown_chapter_is_refused(course: Course) -> None:
    with pytest.raises(BuildError, match="there is no chapter 02; there are: 01-sample"):
        record(course, ["02"])


def run_on_a_marked_card(course: Course, *arguments: str) -> subprocess.CompletedProcess:
    """Run ``bits record`` where torch believes in a card, in its kernel too."""
    site = course.root / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(
        f"from pretended_device.facts import Card, install\ninstall(Card(name={MARKED!r}))\n",
        encoding="utf-8",
    )
    paths = os.pathsep.join(map(str, (site, ROOT, ROOT / "tests")))
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": "/nowhere"}
    command = [sys.executable, "-c", "from helpers.cli import main; main()", "record", *arguments]
    return subprocess.run(
        command, cwd=course.root, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(bool(find_obstacle()), reason=f"no pretended device: {find_obstacle()}")
def test_on_a_card_the_figures_are_kept_with_what_gave_them(
    course: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    build_library()
    file = course.root / "figures.json"
    file.write_text(json.dumps({"others": ENTRY}), encoding="utf-8")
    done = run_on_a_marked_card(course, "--output", str(file))
    assert done.stdout == "recorded: tensors\n", done.stderr
    figures = json.loads(file.read_text(encoding="utf-8"))
    date = figures["tensors"].pop("date")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert figures["others"] == ENTRY
    assert figures["tensors"] == {
        "chapter": "01-sample",
        "card": MARKED,
        "driver": "unknown",
        "torch": torch.__version__,
        "lines": ["tensors: 3", "on cuda:0"],
    }
    figures["tensors"]["date"] = date
    read_back(monkeypatch, file)
    recorded("tensors")
    assert f"Recorded on {MARKED}" in capsys.readouterr().out


def names_of(chapter: str) -> list[str]:
    names = []
    for cell in source(chapter).cells:
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        assert (TAG in tags) is (figures_name(cell.source) is not None), cell.source
        if TAG in tags:
            assert "nbval-ignore-output" in tags, "figures differ from machine to machine"
            names.append(figures_name(cell.source))
    return names


def test_each_tagged_cell_has_a_name_of_its_own_and_each_figure_a_cell() -> None:
    names = [name for chapter in CHAPTERS for name in names_of(chapter)]
    assert names
    assert len(set(names)) == len(names)
    kept = json.loads((COURSE.root / "helpers" / card_figures.FILE).read_text("utf-8"))
    assert set(kept) <= set(names)
    for entry in kept.values():
        assert set(entry) == set(ENTRY)
        assert "none" not in entry["card"]
        assert "Pretended" not in entry["card"]
