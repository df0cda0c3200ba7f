"""How points that wait for a person are told of, in every list alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def tell_waiting(assignment: str, waiting: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the line that says which points wait for a person; none if none do.

    Args:
        assignment: its name.
        waiting: for each student the points that wait, one entry for each exercise.
    """
    each = [points for of_one in waiting.values() for points in of_one]
    if not each:
        return []
    return [
        f"{count(len(each), 'exercise')} of {count(len(waiting), 'student')} "
        f"{'waits' if len(each) == 1 else 'wait'} for a person, "
        f"with {count(round(sum(each), 2), 'point')}: bits review {assignment}"
    ]


def count(number: float, what: str) -> str:
    """Return how many of ``what`` there are, as in "1 point" and "2.5 points"."""
    return f"{number:,g} {what}" if number == 1 else f"{number:,g} {what}s"
