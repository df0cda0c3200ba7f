"""A pytest plugin: what wrong solutions come to, found out once in a run.

Some take half a minute, and more than one test asks.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from course_files import Outcome, run_exercise
from run_folder import sole_process

from helpers import drawing
from helpers.catalogue import Exercise
from helpers.files import write_atomically

# What a wrong solution gets for a part of its work may be another number now and then: a rounded
# number that happens to be the right one. More draws tell whether it is a part that is won or lost
# by chance; `--draws 50` hunts for that. Tests that compare points draw the same inputs in a run.
MORE_DRAWS = 10
RARE = 1 / 3


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
        seed = folder / "seed"
        with sole_process(folder / "seed.lock"):
            if not seed.exists():
                seed.write_text(str(secrets.randbits(63)))
        self._seed = int(seed.read_text())

    @contextlib.contextmanager
    def same_inputs(self) -> Iterator[None]:
        """Let checks draw what they draw everywhere in this run, and something else in the next."""
        fixed = mock.Mock(randbits=lambda bits: self._seed)
        with mock.patch.object(drawing, "secrets", fixed):
            yield

    def keep(self, exercise: Exercise, code: str, outcome: Outcome) -> None:
        """Remember what ``code`` came to, hidden tests included."""
        known = {"points": outcome.points, "holds_visibly": outcome.holds_visibly}
        write_atomically(self._file(exercise, code), json.dumps(known).encode())

    def of(self, exercise: Exercise, code: str) -> float:
        """Return what ``code`` gets; run the tests if nobody has."""
        return self._known(exercise, code)["points"]

    def holds_visibly(self, exercise: Exercise, code: str) -> bool:
        """Return whether all that the students' copy of the check tries held."""
        return self._known(exercise, code)["holds_visibly"]

    def _known(self, exercise: Exercise, code: str) -> dict[str, Any]:
        file = self._file(exercise, code)
        if not file.exists():
            with self.same_inputs():
                self.keep(exercise, code, run_exercise(exercise, code))
        return json.loads(file.read_text())

    def _file(self, exercise: Exercise, code: str) -> Path:
        return self._folder / f"{exercise.name}-{hashlib.sha256(code.encode()).hexdigest()}"


@pytest.fixture(scope="session")
def known_points(run_folder: Path) -> KnownPoints:
    """Return what is known in this run."""
    return KnownPoints(run_folder / "known-points")
