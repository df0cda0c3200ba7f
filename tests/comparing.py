"""What a comparison finds, as the one sentence that a student reads."""

from __future__ import annotations

from typing import Any

from helpers.comparison import compare


def find_difference(got: Any, expected: Any, **tolerances: float) -> str | None:
    """Return how ``got`` differs from ``expected``, or None: ``compare`` with its arguments."""
    found = compare(got, expected, **tolerances)
    return found.sentence if found else None
