"""Waiting for what happens, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Wait until ``condition`` holds, ``seconds`` at most; return whether it does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.02)
    return condition()
