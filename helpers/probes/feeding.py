"""Marks the probes most of whose own arguments never reach the student's function."""

from __future__ import annotations

from collections.abc import Callable


def feeds(*names: str) -> Callable[[Callable], Callable]:
    """Mark a probe: of its own arguments, reports show those called ``names`` as fed in, and no
    others. What it hands on is shown anyway.
    """

    def mark(probe: Callable) -> Callable:
        probe.fed_names = names
        return probe

    return mark
