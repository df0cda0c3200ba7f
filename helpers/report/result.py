"""What one property of a check came to, and what all of them are worth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.calling import STUB_MESSAGE
from helpers.catalogue import Exercise
from helpers.comparison import Difference
from helpers.frames import Frame
from helpers.plain import describe

if TYPE_CHECKING:
    from helpers.reading.doubts import Doubt

_NOT_WRITTEN = f"{STUB_MESSAGE}: replace the line that raises NotImplementedError"


# Names of what is right that are told; the others are counted.
_MOST_RIGHT = 3


@dataclass
class Result:
    """What one property of a check came to."""

    claim: str
    weight: float
    outcome: str = "failed"  # "passed", "failed", "not tried" or "waiting" for a person
    reason: str = ""
    fed: list[tuple[str, str]] = field(default_factory=list)
    calls: int = 0
    came_back: str = ""
    expected: str = ""
    # What of the last call was compared by name and found right.
    right: list[str] = field(default_factory=list)
    # Of both, where these tell more than digits.
    bits: tuple[str, ...] = ()
    # The student's own lines that a call of it ended in, the innermost last.
    frames: list[Frame] = field(default_factory=list)
    printed: str = ""
    warned: list[str] = field(default_factory=list)
    not_written: bool = False
    # The call that gives the student this case again: 'failing("softmax")'; "" if none does.
    again: str = ""
    # Whether it holds for plain code alone: a probe was asked, or the code was read.
    rests_on_code: bool = False
    # Where code that was read for loops may hold one that nobody sees.
    hidden_loop: Doubt | None = None
    # Whether students may read nothing of what their code said: it was fed a hidden test's input.
    withheld: bool = False
    told: str = ""

    def fail(self, reason: str, told: str = "") -> None:
        """Mark the property as failed, for one sentence's ``reason``.

        ``told`` is one that holds nothing of what the student's code said.
        """
        self.outcome = "failed"
        self.reason = _NOT_WRITTEN if self.not_written else reason
        self.told = _NOT_WRITTEN if self.not_written else told or "it does not hold"

    def wait(self, doubt: str) -> None:
        """Mark the property as one whose points wait for a person, because of ``doubt``."""
        self.outcome = "waiting"
        self.reason = doubt

    def show_difference(self, got: object, expected: object, found: Difference) -> None:
        """Keep what came back and what was expected, with the digits that it takes."""
        came, wanted = describe(got, found.digits), describe(expected, found.digits)
        if came != wanted:  # two large tensors can have the same range
            self.came_back, self.expected = came, wanted
        self.bits = found.bits

    def details(self) -> list[tuple[str, str]]:
        """Return the rows under a failed property: a heading and a value each."""
        if self.outcome == "waiting":
            return [("", f"holds; a person will look at {self.reason} before the points count")]
        if self.outcome != "failed":
            return []
        if self.not_written:
            return [("", self.reason)]
        expected = [("expected", self.expected)] if self.expected else []
        return [("problem", self.reason), *self._shows_it(), *self.seen(), *expected]

    def shown(self) -> list[tuple[str, str]]:
        """Return those of the ``details`` that a student may read."""
        if self.withheld and self.outcome == "failed":
            return [("", self.told)]
        return self.details()

    def seen(self) -> list[tuple[str, str]]:
        """Return what was fed in and what came back, in rows as ``details`` has them."""
        rows = []
        if self.calls > 1:  # what was fed in may hold what came back before
            rows.append(("call", f"number {self.calls} of this property"))
        rows += [("fed in", f"{name} = {value}") for name, value in self.fed]
        return rows + ([("came back", self.came_back)] if self.came_back else [])

    def _shows_it(self) -> list[tuple[str, str]]:
        """Return the rows from which the cause can be seen: bits, lines of code, what is right."""
        rows = [(name, bits) for name, bits in zip(("bits", "not"), self.bits, strict=False)]
        frames = [str(frame) for frame in reversed(self.frames)]
        rows += zip(("at", *("called at",) * len(frames)), frames, strict=False)
        return rows + ([("right", _listed(self.right))] if self.right else [])


def count_points(exercise: Exercise, results: Iterable[Result]) -> tuple[float, float]:
    """Return the points that ``results`` come to, and those that wait for a person."""
    results = list(results)
    total = sum(result.weight for result in results)

    def points_of(*outcomes: str) -> float:
        share = sum(r.weight for r in results if r.outcome in outcomes) / total if total else 0.0
        return round(float(exercise.points) * share, 2)

    points = points_of("passed")
    return points, round(points_of("passed", "waiting") - points, 2)


def _listed(names: list[str]) -> str:
    told, left = names[:_MOST_RIGHT], len(names) - _MOST_RIGHT
    return ", ".join(told) + (f" and {left} more" if left > 0 else "")
