"""What may wait for a time limit is judged first; a guess that no file can hurt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.grading.engine.order import longest_first, never_ends
from helpers.grading.records.submissions import Submission


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    pass",
        "def f(x):\n    while 1:\n        x = x + 1\n    return x",
        "while (True): pass",
        "for k in range(3):\n\twhile True:\n\t\tk += 1\n\n\tbreak",
        "while True:\n    broken = 1\n\n    breaks = 2",
    ],
)
def test_a_loop_without_a_way_out_is_found(code: str) -> None:
    assert never_ends(code)


@pytest.mark.parametrize(
    "code",
    [
        "while True:\n    if done():\n        break",
        "def f():\n    while True:\n        yield 1",
        "while True: return 1",
        "while x < 3:\n    x += 1",
        "while True:\n    item = next(items)",
        "done = True",
        "",
    ],
)
def test_other_code_is_left_where_it_was(code: str) -> None:
    assert not never_ends(code)


def submission(folder: Path, student: str, content: bytes) -> Submission:
    file = folder / f"{student}.ipynb"
    file.write_bytes(content)
    return Submission(student, file, "")


def notebook(*cells: object) -> bytes:
    return json.dumps({"cells": cells}).encode()


def test_endless_ones_go_first_and_the_others_as_they_came(tmp_path: Path) -> None:
    endless = ["def f():\n", "    while True:\n", "        pass\n"]
    in_class = [
        submission(tmp_path, "ann", notebook({"cell_type": "code", "source": "x = 1"})),
        submission(tmp_path, "bob", notebook({"cell_type": "code", "source": endless})),
        submission(tmp_path, "cem", notebook({"cell_type": "markdown", "source": endless})),
        submission(tmp_path, "dan", notebook({"cell_type": "code", "source": "".join(endless)})),
    ]
    assert [s.student for s in longest_first(in_class)] == ["bob", "dan", "ann", "cem"]


@pytest.mark.parametrize(
    "content",
    [
        b"while 1",
        b'"while 1"',
        b'{"cells": "while 1"}',
        b'{"cells": [3, {"cell_type": "code", "source": [1, "while 1"]}, {"source": {"a": 1}}]}',
        b"[" * 200_000 + b"while 1",
        b"\xff\xfe while 1",
    ],
)
def test_a_broken_file_waits_its_turn(tmp_path: Path, content: bytes) -> None:
    gone = Submission("gone", tmp_path / "gone.ipynb", "")
    broken = submission(tmp_path, "broken", content)
    assert longest_first([gone, broken]) == [gone, broken]
