"""A pytest plugin: what wrong solutions deserve, found out once in a run.

Some take half a minute, and more than one test asks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import pytest
from classroom import deserved_points

from helpers.catalogue import Exercise
from helpers.files import write_atomically

# What a wrong solution gets for a part of its work may be another number once in a long time: a
# rounded number that happens to be the right one. Whether that is rare, more draws tell.
MORE_DRAWS = 10
RARE = 0.1


def hang_on_luck(points: Counter[float]) -> bool:
    """Return whether the points of one solution are other ones more often than rarely."""
    _, usual = points.most_common(1)[0]
    return points.total() - usual > RARE * points.total()


class KnownPoints:
    """What the exercises' own tests gave, in a folder that the processes of a run share."""

    def __init__(self, folder: Path) -> None:
        """Keep what is known in ``folder``, which is made if need be."""
        folder.mkdir(exist_ok=True)
        self._folder = folder

    def keep(self, exercise: Exercise, code: str, points: float) -> None:
        """Remember what ``code`` gets."""
        write_atomically(self._file(exercise, code), repr(points).encode())

    def of(self, exercise: Exercise, code: str) -> float:
        """Return what ``code`` gets, hidden tests included; run them if nobody has."""
        file = self._file(exercise, code)
        if not file.exists():
            self.keep(exercise, code, deserved_points(exercise, code))
        return float(file.read_text())

    def _file(self, exercise: Exercise, code: str) -> Path:
        return self._folder / f"{exercise.name}-{hashlib.sha256(code.encode()).hexdigest()}"


@pytest.fixture(scope="session")
def known_points(run_folder: Path) -> KnownPoints:
    """Return what is known in this run."""
    return KnownPoints(run_folder / "known-points")
