"""Marks the probes that report *how* a result came about.

That is testimony: such code could change it, so a judge of strangers' work takes it
only for code that does not reach for such means.
"""

from __future__ import annotations

from collections.abc import Callable


def testimony(probe: Callable) -> Callable:
    """Mark ``probe``, a function, and return it."""
    probe.is_testimony = True
    return probe
