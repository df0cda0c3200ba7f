"""What the card of an exercise says of it in the notebook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from helpers.authoring.notebooks import PageError

_TITLE = re.compile(r"^##+ (?:Exercise \d+ · )?(?P<title>.+)$", re.MULTILINE)
_FACTS = re.compile(
    r"^\*?(?P<points>[\d.]+) points · (?P<minutes>\d+) minutes"
    r" · difficulty (?P<difficulty>\d) of 3",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Card:
    """An exercise: its name, and what its card says that it is worth."""

    name: str
    title: str
    points: float
    minutes: int
    difficulty: int


def exercise_of(cell: NotebookNode) -> str:
    """Return the name of the exercise whose card ``cell`` is; "" of any other cell."""
    is_prose = cell.cell_type == "markdown"
    return cell.metadata.get("bits", {}).get("exercise", "") if is_prose else ""


def read_cards(cells: Iterable[NotebookNode], chapter: str) -> Iterator[Card]:
    """Yield the cards that stand among ``cells`` of ``chapter``, in their order.

    Raises:
        PageError: a card does not say what its exercise is worth.
    """
    for cell in cells:
        if exercise := exercise_of(cell):
            yield _read_card(exercise, cell.source, chapter)


def _read_card(exercise: str, text: str, chapter: str) -> Card:
    title, facts = _TITLE.search(text), _FACTS.search(text)
    if not title or not facts:
        raise PageError(
            f"Chapter {chapter}: the card of {exercise!r} has no title, or does not say its"
            " points, minutes and difficulty; build the chapter again with `make build`."
        )
    return Card(
        exercise,
        title["title"],
        float(facts["points"]),
        int(facts["minutes"]),
        int(facts["difficulty"]),
    )
