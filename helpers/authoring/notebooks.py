"""The chapters' notebooks, as the book reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

_CHAPTER_NAME = re.compile(r"\d{2}-(?P<topic>[a-z0-9]+(?:-[a-z0-9]+)*)")
_CHAPTER_TITLE = re.compile(r"^# (?:\d\d · )?(?P<title>.+)$", re.MULTILINE)


class PageError(ValueError):
    """A chapter that cannot be made into pages; the message says where and what to do."""


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


def read_chapters(course: Path) -> Iterator[tuple[str, NotebookNode]]:
    """Yield the name and the source notebook of each chapter of the folder ``course``, in order.

    Raises:
        PageError: a notebook is missing or damaged.
    """
    for path in sorted((course / "source").glob("[0-9][0-9]-*")):
        yield path.name, read_notebook(Chapter.find(course, path.name).source)


def chapter_title(notebook: NotebookNode, name: str) -> str:
    """Return the title of the chapter ``name``, without its number.

    Raises:
        PageError: it has none.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := _CHAPTER_TITLE.search(cell.source)):
            return match["title"]
    raise PageError(f"Chapter {name} has no title; its first line must be `# NN · Title`.")
