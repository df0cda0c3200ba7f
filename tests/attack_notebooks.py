"""Attacks that take more than one cell: forged metadata, and cells beside the solution."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import nbformat
from attack_corpus import Attack, all_right, make_attack, with_code
from classroom import to_bytes
from nbformat.notebooknode import NotebookNode
from nbgrader.utils import compute_checksum

WRONG = "def softmax(logits, dim):\n    return logits\n"

# What one of these functions returns: a notebook as a dict, or the file's bytes.
Maker = Callable[[], "dict[str, Any] | bytes"]
_made: list[tuple[Maker, str, str, str, dict[str, Any]]] = []


def whole_notebooks() -> Iterator[Attack]:
    for make, kind, meaning, exercise, settings in _made:
        yield make_attack(kind, meaning, partial(_as_bytes, make), exercise, **settings)


def _as_bytes(make: Maker) -> bytes:
    content = make()
    return json.dumps(content).encode() if isinstance(content, dict) else content


def attack(
    kind: str, meaning: str, exercise: str = "", expect: str = "passed", **settings: Any
) -> Callable[[Maker], Maker]:
    def register(make: Maker) -> Maker:
        _made.append((make, kind, meaning, exercise, {"expect": expect, **settings}))
        return make

    return register


def right() -> dict[str, Any]:
    return _with_whole_texts(json.loads(all_right()))


def _whole(notebook: NotebookNode) -> dict[str, Any]:
    return _with_whole_texts(json.loads(to_bytes(notebook)))


def wrong() -> dict[str, Any]:
    return _whole(with_code("softmax", WRONG))


def _with_whole_texts(notebook: dict[str, Any]) -> dict[str, Any]:
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def find(notebook: dict[str, Any], name: str) -> dict[str, Any]:
    return notebook["cells"][position(notebook, name)]


def position(notebook: dict[str, Any], name: str) -> int:
    names = [c["metadata"].get("nbgrader", {}).get("grade_id") for c in notebook["cells"]]
    return names.index(name)


def code_cell(text: str, **metadata: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "source": text, "metadata": metadata, "outputs": []}
    return {**cell, "execution_count": None, "id": f"x{abs(hash(text)) % 10**9}"}


def graded(name: object, points: object = 1000, **settings: Any) -> dict[str, Any]:
    kinds = {"grade": True, "solution": False, "locked": True, "task": False}
    about = {"grade_id": name, "points": points, "cell_type": "code", "schema_version": 3}
    return {"nbgrader": {**about, **kinds, **settings}}


# --- Metadata --------------------------------------------------------------------------------


@attack("metadata", "an extra test cell of 1,000 points")
def extra_test() -> dict[str, Any]:
    notebook = right()
    notebook["cells"].append(code_cell("1000.0", **graded("test-bonus")))
    return notebook


@attack("metadata", "a task and a hand-graded cell of 1,000 points each")
def extra_task() -> dict[str, Any]:
    notebook = right()
    notebook["cells"] += [
        code_cell("", **graded("essay", solution=True, locked=False)),
        {
            **{"cell_type": "markdown", "source": "a task", "id": "a-task"},
            "metadata": graded("task", grade=False, task=True, cell_type="markdown"),
        },
    ]
    return notebook


@attack("metadata", "a test cell twice, the second a constant", "softmax", "failed", points=0)
def test_twice() -> dict[str, Any]:
    notebook = wrong()
    again = copy.deepcopy(find(notebook, "test-softmax"))
    notebook["cells"].append({**again, "source": "4.0", "id": "again"})
    return notebook


@attack("metadata", "1,000 points for each test")
def many_points() -> dict[str, Any]:
    notebook = right()
    for cell in notebook["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade"):
            cell["metadata"]["nbgrader"]["points"] = 1000
    return notebook


@attack("metadata", "a test's text replaced, with a fresh checksum", "softmax", "failed", points=0)
def test_replaced() -> dict[str, Any]:
    notebook = wrong()
    cell = find(notebook, "test-softmax")
    cell["source"] = "4.0"
    cell["metadata"]["nbgrader"] |= {"locked": False}
    checksum = compute_checksum(nbformat.from_dict(cell))
    cell["metadata"]["nbgrader"] |= {"checksum": checksum}
    return notebook


@attack("metadata", "the test cell made into text", "softmax", "failed", points=0)
def test_as_text() -> dict[str, Any]:
    notebook = wrong()
    cell = find(notebook, "test-softmax")
    cell |= {"cell_type": "markdown", "source": "all is well"}
    del cell["outputs"], cell["execution_count"]
    return notebook


@attack("metadata", "all test cells and the needed cell deleted")
def all_tests_deleted() -> dict[str, Any]:
    notebook = right()
    notebook["cells"] = [
        cell for cell in notebook["cells"] if not cell["metadata"].get("nbgrader", {}).get("locked")
    ]
    return notebook


@attack("metadata", "the solution's cell deleted", "softmax", "missing", points=0)
def solution_deleted() -> dict[str, Any]:
    notebook = right()
    del notebook["cells"][position(notebook, "softmax")]
    return notebook


@attack("metadata", "names of solution and test swapped", "softmax", "failed|missing", points=0)
def names_swapped() -> dict[str, Any]:
    notebook = wrong()
    solution, test = (find(notebook, name) for name in ("softmax", "test-softmax"))
    test["source"] = "4.0"
    solution["metadata"], test["metadata"] = test["metadata"], solution["metadata"]
    return notebook


@attack("metadata", "the solution graded by hand with 1,000 points, all flags turned")
def solution_graded() -> dict[str, Any]:
    notebook = right()
    about = find(notebook, "softmax")["metadata"]["nbgrader"]
    about |= {"grade": True, "points": 1000, "locked": True, "task": True, "schema_version": 999}
    return notebook


@attack("metadata", "tags that skip, hide, forgive or exempt cells")
def tags() -> dict[str, Any]:
    notebook = right()
    words = ["skip-execution", "raises-exception", "demo", "needed", "remove_cell", "nbval-skip"]
    for cell in notebook["cells"]:
        cell["metadata"] |= {"tags": words, "bits_skip": True, "skip": True, "editable": False}
    return notebook


@attack("metadata", "a test tagged as a demo to be skipped", "softmax", "failed", points=0)
def test_tagged() -> dict[str, Any]:
    notebook = wrong()
    metadata = find(notebook, "test-softmax")["metadata"]
    metadata |= {"tags": ["demo", "skip-execution"], "bits_skip": True}
    return notebook


@attack("metadata", "another kernel, another language, another chapter, a state of widgets")
def kernelspec() -> dict[str, Any]:
    notebook = right()
    notebook["metadata"] = {
        "kernelspec": {"name": "../../tmp/evil", "display_name": "bash", "language": "bash"},
        "language_info": {"name": "javascript", "file_extension": "../x", "version": 7},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}},
        "bits": {"chapter": "00-another"},
        "nbgrader": {"points": 1000},
    }
    return notebook


@attack("metadata", "all cells in the opposite order")
def backwards() -> dict[str, Any]:
    notebook = right()
    notebook["cells"].reverse()
    return notebook


@attack("metadata", "names that are lists, numbers, endless or paths, and empty metadata")
def odd_names() -> dict[str, Any]:
    notebook = right()
    for name in ([], {}, None, 5, 1.5, True, "", "x" * 10_000, "../../gradebook", "a\x00b\n"):
        notebook["cells"].insert(3, code_cell(f"{len(str(name))}", **graded(name)))
    notebook["cells"].insert(0, code_cell("1", nbgrader={}))
    notebook["cells"].insert(0, code_cell("2", nbgrader={"schema_version": None, "points": "x"}))
    return notebook


@attack("metadata", "the first copy of a solution cell wrong, the second right")
def solution_twice() -> dict[str, Any]:
    notebook = right()
    place = position(notebook, "softmax")
    first = copy.deepcopy(notebook["cells"][place])
    notebook["cells"].insert(place, {**first, "source": WRONG, "id": "a-copy"})
    return notebook


@attack("metadata", "the solution's cell made into text, and raw")
def solution_as_text() -> dict[str, Any]:
    notebook = right()
    for name, kind in (("softmax", "markdown"), ("safe-log", "raw")):
        cell = find(notebook, name)
        cell["cell_type"] = cell["metadata"]["nbgrader"]["cell_type"] = kind
        del cell["outputs"], cell["execution_count"]
    return notebook


FORGERY = """
class Check:
    def __init__(self, *args): self.draw = self
    def __getattr__(self, name): return lambda *args, **kwargs: self
    def __enter__(self): return self
    def __exit__(self, *info): return True
    def score(self): return 4.0
import helpers; helpers.Check = Check; check = Check()
"""


@attack("metadata", "the needed cell brings a check of its own", "softmax", "failed", points=0)
def needed_replaced() -> dict[str, Any]:
    notebook = wrong()
    find(notebook, "needed-1")["source"] += FORGERY
    return notebook


@attack("metadata", "cells around the test bring their own check", "softmax", "failed", points=0)
def cells_around() -> dict[str, Any]:
    notebook = wrong()
    place = position(notebook, "test-softmax")
    notebook["cells"].insert(place + 1, code_cell("4.0"))
    notebook["cells"].insert(place, code_cell(FORGERY, tags=["needed"]))
    return notebook


@attack("metadata", "outputs forged in the file, on test and text", "softmax", "failed", points=0)
def outputs_forged() -> dict[str, Any]:
    notebook = wrong()
    shown = {"text/plain": "4.0", "text/html": "<script>alert(1)</script><b>4 of 4 points</b>"}
    result = {"output_type": "execute_result", "data": shown, "metadata": {}, "execution_count": 1}
    for name in ("softmax", "test-softmax"):
        find(notebook, name).update(outputs=[result], execution_count=99)
    return notebook


@attack("metadata", "the same id for each cell, and ids that are none")
def cell_ids() -> dict[str, Any]:
    notebook = right()
    for number, cell in enumerate(notebook["cells"]):
        cell["id"] = ("same", "../x", "<b>", "x" * 65)[number % 4]
    return notebook


@attack("metadata", "text cells with scripts, attachments and slides")
def text_with_scripts() -> dict[str, Any]:
    notebook = right()
    text = "<script>alert(1)</script> [x](javascript:alert(2)) <img src=x onerror=alert(3)>"
    picture = {"x.svg": {"image/svg+xml": "<svg onload=alert(4)>", "text/html": "<script>"}}
    cell = {"cell_type": "markdown", "source": text, "metadata": {"slideshow": {"a": 1}}}
    notebook["cells"].insert(3, {**cell, "id": "hostile", "attachments": picture})
    return notebook


# --- Cells beside the solution ---------------------------------------------------------------

FORGED_PROBE = (
    "__import__('helpers').probes.__dict__"
    ".update(after_call=lambda f, *a: {'output': f(*a), 'arguments': [*a]})"
)


@attack(
    "forged_testimony",
    "a magic without its sign in a cell of its own",
    "softmax",
    "partly",
    most=3.56,
)
def magic_without_sign() -> dict[str, Any]:
    notebook = right()
    place = position(notebook, "softmax")
    code = "def softmax(logits, dim):\n    return torch.softmax(logits, dim)\n"
    notebook["cells"][place]["source"] = code
    notebook["cells"].insert(place, code_cell(f"time {FORGED_PROBE}"))
    return notebook


@attack(
    "code_in_disguise",
    "torch's own, by a star import before its name is the student's",
    "softmax",
    "waiting",
    points=2.67,
    waiting=1.33,
)
def star_import() -> dict[str, Any]:
    own = "def softmax(logits, dim):\n    return kept(logits, dim)\n"
    code = f"from torch.nn.functional import *\nkept = softmax\n{own}"
    return _whole(with_code("softmax", code))


@attack(
    "code_in_disguise",
    "torch's own, behind a prompt that IPython takes away and Python does not",
    "softmax",
    "partly",
    points=3.56,
)
def prompt() -> dict[str, Any]:
    return _whole(with_code("softmax", "In [1]: softmax = torch.softmax\n"))


HIDDEN = """
import logging

def hidden():
    return logging.getLogger("hidden")

hidden().work = torch.func.grad
"""
USED = """
import logging

def cross_entropy_gradient(logits, labels):
    kept = labels == 0
    def loss(x):
        return -(labels * torch.log_softmax(x, dim=1).masked_fill(kept, 0.0)).sum()
    return logging.getLogger("hidden").work(loss)(logits)
"""


@attack(
    "code_in_disguise",
    "autograd, put by another exercise's cell where all of a process find it",
    "cross-entropy-gradient",
    "waiting",
    points=0,
    waiting=3.43,
)
def hidden_elsewhere() -> dict[str, Any]:
    notebook = _whole(with_code("cross-entropy-gradient", USED))
    find(notebook, "softmax")["source"] += HIDDEN
    return notebook


RIGHT_IN_A_TEXT = """
exec("def softmax(logits, dim):\\n    "
     "e = (logits - logits.amax(dim=dim, keepdim=True)).exp()\\n    "
     "return e / e.sum(dim=dim, keepdim=True)")
"""


@attack(
    "stray_cells",
    "a wrong answer, and a right one in a text that nothing reads",
    "softmax",
    "waiting",
    points=0,
    waiting=4,
)
def right_in_a_text() -> dict[str, Any]:
    notebook = wrong()
    notebook["cells"].insert(position(notebook, "test-softmax"), code_cell(RIGHT_IN_A_TEXT))
    return notebook


@attack(
    "stray_cells",
    "a wrong answer, and a cell that makes all probes forget what they saw",
    "softmax",
    "failed",
    points=0,
)
def wrong_and_forged() -> dict[str, Any]:
    notebook = wrong()
    forged = "import helpers.calling, helpers.plain\n"
    forged += "helpers.calling.plain_copy = lambda value: torch.ones(4, 5) / 5\n"
    notebook["cells"].insert(position(notebook, "test-softmax"), code_cell(forged))
    return notebook
