"""Marks the probes that tell *how* a result came about.

That is testimony: code that wants to could change it, so whoever judges strangers' work takes it
only for code that does not reach for such means.
"""

from __future__ import annotations

from collections.abc import Callable


def testimony(probe: Callable) -> Callable:
    """Mark ``probe``, a function, and return it."""
    probe.is_testimony = True
    return probe
