"""The numbers of a chapter's figures: all have one or none has, and they follow one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nbformat.notebooknode import NotebookNode

_FIGURE = 'class="bits-figure"'
_FEWEST_WORDS = 4


@dataclass(frozen=True)
class _Figure:
    place: str
    number: str
    caption: str


def find_misnumbered(notebook: NotebookNode, chapter: str) -> Iterator[str]:
    """Yield one sentence for each figure that lacks its number or a caption that says something.

    A chapter in which no figure has a number is left alone.

    Args:
        notebook: a chapter that has been run; plots, sliders and drawings are all figures.
        chapter: its name, as in "05-accumulation".
    """
    figures = list(_find_figures(notebook))
    if not any(figure.number for figure in figures):
        return
    for count, figure in enumerate(figures, start=1):
        expected = f"{int(chapter[:2])}.{count}"
        if not figure.number:
            yield f'{figure.place}: the figure has no number; it is number="{expected}"'
        elif figure.number != expected:
            yield f"{figure.place}: the figure's number is {figure.number}; it is {expected}"
        if figure.number and len(figure.caption.split()) < _FEWEST_WORDS:
            yield (
                f"{figure.place}: the caption of figure {figure.number} says too little; "
                f"write at least {_FEWEST_WORDS} words"
            )


def _find_figures(notebook: NotebookNode) -> Iterator[_Figure]:
    for index, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", []):
            if _FIGURE in output.get("data", {}).get("text/html", ""):
                label = output.metadata.get("bits", {}).get("figure", {})
                place = f"cell {index}, {cell.source.partition(chr(10))[0]!r}"
                yield _Figure(place, label.get("number", ""), label.get("caption", ""))
