"""The mutants that may survive, each with its reason: ``equivalent_mutants.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mutants.making import Mutant

FILE = Path(__file__).with_name("equivalent_mutants.toml")
# Which check a mutant survives: the students' alone, or the whole one, and so the students', too.
SURVIVES = ("visible", "whole")


class ExplanationError(Exception):
    """The file of reasons holds what cannot be read."""


@dataclass(frozen=True)
class Explanation:
    """Why a mutant survives.

    Attributes:
        exercise: its exercise's name.
        was: the changed lines of the reference, as in ``Mutant``.
        became: what stands in their place.
        place: which of several mutants that read so.
        survives: the check that it survives, one of ``SURVIVES``.
        reason: one sentence.
    """

    exercise: str
    was: str
    became: str
    place: int
    survives: str
    reason: str

    def explains(self, exercise: str, mutant: Mutant, survives: str) -> bool:
        """Return whether it says why ``mutant`` survives the check ``survives``."""
        return self.is_about(exercise, mutant) and survives in (self.survives, "visible")

    def is_about(self, exercise: str, mutant: Mutant) -> bool:
        """Return whether it speaks of ``mutant``."""
        key = (self.exercise, self.was, self.became, self.place)
        return key == (exercise, mutant.was, mutant.became, mutant.place)


def read_explanations(file: Path = FILE) -> list[Explanation]:
    """Return what ``file`` says.

    Raises:
        ExplanationError: an entry lacks something, or has too much.
    """
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return [_read_entry(name, entry) for name, entries in tables.items() for entry in entries]


def _read_entry(exercise: str, entry: dict) -> Explanation:
    try:
        found = Explanation(exercise, **{"place": 1, "survives": "whole", **entry})
    except TypeError as error:
        raise ExplanationError(f"{exercise}: {entry}: {error}") from None
    is_plain = found.survives in SURVIVES and isinstance(found.place, int)
    if not is_plain or len(found.reason) < 15:
        raise ExplanationError(f"{exercise}: {entry}: which check is survived, and why?")
    return found


def no_longer_there(
    explanations: Iterable[Explanation], mutants: Iterable[tuple[str, Mutant]]
) -> list[Explanation]:
    """Return those that speak of no mutant."""
    keys = {(exercise, m.was, m.became, m.place) for exercise, m in mutants}
    return [e for e in explanations if (e.exercise, e.was, e.became, e.place) not in keys]
