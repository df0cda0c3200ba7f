"""How far a run has come that judges one piece of work after another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a run has come.

    Attributes:
        all: what there is to do: submissions, or one notebook's exercises.
        done: how much of it is done, or has failed.
        known: how much of that took no judging.
    """

    all: int
    done: int = 0
    known: int = 0
