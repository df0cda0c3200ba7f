"""Waiting for what happens, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Wait until ``condition`` holds, ``seconds`` at most; return whether it does."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds  # not asked again: what held may be over by now
