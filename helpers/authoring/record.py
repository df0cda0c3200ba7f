"""Record what chapters measure on this machine's card, for readers who have none.

A chapter's cell is tagged ``recorded`` and ends with ``recorded("name")``. What such a cell prints
where there is a card are the figures, kept under that name in ``helpers/card_figures.json``.
"""

from __future__ import annotations

import ast
import datetime
import json
import shutil
import subprocess
from pathlib import Path

from nbformat.notebooknode import NotebookNode

from helpers.authoring.build import Course, choose_chapters, run_cells
from helpers.card_figures import FILE, RECORDING
from helpers.files import write_atomically

TAG = "recorded"


class RecordError(RuntimeError):
    """Nothing can be recorded; the message says why."""


def record(course: Course, only: list[str] | None = None, file: Path | None = None) -> list[str]:
    """Run the chapters that have tagged cells, and keep what those print.

    Args:
        course: where the chapters lie.
        only: names or numbers of chapters; all if None. Figures of other chapters stay as they are.
        file: where to; the one that chapters read if None.

    Returns:
        the names of the figures that were recorded; none where torch finds no card.

    Raises:
        RecordError: if a tagged cell has no name for its figures, or prints nothing on a card.
        BuildError: if a cell raises, or ``only`` names no chapter.
    """
    notebooks = {}
    for text in course.chapters:
        notebook, catalogue = course.read(text)
        notebooks[catalogue["chapter"]] = notebook
    chosen = choose_chapters(list(notebooks), only)
    machine = describe_machine()
    if machine is None:
        return []
    file = file or course.root / "helpers" / FILE
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    names = []
    for chapter, notebook in notebooks.items():
        if chapter not in chosen:
            continue
        for name, lines in _figures(notebook, chapter).items():
            kept[name] = {"chapter": chapter, **machine, "lines": lines}
            names.append(name)
    text = json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n"
    write_atomically(file, text.encode())
    return names


def describe_machine() -> dict[str, str] | None:
    """Return card, driver, torch's version and today's date; None where torch finds no card."""
    import torch

    if not torch.cuda.is_available():
        return None
    today = datetime.datetime.now(datetime.UTC).date()
    return {
        "card": torch.cuda.get_device_name(0),
        "driver": _driver(),
        "torch": torch.__version__,
        "date": today.isoformat(),
    }


def _driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return "unknown"
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else "unknown"


def figures_name(source: str) -> str | None:
    """Return the name in a cell's only call ``recorded("name")``; None if there is no such call."""
    names = [
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "recorded"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
    ]
    return names[0] if len(names) == 1 else None


def _figures(notebook: NotebookNode, chapter: str) -> dict[str, list[str]]:
    """Run a chapter up to its last tagged cell; return the lines that each of these prints."""
    tagged = [n for n, cell in enumerate(notebook.cells) if TAG in cell.metadata.get("tags", [])]
    if not tagged:
        return {}
    names = [figures_name(notebook.cells[number].source) for number in tagged]
    if None in names:
        raise RecordError(f'{chapter}: a cell tagged {TAG} does not end with {TAG}("name")')
    notebook.cells = notebook.cells[: tagged[-1] + 1]
    run_cells(notebook, chapter, {RECORDING: "1"})
    found = {}
    for name, number in zip(names, tagged, strict=True):
        outputs = notebook.cells[number].outputs
        text = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
        if not text.strip():
            raise RecordError(f"{chapter}: the cell of {name} prints nothing on this GPU")
        found[name] = text.rstrip().splitlines()
    return found
