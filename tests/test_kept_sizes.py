"""However much a submission puts out or brings with it, what is kept of it is bounded."""

from __future__ import annotations

import base64
import io
import re
import time
from pathlib import Path

import numpy as np
import pytest
from classroom import solved, to_bytes, without_demos
from course_files import find_cell
from nbconvert import HTMLExporter
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image
from registered_chapters import Register

from helpers.grading.assignment import Assignment
from helpers.grading.judge import judge, written
from helpers.grading.judge.shown_code import CodeRoom
from helpers.grading.settings import Settings

CHAPTER = "08-numerical-stability"
MIB = 2**20
MOST_OUTPUTS = 8 * MIB
MOST_MORE_MEMORY = 400 * MIB


@pytest.fixture(scope="module")
def assignment(registered: Register) -> Assignment:
    return registered(CHAPTER)


def noise(size: int) -> str:
    stream = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(stream, "PNG")
    return base64.b64encode(stream.getvalue()).decode()


def with_cells(codes: list[str]) -> NotebookNode:
    """Return the solved notebook with cells that the first exercise uses, so that they are run."""
    codes = [f"part{number} = {number}\n{code}" for number, code in enumerate(codes)]
    notebook = without_demos(solved(CHAPTER))
    cell = find_cell(notebook, "softmax")
    uses = ", ".join(f"part{number}" for number in range(len(codes)))
    cell.source = f"{cell.source}\n\nall_parts = [{uses}]\n"
    at = notebook.cells.index(cell)
    notebook.cells[at:at] = [new_code_cell(code) for code in codes]
    return notebook


PICTURES = [
    "import numpy\nfrom IPython.display import Image, display\n"
    "display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + numpy.random.bytes(1_500_000), format='png'))"
] * 200
STREAMS = ["print('x' * 20_000)\n" + "'y' * 20_000;\n" * 3] * 700
DISPLAYS = [
    "from IPython.display import display\nfor _ in range(64):\n    display('z' * 20_000)"
] * 60
HEAVY = {"pictures": PICTURES, "streams": STREAMS, "displays": DISPLAYS}


@pytest.mark.needs_system("bubblewrap")
@pytest.mark.parametrize("kind", HEAVY)
def test_all_outputs_together_are_bounded(kind: str, assignment: Assignment) -> None:
    content = to_bytes(with_cells(HEAVY[kind]))
    Path("/proc/self/clear_refs").write_text("5")
    before = most_memory()
    judged = judge.judge_submission(content, assignment, Settings())
    assert len(judged.notebook) < MOST_OUTPUTS
    assert most_memory() - before < MOST_MORE_MEMORY
    assert any(re.search(r"more than 6 MiB: [\d,]+ outputs are left out", n) for n in judged.notes)
    assert b"more outputs of this cell are left out" in judged.notebook
    assert judged.exercises[0].points + judged.exercises[0].waiting == judged.exercises[0].most


def most_memory() -> int:
    (line,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    return 1024 * int(line)


@pytest.mark.needs_system("bubblewrap")
def test_pasted_pictures_and_texts_are_bounded_together(assignment: Assignment) -> None:
    notebook = without_demos(solved(CHAPTER))
    picture = noise(900)
    for _ in range(8):
        cell = new_markdown_cell("![a](attachment:a.png)" * 20)
        cell.attachments = {"a.png": {"image/png": picture}}
        notebook.cells.append(cell)
    notebook.cells += [new_markdown_cell("word " * 3_000) for _ in range(300)]
    judged = judge.judge_submission(to_bytes(notebook), assignment, Settings())
    assert len(judged.notebook) < 16 * MIB
    assert picture.encode() in judged.notebook
    assert any("a.png cannot be shown" in note for note in judged.notes)
    assert any("characters of a long text are left out" in note for note in judged.notes)
    assert sum(e.points for e in judged.exercises) == judged.most


# Programs that color code take for a line a time that grows with the square of its length.
CODES = {
    "one chain of attributes": lambda size: "x" + ".a" * (size // 2),
    "a text without an end": lambda size: "'" + "\\" * size,
    "a magic and spaces": lambda size: "%time" + " " * size + "x?",
    # Whole lines: of twice the size there are twice as many.
    "long lines": lambda size: ("y = x" + ".a" * 2_000 + "\n") * (size // 4_006),
    "short lines": lambda size: "x.a\n" * (size // 4),
}


@pytest.mark.parametrize("kind", CODES)
def test_code_is_shown_so_far_as_it_can_be_colored(kind: str) -> None:
    def seconds(size: int) -> float:
        cells = [new_code_cell(CodeRoom().shorten(CODES[kind](size)))]
        began = time.process_time()
        HTMLExporter().from_notebook_node(new_notebook(cells=cells))
        return time.process_time() - began

    def grows_as_its_length() -> bool:
        half, whole = seconds(16_100), seconds(32_200)
        return whole < 2.5 * max(half, 1.0)

    seconds(8)  # what nbconvert loads first
    # What else a machine does slows down one of the two: the square of a length is there each time.
    assert any(grows_as_its_length() for _ in range(3))


def test_all_code_together_is_bounded_and_short_code_is_as_it_was() -> None:
    room = CodeRoom()
    assert room.shorten("x = 1\n\n\ty = 2") == "x = 1\n\n\ty = 2"
    assert room.notes() == []
    shown = [room.shorten("x = 1\n" * 4_000) for _ in range(100)]
    assert len("".join(shown)) < 310_000
    assert shown[0] == "x = 1\n" * 4_000
    assert "24,000 characters are left out here" in shown[-1]
    assert re.search(r"^code of 8\d of its cells is shown in part", room.notes()[0])


@pytest.mark.needs_system("bubblewrap")
def test_code_that_is_not_shown_is_judged(assignment: Assignment) -> None:
    notebook = without_demos(solved(CHAPTER))
    cell = find_cell(notebook, "softmax")
    cell.source = "x = [" + "0," * 10_000 + "]\n\n" + cell.source
    judged = judge.judge_submission(to_bytes(notebook), assignment, Settings())
    assert judged.exercises[0].points == judged.exercises[0].most
    assert "code of 1 of its cells is shown in part" in judged.notes[-1]
    assert len(judged.notebook) < 2**20
    assert b"characters are left out here" in judged.notebook


def test_a_cell_that_runs_again_has_its_room_back() -> None:
    room = written.OutputRoom(2_000)
    (output,) = written.write_outputs([{"kind": "stream", "text": "x" * 1_500}])
    for _ in range(3):
        assert room.keep("one", [output]) == [output]
    assert room.notes() == []
    (note,) = room.keep("two", [output])
    assert "left out" in note.text
    assert "1 outputs" in room.notes()[0]
