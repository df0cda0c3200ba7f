"""Staged hints: each call gives the next of three."""

from __future__ import annotations

from helpers import display, progress_store
from helpers.catalogue import find_exercise


def hint(exercise: str, stage: int | None = None) -> None:
    """Show the next hint for ``exercise``, or the one of a given ``stage``, 1 to 3.

    Raises:
        KeyError: if the course has no such exercise.
        ValueError: if ``stage`` is not 1, 2 or 3.
    """
    card = find_exercise(exercise)
    last = len(card.hints)
    if stage is None:
        stage = min(progress_store.hints_seen(card) + 1, last)
    if stage not in range(1, last + 1):
        raise ValueError(f"stage is 1 to {last}, not {stage!r}")
    progress_store.record_hint(card, stage)
    heading = f"Hint {stage} of {last} · {card.title}"
    more = f'For the next one: hint("{card.name}")' if stage < last else "That was the last hint."
    display.show_markdown(f"**{heading}**\n\n{card.hints[stage - 1]}\n\n*{more}*")
