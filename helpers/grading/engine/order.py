"""In which order a class is judged: what may wait for a time limit goes first.

A loop that never ends keeps one worker busy for the whole time limit. At the end of a class all
others would wait for it with nothing to do; at the beginning they judge the rest meanwhile. This is
a guess from the text and decides on no grade. The text is not parsed as Python: no submission is to
get as far as Python's own parser in the process that hands out work, since one could crash it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from helpers.grading.records.submissions import Submission

_ENDLESS = re.compile(r"([ \t]*)while[ \t(]+(?:True|1)[ \t)]*:(.*)")
_ENDLESS_SOMEWHERE = re.compile(rb"while[ \t(]+(?:True|1)")
_WAY_OUT = re.compile(r"\b(?:break|return|raise|yield|await|next|exit|quit|_exit|assert)\b")


def longest_first(submissions: Iterable[Submission]) -> list[Submission]:
    """Return the submissions, those first that may wait for a time limit; else as they came."""
    return sorted(submissions, key=lambda submission: not _may_wait(submission))


def never_ends(code: str) -> bool:
    """Return whether the code seems to hold a loop without a way out."""
    lines = code.splitlines()
    for number, line in enumerate(lines):
        found = _ENDLESS.match(line)
        if found is not None:
            body = [found[2], *_indented_more(lines[number + 1 :], len(found[1]))]
            if not any(map(_WAY_OUT.search, body)):
                return True
    return False


def _may_wait(submission: Submission) -> bool:
    try:
        content = submission.read()
        is_worth_reading = _ENDLESS_SOMEWHERE.search(content) is not None
        return is_worth_reading and any(map(never_ends, _code_cells(content)))
    except (OSError, ValueError, RecursionError):  # told of when it is judged
        return False


def _code_cells(content: bytes) -> Iterator[str]:
    notebook = json.loads(content)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        source = cell.get("source") if isinstance(cell, dict) else None
        if isinstance(source, list):
            source = "".join(part for part in source if isinstance(part, str))
        if isinstance(source, str) and cell.get("cell_type") == "code":
            yield source


def _indented_more(lines: list[str], indent: int) -> Iterator[str]:
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            return
        yield line
