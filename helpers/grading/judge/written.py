"""The outputs in a judged notebook: what a submission's cells put out, and our own reports.

What comes from the student's process is text and PNG pictures alone, checked and cut; HTML comes
from our own report, in which every word is escaped.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

from nbformat import from_dict
from nbformat.notebooknode import NotebookNode

_MOST_TEXT = 20_000
_MOST_OUTPUTS = 80
_MOST_PICTURE_BYTES = 2 * 2**20
# Controls but tab and newline, signs that turn the direction of writing, halves of characters.
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
# Tags; characters in disguise, which could spell a scheme; links to code, also from formulas.
_ARMED = (
    (re.compile(r"<(?=[A-Za-z/!?])"), "&lt;"),
    (re.compile(r"&(?=#|(?:colon|Tab|NewLine|sol|lpar);)", re.IGNORECASE), "& "),
    (
        re.compile(r"(\]\(\s*<?\s*|\]:\s*<?\s*)(?:javascript|vbscript|data)\s*:", re.IGNORECASE),
        r"\1#",
    ),
    (re.compile(r"\\(?:href|cssId|class|style|require|unicode)\b"), r"\\text"),
)
_PNG = b"\x89PNG\r\n\x1a\n"


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
        _make("execute_result", data={"text/plain": repr(points)}, execution_count=None),
    ]


def disarm(text: str, *, raw: bool = False) -> str:
    """Return a student's text so that it is Markdown without HTML and without links that run code.

    nbgrader's formgrader shows Markdown with all the HTML in it, in the browser of whoever grades.

    Args:
        text: Markdown, or anything.
        raw: whether it is no Markdown, and to be shown as it is.
    """
    if raw:
        return "\n".join(f"    {line}" for line in clean(text).splitlines())
    for pattern, harmless in _ARMED:
        text = pattern.sub(harmless, text)
    return clean(text)


def _make(output_type: str, **fields: Any) -> NotebookNode:
    # nbformat's own maker checks each output against the schema; a test checks these once.
    if "data" in fields:
        fields["metadata"] = NotebookNode()
    return from_dict({"output_type": output_type, **fields})


def clean(text: str) -> str:
    """Return ``text`` without control characters and what is no character at all."""
    return _UNPRINTABLE.sub("�", text)


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
