"""Attacks that are files: broken ones, hostile ones, and odd ones that are all right."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from attack_corpus import all_right
from attack_notebooks import WRONG, Maker, attack, code_cell, find, right


def _with_solution(text: object) -> dict[str, Any]:
    notebook = right()
    find(notebook, "softmax")["source"] = text
    return notebook


def _zipped() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("numerical-stability.ipynb", all_right())
    return buffer.getvalue()


def _as_version_3() -> dict[str, Any]:
    cells = [{"cell_type": "code", "language": "python", "input": "4.0", "outputs": []}]
    return {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": cells}]}


def _with_extra_cells(count: int) -> dict[str, Any]:
    notebook = right()
    notebook["cells"] += [{**code_cell("x = 4.0"), "id": f"extra-{n}"} for n in range(count)]
    return notebook


def _with_head(**settings: Any) -> dict[str, Any]:
    return {**right(), **settings}


_TEXT = all_right().decode()
_MALFORMED: dict[str, Maker] = {
    "no bytes": lambda: b"",
    "nothing but space": lambda: b" \n\t" * 1000,
    "cut off in the middle": lambda: all_right()[: len(all_right()) // 2],
    "cut off before the last bracket": lambda: all_right().rstrip()[:-1],
    "in Latin-1": lambda: _TEXT.encode("latin-1", "replace").replace(b"softmax", b"softm\xe4x"),
    "in UTF-16": lambda: _TEXT.encode("utf-16"),
    "an overlong and a lonely byte of UTF-8": lambda: all_right() + b"\xc0\xaf\x80",
    "ten thousand brackets": lambda: b"[" * 10_000,
    "nested deep inside its metadata": lambda: _with_head(
        metadata=json.loads('{"a":' * 500 + "{}" + "}" * 500)
    ),
    "a zip by the name of a notebook": _zipped,
    "a program": lambda: b"\x7fELF" + bytes(4096),
    "a web page": lambda: b"<!DOCTYPE html><html><script>alert(1)</script></html>",
    "Python": lambda: b"def softmax(logits, dim):\n    return 4.0\n",
    "a number": lambda: b"4.0",
    "a list": lambda: b'[{"points": 4.0}]',
    "the grader's own result": lambda: {"exercises": [{"name": "softmax", "points": 4.0}]},
    "format 3": _as_version_3,
    "format 9": lambda: _with_head(nbformat=9),
    "a format that is text": lambda: _with_head(nbformat="4"),
    "cells that are a number": lambda: _with_head(cells=4.0),
    "no cells": lambda: _with_head(cells=[]),
    "a cell that is text": lambda: _with_head(cells=["4.0"]),
    "metadata that are a list": lambda: _with_head(metadata=[]),
    "numbers that JSON does not have": lambda: _TEXT.replace(
        '"metadata"', '"x": NaN, "metadata"', 1
    ).encode(),
    "a number without an end": lambda: _TEXT.replace(
        '"metadata"', '"x": 1e999, "metadata"', 1
    ).encode(),
    "cells given twice": lambda: (_TEXT.rstrip()[:-1] + ', "cells": []}').encode(),
    "half a character in a cell": lambda: _with_solution("x = '\ud800'"),
    "a cell's text made of numbers": lambda: _with_solution([4, 0]),
    "a cell's text made of lists": lambda: _with_solution([["4.0"]]),
    "twenty thousand cells": lambda: _with_extra_cells(20_000),
    "a million values": lambda: _with_head(metadata={"x": [0] * 1_100_000}),
    "two notebooks, one behind the other": lambda: all_right() * 2,
}
for _meaning, _make in _MALFORMED.items():
    attack("broken_files", _meaning, expect="malformed", points=0)(_make)

_SYNTAX: dict[str, str] = {
    "a cell that is no Python": "def softmax(:\n",
    "a cell with a null": "x = '\x00'\n" + WRONG,
    "a cell with ten thousand brackets": "(" * 10_000 + ")" * 10_000 + "\n" + WRONG,
    "a cell with a hundred thousand minus signs": "-" * 100_000 + "1\n" + WRONG,
    "a cell with a number of a million digits": "x = " + "9" * 1_000_000 + "\n" + WRONG,
}
for _meaning, _code in _SYNTAX.items():
    attack("broken_files", _meaning, "softmax", "failed|crashed", points=0)(
        lambda code=_code: _with_solution(code)
    )


@attack("broken_files", "right, with 5,000 cells more")
def five_thousand_cells() -> dict[str, Any]:
    return _with_extra_cells(5_000)


@attack("broken_files", "right, with a mark of byte order, as lists of lines that end in CR LF")
def editors_marks() -> bytes:
    notebook = right()
    for cell in notebook["cells"]:
        cell["source"] = cell["source"].replace("\n", "\r\n").splitlines(keepends=True)
    return b"\xef\xbb\xbf" + json.dumps(notebook, indent=3).encode()


@attack("broken_files", "right, with unknown keys everywhere and outputs of unknown kinds")
def unknown_keys() -> dict[str, Any]:
    notebook: dict[str, Any] = {**right(), "points": 1000, "verdict": "passed"}
    for cell in notebook["cells"]:
        cell |= {"points": 1000, "verdict": "passed"}
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "score", "points": 1000}]
    return notebook
