"""The outputs in a judged notebook: what a submission's cells put out, and our own reports.

What comes from the student's process is text and PNG pictures alone, checked and cut; HTML comes
from our own report, in which every word is escaped.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any

from nbformat import from_dict
from nbformat.notebooknode import NotebookNode

from helpers.grading.characters import clean
from helpers.points import Points

_MOST_TEXT = 20_000
_MOST_OUTPUTS = 80
_MOST_PICTURE_BYTES = 2 * 2**20
_PNG = b"\x89PNG\r\n\x1a\n"


class OutputRoom:
    """How much of all that a submission's cells put out is kept."""

    def __init__(self, most: int = 6 * 2**20) -> None:
        """Take the bytes that there is room for."""
        self._most = most
        self._taken: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def keep(self, cell: str, outputs: list[NotebookNode]) -> list[NotebookNode]:
        """Return those of the ``outputs`` of a cell that there is room for, and a note on others.

        A cell that ran before has its room back.
        """
        self._taken.pop(cell, None)
        left = self._most - sum(self._taken.values())
        kept = []
        for output in outputs:
            left -= len(json.dumps(output))
            if left < 0:
                break
            kept.append(output)
        self._left_out[cell] = len(outputs) - len(kept)
        if self._left_out[cell]:
            told = f"[{self._left_out[cell]} more outputs of this cell are left out: in all there "
            told += f"are more than {self._most / 2**20:.0f} MiB]\n"
            kept.append(_make("stream", name="stdout", text=told))
        self._taken[cell] = sum(len(json.dumps(output)) for output in kept)
        return kept

    def notes(self) -> list[str]:
        """Return what a person should know of it."""
        count = sum(self._left_out.values())
        size = f"{self._most / 2**20:.0f} MiB"
        return [f"its cells print more than {size}: {count:,} outputs are left out"] * bool(count)


def write_outputs(outputs: Iterable[Any]) -> list[NotebookNode]:
    """Return what a student's kernel says its cell put out as a notebook's outputs.

    Whatever does not have the form that ``inside.kernel`` gives it is left out.
    """
    made = (_write_output(output) for output in list(outputs)[:_MOST_OUTPUTS])
    return [output for output in made if output is not None]


def write_end(cause: str, message: str) -> NotebookNode:
    """Return the output of a cell that ended its kernel."""
    return _make("error", ename=cause, evalue=message, traceback=[f"{cause}: {message}"])


def write_report(text: str, html: str, points: float) -> list[NotebookNode]:
    """Return the outputs of a test cell: the report, and the points as its value.

    nbgrader takes a test cell's value for its score (nbgrader 0.9, ``utils.determine_grade``).
    """
    return [
        _make("display_data", data={"text/plain": clean(text), "text/html": clean(html)}),
        _make("execute_result", data=Points(points).as_output(), execution_count=None),
    ]


def _make(output_type: str, **fields: Any) -> NotebookNode:
    # nbformat's own maker checks each output against the schema; a test checks these once.
    if "data" in fields:
        fields["metadata"] = NotebookNode()
    return from_dict({"output_type": output_type, **fields})


def _write_output(output: Any) -> NotebookNode | None:
    if type(output) is not dict or type(output.get("kind")) is not str:
        return None  # an array would be compared element by element
    match output:
        case {"kind": "stream", "text": str(text)}:
            return _make("stream", name="stdout", text=_cut(text))
        case {"kind": "data", "data": dict(data), "count": count}:
            parts = _check_parts(data)
            if not parts:
                return None
            if type(count) is int and 0 <= count < 10**6:
                return _make("execute_result", data=parts, execution_count=count)
            return _make("display_data", data=parts)
        case {"kind": "error", "name": str(name), "value": str(value), "traceback": str(text)}:
            lines = _cut(text).splitlines()
            return _make("error", ename=_cut(name), evalue=_cut(value), traceback=lines)
    return None


def _check_parts(data: dict) -> dict[str, str]:
    parts = {}
    if isinstance(data.get("text/plain"), str):
        parts["text/plain"] = _cut(data["text/plain"])
    picture = data.get("image/png")
    if isinstance(picture, str) and len(picture) <= _MOST_PICTURE_BYTES and _is_png(picture):
        parts["image/png"] = "".join(picture.split())
    return parts


def _is_png(text: str) -> bool:
    try:
        return base64.b64decode("".join(text.split()), validate=True).startswith(_PNG)
    except (binascii.Error, ValueError):
        return False


def _cut(text: str) -> str:
    return clean(text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "\n[cut here]")
