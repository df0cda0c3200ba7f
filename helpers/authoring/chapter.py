"""From a chapter's text to its notebook and its part of the catalogue.

A chapter is one file in jupytext's percent format, ``NN_topic.py``. Three kinds of cells, told
by their metadata, make an exercise: its card (``exercise=``), its solution (``solution=``) and
its test (``test=``). They become nbgrader cells here, so that points and names stand once.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import jupytext
import nbformat
from nbformat.notebooknode import NotebookNode

from helpers.authoring.folding import fold_cell
from helpers.reading.cells import digest, parse

_FILE_NAME = re.compile(r"(\d\d)_([a-z0-9_]+)\.py")
_HINT = re.compile(r"<!--\s*hint:\s*(.*?)\s*-->\s*", re.DOTALL)
_TITLE = re.compile(r"^### (.+)$", re.MULTILINE)
_HIDDEN = re.compile(r"### BEGIN HIDDEN TESTS.*?### END HIDDEN TESTS", re.DOTALL)
_PROPERTY = re.compile(r"^\s*with check\.property\(", re.MULTILINE)
_SUMMARY_IN_MARKDOWN = re.compile(r"<summary>(?:(?!</summary>).)*`")
_STAGES = 3

_FOLDED_NOTE = (
    "*Setup, imports, data, plots and checks are folded to one line each. Click a line to look "
    "inside (on Colab, “Show code”; VS Code shows these cells open).*"
)
# The name in the address of a repository whose owner has not set it is told apart from a network
# that is out of reach: the one does not pass by waiting.
_SETUP_TITLE = "Setup: installs the course's helpers on Colab and does nothing elsewhere"
_SETUP = """\
import subprocess
import sys

if "google.colab" in sys.modules:
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "git+{repository}"]
    if "/YOUR_ORG/" in pip[-1]:
        raise RuntimeError("{unset}")
    if subprocess.run(pip, capture_output=True).returncode != 0:
        raise RuntimeError("The helpers could not be fetched: run this cell again in a minute.")
    print("The course's helpers are installed. PyTorch is Colab's own.")
"""
_ADDRESS_UNSET = (
    "This copy does not say where the helpers are: whoever shared it has to set the address of "
    "the course's repository and share it again. Running this cell again does not help."
)
# Of this error alone IPython shows the sentence, and not the lines that led to it.
_TOO_EARLY = """\
if "Check" not in globals():
    from IPython.core.error import UsageError

    raise UsageError("Run the cells at the top of this chapter first: this check needs them.")
"""


class ChapterError(ValueError):
    """A chapter's text that cannot become a notebook; the message says where and why."""


@dataclass
class Card:
    """One exercise as its card, its solution and its test cell tell it."""

    name: str
    title: str
    number: int
    points: float
    minutes: int
    difficulty: int
    hints: list[str]
    visible: int = 0
    hidden: int = 0
    defines: list[str] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)

    def as_dict(self) -> dict:
        """Return the card as the catalogue keeps it."""
        return {key: value for key, value in vars(self).items() if key != "parts"}


def chapter_name(text: Path) -> str:
    """Return a chapter's name, ``08-numerical-stability`` for ``08_numerical_stability.py``.

    Raises:
        ChapterError: if the file is not called ``NN_topic.py``.
    """
    match = _FILE_NAME.fullmatch(text.name)
    if match is None:
        raise ChapterError(f"{text}: a chapter's file is named NN_topic.py, such as 08_topic.py")
    return f"{match[1]}-{match[2].replace('_', '-')}"


def notebook_path(folder: Path, chapter: str) -> Path:
    """Return where in ``folder`` (source or release) the notebook of ``chapter`` lies."""
    return folder / chapter / f"{chapter.split('-', 1)[1]}.ipynb"


def read_chapter(text: Path, repository: str) -> tuple[NotebookNode, dict]:
    """Read a chapter's text.

    Args:
        text: the file ``NN_topic.py``.
        repository: the address that the setup cell installs the helpers from on Colab.

    Returns:
        The notebook, not yet run, and the chapter's part of the catalogue.

    Raises:
        ChapterError: if the text breaks a rule; the message names file, cell and rule.
    """
    chapter = chapter_name(text)
    written = jupytext.read(text, fmt="py:percent")
    reader = _Reader(text)
    cells = [reader.convert(index, cell) for index, cell in enumerate(written.cells)]
    cells[1:1] = _setup_cells(repository)  # below the title and the chapter's card
    reader.require_complete()
    _give_ids(cells)
    notebook = nbformat.v4.new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "bits": {"chapter": chapter},
        },
    )
    nbformat.validate(notebook)
    catalogue = {
        "chapter": chapter,
        "title": _chapter_title(text, cells),
        "exercises": [card.as_dict() for card in reader.cards.values()],
        "cells": sorted({digest(_HIDDEN.sub("", c.source)) for c in cells if _is_ours(c)}),
    }
    return notebook, catalogue


class _Reader:
    """Turns the text's cells into the notebook's, one after another."""

    def __init__(self, text: Path) -> None:
        self._text = text
        self._needed = 0
        self.cards: dict[str, Card] = {}

    def convert(self, index: int, cell: NotebookNode) -> NotebookNode:
        where = f"{self._text.name}, cell {index + 1}"
        metadata = dict(cell.metadata)
        for part, maker in (
            ("exercise", self._card_cell),
            ("solution", self._solution_cell),
            ("test", self._test_cell),
        ):
            if part in metadata:
                return maker(where, metadata, cell.source)
        if "### BEGIN SOLUTION" in cell.source or "### BEGIN HIDDEN TESTS" in cell.source:
            raise ChapterError(
                f"{where}: a solution or a hidden test is outside an exercise; "
                'mark the cell with solution="name" or test="name"'
            )
        if _SUMMARY_IN_MARKDOWN.search(cell.source):
            raise ChapterError(f"{where}: <summary> is HTML, in which code is <code>, not `code`")
        if cell.cell_type == "markdown":
            return nbformat.v4.new_markdown_cell(cell.source)
        if "folded" in metadata:
            _require_title(where, metadata["folded"], cell.source)
        return self._ordinary_cell(metadata, cell.source)

    def _ordinary_cell(self, metadata: dict, source: str) -> NotebookNode:
        tags, title = list(metadata.get("tags", [])), metadata.get("folded", "")
        if "needed" not in tags:
            return _code_cell(source, [*tags, "demo"], folded=title)
        self._needed += 1
        grading = _nbgrader(f"needed-{self._needed}", locked=True)
        return _code_cell(source, tags, grading, folded=title)

    def _card_cell(self, where: str, metadata: dict, source: str) -> NotebookNode:
        card = _read_card(where, metadata, source, number=len(self.cards) + 1)
        if card.name in self.cards:
            raise ChapterError(f'{where}: there are two exercises called "{card.name}"')
        self.cards[card.name] = card
        cell = nbformat.v4.new_markdown_cell(_card_text(card, source))
        cell.metadata["bits"] = {"exercise": card.name}
        return cell

    def _solution_cell(self, where: str, metadata: dict, source: str) -> NotebookNode:
        name = metadata["solution"]
        self._add_part(where, name, "solution")
        if "### BEGIN SOLUTION" not in source:
            raise ChapterError(f"{where}: the solution has no ### BEGIN SOLUTION line")
        self.cards[name].defines = _names_defined(source)
        return _code_cell(source, ["exercise"], _nbgrader(name, solution=True))

    def _test_cell(self, where: str, metadata: dict, source: str) -> NotebookNode:
        name = metadata["test"]
        card = self._add_part(where, name, "test")
        if f'Check("{name}")' not in source or not source.rstrip().endswith("check.score()"):
            raise ChapterError(
                f'{where}: a test starts from check = Check("{name}") and ends with check.score()'
            )
        if "### BEGIN HIDDEN TESTS" not in source:
            raise ChapterError(f"{where}: the test has no ### BEGIN HIDDEN TESTS line")
        visible = _HIDDEN.sub("", source)
        if "idden" not in visible:
            raise ChapterError(f"{where}: no visible comment says that hidden tests follow")
        card.visible = len(_PROPERTY.findall(visible))
        card.hidden = len(_PROPERTY.findall(source)) - card.visible
        grading = _nbgrader(f"test-{name}", locked=True, points=card.points)
        title = f"Check: {card.title}"
        return _code_cell(_TOO_EARLY + source, ["exercise"], grading, folded=title)

    def _add_part(self, where: str, name: str, part: str) -> Card:
        if name not in self.cards:
            raise ChapterError(f'{where}: the {part} of "{name}" comes before its card')
        card = self.cards[name]
        if part in card.parts or (part == "test" and "solution" not in card.parts):
            raise ChapterError(f'{where}: "{name}" needs one solution, then one test')
        card.parts.add(part)
        return card

    def require_complete(self) -> None:
        for card in self.cards.values():
            for part in ("solution", "test"):
                if part not in card.parts:
                    raise ChapterError(f'{self._text.name}: "{card.name}" has no {part} cell')


def _read_card(where: str, metadata: dict, source: str, number: int) -> Card:
    title = _TITLE.search(source)
    if title is None:
        raise ChapterError(f"{where}: a card starts with its title, ### Title")
    hints = [" ".join(hint.split()) for hint in _HINT.findall(source)]
    if len(hints) != _STAGES:
        raise ChapterError(f"{where}: a card holds {_STAGES} hints, this one {len(hints)}")
    try:
        card = Card(
            name=str(metadata["exercise"]),
            title=title[1].strip(),
            number=number,
            points=metadata["points"],
            minutes=metadata["minutes"],
            difficulty=metadata["difficulty"],
            hints=hints,
        )
    except KeyError as missing:
        raise ChapterError(f"{where}: the card does not say its {missing.args[0]}") from None
    if not re.fullmatch(r"[a-z][a-z0-9-]*", card.name):
        raise ChapterError(f'{where}: "{card.name}": a name has only lowercase letters and hyphens')
    if card.difficulty not in (1, 2, 3) or not card.points > 0 or not card.minutes > 0:
        raise ChapterError(f"{where}: difficulty is 1 to 3, points and minutes are above 0")
    return card


def _require_title(where: str, title: object, source: str) -> None:
    if not (isinstance(title, str) and title.strip()) or "\n" in title:
        raise ChapterError(f'{where}: folded="..." is the title, one line, that stays visible')
    if source.startswith("%%"):
        raise ChapterError(f"{where}: a folded cell begins with its title, so with no cell magic")


def _card_text(card: Card, source: str) -> str:
    facts = f"*{card.points:g} points · {card.minutes} minutes · difficulty {card.difficulty} of 3*"
    text = _HINT.sub("", source).strip()
    text = _TITLE.sub(lambda title: f"### Exercise {card.number} · {title[1].strip()}", text, 1)
    heading, _, rest = text.partition("\n")
    stuck = f'*Stuck?* Run `hint("{card.name}")` in a cell of your own: three hints, one at a time.'
    return f"{heading}\n\n{facts}\n\n{rest.strip()}\n\n{stuck}"


def _nbgrader(
    grade_id: str, *, locked: bool = False, solution: bool = False, points: float | None = None
) -> dict:
    metadata = {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": locked,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return metadata if points is None else {**metadata, "points": points}


def _code_cell(
    source: str, tags: list[str], nbgrader: dict | None = None, folded: str = ""
) -> NotebookNode:
    cell = nbformat.v4.new_code_cell(source)
    cell.metadata["tags"] = sorted(tags)
    if nbgrader is not None:
        cell.metadata["nbgrader"] = nbgrader
    if folded:
        fold_cell(cell, folded)
    return cell


def _setup_cells(repository: str) -> list[NotebookNode]:
    note = nbformat.v4.new_markdown_cell(_FOLDED_NOTE, metadata={"tags": ["setup"]})
    source = _SETUP.format(repository=repository, unset=_ADDRESS_UNSET).rstrip()
    return [note, _code_cell(source, ["setup"], folded=_SETUP_TITLE)]


def _names_defined(source: str) -> list[str]:
    """Return the functions and classes that a solution's cell defines at its top."""
    tree = parse(source)
    kinds = ast.FunctionDef | ast.ClassDef
    return sorted({node.name for node in tree.body if isinstance(node, kinds)}) if tree else []


def _is_ours(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and not cell.metadata.get("nbgrader", {}).get("solution")


def _give_ids(cells: list[NotebookNode]) -> None:
    """Give each cell an id that depends on its content, not on chance."""
    seen: Counter[str] = Counter()
    for cell in cells:
        if "nbgrader" in cell.metadata:
            stem = cell.metadata["nbgrader"]["grade_id"]
        elif "bits" in cell.metadata:
            stem = f"card-{cell.metadata['bits']['exercise']}"
        else:
            digest = hashlib.sha256(f"{cell.cell_type}:{cell.source}".encode()).hexdigest()
            stem = digest[:12]
        seen[stem] += 1
        cell["id"] = stem if seen[stem] == 1 else f"{stem}-{seen[stem]}"


def _chapter_title(text: Path, cells: list[NotebookNode]) -> str:
    for cell in cells:
        match = re.match(r"# (?:\d\d\s*·\s*)?(.+)", cell.source)
        if cell.cell_type == "markdown" and match:
            return match[1].strip()
    raise ChapterError(f"{text.name}: no cell holds the chapter's title, # NN · Title")
