"""The exercise that CONTRIBUTING.md shows can be added as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import jupytext
import pytest
from course_files import ROOT, find_cell, run_cell

from helpers import Check, catalogue, probes
from helpers.authoring.chapter import read_chapter
from helpers.authoring.release import make_release
from helpers.catalogue import _read_chapter

NAME = "mean-square"
HEAD = '# %% [markdown]\n"""\n# 01 · Sample\n"""\n\n# %% tags=["needed"]\nimport torch\n\n'


@pytest.fixture
def blocks() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(found) == 4
    return found


def test_the_example_keeps_the_contract(
    blocks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "01_sample.py"
    text.write_text(HEAD + "\n".join(blocks[:3]), encoding="utf-8")
    notebook, cards = read_chapter(text, "https://example.org/course")
    monkeypatch.setattr(catalogue, "load_chapters", lambda: (_read_chapter(cards),))
    monkeypatch.chdir(tmp_path)
    stub = find_cell(make_release(notebook, ROOT / "course" / "nbgrader_config.py"), NAME).source
    others = jupytext.reads(blocks[3], fmt="py:percent").cells

    def points(solution: str) -> object:
        namespace = {"Check": Check, "probes": probes}
        run_cell("import torch", namespace)
        run_cell(solution, namespace)
        return run_cell(find_cell(notebook, f"test-{NAME}").source, namespace)

    assert points(stub) == 0.0
    assert points(find_cell(notebook, NAME).source) == 3.0
    verdicts = {cell.metadata["title"].split(":")[0]: points(cell.source) for cell in others}
    assert verdicts["right"] == 3.0
    assert verdicts["wrong"] < 3.0
