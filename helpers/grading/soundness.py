"""Whether received bytes are a notebook that can be graded; bytes that nobody vouches for."""

from __future__ import annotations

import json
import math
import re

from helpers.grading.caps import Caps

BOM = b"\xef\xbb\xbf"
# Strings are skipped as a whole; possessive, so that no input makes it slow.
_STRUCTURE = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{},]', re.DOTALL)
_CELL_TYPES = ("code", "markdown", "raw")


class MalformedError(Exception):
    """The bytes are no sound notebook; the text is what a sentence about it ends with."""


def without_mark(content: bytes) -> bytes:
    """Return a notebook as nbformat reads it: without the mark that some editors put first."""
    return content.removeprefix(BOM)


def examine(content: bytes, caps: Caps) -> str:
    """Check that ``content`` is a notebook that nbgrader can take.

    Returns:
        the chapter that the notebook says it is of; "" if it does not say so. The student may have
        written anything there.

    Raises:
        MalformedError: it is not; the text says why.
    """
    text = _decode(content)
    _check_structure(text.encode(), caps)
    notebook = _parse(text)
    _check_notebook(notebook, caps)
    _check_with_nbformat(text)
    said = notebook["metadata"].get("bits")
    chapter = said.get("chapter") if isinstance(said, dict) else ""
    return chapter if isinstance(chapter, str) else ""


def _decode(content: bytes) -> str:
    if not content.strip():
        raise MalformedError("it is empty")
    if content.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in content[:64]:
        raise MalformedError("it is not in UTF-8 but in another encoding, such as UTF-16")
    try:
        return without_mark(content).decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"it is not in UTF-8 (byte {error.start})") from None


def _check_structure(text: bytes, caps: Caps) -> None:
    """Bound what parsing costs before anything is parsed."""
    nesting = values = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0][:1]
        if mark in b"[{":
            nesting += 1
            values += 1
        elif mark in b"]}":
            nesting -= 1
        elif mark == b",":
            values += 1
        if nesting > caps.nesting:
            raise MalformedError(f"it is nested more than {caps.nesting} levels deep")
        if values > caps.values:
            raise MalformedError(f"it holds more than {caps.values} values")


def _parse(text: str) -> dict:
    try:
        notebook = json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        where = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise MalformedError(f"it is not JSON, or cut off{where}") from None
    if not isinstance(notebook, dict):
        raise MalformedError("it is JSON, but not a notebook")
    return notebook


def _unique_keys(pairs: list[tuple[str, object]]) -> dict:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise MalformedError("it has the same key twice")
    return mapping


def _refuse_constant(name: str) -> None:
    raise MalformedError(f"it holds {name}, which is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedError(f"it holds the number {digits[:20]}, which is too large")
    return number


def _check_notebook(notebook: dict, caps: Caps) -> None:
    """Check what nbformat does not, or stumbles over."""
    if "nbformat" not in notebook:
        raise MalformedError("it is JSON, but not a notebook")
    version, minor = notebook["nbformat"], notebook.get("nbformat_minor", 0)
    if type(version) is not int or version != 4 or type(minor) is not int or minor < 0:
        raise MalformedError("it is not a notebook of format 4: open it in JupyterLab and save it")
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not isinstance(notebook.get("metadata"), dict):
        raise MalformedError("it is a notebook without a list of cells or without metadata")
    if not cells:
        raise MalformedError("it has no cells")
    if len(cells) > caps.cells:
        raise MalformedError(f"it has more than {caps.cells} cells")
    for number, cell in enumerate(cells, 1):
        if not _is_cell(cell):
            raise MalformedError(f"its cell {number} is damaged")


def _is_cell(cell: object) -> bool:
    if not isinstance(cell, dict) or not isinstance(cell.get("metadata"), dict):
        return False
    source = cell.get("source")
    is_text = isinstance(source, str) or (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    )
    outputs = cell.get("outputs", [])
    return (
        is_text
        and cell.get("cell_type") in _CELL_TYPES
        and isinstance(outputs, list)
        and all(isinstance(o, dict) and isinstance(o.get("output_type"), str) for o in outputs)
        and isinstance(cell["metadata"].get("nbgrader", {}), dict)
    )


def _check_with_nbformat(text: str) -> None:
    """Read and write it as nbgrader will, and hold its cells to nbformat's own schema."""
    from nbformat import v4
    from nbformat.v4.rwbase import split_lines, strip_transient
    from nbformat.validator import iter_validate

    try:
        notebook = v4.reads(text)
        # What people's tools leave out, or add, is not the student's fault; outputs are cleared.
        notebook.nbformat_minor = 4
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = []
                cell.setdefault("execution_count", None)
        json.dumps(split_lines(strip_transient(notebook)), ensure_ascii=False).encode()
        errors = iter_validate(notebook, version=4, version_minor=4, relax_add_props=True)
        error = next(errors, None)
    except Exception as problem:  # a hostile notebook can make nbformat raise anything
        raise MalformedError(f"nbformat cannot read it ({type(problem).__name__})") from None
    if error is not None:
        where = "/".join(str(step) for step in error.absolute_path)
        raise MalformedError(f"it breaks the notebook format at {where or 'its top'}")
