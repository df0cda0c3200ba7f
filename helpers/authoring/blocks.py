"""Make blocks of Markdown out of a chapter's cells.

The source notebook gives the prose, the code, the stored outputs and the solutions; the release
notebook gives what a student sees of an exercise. A hidden test reaches the book from neither.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode

from helpers.authoring.cards import exercise_of
from helpers.authoring.folding import split_title
from helpers.authoring.mathml import FormulaError, convert_math
from helpers.authoring.notebooks import PageError
from helpers.authoring.outputs import OutputError, render_outputs
from helpers.authoring.sections import NumberedCell, exercise_anchor, normalize_id
from helpers.catalogue import find_exercise

_SOLUTION_MARKER = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[^\n]*\n?", re.MULTILINE)
_SECRET = re.compile(r"BEGIN (?:HIDDEN TESTS|SOLUTION)")
# To another chapter's notebook, or to a heading of the same one: as Jupyter calls it.
_LINK = re.compile(
    r"\]\((?:\.\./(?P<chapter>\d{2}-[a-z0-9-]+)/[a-z0-9-]+\.ipynb)?(?:#(?P<anchor>[^)\s]+))?\)"
)
_ATTACHMENT = re.compile(r"\(attachment:([^)\s]+)")
# What it shows is how far a reader's own work has come.
_OF_THE_READER = re.compile(r"^progress\(", re.MULTILINE)


@dataclass
class BlockMaker:
    """Makes a chapter's blocks.

    Args:
        chapter: its name.
        given: the cells of the release notebook that nbgrader knows, by its name for them.
        fold_solutions: put each solution in a fold behind its exercise's hints; otherwise leave
            it out.
        answers: what follows the check of an exercise, by the exercise's name.
    """

    chapter: str
    given: Mapping[str, NotebookNode]
    fold_solutions: bool
    answers: Mapping[str, str] = field(default_factory=dict)
    _help: list[str] = field(default_factory=list, init=False)

    def make(self, cells: Iterable[NumberedCell]) -> list[str]:
        """Return the blocks of ``cells``, in their order.

        Raises:
            PageError: the notebooks do not belong together, or a cell cannot be shown.
        """
        blocks = []
        for number, cell in cells:
            where = f"Chapter {self.chapter}, cell {number}"
            try:
                blocks.extend(self._blocks(cell, where))
            except (FormulaError, OutputError) as error:
                reason = str(error)
                is_placed = reason.startswith(where)
                raise PageError(reason if is_placed else f"{where}: {reason}") from error
        return [*blocks, *self._take_help()]

    def _blocks(self, cell: NotebookNode, where: str) -> Iterator[str]:
        grading = cell.metadata.get("nbgrader", {})
        graded, solution = grading.get("grade"), grading.get("solution")
        if cell.cell_type == "raw" or "setup" in cell.metadata.get("tags", []):
            return
        if cell.cell_type == "markdown":
            if graded or solution:
                raise PageError(f"{where}: an answer in prose cannot be shown; use a code cell.")
            yield self._prose(cell, where)
        elif solution:
            yield from self._exercise(cell, where)
        elif graded:
            yield from self._check(cell, where)
        elif not _OF_THE_READER.search(cell.source):
            yield from _code_blocks(cell, where)

    def _prose(self, cell: NotebookNode, where: str) -> str:
        if attachment := _ATTACHMENT.search(cell.source):
            raise PageError(
                f"{where}: the picture {attachment[1]!r} is an attachment of the cell, which the"
                " book cannot show; draw it in a code cell."
            )
        text = _LINK.sub(self._link, convert_math(cell.source, where))
        if exercise := exercise_of(cell):
            anchor = exercise_anchor(exercise)
            return f'<section class="exercise-card" id="{anchor}">\n\n{text}\n\n</section>'
        return text

    def _link(self, link: re.Match[str]) -> str:
        if not link["chapter"] and not link["anchor"]:
            return link[0]
        anchor = f"#{normalize_id(link['anchor'])}" if link["anchor"] else ""
        return f"]({link['chapter'] or self.chapter}.md{anchor})"

    def _exercise(self, cell: NotebookNode, where: str) -> Iterator[str]:
        yield from self._take_help()
        visible = self._visible(cell, where)
        yield '<p class="code-label">Your code</p>\n\n' + _code(visible.source, where)
        exercise = cell.metadata.nbgrader["grade_id"]
        self._help = list(_hints(exercise, where))
        if self.fold_solutions:
            shown = cell.copy()
            shown.source = _SOLUTION_MARKER.sub("", cell.source).rstrip()
            body = "\n\n".join(_code_blocks(shown, where))
            self._help.append(_fold("A solution", "solution", body))

    def _check(self, cell: NotebookNode, where: str) -> Iterator[str]:
        # Stored outputs of a check come from a run with the hidden tests and may name them.
        title, source = split_title(self._visible(cell, where).source)
        yield _fold(html.escape(title or "The check"), "check", _code(source, where))
        exercise = cell.metadata.nbgrader["grade_id"].removeprefix("test-")
        if answers := self.answers.get(exercise):
            yield answers
        yield from self._take_help()

    def _take_help(self) -> list[str]:
        """Return the folds that wait for the check of their exercise."""
        taken, self._help = self._help, []
        return taken

    def _visible(self, cell: NotebookNode, where: str) -> NotebookNode:
        name = cell.metadata.nbgrader["grade_id"]
        if name not in self.given:
            raise PageError(
                f"{where}: the release notebook has no cell {name!r};"
                " build the chapter again with `make build`."
            )
        return self.given[name]


def _hints(exercise: str, where: str) -> Iterator[str]:
    try:
        hints = find_exercise(exercise).hints
    except KeyError:  # of a course whose catalogue is not ours
        return
    for stage, hint in enumerate(hints, start=1):
        yield _fold(f"Hint {stage} of {len(hints)}", "hint", convert_math(hint, where))


def _code_blocks(cell: NotebookNode, where: str) -> Iterator[str]:
    title, source = split_title(cell.source)
    code = _code(source, where)
    yield _fold(html.escape(title), "folded", code) if title else code
    if outputs := render_outputs(cell.outputs):
        yield outputs


def _code(source: str, where: str) -> str:
    if _SECRET.search(source):
        raise PageError(
            f"{where}: the cell still holds a solution or a hidden test;"
            " build the chapter again with `make build`."
        )
    longest = max((len(ticks) for ticks in re.findall(r"`+", source)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}python\n{source}\n{fence}"


def _fold(summary: str, style: str, body: str) -> str:
    return f'<details class="{style}">\n<summary>{summary}</summary>\n\n{body}\n\n</details>'
