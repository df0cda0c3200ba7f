"""What judging a submission comes to: one verdict for each exercise, and the judged notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How an exercise ended."""

    PASSED = "passed"
    PARTLY = "partly"
    WAITING = "waiting"
    FAILED = "failed"
    UNANSWERED = "not answered"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    MALFORMED = "malformed"
    MISSING = "missing"


@dataclass(frozen=True)
class PropertyResult:
    """What one property of a check came to.

    Attributes:
        claim: what the property says.
        weight: its share of the exercise's points, against the other properties' weights.
        outcome: "passed", "failed", "not tried", or "waiting": it holds, and its points wait until
            a person has looked at the code.
        reason: one sentence on a failure; "" otherwise.
        details: rows under a failure, a heading and a value each: what was fed in, what came
            back, what was expected.
        hidden: whether it stands in the hidden tests.
        told: what the student may read in place of ``reason`` and ``details``, which hold what
            their code said of inputs that nobody outside the staff is to see; "" if these may be
            read.
    """

    claim: str
    weight: float
    outcome: str
    reason: str = ""
    details: tuple[tuple[str, str], ...] = ()
    hidden: bool = False
    told: str = ""

    @property
    def is_withheld(self) -> bool:
        """Whether the student may not read why it failed."""
        return self.hidden or bool(self.told)

    def for_student(self) -> str:
        """Return what the student may read of a failure."""
        if self.outcome == "failed" and self.is_withheld:
            return self.told or "it does not hold"
        return self.reason


@dataclass(frozen=True)
class ExerciseResult:
    """What one exercise came to.

    Attributes:
        name: the exercise's, like "softmax".
        verdict: how it ended. A crash or a time-out is told even where points were won.
        points: won, from 0 to ``most``.
        most: the exercise's points.
        message: one sentence for the student; "" where all is well.
        properties: one for each property of the check that was reached.
        for_a_person: why a person should look at it; "" if nobody needs to.
        waiting: points that are not counted before a person has looked; not among ``points``.
        doubts: what a person should look at: where, and what stands there.
        code: a SHA-256 of the code that was judged; what a person decides holds for that code.
    """

    name: str
    verdict: Verdict
    points: float
    most: float
    message: str = ""
    properties: tuple[PropertyResult, ...] = ()
    for_a_person: str = ""
    waiting: float = 0.0
    doubts: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True)
class Judged:
    """What one submission came to.

    Attributes:
        exercises: one result for each exercise of the assignment, in its order.
        notebook: the judged notebook, as bytes of nbformat 4, with the outputs of the cells that
            ran and the report of every test cell; empty for a malformed submission.
        notes: what a person should know about the submission as a whole, a sentence each.
        short_of_time: whether code was stopped by the wall's clock alone: on a machine that has
            less to do, it might have come to its end.
    """

    exercises: tuple[ExerciseResult, ...]
    notebook: bytes = b""
    notes: tuple[str, ...] = field(default=())
    short_of_time: bool = False

    @property
    def points(self) -> float:
        """All points won."""
        return round(sum(exercise.points for exercise in self.exercises), 2)

    @property
    def most(self) -> float:
        """All points that there are."""
        return sum(exercise.most for exercise in self.exercises)

    @property
    def waiting(self) -> float:
        """All points that wait for a person."""
        return round(sum(exercise.waiting for exercise in self.exercises), 2)


def to_plain(judged: Judged) -> dict[str, Any]:
    """Return ``judged`` without its notebook as what JSON can hold."""
    exercises = [
        {**vars(exercise), "properties": [vars(found) for found in exercise.properties]}
        for exercise in judged.exercises
    ]
    return {
        "exercises": exercises,
        "notes": judged.notes,
        "short_of_time": judged.short_of_time,
    }


def from_plain(plain: Mapping[str, Any], notebook: bytes) -> Judged:
    """Return what ``to_plain`` was given, with ``notebook``.

    Raises:
        KeyError, TypeError, ValueError: ``plain`` is not what ``to_plain`` returns.
    """
    exercises = tuple(_exercise_from_plain(exercise) for exercise in plain["exercises"])
    return Judged(exercises, notebook, tuple(plain["notes"]), bool(plain["short_of_time"]))


def _exercise_from_plain(plain: Mapping[str, Any]) -> ExerciseResult:
    properties = tuple(
        PropertyResult(**{**p, "details": tuple((str(k), str(v)) for k, v in p["details"])})
        for p in plain["properties"]
    )
    return ExerciseResult(
        **{
            **plain,
            "verdict": Verdict(plain["verdict"]),
            "properties": properties,
            "doubts": tuple(map(str, plain["doubts"])),
        }
    )
