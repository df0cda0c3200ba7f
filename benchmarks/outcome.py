"""What a benchmark came to, and the sums that are drawn from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.growth import Point, fit_line
from benchmarks.scores import Difference


@dataclass(frozen=True)
class Times:
    """How long one class took, in seconds.

    Attributes:
        submissions: how many it has.
        bits: ``bits grade`` on a machine where nothing is started and nothing judged.
        limit: the class's own cells, over the number of cores.
        again: ``bits grade`` once more, with nothing to do; None if that was not measured.
        nbgrader: plain nbgrader; None if that was not measured.
    """

    submissions: int
    bits: float
    limit: float
    again: float | None = None
    nbgrader: float | None = None

    @property
    def against_nbgrader(self) -> float | None:
        """How many times the throughput of plain nbgrader."""
        return None if self.nbgrader is None else self.nbgrader / self.bits

    @property
    def against_limit(self) -> float:
        """How many times the limit's time."""
        return self.bits / self.limit


@dataclass(frozen=True)
class Outcome:
    """All of it.

    Attributes:
        machine: where and when it ran.
        kinds: how many submissions of each kind the class has.
        whole: the times of the whole class.
        prompt: of the class without those that wait for a time limit; None if none waits.
        nbgraders_waits: seconds that nbgrader took for each of those, by what they are.
        ended: students of whom a cell ended its kernel, and counts nothing in the limit.
        nbgrader_graded: how many have all their scores after nbgrader; None if it was not run.
        bits_graded: how many have all their scores after ``bits grade``.
        differences: scores in which not all agree.
        growth: one for each size of class.
    """

    machine: dict[str, Any]
    kinds: dict[str, int]
    whole: Times
    prompt: Times | None
    nbgraders_waits: dict[str, float]
    ended: tuple[str, ...]
    nbgrader_graded: int | None
    bits_graded: int
    differences: tuple[Difference, ...] = ()
    growth: tuple[Point, ...] = field(default=())

    @property
    def limit_each(self) -> float:
        """The limit's seconds for one submission that does not wait."""
        times = self.prompt or self.whole
        return times.limit / times.submissions

    def faults(self) -> list[str]:
        """Return what is not as it must be, a sentence each; slowness is none."""
        found = [
            f"{d.student} ({d.about or d.kind}), {d.exercise}: {d.bits} points, deserved "
            f"{d.deserved}."
            for d in self.differences
            if d.is_wrong
        ]
        found += [
            f"{point.submissions - point.graded} of {point.submissions} submissions are missing "
            f"in the gradebook."
            for point in self.growth
            if point.graded != point.submissions
        ]
        if self.bits_graded != self.whole.submissions:
            missing = self.whole.submissions - self.bits_graded
            found.append(f"{missing} of the class's submissions are missing in the gradebook.")
        return found

    def to_plain(self) -> dict[str, Any]:
        """Return it as what JSON can hold, with the sums."""
        plain = dataclasses.asdict(self)
        for name, times in (("whole", self.whole), ("prompt", self.prompt)):
            if times is not None:
                plain[name]["against_nbgrader"] = times.against_nbgrader
                plain[name]["against_limit"] = times.against_limit
        line = fit_line(self.growth)
        plain["line"] = line and dataclasses.asdict(line)
        plain["limit_each"] = self.limit_each
        plain["memory_growth"] = memory_growth(self.growth)
        plain["faults"] = self.faults()
        return plain


def memory_growth(points: Sequence[Point]) -> float | None:
    """Return how many times the smallest class's memory the largest took; None for one class."""
    return points[-1].peak.bytes / points[0].peak.bytes if len(points) > 1 else None
