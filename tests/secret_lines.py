"""What students must not find, line by line, and a search for it in every file of a tree.

Secret are the lines of solutions, of hidden tests, and of the right and wrong solutions that the
tests bring, as far as no part of a chapter that students are given holds the same line: a demo may
well take an optimizer's step as a solution does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from course_files import CHAPTERS, EXERCISES, ROOT, find_cell, source

_REGION = re.compile(r"### BEGIN (SOLUTION|HIDDEN TESTS)\n(.*?)### END \1", re.DOTALL)
# What stands before the sentence that says what a solution stands for.
_VARIANT = re.compile(r"^# %% (?:right|wrong): ", re.MULTILINE)
# Shorter ones are found in any code.
_LEAST_LENGTH = 15


@dataclass(frozen=True)
class Finding:
    """A secret line in a tree: in which file and cell, and of what it is a line."""

    place: str
    line: str
    of: str


@cache
def secret_lines() -> dict[str, set[str]]:
    """Return every secret line and what it is a line of: "solution of softmax", for example."""
    found: dict[str, set[str]] = {}
    for of, text in _secret_texts():
        for line in _lines(text):
            found.setdefault(line, set()).add(of)
    return {line: of for line, of in found.items() if line not in _given()}


def find_secrets(tree: Path) -> list[Finding]:
    """Return each secret line in the files of ``tree``; notebooks are read cell by cell.

    Ordinary code of a library may share a line with a solution. In Python files, two lines that
    follow each other are a finding.
    """
    secrets = secret_lines()
    findings = []
    for file in sorted(path for path in tree.rglob("*") if path.is_file()):
        name = file.relative_to(tree).as_posix()
        for part, text in _texts(file):
            lines = [line for line in map(_bare, text.splitlines()) if line]
            hits = [line in secrets for line in lines]
            for number, line in enumerate(lines):
                neighbors = hits[max(number - 1, 0) : number] + hits[number + 1 : number + 2]
                if hits[number] and (file.suffix != ".py" or any(neighbors)):
                    findings.append(Finding(name + part, line, min(secrets[line])))
    return findings


def _secret_texts() -> Iterator[tuple[str, str]]:
    for exercise in EXERCISES:
        notebook = source(exercise.chapter)
        for cell in (exercise.name, f"test-{exercise.name}"):
            for kind, text in _REGION.findall(find_cell(notebook, cell).source):
                what = "solution" if kind == "SOLUTION" else "hidden test"
                yield f"{what} of {exercise.name}", text
    for file in (ROOT / "tests" / "exercises").glob("*/*.py"):
        text = _VARIANT.sub("", file.read_text(encoding="utf-8"))
        yield f"other solutions of {file.stem}", text


@cache
def _given() -> frozenset[str]:
    cells = (cell for chapter in CHAPTERS for cell in source(chapter).cells)
    return frozenset(line for cell in cells for line in _lines(_REGION.sub("", cell.source)))


def _texts(file: Path) -> Iterator[tuple[str, str]]:
    text = file.read_bytes().decode("utf-8", errors="replace")
    if file.suffix == ".ipynb":
        for number, cell in enumerate(json.loads(text)["cells"]):
            for part in _strings(cell):
                yield f", cell {number}", part
    elif file.suffix == ".json":
        for part in _strings(json.loads(text)):
            yield "", part
    else:
        yield "", text


def _strings(content: object) -> Iterator[str]:
    """Yield every string in JSON; a list of lines, as notebooks have them, as one."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list) and all(isinstance(part, str) for part in content):
        yield "".join(content)
        yield "\n".join(content)
    elif isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _strings(part)


def _lines(text: str) -> list[str]:
    return [bare for bare in map(_bare, text.splitlines()) if len(bare) >= _LEAST_LENGTH]


def _bare(line: str) -> str:
    """Return a line as it is compared, be it indented, quoted or commented out."""
    return re.sub(r"^(?:[\s>#]|\.\.\. |- )+", "", line).rstrip()
