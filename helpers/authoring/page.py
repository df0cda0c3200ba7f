"""Make one Markdown page of the book out of a chapter's two notebooks.

The source notebook gives the prose, the code, the stored outputs and the solutions; the release
notebook gives what a student sees of an exercise. A hidden test reaches the page from neither.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers import bit_explorer
from helpers.authoring.folding import split_title
from helpers.authoring.launches import LaunchError, find_launches
from helpers.authoring.mathml import FormulaError, convert_math
from helpers.authoring.outputs import OutputError, render_outputs
from helpers.catalogue import find_exercise

_CHAPTER_NAME = re.compile(r"\d{2}-(?P<topic>[a-z0-9]+(?:-[a-z0-9]+)*)")
_SOLUTION_MARKER = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION[^\n]*\n?", re.MULTILINE)
_SECRET = re.compile(r"BEGIN (?:HIDDEN TESTS|SOLUTION)")
_CHAPTER_LINK = re.compile(r"\]\(\.\./(?P<chapter>\d{2}-[a-z0-9-]+)/[a-z0-9-]+\.ipynb(?=[#)])")
_ATTACHMENT = re.compile(r"\(attachment:([^)\s]+)")
_FIRST_HEADING = re.compile(r"^# .*$", re.MULTILINE)


class PageError(ValueError):
    """A chapter that cannot be made into a page; the message says where and what to do."""


@dataclass(frozen=True)
class Chapter:
    """A chapter's name, such as ``08-numerical-stability``, and its two notebooks."""

    name: str
    source: Path
    release: Path

    @classmethod
    def find(cls, course: Path, name: str) -> Chapter:
        """Return the chapter ``name`` of the folder ``course``.

        Raises:
            PageError: there is no such chapter, or one of its two notebooks is missing.
        """
        match = _CHAPTER_NAME.fullmatch(name)
        if not match or not (course / "source" / name).is_dir():
            known = ", ".join(path.name for path in sorted((course / "source").glob("[0-9]*")))
            raise PageError(f"There is no chapter {name!r}; the chapters are: {known or 'none'}.")
        place = Path(name, f"{match['topic']}.ipynb")
        chapter = cls(name, course / "source" / place, course / "release" / place)
        for folder, notebook in (("source", chapter.source), ("release", chapter.release)):
            if not notebook.is_file():
                raise PageError(
                    f"The notebook course/{folder}/{place.as_posix()} is missing;"
                    " build it with `make build`."
                )
        return chapter


def render_page(chapter: Chapter, repository: str, fold_solutions: bool) -> str:
    """Return the chapter as Markdown with HTML blocks.

    Args:
        chapter: the notebooks to read.
        repository: the course's address on GitHub, from which the links at the top are made.
        fold_solutions: put each solution in a fold under its exercise; otherwise leave it out.

    Raises:
        PageError: a notebook cannot be read, the two do not belong together, or a cell cannot
            be shown.
    """
    links = _links(chapter, repository)
    given = {
        grade_id: cell
        for cell in read_notebook(chapter.release).cells
        if (grade_id := cell.metadata.get("nbgrader", {}).get("grade_id"))
    }
    blocks = []
    for number, cell in enumerate(read_notebook(chapter.source).cells, start=1):
        where = f"Chapter {chapter.name}, cell {number}"
        try:
            blocks.extend(_cell_blocks(cell, given, fold_solutions, where))
        except (FormulaError, OutputError) as error:
            message = str(error)
            raise PageError(
                message if message.startswith(where) else f"{where}: {message}"
            ) from error
    page = "\n\n".join(blocks) + "\n"
    if 'class="bits-explorer"' in page:
        page += f"\n{bit_explorer.start_script()}\n"
    return _with_links(page, links)


def exercise_anchor(name: str) -> str:
    """Return the id of the card of the exercise ``name`` in its page."""
    return f"exercise-{name}"


def read_notebook(path: Path) -> NotebookNode:
    """Return the notebook at ``path``.

    Raises:
        PageError: it is damaged.
    """
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises errors of many kinds for a damaged file
        raise PageError(
            f"The notebook {path} cannot be read ({type(error).__name__});"
            " it is damaged: build it again with `make build`."
        ) from error


def _cell_blocks(
    cell: NotebookNode, given: dict[str, NotebookNode], fold_solutions: bool, where: str
) -> Iterator[str]:
    grading = cell.metadata.get("nbgrader", {})
    graded, solution = grading.get("grade"), grading.get("solution")
    if cell.cell_type == "raw" or "setup" in cell.metadata.get("tags", []):
        return
    if cell.cell_type == "markdown":
        if graded or solution:
            raise PageError(f"{where}: an answer in prose cannot be shown; use a code cell.")
        yield _prose(cell, where)
    elif solution or graded:
        visible = given.get(grading["grade_id"])
        if visible is None:
            raise PageError(
                f"{where}: the release notebook has no cell {grading['grade_id']!r};"
                " build the chapter again with `make build`."
            )
        yield from _exercise_blocks(cell, visible, fold_solutions, where)
    else:
        yield from _code_blocks(cell, where)


def _exercise_blocks(
    cell: NotebookNode, visible: NotebookNode, fold_solutions: bool, where: str
) -> Iterator[str]:
    if not cell.metadata.nbgrader.get("solution"):
        # Stored outputs of a check come from a run with the hidden tests and may name them.
        title, source = split_title(visible.source)
        yield _fold(html.escape(title or "The check"), "check", _code(source, where))
        return
    yield '<p class="code-label">Your code</p>\n\n' + _code(visible.source, where)
    solution = ""
    if fold_solutions:
        shown = cell.copy()
        shown.source = _SOLUTION_MARKER.sub("", cell.source).rstrip()
        solution = _fold("A solution", "solution", "\n\n".join(_code_blocks(shown, where)))
    yield from _with_hints(cell.metadata.nbgrader["grade_id"], solution, where)


def _with_hints(exercise: str, solution: str, where: str) -> Iterator[str]:
    """Yield the hints in folds, each inside the one before, and the solution in the last."""
    try:
        hints = find_exercise(exercise).hints
    except KeyError:  # of a course whose catalogue is not ours
        hints = ()
    inside = solution
    for stage in range(len(hints), 0, -1):
        hint = convert_math(hints[stage - 1], where)
        body = f"{hint}\n\n{inside}" if inside else hint
        inside = _fold(f"Hint {stage} of {len(hints)}", "hint", body)
    if inside:
        yield inside


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


def _prose(cell: NotebookNode, where: str) -> str:
    if attachment := _ATTACHMENT.search(cell.source):
        raise PageError(
            f"{where}: the picture {attachment[1]!r} is an attachment of the cell, which the book"
            " cannot show; draw it in a code cell."
        )
    text = _CHAPTER_LINK.sub(r"](\g<chapter>.md", convert_math(cell.source, where))
    if exercise := cell.metadata.get("bits", {}).get("exercise"):
        anchor = exercise_anchor(exercise)
        return f'<section class="exercise-card" id="{anchor}">\n\n{text}\n\n</section>'
    return text


def _links(chapter: Chapter, repository: str) -> str:
    try:
        launches = find_launches(
            repository, f"course/release/{chapter.name}/{chapter.release.name}"
        )
    except LaunchError as error:
        raise PageError(str(error)) from error
    content = base64.b64encode(chapter.release.read_bytes()).decode("ascii")
    download = f"data:application/x-ipynb+json;base64,{content}"
    return (
        '<nav class="chapter-links" aria-label="This chapter as a notebook">\n'
        f'<a href="{launches.colab}">Open in Colab</a>\n'
        f'<a href="{launches.binder}">Open in Binder</a>\n'
        f'<a href="{download}" download="{chapter.release.name}">Download the notebook</a>\n'
        "</nav>"
    )


def _with_links(page: str, links: str) -> str:
    # A chapter opens with its title; a page without one gets the links first.
    heading = _FIRST_HEADING.match(page.lstrip())
    if not heading:
        return f"{links}\n\n{page}"
    page = page.lstrip()
    return f"{page[: heading.end()]}\n\n{links}\n{page[heading.end() :]}"
